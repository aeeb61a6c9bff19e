"""Operators between movements."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize

TRANSPOSES = (
    "agraph (float[a,b] x) => (float[a,b] y) {{ p = Transpose(x) r = {}(p) y = Transpose(r) }}"
)
RESHAPES = (
    "agraph (float[a,6] x) => (float[a,6] y) <int64[3] s = {{0, 2, 3}}, int64[2] u = {{0, 6}}> "
    "{{ p = Reshape(x, s) r = {}(p) y = Reshape(r, u) }}"
)


@pytest.mark.parametrize(
    ("text", "operator", "moves"),
    [
        (TRANSPOSES, "Sigmoid", True),
        (TRANSPOSES, "Cos", False),
        (RESHAPES, "Sigmoid", True),
        (RESHAPES, "Cos", True),
    ],
)
def test_bits_are_kept(text: str, operator: str, moves: bool) -> None:
    """onnxruntime rounds Cos by the place of an element, which a Transpose changes."""
    found = types(optimize(parse(text.format(operator)), patterns="MovementChain"))
    assert (found == [operator]) is moves


def test_a_region_that_rounds_does_it() -> None:
    assert types(optimize(parse(TRANSPOSES.format("Cos")))) == ["Cos"]


def test_of_two_ways_the_one_that_exporters_write() -> None:
    """Keys: heads are split first, then moved.

    Moving whole rows and splitting them afterwards takes two nodes as well.
    """
    model = optimize(
        parse(
            "agraph (float[2,5,12] x) => (float[2,3,4,5] y) <int64[4] column = {2, 5, 12, 1}, "
            "int64[4] keys = {2, 3, 4, 5}> { r = Reshape(x, column) "
            "p = Transpose <perm = [0, 2, 1, 3]> (r) y = Reshape(p, keys) }"
        ),
        patterns="MovementChain",
    )
    assert types(model) == ["Reshape", "Transpose"]
    assert list(model.graph.node[1].attribute[0].ints) == [0, 2, 3, 1]


def test_a_squeeze_of_an_empty_list_of_axes_stays() -> None:
    """It drops all axes of size 1: here, the result has one axis less where a is 1."""
    model = parse("""agraph (float[a,b,4] x) => (y) <int64[0] e = {}> {
      p = Transpose <perm = [1, 0, 2]> (x) r = Squeeze(p, e) y = Concat <axis = 0> (r, r)
    }""")
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(1, 3, 4)}
    np.testing.assert_array_equal(run(optimize(model), feeds)[0], run(model, feeds)[0])
