from itertools import product

import numpy as np
import pytest

import xoptim
from tests.support import parse, run, types


@pytest.mark.parametrize(("first", "last"), list(product(("Mul", "Div"), repeat=2)))
@pytest.mark.parametrize("shift", ["Add(t, b)", "Sub(t, b)", "Sub(b, t)"])
def test_all_forms(first: str, shift: str, last: str) -> None:
    model = parse(
        "agraph (float[n,2] x) => (float[n,2] y) <float[2] a = {0.5, -3}, float b = {1.5}, "
        f"float[2] c = {{4, 0.25}}> {{ t = {first}(x, a) u = {shift} y = {last}(u, c) }}"
    )
    found = xoptim.optimize(model, patterns="MulAddMul", strict=True)
    assert types(found) == ["Mul", "Add"]
    feeds = {"x": np.random.default_rng(0).standard_normal((5, 2)).astype(np.float32)}
    np.testing.assert_allclose(run(found, feeds)[0], run(model, feeds)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "lines",
    [
        "t = Div(x, zero) u = Add(t, b) y = Mul(u, b)",
        "t = Mul(x, b) u = Add(t, b) y = Div(u, zero)",
    ],
)
def test_quotients_by_zero_stay(lines: str) -> None:
    model = parse(
        f"agraph (float[n] x) => (float[n] y) <float zero = {{0}}, float b = {{2}}> {{ {lines} }}"
    )
    assert len(types(xoptim.optimize(model, patterns="MulAddMul"))) == 3


@pytest.mark.parametrize(("rows", "columns", "merged"), [("3", "3", True), ("3", "1", False)])
def test_constants_that_grow(rows: str, columns: str, merged: bool) -> None:
    """A few elements are stored, but not for a tensor that is smaller than they are."""
    model = parse(
        f"agraph (float[{rows},{columns}] x) "
        "=> (float[3,3] y) <float[3,1] a = {1, 2, 3}, float[3,1] b = {4, 5, 6}, float[3] c = {2, "
        "3, 4}> { t = Mul(x, a) u = Add(t, b) y = Mul(u, c) }"
    )
    assert len(types(xoptim.optimize(model, patterns="MulAddMul"))) == (2 if merged else 3)


@pytest.mark.parametrize(("first", "last"), [("1e25", "1e-25"), ("1e-25", "1e25")])
def test_products_that_overflow_or_become_0_stay(first: str, last: str) -> None:
    model = parse(
        f"agraph (float[n] x) => (float[n] y) <float a = {{{first}}}, float b = {{0}}, "
        f"float c = {{{last}}}> {{ t = Mul(x, a) u = Add(t, b) y = Mul(u, c) }}"
    )
    optimized = xoptim.optimize(model, patterns="MulAddMul", strict=True)
    feeds = {"x": np.array([1e14, 1e-25], np.float32)}
    np.testing.assert_array_equal(run(optimized, feeds)[0], run(model, feeds)[0])
