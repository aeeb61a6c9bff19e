"""Functions of rules in text form: read from ONNX text with their places, then checked and
parsed.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx
from onnx import AttributeProto

from xoptim.dialects.filters import known_filters, misused
from xoptim.facts.attributes import MOVED, AttributeReference, decode_attribute
from xoptim.facts.errors import TextRuleError
from xoptim.facts.nesting import is_too_deep
from xoptim.facts.protos import standard_domain

_HEADER = '<ir_version: 10, opset_import: ["" : 18]> rules () => () {}\n'
"""The parser reads models only; functions follow its graph.

Lines of the text count from the second one on.
"""
_MESSAGE = re.compile(r"\(line: (\d+) column: (\d+)\)?\]\s*Error context:.*?\n(.*)", re.DOTALL)
_TOKEN = re.compile(r'#[^\n]*|"(?:\\.|[^"\\])*"|=>|[\w.]+|\S')
_PAIRS = {")": "(", "]": "[", "}": "{", ">": "<"}


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A place in a text; without text, ``file`` is a label, and the line 0."""

    file: str
    line: int = 0
    column: int = 0

    def error(self, message: str) -> TextRuleError:
        """An error that names the place."""
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return TextRuleError(f"{where}: {' '.join(message.split())}")


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """A function, and the places of it and of each of its nodes."""

    proto: onnx.FunctionProto
    place: TextPlace
    nodes: tuple[TextPlace, ...]


def parse_functions(text: str, file: str) -> list[FunctionSource]:
    """All functions in a text.

    The header ``<domain: ..., opset_import: [...]>`` of each may be omitted.

    Raises `TextRuleError`, whose message names file, line and column, when the text is malformed.
    """
    if "\0" in text:  # the parser would stop there, and silently ignore the rest
        line = text[: text.index("\0")].split("\n")
        raise TextPlace(file, len(line), len(line[-1]) + 1).error(
            "rules are text, and this file contains a zero byte"
        )
    if is_too_deep(text):
        raise TextPlace(file).error("brackets are nested too deeply")
    try:
        functions = list(onnx.parser.parse_model(_HEADER + text).functions)
    except IndexError:  # the parser reports C++'s "out of range" in this way
        raise TextPlace(file).error("a number is too large to be read") from None
    except (onnx.parser.ParseError, RuntimeError, ValueError) as error:
        raise _place_of(error, text, file) from None
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(offset: int) -> TextPlace:
        line = bisect_right(starts, offset)
        return TextPlace(file, line, offset - starts[line - 1] + 1)

    offsets = list(_scan(text))
    sources = []
    for number, proto in enumerate(functions):
        start, nodes = offsets[number] if number < len(offsets) else (0, [])
        places = [place(offset) for offset in nodes]
        # Nodes that the scan does not find, such as those without results, get the place of the
        # function.
        places += [place(start)] * (len(proto.node) - len(places))
        sources.append(FunctionSource(proto, place(start), tuple(places)))
    return sources


def without_text(proto: onnx.FunctionProto, label: str) -> FunctionSource:
    """A function that was not written as text.

    Errors and refusals name ``label`` in place of a file.
    """
    return FunctionSource(proto, TextPlace(label), (TextPlace(label),) * len(proto.node))


def _place_of(error: Exception, text: str, file: str) -> TextRuleError:
    """The parser's error with the line and column in the text itself.

    The parser counts columns in bytes.
    """
    raw = error.args[0] if error.args else b""
    message = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    match = _MESSAGE.search(message)
    # a message without a line, such as of a number that cannot be read: its last word is the number
    if match is None:
        before, _, _ = text.partition(message.rpartition(" ")[2])
        before = "" if before == text else before
        return TextPlace(file, before.count("\n") + 1, len(before) - before.rfind("\n")).error(
            message
        )
    number = max(int(match[1]) - 1, 1)  # without the line of the header
    lines = text.split("\n")
    line = lines[min(number, len(lines)) - 1]
    column = len(line.encode()[: max(int(match[2]) - 1, 0)].decode(errors="ignore")) + 1
    reason = (
        re.sub(r"Expected character (\S+) not found", r"expected '\1'", match[3])
        .strip()
        .rstrip(".")
    )
    reason = "expected a value" if reason.lower() == "internal error" else reason
    return TextPlace(file, number, column).error(reason[:1].lower() + reason[1:])


