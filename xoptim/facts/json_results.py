"""The JSON of results: a dataclass is the only statement of a result.

`JsonResult` gives the dataclass its method ``to_json``. ``lab/json_schemas.py`` derives the schema
from the same class: types from annotations, descriptions from docstrings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import MethodType
from typing import Any, ClassVar

from xoptim.facts.json_values import json_number


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a JSON object.

    Attributes:
        key: its name.
        path: the attribute with its value, or several in turn, separated by dots. A method among
            them is called; where one of them is ``None``, the value is null.
        convert: applied to a value other than ``None``. Its annotation gives the type, unless that
            is ``Any``.
        description: its description; if empty, that of the last attribute of the path.
        is_optional: whether the member is left out where the value is ``None`` or ``()``.
    """

    key: str
    path: str
    convert: Callable[[Any], Any] | None = None
    description: str = ""
    is_optional: bool = False

    def value(self, result: object) -> Any:
        """The value of the member of a result; not yet a JSON value."""
        value: Any = result
        for name in self.path.split("."):
            value = getattr(value, name)
            value = value() if isinstance(value, MethodType) else value
            if value is None:
                return None
        return value if self.convert is None else self.convert(value)


def member(
    name: str,
    convert: Callable[[Any], Any] | None = None,
    description: str = "",
    *,
    is_optional: bool = False,
) -> Member:
    """A member whose key is the last attribute of its path, or the key in ``key=path``."""
    key, _, path = name.rpartition("=")
    return Member(key or path.rpartition(".")[2], path, convert, description, is_optional)


class JsonForm:
    """The JSON object of a class.

    Args:
        members: its members in order: each a `Member`, or a text with names as for `member`,
            separated by spaces. Without any, they are all public fields of the class.
        name: its name in JSON schemas; that of the class by default.
    """

    def __init__(self, *members: str | Member, name: str = "") -> None:
        self.name = name
        self.members = tuple(
            member(word) if isinstance(word, str) else word
            for entry in members
            for word in (entry.split() if isinstance(entry, str) else [entry])
        )


class JsonResult:
    """The base of dataclasses that have a JSON value.

    ``__json__`` says how the JSON object differs from all public fields in order.
    """

    __slots__ = ()
    __json__: ClassVar[JsonForm] = JsonForm()

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this result, in which NaN and infinities are texts."""
        document: dict[str, Any] = {}
        kind: Any = type(self)
        for entry in members_of(kind):
            value = entry.value(self)
            if not entry.is_optional or (value is not None and value != ()):
                document[entry.key] = json_value(value)
        return document


@cache
def members_of(kind: Any) -> tuple[Member, ...]:
    """The members of the JSON object of a dataclass or named tuple."""
    form: JsonForm | None = getattr(kind, "__json__", None)
    if form is not None and form.members:
        return form.members
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    return tuple(Member(name, name) for name in names if not name.startswith("_"))


def within(path: str, kind: type) -> Iterator[Member]:
    """The members of the object at a path, as members of the object that contains it."""
    return (replace(entry, path=f"{path}.{entry.path}") for entry in members_of(kind))


def json_value(value: Any) -> Any:
    """A value of a result as a JSON value: sets are sorted, and named tuples are objects."""
    if isinstance(value, JsonResult):
        return value.to_json()
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {entry.key: json_value(entry.value(value)) for entry in members_of(type(value))}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    return value


def count(items: Any) -> int:
    """The number of items."""
    return len(items)


def to_milliseconds(seconds: float) -> float:
    """A time in milliseconds."""
    return 1e3 * seconds


def rounded_time(seconds: float) -> float:
    """A time, rounded to milliseconds."""
    return round(seconds, 3)
