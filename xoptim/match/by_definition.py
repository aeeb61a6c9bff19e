"""Patterns that follow from the definition of an operator: they write its nodes, or recognize them.

The definition is stated once, in the module of the operator's family or in a pack.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
from onnx import FunctionProto, TensorProto

from xoptim.facts.attributes import same_attribute
from xoptim.facts.dtypes import Exactness
from xoptim.match.definitions import DefinitionStep, constant_of, definition_with, write_nodes
from xoptim.match.easy import EasyPatternOptimization, Match
from xoptim.match.rewrite import Phase
from xoptim.match.trace import Optional, PatternBuilder, Scalar, Symbol, Trace
from xoptim.match.view import GraphView, PatternRewriter
from xoptim.operators.definitions import DefinedOperator, defined, defined_operator, place_of

HALVES: Final = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_LARGEST: Final = 1e30
"""Numbers of this magnitude and beyond may overflow as attributes, which are float32."""


class _ByDefinition(EasyPatternOptimization):
    """A pattern about an operator with a definition.

    Class attributes:
        operator: the operator, whose definition its family states.
        domain: the domain of the operator.
        definition: the definition of a special case of an operator, in place of ``operator``.
    """

    exactness: ClassVar[Exactness] = "rounding"
    operator: ClassVar[str] = ""
    domain: ClassVar[str] = ""
    definition: ClassVar[str] = ""

    @classmethod
    def defined(cls) -> DefinedOperator:
        """The operator and its definition."""
        if cls.definition:
            return defined_operator(cls.definition)
        operator = defined(cls.domain, cls.operator)
        assert operator is not None, f"{cls.operator} has no definition"
        return operator


class LoweringByDefinition(_ByDefinition):
    """Replaces an operator by the nodes of its definition.

    A subclass overrides `apply_pattern` if it writes other nodes than those of the definition.

    Class attributes:
        optional: the operands that may be omitted.
        is_wide: whether the nodes compute in float32 if the operands are float16 or bfloat16.
    """

    phase: ClassVar[Phase] = "lower"
    optional: ClassVar[tuple[str, ...]] = ()
    is_wide: ClassVar[bool] = False
    derives: ClassVar[tuple[str, ...]] = ("values",)

    def match_pattern(self, g: PatternBuilder) -> Any:
        """The operator, with all operands and attributes of its definition."""
        operator = self.defined()
        operands = [
            g.symbol(name, Optional if name in self.optional else Symbol)
            for name in operator.body.input
        ]
        attributes = {name: g.capture(name, optional=True) for name in operator.attributes}
        return g.op[operator.op_type](
            *operands, domain=self.domain, outputs=len(operator.body.output), **attributes
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Refuse attributes that are infinite or NaN."""
        values = {
            name: default if m.get(name) in (None, []) else m[name]
            for name, default in self.defined().attributes.items()
        }
        if not all(math.isfinite(value) for value in values.values() if isinstance(value, float)):
            # (2) in the docstrings of the patterns that lower activations
            return self.none(m.nodes[0], msg="an attribute is infinite or NaN")
        return m.derive(values=values)

    def apply_pattern(self, g: PatternRewriter, values: dict[str, Any], **m: Any) -> Any:
        """Write the nodes of the definition."""
        return self.written(g, self.defined().body, values, m)

    def written(
        self,
        g: PatternRewriter,
        body: FunctionProto,
        values: Mapping[str, Any],
        m: Mapping[str, Any],
    ) -> tuple[str, ...]:
        """Write the nodes of a definition, with the values of attributes and the operands."""
        dtype = g.try_infer_type(m[body.input[0]]) if self.is_wide else 0
        operands = {name: m[name] and widened(g, m[name], dtype) for name in body.input}
        definition = definition_with(body, values.get)
        results = write_nodes(
            g,
            definition.steps,
            operands,
            named=lambda step, _: g.unique_name(f"{step.op_type.lower()}_out"),
            stored=_literal,
        )
        return tuple(narrowed(g, results[name], dtype) for name in definition.outputs)


