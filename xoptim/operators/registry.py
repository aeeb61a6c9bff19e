"""One record per operator; the modules of the families fill in its facets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias, get_args

import onnx

from xoptim.facts.operators import add_schemas
from xoptim.facts.protos import every_node, standard_domain
from xoptim.facts.schema import KNOWN_DOMAINS
from xoptim.facts.shapes import Shape
from xoptim.operators.axes import Axes, AxesRule, AxesView
from xoptim.operators.costs import CostKind, Operations
from xoptim.operators.protocols import Formula, Indices, Kernel, Lengths, NodeView, OperandKind

OperatorKey: TypeAlias = tuple[str, str]
"""Domain and operator."""


class Trait(Enum):
    """A property of an operator that holds for all of its nodes.

    "Operand" without a number means the first operand, "result" the first result.
    """

    ELEMENTWISE = "an element depends on the operand's element at its position, and on scalars"
    BROADCASTS = "all operands broadcast to the shape of the result (since operator set 8)"
    BROADCASTS_SECOND = "the second operand broadcasts to the shape of the first one"
    SAME_SHAPE = "the result has the shape of the operand"
    REDUCES = "some axes are reduced to one number each; they are an attribute or an operand"
    ARG_REDUCES = "one axis is reduced to the position of its largest or smallest element"
    MOVES = "the elements of the results are elements of the operand"
    VIEW = "moves, and keeps the elements in their order"
    KEEPS_FINITE = "no NaN, infinity or -0 comes out where none goes in"
    SOFTMAX = "works along one axis since operator set 13, on a flattened operand before"
    COMPARES = "compares two operands element by element"
    KEEPS_FLOAT16 = "computed in float16, its results stay in range and keep their digits"
    BOUNDS = "a constant operand is a bound or a threshold, or moves numbers towards one"
    UNEVEN = "treats 0 or large numbers in another way than moderate ones"
    TIES = (
        "it matters whether two numbers are equal, or whether a number is halfway between integers"
    )
    KEEPS_NUMBER = "an operand of one repeated number gives this number, but for bounds or rounding"
    COMMUTATIVE = "the same bits for any order of two operands"
    ASSOCIATIVE = "a tree of such operators may be rearranged (but for rounding)"
    VARIADIC = "any number of operands or results"
    INDEXES = "an operand holds indices; negative ones count from the end of an axis"
    MEASURES = "the result is made of the shape of the operand alone"
    WINDOWS = "moves a window over an image"
    OWNS_GRAPHS = "has subgraphs"
    SUMS_PRODUCTS = "sums products of floating-point numbers, in an order that the kernel chooses"
    INTEGER_KERNEL = "onnxruntime fuses operators with QuantizeLinear and DequantizeLinear into it"
    RECURRENT = "runs a cell along a sequence"
    TREES = "evaluates trees that compare features with stored numbers"
    ROUNDS = "rounds its results, so that kernels differ in the last digits"
    ROUNDS_NEAR_ONE = "its results have the rounding errors of numbers close to 1, however small"
    HAS_BODY = "its function body in the ONNX standard says what it computes with real numbers"
    TAKES_EMPTY = "onnxruntime takes operands without elements, and returns none for them"
    ROUNDS_BY_POSITION = "onnxruntime rounds elements at the end of a tensor differently"
    RANDOM = "makes random numbers"
    NON_DETERMINISTIC = "the same inputs need not give the same outputs"


@dataclass
class Operator:
    """Facts about an operator; an unknown facet is ``None``."""

    traits: set[Trait] = field(default_factory=set)
    formula: Formula | None = None  # types, shapes and small values of the results
    kernel: Kernel | None = None  # values of the results of constants
    axes: AxesRule | None = None  # the axes of operands from which the axes of the results come
    cost: CostKind | None = None  # the kind of work for each element
    operations: Operations | None = None  # the number of operations of a node
    # Of custom operators: a function with the same results, and the schema of their calls
    definition: onnx.FunctionProto | None = None
    schema: onnx.defs.OpSchema | None = None
    kinks: tuple[float | str, ...] = ()  # numbers at which it changes its form, see `kinks`
    # The values that suit an operand, by its position; an operand that is missing takes any number
    operand_kinds: Mapping[int, OperandKind | Indices | Lengths] = field(default_factory=dict)
    carried: Collection[int] = ()  # operands whose numbers the results hold, see `carries`
    steered_from: int | None = None  # the first operand that decides sizes, see `steers`
    # of other operators: the text of a definition, see `xoptim.operators.definitions`
    body: str = ""


OPERATORS: Final[dict[OperatorKey, Operator]] = {}
_UNKNOWN: Final = Operator()


def operator_of(domain: str, op_type: str) -> Operator:
    """The record of an operator, an empty one by default. Do not modify the result."""
    return OPERATORS.get((domain, op_type), _UNKNOWN)


def record(domain: str, op_type: str) -> Operator:
    """The record of an operator, to be filled."""
    return OPERATORS.setdefault((domain, op_type), Operator())


def has_trait(domain: str, op_type: str, trait: Trait) -> bool:
    """Whether an operator is known to have a property."""
    return trait in operator_of(domain, op_type).traits


def operators_with(*traits: Trait, domain: str | None = "") -> frozenset[str]:
    """The operators of a domain (``None``: of all) that have any of these traits.

    Modules of this package do not call it during import: families register one by one.
    """
    return frozenset(
        op_type
        for (op_domain, op_type), operator in OPERATORS.items()
        if domain in (None, op_domain) and not operator.traits.isdisjoint(traits)
    )


def axes_of(g: AxesView, node: NodeView, shapes: Mapping[str, Shape] | None = None) -> Axes | None:
    """The axes of a node; ``shapes`` overrides the shapes of operands.

    ``None`` when its operator is not described, or a shape or parameter that matters is unknown.
    """
    describe = operator_of(node.domain, node.op_type).axes
    if describe is None:
        return None
    overrides = shapes or {}
    operand_shapes = [
        () if not name else overrides[name] if name in overrides else g.try_infer_shape(name)
        for name in node.input
    ]
    known_shapes = [shape for shape in operand_shapes if shape is not None]
    return describe(g, node, known_shapes) if len(known_shapes) == len(operand_shapes) else None


def is_commutative(op_type: str, domain: str) -> bool:
    """Whether the operands may be swapped without changing the result.

    Sums of more than two operands round differently in another order.
    """
    return has_trait(domain, op_type, Trait.COMMUTATIVE)


def is_associative(op_type: str, domain: str) -> bool:
    """Whether a tree of such operators gives the same result (but for rounding) in any order."""
    return has_trait(domain, op_type, Trait.ASSOCIATIVE)


def is_deterministic(op_type: str, domain: str) -> bool:
    """Whether the same inputs are known to always give the same outputs."""
    operator = operator_of(domain, op_type)
    if Trait.NON_DETERMINISTIC in operator.traits:
        return False
    if operator.definition is None:
        return domain in KNOWN_DOMAINS
    return all(
        is_deterministic(node.op_type, standard_domain(node.domain))
        for node in every_node(operator.definition.node)
    )


def register(trait: Trait, *op_types: str, domain: str = "") -> None:
    """Register a property of one or several operators of a domain."""
    for op_type in op_types:
        record(domain, op_type).traits.add(trait)


def infers(*op_types: str, domain: str = "") -> Callable[[Formula], Formula]:
    """Register a formula for one or several operators of a domain."""

    def register(formula: Formula) -> Formula:
        for op_type in op_types:
            operator = record(domain, op_type)
            assert operator.formula is None, f"two formulas for {op_type}"
            operator.formula = formula
        return formula

    return register


def describes(*op_types: str, domain: str = "") -> Callable[[AxesRule], AxesRule]:
    """Register the axes of one or several operators of a domain."""

    def register_axes(rule: AxesRule) -> AxesRule:
        for op_type in op_types:
            operator = record(domain, op_type)
            assert operator.axes is None, f"two descriptions of {op_type}"
            operator.axes = rule
        return rule

    return register_axes


def costs(kind: CostKind, *op_types: str, domain: str = "") -> None:
    """Register the kind of work that one or several operators of a domain do for each element."""
    for op_type in op_types:
        operator = record(domain, op_type)
        assert operator.cost is None, f"two costs of {op_type}"
        operator.cost = kind


def counts(*op_types: str, domain: str = "") -> Callable[[Operations], Operations]:
    """Register how many operations a node of one or several operators of a domain takes."""

    def register_operations(operations: Operations) -> Operations:
        for op_type in op_types:
            operator = record(domain, op_type)
            assert operator.operations is None, f"two counts for {op_type}"
            operator.operations = operations
        return operations

    return register_operations


def kinks(op_type: str, *places: float | str, domain: str = "") -> None:
    """Register numbers at which an operator changes its form; verification feeds numbers near them.

    A kernel of Softplus, for example, returns the operand itself from 20 on. A text is the name of
    an attribute that holds such numbers, as ``alpha`` of ThresholdedRelu does.
    """
    operator = record(domain, op_type)
    assert not operator.kinks, f"two lists of kinks of {op_type}"
    operator.kinks = places


def takes(
    kinds: Mapping[int, OperandKind | Indices | Lengths], *op_types: str, domain: str = ""
) -> None:
    """Register the values that suit operands, by their positions; verification feeds such values.

    Gather, for example, takes indices within its first operand as its second one.
    """
    for op_type in op_types:
        operator = record(domain, op_type)
        assert not operator.operand_kinds, f"two lists of operand kinds of {op_type}"
        operator.operand_kinds = kinds


ALL_OPERANDS: Final = range(1 << 31)
"""The positions of the operands of an operator that takes any number of them."""


def carries(*op_types: str, operands: Collection[int] = (0,), domain: str = "") -> None:
    """Register the operands whose numbers are those of the results: moved, selected, bounded or
    converted. Verification feeds such an operand with the values that suit a consumer of the
    result.
    """
    for op_type in op_types:
        record(domain, op_type).carried = operands


def steers(operand: int, *op_types: str, domain: str = "") -> None:
    """Register the first of the operands that may decide the size of a result, or end the process
    if they are 0.
    """
    for op_type in op_types:
        record(domain, op_type).steered_from = operand


def add_operators(operators: Mapping[str, Operator]) -> None:
    """Add facts about custom operators, by names such as ``acme::Foo``.

    Raises `ValueError` when a name is not that of a custom operator, or when another pack describes
    the operator; when the definition or the schema has another name; when the definition is not a
    valid function; or when an operand is of an unknown kind. Raises `RecursionError` when a
    definition calls itself.
    """
    rows = {_key(name): operator for name, operator in operators.items()}
    for key, operator in rows.items():
        for kind in operator.operand_kinds.values():
            if not isinstance(kind, (Indices, Lengths)) and kind not in get_args(OperandKind):
                raise ValueError(f"{'::'.join(key)} has an operand of an unknown kind, {kind!r}")
        for stated in (operator.definition, operator.schema):
            if stated is not None and (stated.domain, stated.name) != key:
                raise ValueError(f"{'::'.join(key)} describes {stated.domain}::{stated.name}")
        if operator.definition is not None:
            _check_definition(operator.definition)
    add_schemas(row.schema for row in rows.values() if row.schema is not None)
    OPERATORS.update(rows)
    for domain, op_type in rows:
        is_deterministic(op_type, domain)  # a definition that calls itself has no end


def _check_definition(definition: onnx.FunctionProto) -> None:
    """Raise `ValueError` when a definition is not a valid function of its operator sets.

    The calls of custom operators in it are not checked.
    """
    label = f"the definition of {definition.domain}::{definition.name}"
    values = {*definition.input, *(name for node in definition.node for name in node.output)}
    missing = next((name for name in definition.output if name not in values), None)
    if missing is not None:
        raise ValueError(f"{label} does not compute its result {missing!r}")
    try:
        onnx.checker.check_function(definition)
    except onnx.checker.ValidationError as error:
        raise ValueError(f"{label} is invalid: {str(error).splitlines()[0]}") from None


def _key(name: str) -> OperatorKey:
    domain, _, op_type = name.rpartition("::")
    if standard_domain(domain) in KNOWN_DOMAINS or not op_type:
        raise ValueError(f"{name!r} is not the name of a custom operator, such as 'acme::Foo'")
    if (domain, op_type) in OPERATORS:
        raise ValueError(f"{name} is described twice")
    return domain, op_type
