"""The types of JSON documents about the values of two models."""

from typing import TypedDict

from xoptim.facts.json_values import JsonNumber


class ValueDifferenceJson(TypedDict):
    """A result that differs between two models.

    Attributes:
        name: name of the result.
        operator: operator that produces it in the first model.
        node: name of its node there.
        is_first: whether all results that its node reads are equal.
        max_abs: largest absolute difference of finite elements.
        message: the difference in words.
    """

    name: str
    operator: str
    node: str
    is_first: bool
    max_abs: JsonNumber
    message: str
