"""Axes of two reductions as axes of one."""

from itertools import product

import numpy as np
import pytest

import xoptim
from tests.support import parse, run, types


@pytest.mark.parametrize(
    "operator", ["ReduceMean", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp"]
)
@pytest.mark.parametrize("kept", [0, 1])
def test_all_axes(operator: str, kept: int) -> None:
    """Each axis first, each of the others second, counted from the front and from the back."""
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    for first, second in product(range(-3, 3), range(-3 if kept else -2, 3 if kept else 2)):
        lines = (
            f"t = {operator} <keepdims = {kept}> (x, i) y = {operator} <keepdims = {kept}> (t, j)"
        )
        model = parse(
            f"agraph (float[2,3,4] x) => (float[n] y) <int64[1] i = {{{first}}}, "
            f"int64[1] j = {{{second}}}> {{ {lines} }}"
        )
        model.graph.output[0].type.tensor_type.ClearField("shape")
        found = xoptim.optimize(model, patterns="ReduceReduce", strict=True)
        assert types(found) == [operator]
        expected, result = run(model, {"x": x})[0], run(found, {"x": x})[0]
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lines", [
    "t = ReduceMean <keepdims = 0> (x, i) y = ReduceMean <keepdims = 1> (t, i)",
    "t = ReduceSumSquare(x, i) y = ReduceSumSquare(t, j)",
    "t = ReduceMax(x, i) y = ReduceMax(t, j)",
    "t = ReduceSum(x, i) y = ReduceMean(t, j)",
    "c = Cast <to = 7> (x) t = ReduceMean(c, i) u = ReduceMean(t, j) y = Cast <to = 1> (u)",
])  # fmt: skip
def test_others_stay(lines: str) -> None:
    """Other operators, other axes that are kept, means of integers."""
    model = parse(
        "agraph (float[2,3,4] x) => (float[a,b,c] y) <int64[1] i = {0}, "
        f"int64[1] j = {{1}}> {{ {lines} }}"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert (
        sum("Reduce" in each for each in types(xoptim.optimize(model, patterns="ReduceReduce")))
        == 2
    )
