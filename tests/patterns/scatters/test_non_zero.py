"""Assignments and selections with masks."""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

_NUMBERS = (
    "float v = {2.5}, int64[1] z = {0}, int64[1] one = {1}, int64[1] k = {5}, int64[1] flat = {-1}"
)
_COUNT = "n = NonZero(m) i = Transpose(n) s = Shape(i) c = Slice(s, z, one)"


def masked(nodes: str, mask: str = "bool[a,b] m", result: str = "float[a,b] y") -> onnx.ModelProto:
    """The model after the patterns; equal for masks of several values."""
    model = parse(f"agraph (float[a,b] x, {mask}) => ({result}) <{_NUMBERS}> {{ {nodes} }}")
    after = optimize(model, patterns="NonZeroScatterND+NonZeroGather", strict=True)
    rng = np.random.default_rng(0)
    shape = (4, 5) if "a,b" in mask else (4,) if "[a]" in mask else (5,)
    for kept in (0.5, 0, 1):
        chosen: Any = rng.random(shape) < kept
        if mask.startswith("float"):
            chosen = chosen.astype(np.float32)
        feeds = {"x": rng.standard_normal((4, 5)).astype(np.float32), "m": chosen}
        for expected, selected in zip(run(model, feeds), run(after, feeds), strict=True):
            np.testing.assert_array_equal(selected, expected)
    return after


@pytest.mark.parametrize(
    ("nodes", "mask", "expected"),
    [
        (f"{_COUNT} u = Expand(v, c) y = ScatterND(x, i, u)", "bool[a,b] m", ["Where"]),
        (
            f"{_COUNT} u = ConstantOfShape <value = float[1] {{3}}> (c) y = ScatterND(x, i, u)",
            "bool[a,b] m",
            ["Where"],
        ),
        (
            "n = NonZero(m) i = Transpose(n) g = GatherND(x, i) s = Shape(g) u = Expand(v, s) "
            "y = ScatterND(x, i, u)",
            "bool[a,b] m",
            ["Where"],
        ),
    ],
)
def test_an_assignment_of_a_number_is_where(nodes: str, mask: str, expected: list[str]) -> None:
    assert types(masked(nodes, mask)) == expected


@pytest.mark.parametrize(
    ("nodes", "mask"),
    [
        # updates that differ, another reduction, a mask of numbers, a mask of another axis
        (f"{_COUNT} r = Range(z0, c0, w) y = ScatterND(x, i, r)", "bool[a,b] m"),
        (
            f'{_COUNT} u = Expand(v, c) y = ScatterND <reduction = "add"> (x, i, u)',
            "bool[a,b] m",
        ),
        (f"{_COUNT} u = Expand(v, c) y = ScatterND(x, i, u)", "float[a,b] m"),
        # whole rows, for which ScatterND is faster
        (
            "n = NonZero(m) i = Transpose(n) g = GatherND(x, i) s = Shape(g) u = Expand(v, s) "
            "y = ScatterND(x, i, u)",
            "bool[a] m",
        ),
    ],
)
def test_other_assignments_stay(nodes: str, mask: str) -> None:
    numbers = "z0 = CastLike(v0, v) c1 = Squeeze(c) c0 = CastLike(c1, v) w = CastLike(o0, v)"
    constants = "v0 = Squeeze(z) o0 = Squeeze(one)"
    nodes = nodes.replace("r = Range", f"{constants} {numbers} r = Range")
    assert "ScatterND" in types(masked(nodes, mask))


@pytest.mark.parametrize(
    ("nodes", "mask", "result", "expected"),
    [
        (
            "n = NonZero(m) i = Transpose(n) y = GatherND(x, i)",
            "bool[a,b] m",
            "float[k] y",
            ["Reshape", "Compress"],
        ),
        ("n = NonZero(m) i = Transpose(n) y = GatherND(x, i)", "bool[a] m", "float[k,b] y",
         ["Compress"]),
        ("r = Unsqueeze(x, z) n = NonZero(m) i = Squeeze(n, z) y = Gather <axis = 1> (r, i)",
         "bool[a] m", "float[1,k,b] y", ["Unsqueeze", "Compress"]),
        ("n = NonZero(m) i = Reshape(n, flat) y = Gather(x, i)", "bool[a] m", "float[k,b] y",
         ["Compress"]),
        # a mask of an inner axis, of numbers; positions that are read elsewhere
        ("n = NonZero(m) i = Squeeze(n, z) y = Gather <axis = 1> (x, i)", "bool[b] m",
         "float[a,k] y", ["NonZero", "Squeeze", "Gather"]),
        ("n = NonZero(m) i = Squeeze(n, z) y = Gather(x, i)", "float[a] m", "float[k,b] y",
         ["NonZero", "Squeeze", "Gather"]),
        ("n = NonZero(m) i = Transpose(n) y = GatherND(x, i)", "bool[a,b] m",
         "float[k] y, int64[2,k] n", ["NonZero", "Transpose", "GatherND"]),
        ("n = NonZero(m) i = Unsqueeze(n, z) y = Gather(x, i)", "bool[a] m", "float[1,1,k,b] y",
         ["NonZero", "Unsqueeze", "Gather"]),
    ],
)  # fmt: skip
def test_a_selection_is_compress(nodes: str, mask: str, result: str, expected: list[str]) -> None:
    assert types(masked(nodes, mask, result)) == expected


def test_a_mask_of_unknown_size_stays() -> None:
    """A mask that is shorter than the axis selects from its first elements only."""
    model = parse(
        "agraph (float[a,b] x, bool[c] m) => (float[k,b] y) { n = NonZero(m) i = Transpose(n) "
        "y = GatherND(x, i) }"
    )
    assert "GatherND" in types(optimize(model, patterns="NonZeroGather", strict=True))


@pytest.mark.parametrize("select", ["Gather", "GatherND"])
def test_indices_of_an_operator_without_operands_are_no_positions(select: str) -> None:
    model = parse(
        "agraph (float[a,4] x) => (float[b,c] y) "
        f"{{ t = Transpose(x) i = own.Indices() y = {select}(t, i) }}",
        domains={"own": 1},
    )
    assert types(optimize(model, patterns="NonZeroGather", strict=True)) == types(model)
