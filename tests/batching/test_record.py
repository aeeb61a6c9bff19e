"""Lines of results.jsonl."""

import pytest

from xoptim.batching import Record
from xoptim.batching.record import worst_code

RECORD = Record(
    model="/in/ä.onnx",
    output="ä.onnx",
    status="done",
    nodes_before=3,
    key="k",
    written={"ä.onnx": "00"},
)


def test_there_and_back() -> None:
    line = RECORD.to_line()
    assert "\n" not in line
    assert Record.from_line(line) == RECORD


@pytest.mark.parametrize(
    "line",
    [
        "",
        RECORD.to_line()[:-5],
        "[]",
        "{}",
        "7",
        '{"model": "a", "output": "a", "status": "fine"}',
        '{"other": 1}',
    ],
)
def test_other_lines(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Record.from_line(line)


def test_no_records() -> None:
    assert worst_code([]) == 0
