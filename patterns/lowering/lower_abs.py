import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering


class LowerAbsPattern(_Lowering):
    """Abs(x) of integers → Max(x, Sub(0, x))

    What: takes the larger one of a number and its negative; the least integer is its own negative,
    as in Abs.
    Why: WebGPU has Abs for floats only.
    Refuses when:
    1. the numbers are not signed integers of 32 or 64 bits.
    """

    min_opset = 12
    operand_types = {"x": frozenset((TensorProto.INT32, TensorProto.INT64))}  # (1)
    derives = ("zero",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Abs(x)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return m.derive(zero=np.zeros((), numpy_dtype(g.try_infer_type(m.x))))

    def apply_pattern(self, g: PatternRewriter, x: str, zero: np.ndarray) -> str:
        return g.op.Max(x, g.op.Sub(zero, x))

    examples = Example.pairs(
        "agraph (int32[a] x) => (int32[a] y) { y = Abs(x) }",
        "<int32 zero = {0}> { t = Sub(zero, x) y = Max(x, t) }",
        "agraph (int64[a,3] x) => (int64[a,3] y) { y = Abs(x) }",
        "<int64 zero = {0}> { t = Sub(zero, x) y = Max(x, t) }",
    )
