"""Patterns in one line: an operator or an expression for another, or an operator removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from xoptim.facts.dims import Dim, is_anonymous
from xoptim.facts.dtypes import is_float, is_integer, numpy_dtype
from xoptim.facts.errors import Declined
from xoptim.facts.schema import attribute_names, schema
from xoptim.facts.shapes import Shape
from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.match.extending import (
    AnyOf,
    Capture,
    Condition,
    Trace,
    calling_frame,
    is_copy,
    make_node,
    operator_key,
    pattern_class,
    trace,
)

Constraint: TypeAlias = "Callable[[GraphView, Match], bool | None]"
_SUB_PATTERN = frozenset(("pattern", "constraint"))
_LITERALS = (bool, int, float, np.generic, np.ndarray, list)
_KEYWORDS = frozenset(("attributes", "associative", "any_order"))
"""Keywords among the attributes of a pattern that are not attributes; see `PatternBuilder`."""


def capture(
    name: str, predicate: Callable[[Any], bool] | None = None, *, optional: bool = False
) -> Capture:
    """An attribute of any value in the first tuple of a `PatternSub`, and the same value in the
    second one.

    Args:
        name: its name in both.
        predicate: condition that the value must satisfy.
        optional: whether it may be absent.
    """
    return Capture(name, predicate, optional)


# -------------------------------------------------------------------- one operator


class _OneNode(EasyPatternOptimization):
    """A pattern of one node with any operands and results."""

    operator: ClassVar[tuple[str, str]]

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        """The node."""
        domain, op_type = self.operator
        attributes = {"attributes": g.capture("attributes") if self.keeps_attributes else ANY}
        results: Symbol = g.add(
            op_type, [g.variadic("inputs")], g.variadic("outputs"), domain, attributes
        )
        return results

    keeps_attributes: ClassVar[bool] = False


class _OpSub(_OneNode):
    keeps_attributes = True
    substitute: ClassVar[tuple[str, str]]

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        domain, op_type = self.substitute
        opset = g.graph.opsets.get(domain, 1)
        definition = schema(op_type, domain, opset)
        if definition is None:
            return True
        if not definition.min_input <= len(m.inputs) <= definition.max_input:
            return self.none(m.nodes[0], msg=f"{op_type} does not take {len(m.inputs)} operands")
        if not definition.min_output <= len(m.outputs) <= definition.max_output:
            return self.none(m.nodes[0], msg=f"{op_type} does not give {len(m.outputs)} results")
        foreign = sorted(m.attributes.keys() - (attribute_names(op_type, domain, opset) or ()))
        return not foreign or self.none(
            m.nodes[0], msg=f"{op_type} has no attribute {foreign[0]!r}"
        )

    def replacement(self, g: PatternRewriter, match: Match) -> Any:
        domain, op_type = self.substitute
        results = [name and g.unique_name(f"{op_type.lower()}_out") for name in match.outputs]
        g.created.append(
            make_node(
                g.edit, op_type, match.inputs, results, domain=domain, attributes=match.attributes
            )
        )
        return results


class _OpRemove(_OneNode):
    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if len(m.inputs) != len(m.outputs):
            return self.none(
                m.nodes[0], msg=f"{len(m.inputs)} operands cannot replace {len(m.outputs)} results"
            )
        reasons = (
            _misfit(g, operand, result)
            for operand, result in zip(m.inputs, m.outputs, strict=True)
            if result
        )
        reason = next(filter(None, reasons), "")
        return not reason or self.none(m.nodes[0], msg=reason)

    def replacement(self, g: PatternRewriter, match: Match) -> Any:
        return list(match.inputs)


def OpSub(  # noqa: N802 - returns a class
    op1: str, op2: str, *, name: str = "", **metadata: Any
) -> type[EasyPatternOptimization]:
    """The pattern that replaces every ``op1`` by ``op2`` with the same operands and attributes.

    It refuses nodes with operands, attributes or results that ``op2`` of the model's opset lacks.

    Args:
        op1: operator, ``"Add"`` or ``"acme::Add"``.
        op2: operator.
        name: of the class; ``Op1ToOp2Pattern`` when empty.
        **metadata: class attributes of `PatternOptimization`, and ``examples``. The exactness is
            ``rounding`` unless given.

    Raises:
        TypeError: when a class attribute is unknown.
    """
    old, new = _operator(op1, "OpSub"), _operator(op2, "OpSub")
    members = {"operator": old, "substitute": new}
    attrs = {"produces": (new[0],) if new[0] else (), **metadata}
    return pattern_class(
        _OpSub, name or f"{old[1]}To{new[1]}", _caller(), f"{op1}(...) → {op2}(...)", attrs, members
    )


def OpRemove(  # noqa: N802 - returns a class
    op: str, *, name: str = "", **metadata: Any
) -> type[EasyPatternOptimization]:
    """The pattern that removes every ``op``: its operands replace its results, in order.

    The pattern refuses a node if the numbers of its results and operands differ, or if a result is
    known to have another type or shape than its operand.

    Args:
        op: operator, ``"Identity"`` or ``"acme::Identity"``.
        name: of the class; ``RemoveOpPattern`` when empty.
        **metadata: class attributes of `PatternOptimization`, and ``examples``. The exactness is
            ``rounding`` unless given.

    Raises:
        TypeError: when a class attribute is unknown.
    """
    operator = _operator(op, "OpRemove")
    doc = f"{op}(x, ...) → x, ..."
    return pattern_class(
        _OpRemove, name or f"Remove{operator[1]}", _caller(), doc, metadata, {"operator": operator}
    )


# -------------------------------------------------------------------- expressions


class _PatternSub(EasyPatternOptimization):
    left: ClassVar[Any]
    right: ClassVar[Any]
    conditions: ClassVar[tuple[Constraint, ...]]
    place: ClassVar[tuple[str, int]]

    def traced(self) -> list[Trace]:
        return trace(self._describe, list(dict.fromkeys(_variables(self.left))))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        reason = _misfit(g, m[self.right], m.outputs[0]) if isinstance(self.right, str) else ""
        return not reason or self.none(m.nodes[0], msg=reason)

    def _describe(self, g: PatternBuilder, *symbols: Symbol) -> Any:
        g.place = self.place
        result = self._left(g, self.left, {symbol.name: symbol for symbol in symbols})
        for constraint in self.conditions:
            g.trace.conditions.append(
                Condition(constraint, "the constraint does not hold", self.place[1])
            )
        return result

    def _left(self, g: PatternBuilder, term: Any, symbols: Mapping[str, Symbol]) -> Any:
        if isinstance(term, str):
            return symbols[term]
        if isinstance(term, dict):
            result = self._left(g, term["pattern"], symbols)
            reason = f"the constraint on {shown(term['pattern'])} does not hold"
            g.trace.conditions.append(
                Condition(_on_result(result, term["constraint"]), reason, self.place[1])
            )
            return result
        if not isinstance(term, tuple):
            return term
        (domain, op_type), operands, attributes = _parts(term)
        return g.add(
            op_type,
            [self._left(g, operand, symbols) for operand in operands],
            1,
            domain,
            dict(attributes),
        )

    def replacement(self, g: PatternRewriter, match: Match) -> Any:
        if isinstance(self.right, (str, tuple)):
            return self._right(g, self.right, match)
        return _constant(g, self.right, match.outputs[0])

    def _right(self, g: PatternRewriter, term: Any, match: Match) -> Any:
        if isinstance(term, str):
            return match[term]
        if not isinstance(term, tuple):
            return term
        (domain, op_type), operands, attributes = _parts(term)
        arguments = [self._right(g, operand, match) for operand in operands]
        values = {k: match[v.name] if isinstance(v, Capture) else v for k, v in attributes.items()}
        return getattr(g.op, op_type)(
            *arguments, domain=domain, **{**(values.pop("attributes", None) or {}), **values}
        )


def _check_operator(in_pattern: Any) -> None:
    inner = in_pattern["pattern"] if _is_sub_pattern(in_pattern) else in_pattern
    if isinstance(inner, tuple):
        return
    example = "an operator with operands, ('Add', 'x', 'y')"
    raise TypeError(f"PatternSub looks for {example}, not for {in_pattern!r}")


def _check_interior(interior: str) -> None:
    if interior not in ("keep", "refuse"):
        raise TypeError(f"interior is 'keep' or 'refuse', not {interior!r}")


def _captured(expression: Any) -> set[str]:
    """The names of the attributes that an expression captures."""
    values = (value for _, _, attributes in _calls(expression) for value in attributes.values())
    return {value.name for value in values if isinstance(value, Capture)}


def PatternSub(  # noqa: N802 - returns a class
    in_pattern: Any,
    out_pattern: Any,
    *,
    constraint: Constraint | None = None,
    name: str = "",
    interior: Literal["keep", "refuse"] = "refuse",
    **metadata: Any,
) -> type[EasyPatternOptimization]:
    """The pattern that replaces one expression by another: ``PatternSub(("Div", ("Mul", "x", "y"),
    "y"), "x")``.

    An expression is a tuple of an operator (``"domain::Op"`` outside the standard domain), its
    operands, and a dictionary of its attributes, if any. Operands are expressions; variables
    (strings: equal strings are the same result); numbers and arrays (a constant of that value);
    ``None`` for one that must be absent. Those of commutative operators may be in any order.
    Attributes are values, predicates, `AnyOf`, `ANY`, or ``capture("name")``, which becomes the
    captured value in the second expression. ``{"pattern": expression, "constraint": f}`` is an
    expression with a condition: ``f(g, name)`` is called with the view of the graph and the name of
    the result.

    Args:
        in_pattern: the expression to find.
        out_pattern: an expression; a variable, which must have the type and the shape of the result
            where these are known; or a constant, which takes them unless it is an array with axes.
        constraint: condition on the whole match, as ``validate_mapping``.
        name: of the class; made from the operators of ``in_pattern`` when empty.
        interior: see `EasyPatternOptimization`.
        **metadata: class attributes of `PatternOptimization`; by default ``exactness="rounding"``.

    Raises:
        TypeError: an expression is malformed, or a class attribute is unknown.
    """
    frame = calling_frame()
    _check_operator(in_pattern)
    _check(in_pattern, None)
    _check(out_pattern, {*_variables(in_pattern)}, _captured(in_pattern))
    _check_interior(interior)
    domains = dict.fromkeys(domain for (domain, _), _, _ in _calls(out_pattern) if domain)
    members = {
        "left": in_pattern,
        "right": out_pattern,
        "conditions": () if constraint is None else (constraint,),
        "place": (frame.f_code.co_filename, frame.f_lineno),
        "interior": interior,
    }
    name = name or "".join(op_type for (_, op_type), _, _ in _calls(in_pattern))
    doc = f"{shown(in_pattern)} → {shown(out_pattern)}"
    fields = {"produces": tuple(domains), **metadata}
    return pattern_class(_PatternSub, name, _caller(), doc, fields, members)


def shown(term: Any) -> str:
    """Text of an expression: ``Div(Mul(x, y), y)``."""
    if isinstance(term, dict):
        return shown(term["pattern"])
    if isinstance(term, tuple):
        _, operands, attributes = _parts(term)
        options = [
            f"{key}={_shown_attribute(value)}"
            for key, value in attributes.items()
            if key not in _KEYWORDS
        ]
        return f"{term[0]}({', '.join([*map(shown, operands), *options])})"
    if isinstance(term, (np.ndarray, np.generic)):
        return str(term.tolist()) if term.size <= 8 else f"{term.dtype}{list(term.shape)}"
    return "-" if term is None else str(term)


def _shown_attribute(value: Any) -> str:
    if isinstance(value, Capture):
        return value.name
    if isinstance(value, AnyOf):
        return "|".join(map(str, value.values))
    return "?" if callable(value) or value is ANY else str(value)


def _misfit(g: GraphView, operand: str, result: str) -> str:
    """The reason why an operand cannot replace a result, such as x in x * y, where it may be
    broadcast.

    Empty if no reason is known.
    """
    if not operand:
        return "an operand is missing"
    node = g.node_before(result)
    if node is not None and is_copy(node) and node.input[0] == operand:
        return "the option remove_identity removes Identity nodes where it can"
    old, new = g.info(operand), g.info(result)
    if old.dtype and new.dtype and old.dtype != new.dtype:
        return f"{operand!r} has another type than {result!r}"
    if old.shape is not None and new.shape is not None and not _may_be_equal(old.shape, new.shape):
        return f"{operand!r} may have another shape than {result!r}"
    return ""


def _may_be_equal(old: Shape, new: Shape) -> bool:
    """Whether two shapes may be the same; a dimension of 1 is usually broadcast."""

    def fits(a: Dim, b: Dim) -> bool:
        return a == b or (a != 1 and (is_anonymous(a) or is_anonymous(b)))

    return len(old) == len(new) and all(map(fits, old, new))


def _on_result(symbol: Symbol, constraint: Callable[[Any, str], bool | None]) -> Constraint:

    def check(g: GraphView, m: Match) -> bool | None:
        name = (
            m[symbol.name] if symbol.producer is None else m.nodes[symbol.producer.index].output[0]
        )
        return constraint(g, name)

    return check


def _constant(g: PatternRewriter, value: Any, result: str) -> str:
    """A constant of the type and the shape of a result."""
    info = g.info(result)
    if isinstance(value, (np.ndarray, np.generic)) and np.ndim(value):
        return g.make_initializer("constant", value)
    if not info.dtype or info.static_shape is None:
        raise Declined(f"the type or the shape of {result!r} is unknown")
    array = np.asarray(value)
    fits = (
        is_float(info.dtype)
        if array.dtype.kind == "f"
        else is_float(info.dtype) or is_integer(info.dtype)
    )
    if array.dtype.kind == "b" or not fits:
        fits = numpy_dtype(info.dtype).kind == array.dtype.kind
    if not fits:
        raise Declined(f"{value!r} cannot be the value of {result!r}, which is of another type")
    array = array.astype(numpy_dtype(info.dtype))
    if array.shape == info.static_shape:
        return g.make_initializer("constant", array)
    expanded: str = g.op.Expand(array, np.array(info.static_shape, dtype=np.int64))
    return expanded


# -------------------------------------------------------------------- from tuples to patterns


def _parts(term: tuple[Any, ...]) -> tuple[tuple[str, str], tuple[Any, ...], dict[str, Any]]:
    operands, attributes = term[1:], {}
    if operands and isinstance(operands[-1], dict) and not _is_sub_pattern(operands[-1]):
        operands, attributes = operands[:-1], operands[-1]
    return operator_key(term[0].replace("ai.onnx::", "")), operands, attributes


def _is_sub_pattern(term: Any) -> bool:
    return isinstance(term, dict) and "pattern" in term


def _calls(term: Any) -> Iterator[tuple[tuple[str, str], tuple[Any, ...], dict[str, Any]]]:
    """All parts of an expression in the order of computation."""
    if isinstance(term, dict):
        yield from _calls(term["pattern"])
    elif isinstance(term, tuple):
        parts = _parts(term)
        for operand in parts[1]:
            yield from _calls(operand)
        yield parts


def _variables(term: Any) -> Iterator[str]:
    if isinstance(term, str):
        yield term
    elif isinstance(term, dict):
        yield from _variables(term["pattern"])
    elif isinstance(term, tuple):
        for operand in _parts(term)[1]:
            yield from _variables(operand)


def _check(term: Any, variables: set[str] | None, captures: set[str] | None = None) -> None:
    """Check that an expression uses these variables (any, for ``None``) and captured attributes,
    and is otherwise well-formed.

    Raises `TypeError`, whose message names the mistake, when it is malformed.
    """
    if isinstance(term, str):
        if not term.isidentifier() or (variables is not None and term not in variables):
            mistake = (
                "is not the name of a variable"
                if variables is None
                else "is not a variable of the expression to match"
            )
            raise TypeError(f"{term!r} {mistake}")
    elif _is_sub_pattern(term):
        if variables is not None:
            raise TypeError(f"only an expression to match can have a constraint: {term!r}")
        if (
            set(term) != _SUB_PATTERN
            or not callable(term["constraint"])
            or not isinstance(term["pattern"], (tuple, str))
        ):
            raise TypeError(
                "an expression with a constraint is {'pattern': ..., 'constraint': function}, not "
                f"{term!r}"
            )
        _check(term["pattern"], None)
    elif isinstance(term, tuple):
        if not term or not isinstance(term[0], str) or not operator_key(term[0])[1]:
            raise TypeError(f"an expression begins with an operator, ('Add', 'x', 'y'): {term!r}")
        _, operands, attributes = _parts(term)
        _check_attributes(term, attributes, captures)
        for operand in operands:
            if operand is not None:
                _check(operand, variables, captures)
    elif not isinstance(term, _LITERALS):
        advice = (
            "attributes stand at the end of a tuple"
            if isinstance(term, dict)
            else "use names, numbers, arrays and tuples"
        )
        raise TypeError(f"{term!r} cannot stand in an expression: {advice}")


def _check_attributes(term: Any, attributes: Mapping[Any, Any], captures: set[str] | None) -> None:
    for key, value in attributes.items():
        if not isinstance(key, str):
            raise TypeError(f"{key!r} is not the name of an attribute: {shown(term)}")
        if captures is None:
            continue
        if isinstance(value, Capture):
            if value.name not in captures:
                raise TypeError(f"{value.name!r} is not captured by the expression to match")
        elif isinstance(value, AnyOf) or value is ANY or callable(value) or key in _KEYWORDS:
            raise TypeError(f"attribute {key!r} of {term[0]} needs a value in the new expression")


def _operator(name: Any, where: str) -> tuple[str, str]:
    if not isinstance(name, str) or not operator_key(name)[1]:
        raise TypeError(
            f"{where} takes the name of an operator, 'Add' or 'domain::Add', not {name!r}"
        )
    return operator_key(name.replace("ai.onnx::", ""))


def _caller() -> str:
    return str(calling_frame(2).f_globals.get("__name__", ""))
