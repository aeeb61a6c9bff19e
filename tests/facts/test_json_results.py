"""The JSON value of results."""

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from xoptim.facts.json_results import (
    JsonForm,
    JsonResult,
    Member,
    count,
    json_value,
    member,
    members_of,
    rounded_time,
    to_milliseconds,
    within,
)


class _Size(NamedTuple):
    width: float
    height: int


@dataclass(frozen=True, slots=True)
class _Plain(JsonResult):
    name: str
    size: _Size | None = None
    path: Path | None = None
    words: frozenset[str] = frozenset()
    counts: dict[str, int] = field(default_factory=dict)
    _cache: int = 0


@dataclass(frozen=True, slots=True)
class _Formed(JsonResult):
    __json__ = JsonForm(
        "title plain.name",
        member("seconds", rounded_time, "duration."),
        member("ms=seconds", to_milliseconds),
        *within("plain.size", _Size),
        member("parts", is_optional=True),
        member("number=parts", count),
        name="Other",
    )
    plain: _Plain | None
    seconds: float | None = None
    parts: tuple[_Plain, ...] = ()

    def title(self) -> str:
        return "a title"


def test_all_public_fields_by_default() -> None:
    plain = _Plain("a", _Size(math.inf, 2), Path("b/c"), frozenset("zy"), Counter("aab"))
    document = plain.to_json()
    assert json.dumps(document) == json.dumps(
        {
            "name": "a",
            "size": {"width": "inf", "height": 2},
            "path": str(Path("b/c")),
            "words": ["y", "z"],
            "counts": {"a": 2, "b": 1},
        }
    )


def test_the_form_of_a_class() -> None:
    document = _Formed(_Plain("a", _Size(1.5, 2)), 0.0123456, (_Plain("b"),)).to_json()
    assert [*document] == ["title", "name", "seconds", "ms", "width", "height", "parts", "number"]
    assert document["title"] == "a title"
    assert (document["seconds"], document["ms"]) == (0.012, 12.3456)
    assert (document["width"], document["height"]) == (1.5, 2)
    assert document["parts"][0]["name"] == "b"
    assert document["number"] == 1


def test_none_on_the_way_is_null_and_a_member_may_be_left_out() -> None:
    assert _Formed(None).to_json() == {
        **dict.fromkeys(("name", "seconds", "ms", "width", "height")),
        "title": "a title",
        "number": 0,
    }


def test_members_of_an_object_within_another() -> None:
    assert [*within("a.b", _Size)] == [Member("width", "a.b.width"), Member("height", "a.b.height")]
    assert members_of(_Size) == (Member("width", "width"), Member("height", "height"))


@pytest.mark.parametrize(
    ("text", "key", "path"), [("a", "a", "a"), ("a.b", "b", "a.b"), ("c=a.b", "c", "a.b")]
)
def test_names_of_members(text: str, key: str, path: str) -> None:
    assert member(text) == Member(key, path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [math.inf, (1,)]}, {"a": ["inf", [1]]}),
        ({"a": {"b": [_Size(math.nan, 1)]}}, {"a": {"b": [{"width": "nan", "height": 1}]}}),
        ([True, None, 1, "x"], [True, None, 1, "x"]),
    ],
)
def test_values(value: Any, expected: Any) -> None:
    assert json_value(value) == expected