def _scan(text: str) -> Iterator[tuple[int, list[int]]]:
    """Offsets of the name of each function, and of the first result of each of its nodes.

    The text is known to parse.
    """
    depth: list[str] = []
    start: int | None = None
    statement: int | None = None
    nodes: list[int] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == "#":
            continue
        if token in _PAIRS.values():
            depth.append(token)
            statement = None
        elif token in _PAIRS:
            depth.pop()
            statement = None
            if token == "}" and not depth and start is not None:
                yield start, nodes
                start, nodes = None, []
        elif not depth:
            start = match.start() if start is None and token != "=>" else start
        elif depth == ["{"] and token == "=" and statement is not None:
            nodes.append(statement)
            statement = None
        elif depth == ["{"] and statement is None:
            statement = match.start()


Role: TypeAlias = Literal["match", "replace"]
FILTER, SETTINGS = "filter", "rule"
"""Domains of calls that are not operators."""
_UNSUPPORTED = {
    AttributeProto.GRAPH: "subgraphs are not supported in rules",
    AttributeProto.GRAPHS: "subgraphs are not supported in rules",
    AttributeProto.TENSORS: "lists of tensors are not supported in rules",
    AttributeProto.SPARSE_TENSOR: "sparse tensors are not supported in rules",
    AttributeProto.SPARSE_TENSORS: "sparse tensors are not supported in rules",
}


@dataclass(frozen=True, slots=True, eq=False)
class RuleCall:
    """A call of an operator or of a filter.

    Names of omitted operands and results are empty. Attributes are values, or references to
    attributes of the function.
    """

    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    place: TextPlace

    @property
    def references(self) -> set[str]:
        """Attributes of the function that it uses."""
        return {
            value.name
            for value in self.attributes.values()
            if isinstance(value, AttributeReference)
        }


@dataclass(slots=True, eq=False)
class Side:
    """A function of a rule: its place, signature, calls in order, constants, filters and
    settings.
    """

    role: Role
    place: TextPlace
    name: str
    doc: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: dict[str, Any]  # its attributes, with their default, ``None`` for none
    calls: list[RuleCall] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    # Calls of Constant in ``replace`` whose value is an attribute of the function
    deferred: dict[str, RuleCall] = field(default_factory=dict)
    filters: list[RuleCall] = field(default_factory=list)
    # values in `rule.settings`, with their places
    settings: dict[str, tuple[Any, TextPlace]] = field(default_factory=dict)

    def maker(self, result: str) -> int:
        """Number of the call that makes a result, -1 when none does."""
        return next(
            (number for number, call in enumerate(self.calls) if result and result in call.outputs),
            -1,
        )