def _literal(step: DefinitionStep, array: np.ndarray) -> Any:
    """The operand for a constant of the definition.

    A Constant becomes a number, which takes the type of the other operand. The constant of a
    CastLike becomes an array, which keeps its type.
    """
    return array.item() if step.op_type == "Constant" else array


def widened(g: PatternRewriter, x: str, dtype: int) -> str:
    """A Cast to float32 if ``dtype`` has 16 bits, in which sums would overflow; else ``x``."""
    if dtype not in HALVES:
        return x
    return g.op.Cast(x, to=TensorProto.FLOAT)


def narrowed(g: PatternRewriter, x: str, dtype: int) -> str:
    """A Cast back to ``dtype`` if it has 16 bits; the inverse of `widened`."""
    if dtype not in HALVES:
        return x
    return g.op.Cast(x, to=dtype)


def fits(g: GraphView, like: str, *values: float) -> bool:
    """Whether float32 attributes hold numbers precisely enough for the type of a result.

    For a result of type double, float32 must represent the numbers exactly.
    """
    return g.try_infer_type(like) != TensorProto.DOUBLE or all(
        float(np.float32(value)) == value for value in values
    )


class FusionByDefinition(_ByDefinition):
    """Replaces the nodes of an operator's definition by the operator.

    Each attribute of the operator is a constant of one element in the nodes. A Mul or Div by an
    attribute of 1 may be missing, and Reciprocal may compute 1 / x. Where the definition converts a
    constant by CastLike, the nodes have a constant of the converted type.
    """

    phase: ClassVar[Phase] = "specialize"
    derives: ClassVar[tuple[str, ...]] = ("attributes",)

    def traced(self) -> list[Trace]:
        """The variants with most nodes first: a shorter one would leave a Mul outside."""
        return sorted(super().traced(), key=lambda variant: -len(variant.nodes))

    def match_pattern(self, g: PatternBuilder) -> Any:
        """The nodes of the definition."""
        body = _with_typed_constants(self.defined().body)
        values: dict[str, Any] = {"": None, **{name: g.symbol(name) for name in body.input}}
        uses, factors = _Uses(), _factors(body)
        for step in definition_with(body, _Parameter).steps:
            if step.op_type == "Constant":
                values[step.outputs[0]] = _constant(g, step, uses, factors)
            else:
                g.place = place_of(self.domain, self.operator, step.outputs[0])
                results = _call(g, step, [values[name] for name in step.inputs], uses)
                named = results if isinstance(results, tuple) else (results,)
                values.update(zip(step.outputs, named, strict=True))
        results = tuple(values[name] for name in body.output)
        return results if len(results) > 1 else results[0]

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Refuse numbers that do not fit the attributes of the operator."""
        operator = self.defined()
        attributes = dict[str, Any]()
        factors = _factors(_with_typed_constants(operator.body))
        for name, default in operator.attributes.items():
            values = _values(g, m, name) or [default]
            first = values[0]
            if not all(same_attribute(first, value) for value in values):
                return self.none(m.nodes[-1], msg=f"several values of {name}")
            is_number = isinstance(first, (int, float))
            is_huge = is_number and not abs(first) < _LARGEST
            is_tiny = name in factors and not abs(first) * _LARGEST > 1
            is_rounded = is_number and not fits(g, m[operator.body.input[0]], first)
            is_integer = isinstance(default, float) and isinstance(first, int)
            if first is None or is_huge or is_tiny or is_rounded or is_integer:
                return self.none(m.nodes[-1], msg=f"{first} is out of range for {name}")
            attributes[name] = first
        return m.derive(attributes=attributes)

    def apply_pattern(self, g: PatternRewriter, attributes: dict[str, Any], **m: Any) -> Any:
        """Write the operator."""
        operator = self.defined()
        operands = [m[name] for name in operator.body.input]
        return g.op[operator.op_type](
            *operands, domain=self.domain, outputs=len(operator.body.output), **attributes
        )


def _with_typed_constants(body: FunctionProto) -> FunctionProto:
    """A copy of a definition in which consumers of CastLike(constant, x) read the constant: a
    constant of a pattern has any type.
    """
    constants = {node.output[0]: node.output[0] for node in body.node if node.op_type == "Constant"}
    typed = FunctionProto()
    typed.CopyFrom(body)
    del typed.node[:]
    for node in body.node:
        is_typed = node.op_type == "CastLike" and node.input[0] in constants
        if is_typed and node.output[0] not in body.output:
            constants[node.output[0]] = constants[node.input[0]]
            continue
        copy = typed.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [constants.get(name, name) for name in node.input]
    return typed


_Uses: TypeAlias = Counter[tuple[str, str]]
"""The number of uses of each attribute of the operator, as a constant and as an attribute."""


class _Parameter(NamedTuple):
    """Stands for the value of an attribute of the operator."""

    name: str


def _constant(
    g: PatternBuilder,
    step: DefinitionStep,
    uses: _Uses,
    factors: Collection[str],
) -> Any:
    """The operand that matches a Constant, ``None`` for a factor of 1 that is not written."""
    (value,) = step.attributes.values()
    if not isinstance(value, _Parameter):
        array = constant_of(step)
        return array.item() if array.ndim == 0 else array
    if value.name in factors and not g.option(_option(value.name)):
        return None
    return g.symbol(_use(value.name, "constant", uses), Scalar)


def _option(parameter: str) -> str:
    """The name of the option that a factor is written."""
    return f"{parameter} is written"


def _use(parameter: str, kind: str, uses: _Uses) -> str:
    """The name under which a use of an attribute of the operator is captured."""
    uses[parameter, kind] += 1
    return f"{parameter} {kind} {uses[parameter, kind]}"


def _call(g: PatternBuilder, step: DefinitionStep, operands: Sequence[Any], uses: _Uses) -> Any:
    """The results of a node of the definition."""
    if step.op_type in ("Add", "Mul", "Div") and operands[1] is None:
        return operands[0]
    is_inverse = step.op_type == "Div" and isinstance(operands[0], float) and operands[0] == 1
    if is_inverse and g.option("as Reciprocal"):
        return g.op.Reciprocal(operands[1])
    attributes = {
        name: g.capture(_use(value.name, "attribute", uses))
        if isinstance(value, _Parameter)
        else value
        for name, value in step.attributes.items()
    }
    return g.op[step.op_type](
        *operands, domain=step.domain, outputs=len(step.outputs), **attributes
    )


def _values(g: GraphView, m: Match, parameter: str) -> list[Any]:
    """The values of an attribute of the operator in a match, one for each use."""
    values: list[Any] = [] if m.get(_option(parameter), True) else [1.0]
    for kind in ("constant", "attribute"):
        for number in count(1):
            value = m.get(f"{parameter} {kind} {number}")
            if value is None:
                break
            values.append(g.get_constant_scalar(value) if kind == "constant" else value)
    return values


def _factors(body: FunctionProto) -> set[str]:
    """The attributes that a definition uses only as a factor of Mul or a divisor of Div.

    The pattern may omit such a node if the value is 1. If the output is only an operand times
    factors, the last factor is kept, because a pattern needs a node.
    """
    places: dict[str, str] = {}
    other_operands: set[str] = set()
    scaled_operands = {*body.input}
    for node in body.node:
        if node.op_type == "Constant" and node.attribute[0].ref_attr_name:
            places[node.output[0]] = node.attribute[0].ref_attr_name
        elif node.op_type in ("Mul", "Div"):
            other_operands.update(node.input[:1])
            if node.input[0] in scaled_operands and node.input[1] in places:
                scaled_operands.update(node.output)
                other_operands.update(node.input if node.output[0] in body.output else ())
        else:
            other_operands.update(node.input)
    return {name for constant, name in places.items() if constant not in other_operands}
