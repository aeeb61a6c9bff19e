"""Numbers as JSON values (JSON has neither NaN nor infinities), and parsing of untrusted JSON."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from xoptim.system.reading import read_file

JsonNumber: TypeAlias = float | Literal["inf", "-inf", "nan"]
"""A number, or the text of one that JSON cannot express."""
AnyFloat: TypeAlias = Annotated[float, JsonNumber]
"""A number that may be NaN or infinite, and its type in JSON."""


def json_number(value: float) -> JsonNumber:
    """A number as a JSON value."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises `ValueError` when the text is not JSON in UTF-8, is nested too deeply, or contains an
    object with a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises `OSError` when the file cannot be read, and `ValueError` where `parse_json` does, or when
    the value is not an object.
    """
    value = parse_json(read_file(path).decode("utf-8"))
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        (duplicate, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {duplicate[:100]!r} is there twice")
    return members
