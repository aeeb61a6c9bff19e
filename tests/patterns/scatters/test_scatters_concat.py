"""Indices of ScatterND with fewer axes than they name, or more."""

import pytest

from tests.support import parse
from xoptim import optimize


@pytest.mark.parametrize(
    ("indices", "updates"),
    [
        ("int64[6,2] i = {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2}", [6]),
        ("int64[2] i = {0, 1}", []),
        ("int64[4,1,1] i = {0, 1, 0, 1}", [4, 1, 3]),
        ("int64[2,1,1] i = {0, 1}", [2, 1, 3]),
    ],
)
def test_elements_and_repeated_rows_stay(indices: str, updates: list[int]) -> None:
    """None of them is a block of the tensor; no index is read beyond its axes."""
    model = parse(
        f"agraph (float[2,3] x, float{updates} u) => (float[2,3] y) <{indices}> {{ "
        "y = ScatterND(x, i, u) }"
    )
    result = optimize(model, patterns="ScattersConcat", strict=True)
    assert [node.op_type for node in result.graph.node] == ["ScatterND"]
