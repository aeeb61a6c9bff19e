"""Patterns make no list or array as long as a dimension that a model only declares."""

import tracemalloc

import pytest

from tests.support import parse
from xoptim import optimize

_LONG = 1 << 20
_MAX_BYTES = 4 << 20
"""Half of the bytes of a list with an element for each index of a long dimension."""
_VECTORS = (
    "int64[1] z = {0}, int64[1] five = {5}, int64[1] m = {-1}, int64[1] o = {1}, "
    f"int64[1] most = {{{_LONG - 1}}}, int64[1] e = {{9223372036854775807}}, "
    "int64[1] low = {-9223372036854775808}, float k = {2}, float[2,2] w = {1, 2, 3, 4}, "
    "float[2,1,1] v = {1, 2}, int64[2] p = {0, 0}, int64[2] q = {0, 1}, int64[2] r = {1, 0}, "
    "int64[2] s = {1, 1}, int64[2] rows = {2, 3}, int64[2] two = {2, 2}, "
    "int64[2] ends = {9223372036854775807, 9223372036854775807}"
)
_ROLL = "a = Slice(x, five, e, z) b = Slice(x, z, five, z) c = Concat <axis = 0> (a, b)"
_BLOCKS = (
    "a = Slice(x, p, ends, rows, two) b = Slice(x, q, ends, rows, two) "
    "c = Slice(x, r, ends, rows, two) d = Slice(x, s, ends, rows, two)"
)


@pytest.mark.parametrize(
    ("pattern", "shape", "nodes"),
    [
        ("SlicesConcat", f"{_LONG},16", f"{_ROLL} y = Relu(c)"),
        ("SelectionConv", f"{_LONG},2", f"{_ROLL} y = MatMul(c, w)"),
        ("SelectionConv", f"2,{_LONG}", "c = Slice(x, m, low, o, m) y = MatMul(c, w)"),  # invalid
        ("ConvSelection", f"{_LONG},2", "c = MatMul(x, w) y = Slice(c, z, most, z)"),
        (
            "StridedSlicesSpaceToDepth",
            f"1,{_LONG},4,4",
            f"{_BLOCKS} y = Concat <axis = 1> (a, b, c, d)",
        ),
        # Conv and ConvTranspose with too many groups are invalid.
        ("MulAddConv", f"n,{_LONG},8", f"c = Mul(x, k) y = Conv <group = {_LONG}> (c, v)"),
        ("ConvMul", f"n,{_LONG},8", f"c = ConvTranspose <group = {_LONG}> (x, v) y = Mul(c, k)"),
    ],
)
def test_memory(pattern: str, shape: str, nodes: str) -> None:
    text = f"agraph (float[{shape}] x) => (y) <{_VECTORS}> {{ {nodes} }}"
    optimize(parse(text.replace(str(_LONG), "8")), patterns=pattern)  # loads what it needs
    tracemalloc.start()
    try:
        optimize(parse(text), patterns=pattern, strict=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < _MAX_BYTES
