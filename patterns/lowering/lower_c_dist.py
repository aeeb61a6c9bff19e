from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering

_METRICS: Final = ("sqeuclidean", "euclidean")


class LowerCDistPattern(_Lowering):
    """com.microsoft.CDist(a, b) → Max(a² + b² - 2 · a · bᵀ, 0), with Sqrt for the metric euclidean

    What: computes the sums of squares of the rows by ReduceSumSquare, and the products by Gemm.
    Why: only ONNX Runtime's CPU provider runs the operator, which skl2onnx writes for nearest
    neighbours and Gaussian processes.
    Refuses when:
    1. the type is neither float32 nor float64 (checked by the matcher).
    2. the metric is neither euclidean nor sqeuclidean: kernels support no others.
    3. the ranks are not 2.
    """

    exactness = "approximate"  # distances of equal rows are rounding errors
    min_opset = 13
    operand_types = {"a": frozenset((TensorProto.FLOAT, TensorProto.DOUBLE))}  # (1)
    operand_ranks = {"a": 2, "b": 2}  # (3)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        return g.op.CDist(a, b, metric=g.capture("metric"), domain="com.microsoft")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.metric not in _METRICS:  # (2)
            return self.none(m.nodes[0], msg="the metric is neither euclidean nor sqeuclidean")
        return True

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, metric: str) -> str:
        rows = g.op.ReduceSumSquare(a, axes=[1])
        columns = g.op.Reshape(g.op.ReduceSumSquare(b, axes=[1]), np.array([1, -1], np.int64))
        squares = g.op.Add(g.op.Gemm(a, b, columns, alpha=-2.0, transB=1), rows)
        positive = g.op.Max(squares, 0.0)
        return g.op.Sqrt(positive) if metric == "euclidean" else positive

    _squares = (
        "r = ReduceSumSquare(a, i) s = ReduceSumSquare(b, i) t = Reshape(s, u) "
        "m = Gemm <alpha = -2.0, transB = 1> (a, b, t) d = Add(m, r)"
    )
    _constants = "<int64[1] i = {1}, int64[2] u = {1, -1}, float o = {0}>"
    examples = Example.pairs(
        "agraph (float[m,4] a, float[k,4] b) => (float[m,k] y) { "
        'y = com.microsoft.CDist <metric = "sqeuclidean"> (a, b) }',
        f"{_constants} {{ {_squares} y = Max(d, o) }}",
        "agraph (float[m,4] a, float[k,4] b) => (float[m,k] y) { "
        'y = com.microsoft.CDist <metric = "euclidean"> (a, b) }',
        f"{_constants} {{ {_squares} e = Max(d, o) y = Sqrt(e) }}",
    )
