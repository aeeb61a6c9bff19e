import numpy as np

from xoptim.facts.dtypes import bits, numpy_dtype
from xoptim.match import Constant, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Symbol

from ._lowering import _Lowering


class LowerBitShiftPattern(_Lowering):
    """BitShift(x, n, direction="LEFT") → Mul(x, 2^n), BitShift(x, n, direction="RIGHT") → Div(x,
    2^n)

    What: multiplies or divides by powers of two. Bits beyond the size of the type are lost in both
    forms.
    Why: some runtimes lack operators on bits.
    Refuses when:
    1. n is not constant, or an element of n is not smaller than the number of bits of the type.
    """

    exactness = "exact"
    min_opset = 11
    derives = ("factor",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, n: Constant) -> Symbol:
        return g.op.BitShift(x, n, direction=g.capture("direction"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        dtype, amounts = g.try_infer_type(m.n), g.get_computed_constant(m.n)
        if amounts is None or not (amounts < bits(dtype)).all():  # (1)
            return self.none(
                m.nodes[0],
                msg="the shift is not constant, or not smaller than the bits of the type",
            )
        return m.derive(factor=np.left_shift(np.ones((), numpy_dtype(dtype)), amounts))

    def apply_pattern(self, g: PatternRewriter, x: str, direction: str, factor: np.ndarray) -> str:
        return g.op.Mul(x, factor) if direction == "LEFT" else g.op.Div(x, factor)

    examples = Example.pairs(
        'agraph (uint32[a] x) => (uint32[a] y) <uint32 n = {3}> { y = BitShift <direction = "LEFT">'
        " (x, n) }",
        "<uint32 f = {8}> { y = Mul(x, f) }",
        "agraph (uint8[a,2] x) => (uint8[a,2] y) <uint8[2] n = {1, 7}> { y = BitShift <direction ="
        ' "RIGHT"> (x, n) }',
        "<uint8[2] f = {2, 128}> { y = Div(x, f) }",
    )