def read_function(source: FunctionSource, role: Role) -> Side:
    """Check a function and parse it.

    Raises `TextRuleError`, whose message names the place, when a rule cannot contain it.
    """
    proto = source.proto
    parameters: dict[str, Any] = dict.fromkeys(proto.attribute)
    parameters.update((a.name, decode_attribute(a)) for a in proto.attribute_proto)
    side = Side(
        role,
        source.place,
        proto.domain,
        proto.doc_string,
        tuple(proto.input),
        tuple(proto.output),
        parameters,
    )
    names = set(side.inputs)
    if len(names) < len(side.inputs):
        raise side.place.error(f"two inputs of {role!r} have the same name")
    for node, place in zip(proto.node, source.nodes, strict=True):
        _check_names(node, place, names, side)
        attributes = _attributes(node, place, side)
        domain = standard_domain(node.domain)
        call = RuleCall(
            node.op_type, domain, tuple(node.input), tuple(node.output), attributes, place
        )
        if domain == FILTER:
            _add_filter(side, call)
        elif domain == SETTINGS:
            _add_settings(side, call)
        else:
            names.update(filter(None, node.output))
            if not any(node.output):
                raise place.error(f"{node.op_type} has no result: give it a name")
            if node.op_type == "Constant" and not domain:
                _add_constant(side, call)
            else:
                _check_operator(call, role)
                side.calls.append(call)
    for index, name in enumerate(side.outputs):
        if role == "match" and name in side.outputs[:index]:
            raise side.place.error(f"result {name!r} is returned twice")
        if name not in names:
            raise side.place.error(f"unknown result {name!r}: no operator of {role!r} makes it")
    return side


def _check_names(node: onnx.NodeProto, place: TextPlace, names: set[str], side: Side) -> None:
    for name in node.input:
        if name and name not in names:
            raise place.error(f"operand {name!r} of {node.op_type} is not defined before it")
    for name in filter(None, node.output):
        if name in names:
            raise place.error(f"result {name!r} is defined twice")
        if name in side.parameters:
            raise place.error(f"{name!r} is the name of an attribute and of a result; rename one")


def _attributes(node: onnx.NodeProto, place: TextPlace, side: Side) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.type in _UNSUPPORTED:
            raise place.error(
                f"attribute {attribute.name!r} of {node.op_type}: {_UNSUPPORTED[attribute.type]}"
            )
        value = decode_attribute(attribute)
        if isinstance(value, AttributeReference) and value.name not in side.parameters:
            raise place.error(
                f"@{value.name} is not an attribute of {side.role!r}; declare it: {side.role} "
                f"<{value.name}> (...)"
            )
        attributes[attribute.name] = value
    return attributes


def _add_filter(side: Side, call: RuleCall) -> None:
    check = known_filters().get(call.op_type)
    if side.role == "replace":
        raise call.place.error(f"filter.{call.op_type} is a condition; use it in 'match'")
    if check is None:
        raise call.place.error(
            f"unknown filter {call.op_type!r}; known are {', '.join(sorted(known_filters()))}"
        )
    for name in call.inputs:
        if name in side.constants or not name:
            raise call.place.error(
                f"filter.{call.op_type} has the operand {name!r}, which the rule itself gives"
            )
    mistake = misused(check, call.inputs, list(call.attributes))
    if mistake:
        raise call.place.error(f"filter.{call.op_type}: {mistake}")
    side.filters.append(call)


def _add_settings(side: Side, call: RuleCall) -> None:
    if side.role == "replace" or call.op_type != "settings" or call.inputs:
        raise call.place.error(
            "the domain 'rule' has rule.settings <...> () only, for use in 'match'"
        )
    if call.references:
        raise call.place.error("settings must be values, not attributes of the function")
    side.settings.update((name, (value, call.place)) for name, value in call.attributes.items())


def _add_constant(side: Side, call: RuleCall) -> None:
    if len(call.outputs) != 1:
        raise call.place.error("a Constant has one result")
    if len(call.attributes) != 1:
        raise call.place.error("a Constant has one attribute, such as value_float, with its value")
    if not call.references:
        side.constants[call.outputs[0]] = constant_value(call, {})
    elif side.role == "replace":
        side.deferred[call.outputs[0]] = call
    else:
        raise call.place.error(
            "a Constant in 'match' needs a value; to match any constant, use an input and "
            "filter.is_constant"
        )


