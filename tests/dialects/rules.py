"""Rules in text form for tests."""

from typing import Any

from xoptim import rewrite_rule
from xoptim.dialects.text import TextPattern

HEADER = '<domain: "R", opset_import: ["" : 18]>'
RELU = "f (x) => (y) { y = Relu (x) }"
SQUARE = "f (x) => (y) { two = Constant <value_float = 2.0> ()  y = Pow (x, two) }"
PRODUCT = "f (x) => (y) { y = Mul (x, x) }"


def pair(match: str, replace: str = "replace (x) => (y) { y = Neg (x) }") -> str:
    return f"{HEADER}\n{match}\n{HEADER}\n{replace}\n"


def rule(match: str, replace: str = RELU, **arguments: Any) -> TextPattern:
    return rewrite_rule(match, replace, **arguments)()
