"""The conditions of patterns on operands and attributes: literals, annotations, captures, defaults,
class attributes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from xoptim.facts.attributes import MOVED_DEFAULTS, AttributeReference, moved_inputs, same_attribute
from xoptim.facts.dtypes import type_name
from xoptim.facts.errors import PatternError
from xoptim.facts.schema import attribute_default
from xoptim.facts.words import meant
from xoptim.graph.node import Node
from xoptim.graph.tensors import UNIFORM_LIMIT
from xoptim.match.create import read_moved
from xoptim.match.lines import attribute_line
from xoptim.match.literals import equals_literal
from xoptim.match.pattern import PatternOptimization, operator_key
from xoptim.match.trace import (
    ANY,
    AnyOf,
    Capture,
    Constant,
    Optional,
    PatternNode,
    Scalar,
    Symbol,
    Variadic,
)
from xoptim.match.view import GraphView, runs
from xoptim.operators.registry import Trait, operators_with

_BROADCASTING: Final = operators_with(Trait.BROADCASTS, Trait.BROADCASTS_SECOND)


class Unmet(NamedTuple):
    """A declared condition that an operand does not satisfy."""

    attribute: str  # class attribute that declares it
    operand: str  # name of the operand in the graph
    reason: str


class DeclaredConditions(PatternOptimization):
    """A pattern that states conditions on its operands, by their names in `match_pattern`.

    Absent operands satisfy all conditions.

    Class attributes:
        constant_operands: operands that must be constants.
        operand_types: element types that an operand may have.
        operand_ranks: number of axes that an operand must have.
        kernels: operators for which the provider must have a kernel (`xoptim.match.runs`), each
            with the operand whose element type counts: ``{"Relu": "x",
            "com.microsoft::FusedMatMul": "a"}``.
    """

    constant_operands: ClassVar[tuple[str, ...]] = ()
    operand_types: ClassVar[Mapping[str, Collection[int]]] = {}
    operand_ranks: ClassVar[Mapping[str, int]] = {}
    kernels: ClassVar[Mapping[str, str]] = {}

    def unmet(self, g: GraphView, captured: Mapping[str, Any]) -> Unmet | None:
        """The first condition that does not hold, ``None`` when all do.

        ``captured`` are results by names in the pattern.
        """
        for name in self.constant_operands:
            operand = captured.get(name)
            if operand and not g.is_constant(operand):
                return Unmet("constant_operands", operand, f"{operand!r} is not constant")
        for name, types in self.operand_types.items():
            operand = captured.get(name)
            if operand and (dtype := g.try_infer_type(operand)) not in types:
                mismatch = f"the type {type_name(dtype)} of {operand!r} does not fit"
                return Unmet(
                    "operand_types",
                    operand,
                    mismatch if dtype else f"the type of {operand!r} is unknown",
                )
        for name, rank in self.operand_ranks.items():
            operand = captured.get(name)
            if operand and g.info(operand).rank != rank:
                return Unmet(
                    "operand_ranks", operand, f"{operand!r} is not known to have rank {rank}"
                )
        for operator, name in self.kernels.items():
            operand, (domain, op_type) = captured.get(name), operator_key(operator)
            if operand and not runs(g, op_type, operand, domain):
                return Unmet(
                    "kernels", operand, f"{op_type} has no kernel for the type of {operand!r}"
                )
        return None

    def check_declarations(self, captured: Collection[str]) -> None:
        """Check that conditions are declared for captured names only.

        Raises PatternError for any other name.
        """
        declarations: dict[str, Iterable[str]] = {
            "constant_operands": self.constant_operands,
            "operand_types": self.operand_types,
            "operand_ranks": self.operand_ranks,
            "kernels": self.kernels.values(),
        }
        for attribute, names in declarations.items():
            unknown = next((name for name in names if name not in captured), None)
            if unknown is not None:
                file, line = attribute_line(type(self), attribute)
                place = f"{file}:{line}: {self.name()}"
                raise PatternError(
                    f"{place}: {attribute} names {unknown!r}, which nothing "
                    f"captures{meant(unknown, captured)}"
                )


# -------------------------------------------------------------------- operands


def suits(g: GraphView, symbol: Symbol, name: str) -> bool:
    """Whether a result satisfies the literal or the annotation of a symbol."""
    if symbol.literal is not None:
        return bool(name) and _is_literal(g, name, symbol.literal)
    kind = symbol.kind
    if kind is Variadic or not name:
        return kind is Optional
    if kind is Scalar:
        number = g.get_constant_scalar(name)
        return number is not None and (symbol.predicate is None or bool(symbol.predicate(number)))
    if kind is Constant and not g.is_constant(name):
        return False
    if symbol.predicate is None:
        return True
    value = g.get_computed_constant(name)
    return value is not None and bool(symbol.predicate(value))


def _is_literal(g: GraphView, name: str, literal: Any) -> bool:
    tensor = g.graph.tensor(name)
    if tensor is not None and not isinstance(literal, np.ndarray):
        value = tensor.uniform()
        return value is not None and equals_literal(value, literal)
    array = g.get_computed_constant(name)
    if array is None or not 0 < array.size <= UNIFORM_LIMIT:
        return False
    if not isinstance(literal, np.ndarray):
        return bool((array == array.flat[0]).all()) and equals_literal(array.ravel()[:1], literal)
    if array.shape != literal.shape:
        return False
    return all(
        equals_literal(a, b.item()) for a, b in zip(array.ravel(), literal.ravel(), strict=True)
    )


def keeps_shape(
    g: GraphView,
    symbol: Symbol,
    name: str,
    node: Node,
    siblings: Sequence[str] | None = None,
) -> bool:
    """Whether the shape of a result stays the same if a constant operand becomes a number.

    A constant of any shape may match a number of the pattern, if the other operands determine the
    shape of the result.

    Args:
        g: the view of the graph.
        symbol: the operand in the pattern.
        name: the operand in the graph; empty when absent.
        node: the node that reads it.
        siblings: the other operands; ``None`` for those of the node.
    """
    if (
        not name
        or (symbol.literal is None and symbol.kind is not Scalar)
        or node.op_type not in _BROADCASTING
    ):
        return True
    shape = g.info(name).shape
    if shape == ():
        return True
    if shape is None:
        return False
    if siblings is None:
        siblings = [operand for operand in node.input if operand and operand != name]
    shapes = [g.info(operand).shape for operand in siblings]
    # An operand whose axes all have length 1 may still raise the rank of the result.
    if all(d == 1 for d in shape):
        return any(sibling is not None and len(sibling) >= len(shape) for sibling in shapes)
    result = g.info(node.output[0]).shape
    return result is not None and result in shapes


def unexpected_operands(g: GraphView, spec: PatternNode, node: Node) -> list[str]:
    """The operands of a node beyond those that the pattern lists.

    Operands that the pattern mentions as attributes, or that have their default value, are left
    out.
    """
    moved = moved_inputs(node.op_type, node.opset) if not node.domain else {}
    names = []
    for place in range(len(spec.inputs), len(node.input)):
        name = node.input[place]
        attribute = moved.get(place, "")
        if not name or (attribute and (spec.others is ANY or attribute in spec.attributes)):
            continue
        default = MOVED_DEFAULTS.get((node.op_type, attribute)) if attribute else None
        if default is None or not g.close(name, default):
            names.append(name)
    return names


# -------------------------------------------------------------------- attributes


def unfit_attribute(
    g: GraphView,
    spec: PatternNode,
    node: Node,
    captured: dict[str, Any],
    excused: Collection[str] = (),
) -> str | None:
    """The first attribute of a node that does not fit the pattern node's conditions, ``None`` when
    all fit or are ``excused``.

    Captured values are added to ``captured``, by name.
    """
    for name, expected in spec.attributes.items():
        if (
            expected is not ANY
            and name not in excused
            and not _fits(read_moved(g.graph, node, name), expected, captured)
        ):
            return name
    if spec.others is None:
        for name in node.attribute:
            if (
                name not in spec.attributes
                and name not in excused
                and not _has_default(g, node, name)
            ):
                return name
    elif isinstance(spec.others, Capture):
        references = [
            name for name, value in node.attribute.items() if isinstance(value, AttributeReference)
        ]
        if references or node.bodies:
            return next(iter((*references, *node.bodies)))
        captured[spec.others.name] = {
            k: v for k, v in node.attribute.items() if k not in spec.attributes
        }
    return None


def _fits(value: Any, expected: Any, captured: dict[str, Any]) -> bool:
    """Whether the value of an attribute, or of the operand that replaced it, fits a condition.

    A value that was captured before under the same name must be equal.
    """
    if isinstance(value, AttributeReference):
        return False
    if isinstance(expected, Capture):
        return _capture(value, expected, captured)
    if isinstance(expected, AnyOf):
        return any(same_attribute(value, choice) for choice in expected.values)
    if callable(expected):
        return value is not None and bool(expected(value))
    return value is None if expected is None else same_attribute(value, expected)


def _capture(value: Any, expected: Capture, captured: dict[str, Any]) -> bool:
    if value is None and not expected.optional:
        return False
    if expected.predicate is not None and not expected.predicate(value):
        return False
    if expected.name in captured:
        return same_attribute(captured[expected.name], value)
    captured[expected.name] = value
    return True


def _has_default(g: GraphView, node: Node, name: str) -> bool:
    """Whether the node sets an attribute to the schema's default."""
    rank = g.info(node.input[0]).rank if node.input and node.input[0] else None
    default = attribute_default(
        node.op_type, node.domain, node.opset, name, rank, node.attribute.get("kernel_shape")
    )
    return default is not None and same_attribute(node.attribute[name], default)
