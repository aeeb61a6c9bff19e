"""Requests of a client, line by line."""

import io
import json

import pytest

from xoptim.integrations.mcp.streams import LONGEST_REQUEST, Requests


def lines(*given: bytes) -> list[bytes]:
    """The lines that a server reads."""
    requests, parts = Requests(io.BytesIO(b"".join(given))), []
    while part := requests.read1(1000):
        assert len(part) <= 1000
        parts.append(part)
    return b"".join(parts).splitlines(keepends=True)


def test_short_lines_are_as_they_were() -> None:
    given = [b'{"id": 1}\n', b"\n", "ü\n".encode(), b"x" * (LONGEST_REQUEST - 1) + b"\n", b"end"]
    assert lines(*given) == given


@pytest.mark.parametrize("size", [LONGEST_REQUEST, 3 * LONGEST_REQUEST + 5])
@pytest.mark.parametrize(
    ("form", "number"),
    [
        ('{"jsonrpc": "2.0", "id": 7, "method": "%s"}', 7),
        ('{"method": "%s", "jsonrpc": "2.0", "id":"a-1"}', "a-1"),
        ('{"method": "%s", "jsonrpc": "2.0"}', None),
    ],
)
def test_a_line_that_is_too_long_keeps_its_id(size: int, form: str, number: object) -> None:
    first, second = lines((form % ("x" * size)).encode() + b"\n", b'{"id": 8}\n')
    request = json.loads(first)
    assert (request["id"], request["jsonrpc"]) == (number, "2.0")
    assert str(LONGEST_REQUEST) in request["method"]
    assert second == b'{"id": 8}\n'


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\ud800"', "\0"),
        (rb'"\udc00\ud83d\ude00"', "\0\U0001f600"),
        (rb'"\\ud800\n"', "\\ud800\n"),
        (rb'"\\\ud800"', "\\\0"),
    ],
)
def test_half_of_a_surrogate_pair(line: bytes, text: str) -> None:
    (read,) = lines(line)
    assert json.loads(read) == text
