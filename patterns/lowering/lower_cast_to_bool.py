import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import WIDE_FLOATS, _Lowering


class LowerCastToBoolPattern(_Lowering):
    """Cast(x, to=BOOL) → Not(Equal(x, 0))

    What: a number that is not 0 is true, NaN too.
    Why: some providers have no conversion from floats to truth values; Qualcomm's QNN has none from
    16 bits.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    2. it is a Cast to another type.
    """

    exactness = "exact"
    min_opset = 11
    operand_types = {"x": WIDE_FLOATS}  # (1)
    derives = ("zero",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Cast(x, to=TensorProto.BOOL)  # (2)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return m.derive(zero=np.zeros((), numpy_dtype(g.try_infer_type(m.x))))

    def apply_pattern(self, g: PatternRewriter, x: str, zero: np.ndarray) -> str:
        return g.op.Not(g.op.Equal(x, zero))

    examples = Example.pairs(
        "agraph (float[a] x) => (bool[a] y) { y = Cast <to = 9> (x) }",
        "<float zero = {0}> { t = Equal(x, zero) y = Not(t) }",
        "agraph (float16[a] x) => (bool[a] y) { y = Cast <to = 9> (x) }",
        "<float16 zero = {0}> { t = Equal(x, zero) y = Not(t) }",
        opset=13,
    )
