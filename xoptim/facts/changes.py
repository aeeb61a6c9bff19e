"""The options of a call: an object, keyword arguments, or both."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def with_changes(
    kind: type[Options], options: Options | None, changes: Mapping[str, Any]
) -> Options:
    """The options (the defaults of ``kind`` for ``None``) with some fields changed.

    Raises `TypeError` when the options are of another class, or lack one of the fields.
    """
    if options is not None and not isinstance(options, kind):
        raise TypeError(f"{kind.__name__} is expected, not {options!r}")
    if options is None:
        return kind(**changes)
    return replace(options, **changes) if changes else options
