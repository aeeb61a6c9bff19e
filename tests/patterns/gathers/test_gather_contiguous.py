"""Gathers of consecutive indices as Slices."""

import pytest

from tests.support import parse, types
from xoptim import optimize


@pytest.mark.parametrize(
    ("indices", "axis", "expected"),
    [
        ("2, 3, 4", 1, "Slice"),
        ("-3, -2", 1, "Slice"),
        ("2, -2", 1, "Slice"),
        ("-1, 0", 1, "Gather"),
        ("3, 2", 1, "Gather"),
        ("4, 5", 1, "Gather"),
        ("0, 1", 0, "Gather"),
        ("0, 1", 2, "Gather"),
    ],
)
def test_consecutive_indices_within_the_axis_are_sliced(
    indices: str, axis: int, expected: str
) -> None:
    """Others: around the end, in reverse, out of range, of an axis of unknown size, of none."""
    count = indices.count(",") + 1
    model = parse(
        f"agraph (float[n,5] x) => (y) <int64[{count}] i = {{{indices}}}> "
        f"{{ y = Gather <axis = {axis}> (x, i) }}"
    )
    assert types(optimize(model, patterns="GatherContiguous", strict=True)) == [expected]
