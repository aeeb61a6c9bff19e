"""Operators with their neutral element, such as x + 0."""

from typing import ClassVar

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import FLOATS
from xoptim.match import Example, GraphView, Match, PatternBuilder, Symbol

from .identity_operator import _IdentityOperator


class _NeutralElement(_IdentityOperator):
    """An `operator` with its neutral `element` as a constant operand.

    What: drops an operation that changes nothing.
    Why: one fewer pass over the tensor.
    Refuses when:
    1. the constant may change the shape of the result by broadcasting (checked by the matcher).
    """

    operator: ClassVar[str]
    element: ClassVar[float]

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return getattr(g.op, self.operator)(x, self.element)  # (1)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind, reader = ("bool", "Not") if isinstance(cls.element, bool) else ("float", "Neg")
        tensors = f"agraph ({kind}[a,b] x) => ({kind}[a,b] y)"
        cls.examples = (
            Example(
                f"{tensors} <{kind}[1] c = {{{cls.element:d}}}> {{ t = {cls.operator}(x, c) y = "
                f"{reader}(t) }}",
                f"{tensors} {{ y = {reader}(x) }}",
            ),
        )


class NeutralAddPattern(_NeutralElement):
    """x + 0 → x

    What: drops an operation that changes at most the sign of a zero: -0 + 0 is 0.
    """

    exactness = "rounding"
    operator, element = "Add", 0


class NeutralSubPattern(_NeutralElement):
    """x - 0 → x

    Refuses when:
    1. the constant may change the shape of the result by broadcasting (checked by the matcher).
    2. the constant is -0: x - (-0) is x + 0, which turns -0 into 0.
    """

    operator, element = "Sub", 0

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # The matcher's comparison with 0 ignores the sign.
        zero = g.get_computed_constant(m.nodes[0].input[1])
        positive = zero is not None and not np.signbit(zero.astype(np.float64)).any()
        return positive or self.none(m.nodes[0], msg="the constant is -0")  # (2)


class NeutralMulPattern(_NeutralElement):
    """x · 1 → x"""

    operator, element = "Mul", 1


class NeutralDivPattern(_NeutralElement):
    """x / 1 → x"""

    operator, element = "Div", 1


class NeutralPowPattern(_NeutralElement):
    """x ** 1 → x

    Refuses when:
    1. the constant may change the shape of the result by broadcasting (checked by the matcher).
    2. x is int64 or of unknown type: onnxruntime computes integer powers in float64, with 53 bits.
    """

    operator, element = "Pow", 1
    operand_types = {"x": FLOATS | {TensorProto.INT32}}  # (2)


class NeutralAndPattern(_NeutralElement):
    """x and true → x"""

    operator, element = "And", True


class NeutralOrPattern(_NeutralElement):
    """x or false → x"""

    operator, element = "Or", False
