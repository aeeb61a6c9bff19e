"""Exports whose sizes are those of the example are named."""

import logging
import re

import pytest

import xoptim
from tests.support import parse

HEAD = "agraph (bool[n,4] x) => (int64[?,?] y) <int64[2] sizes = {1, 1}, int64[2] shape = {2, 2}>"
ONE = "agraph (bool[n,4] x) => (int64[1,k] y) <int64[2] sizes = {1, 1}, int64[2] kept = {2, -1}>"
BROKEN = {
    "Split": f"{HEAD} {{ i = NonZero(x) t = Transpose(i) y, z = Split <axis = 0> (t, sizes) }}",
    "Reshape": f"{HEAD} {{ i = NonZero(x) y = Reshape(i, shape) }}",
    "Expand": f"{HEAD} {{ i = NonZero(x) y = Expand(i, shape) }}",
}
SOUND = {
    "the axis of the rank": f"{ONE} {{ i = NonZero(x) y, z = Split <axis = 0> (i, sizes) }}",
    "an inferred axis": f"{HEAD[:-1]}, int64[2] kept = {{2, -1}}> "
    "{ i = NonZero(x) y = Reshape(i, kept) }",
    "an axis that is repeated": "agraph (bool[n,4] x) => (int64[3,2,?] y) "
    "<int64[3] shape = {3, 2, 1}> { i = NonZero(x) y = Expand(i, shape) }",
    "a length of the input": "agraph (int64[n,4] x) => (int64[?,4] y) <int64[2] sizes = {1, 1}> "
    "{ y, z = Split <axis = 0> (x, sizes) }",
}


def warnings_of(text: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    with caplog.at_level(logging.WARNING, "xoptim"):
        xoptim.optimize(parse(text), verify=False)
    return [record.getMessage() for record in caplog.records if "example" in record.getMessage()]


@pytest.mark.parametrize("op_type", BROKEN)
def test_sizes_of_the_example(op_type: str, caplog: pytest.LogCaptureFixture) -> None:
    (warning,) = warnings_of(BROKEN[op_type], caplog)
    assert re.search(f" {op_type} at .*NonZero", warning)


@pytest.mark.parametrize("reason", SOUND)
def test_sizes_that_hold(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(SOUND[reason], caplog) == []
