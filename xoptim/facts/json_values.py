"""Numbers as JSON values: JSON has neither NaN nor infinities."""

import math
from typing import Any, Literal, TypeAlias

JsonNumber: TypeAlias = float | Literal["inf", "-inf", "nan"]
"""A number, or the text of one that JSON cannot express."""


def json_number(value: float) -> JsonNumber:
    """A number as a JSON value."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def strict_json(value: Any) -> Any:
    """The same JSON value, with texts in place of NaN and infinities, at any depth."""
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, dict):
        return {key: strict_json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict_json(each) for each in value]
    return value
