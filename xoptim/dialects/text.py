"""Rules in text form: pairs of ONNX functions, the subgraph to find and its replacement."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import onnx

from xoptim.dialects.filters import known_filters
from xoptim.dialects.text_function import (
    FunctionSource,
    RuleCall,
    Side,
    TextPlace,
    as_attributes,
    constant_value,
    expression,
    history,
    number,
    parse_functions,
    read_function,
)
from xoptim.facts.attributes import AttributeReference, same_attribute
from xoptim.match import (
    EasyPatternOptimization,
    GraphView,
    Match,
    Node,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.match.extending import (
    LISTS,
    Capture,
    Condition,
    Trace,
    compiled,
    fault,
    needed_outside,
    trace,
)

View: TypeAlias = GraphView
Check: TypeAlias = Callable[[View, Match], "bool | None"]
Pairs: TypeAlias = "Iterable[tuple[str, str]]"

SETTINGS = (
    "exactness",
    "phase",
    "interior",
    "status",
    "priority",
    "min_opset",
    "max_opset",
    "tags",
    "providers",
    "anchors",
    "former_names",
    "keep_names",
)
"""Keys of `rule.settings`, in a file and in Python."""


@dataclass(frozen=True, eq=False)
class Rule:
    """A pair of functions of the same signature, and further conditions.

    ``origins`` gives, for results of ``replace``, the number of the call in ``match`` whose name
    and metadata the new node takes.
    """

    match: Side
    replace: Side
    checks: tuple[Check, ...] = ()
    origins: Mapping[str, int] | None = None


class TextPattern(EasyPatternOptimization):
    """A pattern that is a pair of functions; `rule_class` makes a class for each pair."""

    rule: ClassVar[Rule]

    def traced(self) -> list[Trace]:
        """The variants: numbers that may be attributes or operands are tried as both."""
        return trace(self.match_pattern, self.rule.match.inputs)

    def match_pattern(self, g: PatternBuilder, *operands: Symbol) -> tuple[Symbol, ...]:
        """Make the calls of the function ``match``."""
        side = self.rule.match
        values: dict[str, Any] = {"": None, **dict(zip(side.inputs, operands, strict=True))}
        captures = _Captures(side.parameters)
        g.trace.conditions.append(
            Condition(captures.complete, "attributes of the same name differ", side.place.line)
        )
        for call in side.calls:
            g.place = (call.place.file, call.place.line)
            names, attributes, has_number = as_attributes(side, call)
            if has_number and not g.option("numbers as attributes"):
                names, attributes = list(call.inputs), dict(call.attributes)
            inputs = [
                _literal(side.constants[name]) if name in side.constants else values[name]
                for name in names
            ]
            conditions = {name: captures.condition(value) for name, value in attributes.items()}
            results = g.add(call.op_type, inputs, len(call.outputs), call.domain, conditions)
            for name, symbol in zip(
                call.outputs, results if isinstance(results, tuple) else (results,), strict=True
            ):
                symbol.name = name
                values[name] = symbol
        g.trace.conditions += map(_condition, side.filters)
        for check in self.rule.checks:
            reason = f"the filter {getattr(check, '__name__', check)} does not hold"
            g.trace.conditions.append(Condition(check, reason, side.place.line))
        return tuple(values[name] for name in side.outputs)

    def replacement(self, g: PatternRewriter, match: Match) -> tuple[str, ...]:
        """Make the calls of the function ``replace``."""
        side = self.rule.replace
        values: dict[str, Any] = {
            "": None,
            **{b: match[a] for a, b in zip(self.rule.match.inputs, side.inputs, strict=True)},
        }
        makers: dict[str, Node] = {}

        def operand(name: str) -> Any:
            """A result, a bare number, or a constant that is stored at its first use."""
            if name not in values:
                array = (
                    constant_value(side.deferred[name], match)
                    if name in side.deferred
                    else side.constants[name]
                )
                is_number = (
                    array.ndim == 0 and array.dtype.kind in "fiub" and name not in side.outputs
                )
                values[name] = number(array) if is_number else g.make_initializer(name, array)
            return values[name]

        for call in side.calls:
            names, attributes, _ = as_attributes(side, call)
            literals = {
                key: match[v.name] if isinstance(v, AttributeReference) else v
                for key, v in attributes.items()
            }
            results = getattr(g.op, call.op_type)(
                *map(operand, names), outputs=len(call.outputs), domain=call.domain, **literals
            )
            values.update(
                zip(call.outputs, (results,) if isinstance(results, str) else results, strict=True)
            )
            values[""] = None
            makers.update(dict.fromkeys(call.outputs, g.created[-1]))
        self._name(g, match, makers)
        return tuple(map(operand, side.outputs))

    def _name(self, g: PatternRewriter, match: Match, makers: Mapping[str, Node]) -> None:
        """Copy name and metadata of matched nodes to the new nodes that are paired with them."""
        origins = self.rule.origins or {}
        operands = {match[name] for name in self.rule.match.inputs}
        outside = (
            needed_outside(g, match.nodes, set(match.outputs), operands)
            if origins and self.interior == "keep"
            else []
        )
        names = {node.name for node in outside}
        for name, index in origins.items():
            node, origin = makers[name], match.nodes[index]
            node.metadata = {**origin.metadata_props(), **(node.metadata or {})}
            if origin.name:
                node.name = (
                    g.edit.node_names.fresh(origin.name) if origin.name in names else origin.name
                )
                names.add(origin.name)


def _literal(array: np.ndarray) -> Any:
    """The operand of a pattern that matches a constant: a number of any type and form in the model,
    or an array.
    """
    return number(array) if array.ndim == 0 else array


class _Captures:
    """The attributes of a rule in one variant of its pattern."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.parameters = parameters
        self.names: dict[str, list[str]] = {name: [] for name in parameters}

    def condition(self, value: Any) -> Any:
        """The condition on an attribute that a value in the text states."""
        if isinstance(value, onnx.TensorProto):
            return partial(_same_tensor, value)
        if not isinstance(value, AttributeReference):
            return value
        names = self.names[value.name]
        names.append(value.name if not names else f"{value.name} {len(names)}")
        return Capture(names[-1], optional=self.parameters[value.name] is not None)

    def complete(self, g: View, m: Match) -> bool:
        """Fill in defaults, and compare attributes that are written several times."""
        for name, default in self.parameters.items():
            values = [default if m[key] is None else m[key] for key in self.names[name]] or [
                default
            ]
            if any(not same_attribute(values[0], value) for value in values[1:]):
                return False
            m.derive(**{name: values[0]})
        return True


