"""Pow with its neutral element."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from xoptim.facts.dtypes import is_float
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class NeutralPowPattern(EasyPatternOptimization):
    """x ** 1 → x

    What: drops an operation whose constant operand changes nothing.
    Why: each one reads and writes the whole tensor.
    Refuses when:
    1. the constant may change the shape of the result by broadcasting (checked for all literals by the matcher).
    2. x has integers of 64 bits, or an unknown type: onnxruntime computes the power of integers with 53 bits.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """The literal stands for a constant of any form that does not change the shape (1)."""
        return g.op.Pow(x, 1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Look at the type."""
        dtype = g.try_infer_type(m.x)
        if not is_float(dtype) and dtype != TensorProto.INT32:  # (2)
            return self.none(m.nodes[0], msg="integers that double precision does not hold, or an unknown type")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """The other operand is the result."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """A scalar constant."""
        return (
            Example(
                "agraph (float[a,b] x) => (float[a,b] y) <float[1] c = {1}> { t = Pow(x, c) y = Neg(t) }",
                "agraph (float[a,b] x) => (float[a,b] y) { y = Neg(x) }",
            ),
        )
