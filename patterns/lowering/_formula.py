"""The base of patterns that write an operator by the text of its definition."""

import math
from typing import Any, ClassVar

import numpy as np

from xoptim.match import AT_RUN_TIME, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._definitions import DefinitionStep, defined_operator, definition_with, write_nodes
from ._lowering import _Lowering, narrowed, widened


class _Formula(_Lowering):
    """An operator that a text in the syntax of ONNX defines, with one node per line.

    A subclass has the definition, conditions and examples; with a definition without nodes, it
    overrides `apply_pattern`. In the text, attributes are ``@alpha``, a Constant is a number of the
    type of the other operand, and attributes that became operands in later operator sets may be
    written as attributes. No Add is written for an omitted operand, and no Mul or Div for an
    attribute of 1.

    Class attributes:
        definition: the operator with its attributes and their defaults, and its nodes.
        domain: the domain of the operator.
        optional: the operands that may be omitted.
        is_wide: whether 16-bit floats are computed in 32 bits.
    """

    definition: ClassVar[str]
    domain: ClassVar[str] = ""
    optional: ClassVar[tuple[str, ...]] = ()
    is_wide: ClassVar[bool] = False
    derives: ClassVar[tuple[str, ...]] = ("values",)

    def match_pattern(self, g: PatternBuilder) -> Any:
        operator = defined_operator(self.definition)
        operands = [
            g.symbol(name, Optional if name in self.optional else Symbol)
            for name in operator.body.input
        ]
        attributes = {name: g.capture(name, optional=True) for name in operator.attributes}
        return g.op[operator.op_type](
            *operands, domain=self.domain, outputs=len(operator.body.output), **attributes
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        defaults = defined_operator(self.definition).attributes
        values = {
            name: default if m.get(name) in (None, []) else m[name]
            for name, default in defaults.items()
        }
        if AT_RUN_TIME in values.values():
            return self.none(m.nodes[0], msg="an attribute is computed at run time")
        if not all(math.isfinite(value) for value in values.values() if isinstance(value, float)):
            # (2) of activations
            return self.none(m.nodes[0], msg="an attribute is infinite or NaN")
        return m.derive(values=values)

    def apply_pattern(self, g: PatternRewriter, values: dict[str, Any], **m: Any) -> Any:
        body = defined_operator(self.definition).body
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
    """A Constant as a number, which takes the type of the other operand; the constant of a CastLike
    with its own type.
    """
    return array.item() if step.op_type == "Constant" else array
