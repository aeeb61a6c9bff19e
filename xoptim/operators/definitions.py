"""Definitions of operators in simpler ones, as function bodies in ONNX text.

A family states the definition of an operator once. Lowerings write its nodes, fusions recognize
them, and verification computes them in float64.
"""

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import onnx
from onnx import FunctionProto

from xoptim.facts.attributes import decode_attribute
from xoptim.operators.registry import operator_of, record

_PLACES: Final[dict[str, tuple[str, int]]] = {}
"""The file and the line of each definition, by its text."""


class DefinedOperator(NamedTuple):
    """An operator with its definition.

    Attributes:
        op_type: the name of the operator.
        attributes: its attributes, each with its default, ``None`` for none.
        body: the definition: operands, results and nodes.
    """

    op_type: str
    attributes: Mapping[str, Any]
    body: FunctionProto


def defines(text: str, domain: str = "") -> None:
    """Register the definition of an operator, such as ``Swish <alpha: float = 1.0> (x) => (y)
    { ... }``.

    Constants that are numbers take the type of the other operand of their consumer; ``value =
    double {0.7}`` keeps all digits. An Add is left out for an operand that is omitted. Attributes
    that became operands in later operator sets may be written as attributes.
    """
    operator = record(domain, text.split(maxsplit=1)[0])
    assert not operator.body, f"two definitions of {text.split(maxsplit=1)[0]}"
    operator.body = text
    frame = inspect.currentframe()
    if frame is not None and frame.f_back is not None:
        _PLACES[text] = frame.f_back.f_code.co_filename, frame.f_back.f_lineno


def place_of(domain: str, op_type: str, result: str) -> tuple[str, int] | None:
    """The file and the line that state a result of a definition; ``None`` if a pack states it."""
    text = operator_of(domain, op_type).body
    lines = [line.partition("=")[0].split() for line in text.splitlines()]
    if text not in _PLACES or [result] not in lines:
        return None
    file, first = _PLACES[text]
    return file, first + lines.index([result])


def defined(domain: str, op_type: str) -> DefinedOperator | None:
    """An operator with its definition, which may be that of a pack; ``None`` without one."""
    operator = operator_of(domain, op_type)
    if operator.definition is not None:
        return _defined(operator.definition)
    return defined_operator(operator.body) if operator.body else None


@cache
def defined_operator(text: str) -> DefinedOperator:
    """The operator that a text defines.

    A text without braces defines an operator without nodes.
    """
    nodes = "" if "{" in text else "{}"
    header = '<domain: "", opset_import: ["" : 1]>'
    return _defined(onnx.parser.parse_function(f"{header} {text} {nodes}"))


def _defined(body: FunctionProto) -> DefinedOperator:
    defaults = {attribute.name: decode_attribute(attribute) for attribute in body.attribute_proto}
    return DefinedOperator(body.name, {**dict.fromkeys(body.attribute), **defaults}, body)
