from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering

_SIGNED: Final = frozenset(
    (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64)
)


class LowerSignPattern(_Lowering):
    """Sign(x) → Where(Greater(x, 0), 1, Where(Less(x, 0), -1, x))

    What: selects by two comparisons; 0 and NaN stay as they are.
    Why: some runtimes lack the operator.
    Refuses when:
    1. the numbers are not of 32 or 64 bits: onnxruntime makes NaN 0 in 16 bits, and keeps it in
       more.
    """

    min_opset = 9
    operand_types = {"x": _SIGNED}  # (1)
    derives = ("number",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Sign(x)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return m.derive(number=numpy_dtype(g.try_infer_type(m.x)).type)

    def apply_pattern(self, g: PatternRewriter, x: str, number: type[np.generic]) -> str:
        zero, one = np.array(0, number), np.array(1, number)
        negative = g.op.Where(g.op.Less(x, zero), -one, x)
        return g.op.Where(g.op.Greater(x, zero), one, negative)

    examples = Example.pairs(
        "agraph (float[a] x) => (float[a] y) { y = Sign(x) }",
        "<float o = {0}, float p = {1}, float n = {-1}> "
        "{ l = Less(x, o) t = Where(l, n, x) g = Greater(x, o) y = Where(g, p, t) }",
        "agraph (int64[a] x) => (int64[a] y) { y = Sign(x) }",
        "<int64 o = {0}, int64 p = {1}, int64 n = {-1}> "
        "{ l = Less(x, o) t = Where(l, n, x) g = Greater(x, o) y = Where(g, p, t) }",
    )
