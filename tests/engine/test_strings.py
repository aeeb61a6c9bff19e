"""No rewrite writes a Gather of strings that onnxruntime 1.32 computes wrongly."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize

TABLE = np.array([[f"{row}{column}" for column in "abc"] for row in range(4)], object)
ROWS = np.array([1, 3])
HEADER = "agraph (string[4,3] x, int64[2] k) => (y)"


@pytest.mark.parametrize(
    "body",
    [
        "<int64[1] e = {1}> { j = Unsqueeze(k, e) y = GatherND(x, j) }",
        "<int64[1] e = {1}, int64[2] s = {2, 3}> "
        "{ i = Unsqueeze(k, e) j = Expand(i, s) y = GatherElements(x, j) }",
    ],
)
def test_rows_of_strings(body: str) -> None:
    """A Gather of rows returns the first string of each row, and empty ones."""
    model = parse(f"{HEADER} {body}", 18)
    result = optimize(model)
    assert "Gather" not in types(result)
    feeds = {"x": TABLE, "k": ROWS}
    (rows,) = run(result, feeds)
    assert rows.tolist() == TABLE[ROWS].tolist()
    numbers = parse(f"{HEADER} {body}".replace("string", "float"), 18)
    assert "Gather" in types(optimize(numbers))


def test_single_strings() -> None:
    """Along the last axis, each index selects one string."""
    text = f"{HEADER} <int64[1] e = {{0}}, int64[2] s = {{4, 2}}> "
    body = "{ i = Unsqueeze(k, e) j = Expand(i, s) y = GatherElements <axis = 1> (x, j) }"
    result = optimize(parse(text + body, 18))
    assert "Gather" in types(result)
    feeds = {"x": TABLE, "k": np.array([2, 0])}
    (columns,) = run(result, feeds)
    assert columns.tolist() == TABLE[:, [2, 0]].tolist()
