"""JSON values, and JSON that others have written."""

import json
import math
from pathlib import Path

import pytest

from xoptim.facts.json_values import json_number, parse_json, read_json_object


def test_numbers_that_json_lacks() -> None:
    assert [json_number(n) for n in (1.5, math.inf, -math.inf, math.nan)] == [
        1.5,
        "inf",
        "-inf",
        "nan",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a": ' * 100_000, "it is nested too deeply"),
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "the key 'c' is there twice"),
        ("{", "Expecting"),
        (b"\xff\xfe\xfd", "codec can't decode"),
        ("1" * 5000, "Exceeds the limit"),
    ],
    ids=["lists", "objects", "twice", "truncated", "no text", "digits"],
)
def test_what_is_not_json(text: str | bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json(text)


def test_objects_in_files(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"a": [1, None]}))
    assert read_json_object(path) == {"a": [1, None]}
    path.write_text("[1]")
    with pytest.raises(ValueError, match="JSON object"):
        read_json_object(path)
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(UnicodeDecodeError):
        read_json_object(path)
    with pytest.raises(IsADirectoryError):
        read_json_object(tmp_path)