def constant_value(call: RuleCall, attributes: Mapping[str, Any]) -> np.ndarray:
    """The value of a Constant with these attributes, of rank 0 if it means a number.

    Raises `TextRuleError` if unreadable.
    """
    ((name, value),) = call.attributes.items()
    value = attributes[value.name] if isinstance(value, AttributeReference) else value
    try:
        if name == "value" and isinstance(value, onnx.TensorProto):
            return onnx.numpy_helper.to_array(value)
        if name in ("value_string", "value_strings"):
            return np.asarray(value, dtype=object)
        if name in ("value_int", "value_ints", "value_float", "value_floats"):
            return np.asarray(value, dtype=np.int64 if "int" in name else np.float32)
    except (TypeError, ValueError) as error:
        raise call.place.error(f"the value of this Constant cannot be read: {error}") from None
    raise call.place.error(f"a Constant with the attribute {name!r} is not supported in rules")


def number(array: np.ndarray) -> float | int | bool:
    """The number in an array of one element, with the fewest digits: 0.1 for a float32 of 0.1."""
    item = array.reshape(())[()]
    if item.dtype in (np.float32, np.float16):
        return float(str(item))
    value: float | int | bool = item.item()
    return value


@cache
def history(op_type: str) -> tuple[int, frozenset[str]] | None:
    """First version of a standard operator, and all attributes of all its versions.

    ``None`` if it does not exist.
    """
    schemas = [
        s for s in onnx.defs.get_all_schemas_with_history() if s.name == op_type and not s.domain
    ]
    if not schemas:
        return None
    return min(s.since_version for s in schemas), frozenset(
        name for s in schemas for name in s.attributes
    )


def _check_operator(call: RuleCall, role: Role) -> None:
    """Raise for a call that would make an invalid model, or could never match."""
    if call.domain:
        return
    record = history(call.op_type)
    if record is None and role == "replace":
        raise call.place.error(f"no operator {call.op_type!r} in the standard domain")
    allowed = () if record is None else (*record[1], *(a for op, a in MOVED if op == call.op_type))
    for name in call.attributes:
        if record is not None and name not in allowed:
            raise call.place.error(f"{call.op_type} has no attribute {name!r}")


def as_attributes(side: Side, call: RuleCall) -> tuple[list[str], dict[str, Any], bool]:
    """Write constant operands as the attributes that earlier operator sets have in their place.

    A rule in this form fits models of all operator sets. Returns the remaining operands, the
    attributes, and whether one of these is a number of the type of the first operand, such as a
    limit of Clip. Such a rule also has a variant with the operands as written.
    """
    operands, attributes, has_number = list(call.inputs), dict(call.attributes), False
    moved = {
        operand.place: (name, operand)
        for (op, name), operand in MOVED.items()
        if op == call.op_type
    }
    while not call.domain and operands and len(operands) - 1 in moved:
        name, operand = moved[len(operands) - 1]
        value = side.constants.get(operands[-1])
        if operands[-1] and (
            value is None or name in attributes or (operand.is_single and value.size != 1)
        ):
            break
        if value is not None and value.dtype.kind in "OUSc":
            break  # an attribute is a number, but the operand of Pad may be a string
        operands.pop()
        if value is not None:
            has_number |= operand.holds == "number"
            attributes[name] = (
                number(value) if operand.is_single else [int(v) for v in value.ravel()]
            )
    return operands, attributes, has_number


def expression(side: Side) -> str:
    """A function with one result as nested calls, ``Add(MatMul(a, b), c)``; else its operators in
    order.
    """
    reads = Counter(name for call in side.calls for name in call.inputs)
    makers = {call.outputs[0]: call for call in side.calls if reads[call.outputs[0]] <= 1}
    if len(side.outputs) != 1:
        return ", ".join(call.op_type for call in side.calls)

    def text(name: str) -> str:
        if name in side.constants:
            value = side.constants[name]
            return f"{number(value):.7g}" if value.ndim == 0 and value.dtype.kind in "fiu" else name
        call = makers.get(name)
        return (
            name
            if call is None
            else f"{call.op_type}({', '.join(map(text, filter(None, call.inputs)))})"
        )

    return text(side.outputs[0])