def _same_tensor(expected: onnx.TensorProto, actual: Any) -> bool:
    """Whether an attribute holds an equal tensor, under any name and in any form."""
    if (
        not isinstance(actual, onnx.TensorProto)
        or actual.data_type != expected.data_type
        or actual.dims != expected.dims
    ):
        return False
    if expected.data_type == onnx.TensorProto.STRING:
        return actual.string_data == expected.string_data
    return (
        onnx.numpy_helper.to_array(actual).tobytes()
        == onnx.numpy_helper.to_array(expected).tobytes()
    )


def _condition(call: RuleCall) -> Condition:
    check = known_filters()[call.op_type]

    def holds(g: View, m: Match) -> bool:
        attributes = {
            key: m[v.name] if isinstance(v, AttributeReference) else v
            for key, v in call.attributes.items()
        }
        return bool(check(g, m, *(m[name] for name in call.inputs), **attributes))

    operands = ", ".join((*call.inputs, *call.attributes))
    return Condition(holds, f"the filter {call.op_type}({operands}) does not hold", call.place.line)


# -------------------------------------------------------------------- from text to classes


def parse_rules(text: str, file: str = "", first: int = 0) -> list[type[TextPattern]]:
    """The rules in a text, functions in ONNX's textual syntax, in order.

    The functions of a rule have the names ``match`` and ``replace``; their domain is the name of
    the rule. A rule runs once those before it have nothing left to do, unless it sets its own
    priority; the first rule has the priority ``first``. Raises `TextRuleError` when something is
    wrong; the message begins with ``FILE:LINE:COLUMN``, where FILE is ``file``, or ``rules``.
    """
    pairs: dict[str, dict[str, FunctionSource]] = {}
    for source in parse_functions(text, file or "rules"):
        name, role = source.proto.domain.removesuffix("Pattern"), source.proto.name
        if role not in ("match", "replace"):
            raise source.place.error(
                f"function {role!r}; those of a rule are called 'match' and 'replace'"
            )
        if not name:
            raise source.place.error(
                'the rule has no name; write <domain: "NAME", opset_import: ["" : 18]> before it'
            )
        if role in pairs.setdefault(name, {}):
            raise source.place.error(
                f"rule {name!r} has a second {role!r}; each rule needs a name of its own"
            )
        pairs[name][role] = source
    classes: list[type[TextPattern]] = []
    for name, pair in pairs.items():
        for role, partner in (("match", "replace"), ("replace", "match")):
            if role not in pair:
                raise pair[partner].place.error(f"rule {name!r} has no {role!r}")
        classes.append(
            rule_class(
                pair["match"], pair["replace"], name, settings={"priority": first + len(classes)}
            )
        )
    return classes


def rule_class(
    match: FunctionSource,
    replace: FunctionSource,
    name: str = "",
    *,
    filters: Iterable[Check] = (),
    value_name_pairs: Pairs = (),
    settings: Mapping[str, Any] | None = None,
) -> type[TextPattern]:
    """The pattern that a pair of functions describes; by default named after its operators.

    All ``filters``, called with the view of the graph and the match, must hold.
    ``value_name_pairs``: pairs of a result of ``replace`` and one of ``match``; the new node takes
    name and metadata of the old one. The settings in ``match`` override ``settings``, which may
    have ``examples``. Raises `TextRuleError` when something is wrong.
    """
    left, right = read_function(match, "match"), read_function(replace, "replace")
    _check_signatures(left, right)
    _check_operands(left, right)
    label = (name or f"{_operators(left)}To{_operators(right)}").removesuffix("Pattern")
    if not re.fullmatch(r"[A-Za-z_]\w*", label):
        raise left.place.error(
            f"{label!r} cannot be the name of a rule; letters, digits and underscores can"
        )
    fields = _fields(left, right, dict(settings or {}))
    same_names = (
        (name for call in right.calls for name in call.outputs if name)
        if fields.pop("keep_names")
        else ()
    )
    pairs = [*value_name_pairs, *((name, name) for name in same_names if left.maker(name) >= 0)]
    fields["derives"] = tuple(left.parameters)
    fields["rule"] = Rule(left, right, tuple(filters), _origins(left, right, pairs))
    fields["__doc__"] = left.doc.strip() or f"{expression(left)} → {expression(right)}"
    fields["__module__"] = __name__
    cls: type[TextPattern] = type(f"{label}Pattern", (TextPattern,), fields)
    try:
        compiled(cls())
    except TypeError as error:
        raise left.place.error(str(error)) from None
    return cls


def _operators(side: Side) -> str:
    return "".join(call.op_type for call in side.calls) or "Operand"


def _check_signatures(match: Side, replace: Side) -> None:
    """Check that operands and results correspond by position, and attributes by name."""
    for kind, left, right in (
        ("inputs", match.inputs, replace.inputs),
        ("outputs", match.outputs, replace.outputs),
    ):
        moved = [
            a for a, b in zip(left, right, strict=False) if a != b and (a in right or b in left)
        ]
        if len(left) != len(right) or moved:
            both = f"({', '.join(left)}) and ({', '.join(right)})"
            raise replace.place.error(f"'match' and 'replace' have different {kind}: {both}")
    if match.parameters.keys() != replace.parameters.keys():
        both = f"<{', '.join(match.parameters)}> and <{', '.join(replace.parameters)}>"
        raise replace.place.error(f"'match' and 'replace' have different attributes: {both}")
    for name, default in replace.parameters.items():
        if not same_attribute(default, match.parameters[name]):
            raise replace.place.error(
                f"attribute {name!r} has different defaults in 'match' and 'replace'"
            )
        if name in match.inputs:
            raise match.place.error(
                f"{name!r} is the name of an attribute and of an input; choose two"
            )


def _check_operands(match: Side, replace: Side) -> None:
    if not match.calls:
        raise match.place.error("no operator in 'match': there is nothing to look for")
    operands = {name for call in match.calls for name in call.inputs}
    for name in match.inputs:
        if name not in operands:
            raise match.place.error(f"no operator of 'match' reads the input {name!r}")
    for name in match.outputs:
        if match.maker(name) < 0:
            raise match.place.error(
                f"the output {name!r} of 'match' is not the result of an operator"
            )
    for name, array in match.constants.items():
        if name in operands and array.dtype.kind in "OUSc":
            raise match.place.error(
                f"the constant {name!r} is not a number, and cannot be looked for"
            )
    captures = {name for call in match.calls for name in call.references}
    for call in (*match.filters, *replace.calls, *replace.deferred.values()):
        for name in call.references - captures:
            raise call.place.error(f"@{name} is used here, but no operator of 'match' has it")


def _fields(match: Side, replace: Side, settings: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"exactness": "rounding", "keep_names": False}
    examples = settings.pop("examples", ())
    for name, (value, place) in {
        **{k: (v, match.place) for k, v in settings.items()},
        **match.settings,
    }.items():
        fields[name] = _setting(name, value, place)
    if examples:
        fields["examples"] = tuple(examples)
    versions = [
        record[0]
        for call in replace.calls
        if not call.domain and (record := history(call.op_type)) is not None
    ]
    fields["min_opset"] = max(fields.get("min_opset", 1), *versions, 1)
    fields["produces"] = tuple(sorted({call.domain for call in replace.calls} - {"", "ai.onnx"}))
    return fields


def _setting(name: str, value: Any, place: TextPlace) -> Any:
    if name not in SETTINGS:
        raise place.error(f"unknown setting {name!r}; there are {', '.join(SETTINGS)}")
    if name in LISTS and isinstance(value, str):
        value = (value,)
    mistake = fault(name, value)
    if name == "keep_names" and value not in (0, 1):
        mistake = f"is 0 or 1, not {value!r}"
    if mistake:
        raise place.error(f"setting {name!r} {mistake}")
    return tuple(value) if name in LISTS else value


def _origins(match: Side, replace: Side, pairs: Pairs) -> dict[str, int]:
    """For results of ``replace``, the number of the matched node that gives the name.

    The first pair of a result counts.
    """
    origins: dict[str, int] = {}
    for new, old in pairs:
        for side, name in ((replace, new), (match, old)):
            if side.maker(name) < 0:
                raise side.place.error(
                    f"value_name_pairs: unknown result {name!r} of {side.role!r}"
                )
        origins.setdefault(new, match.maker(old))
    return origins
