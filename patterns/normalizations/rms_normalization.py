"""Normalization by the root of the mean square, spelled out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Scalar, Symbol

from .._kernels import runs
from ._trailing import trailing_shape


class RMSNormalizationPattern(EasyPatternOptimization):
    """x / √(mean of x² + epsilon) → RMSNormalization(x, 1)

    What: one operator instead of six; what multiplies the result is taken in by `RMSNormalizationMulPattern`.
    Why: measured 2.3 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. the mean is not over the last axes, or the lengths of these axes are not known.
    2. epsilon is no positive number.
    3. the provider has no kernel for the type, or the operator would compute in less than its precision.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 23

    def match_pattern(self, g: PatternBuilder, x: Symbol, epsilon: Scalar) -> Symbol:
        """The square as power or product; division by the root, or multiplication by its inverse."""
        square = g.op.Pow(x, 2.0) if g.option("power") else g.op.Mul(x, x)
        root = g.op.Sqrt(g.op.Add(g.op.ReduceMean(square, axes=g.capture("axes")), epsilon))
        if g.option("division"):
            return g.op.Div(x, root)
        return g.op.Mul(x, g.op.Reciprocal(root) if g.option("reciprocal") else g.op.Div(1.0, root))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Hands on the scale and the number that is added."""
        shape = trailing_shape(g, m.x, m.axes)
        if shape is None:  # (1)
            return self.none(m.nodes[0], msg="not over last axes of known lengths")
        number = float(g.get_constant_scalar(m.epsilon) or 0)
        if not 0 < number < 1:  # (2)
            return self.none(m.nodes[-1], msg="epsilon is no small positive number")
        dtype = g.try_infer_type(m.x)
        if dtype == TensorProto.DOUBLE or not self._runs(g, m.x):  # (3)
            return self.none(m.nodes[-1], msg="no kernel for the type")
        return m.derive(number=number, ones=np.ones(shape, numpy_dtype(dtype)))

    def _runs(self, g: GraphView, x: str) -> bool:
        return runs(g, "RMSNormalization", x)

    def apply_pattern(self, g: PatternRewriter, x: str, ones: np.ndarray, number: float) -> str:
        """The scale has the shape of the last axes."""
        return g.op.RMSNormalization(x, ones, axis=-ones.ndim, epsilon=number)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """As dynamo exports it, and as tracing does."""
        after = (
            "agraph (float[a,4] x) => (float[a,4] y) <float[4] one = {1, 1, 1, 1}> "
            "{ y = RMSNormalization <axis = -1, epsilon = 0.001> (x, one) }"
        )
        return (
            Example(
                "agraph (float[a,4] x) => (float[a,4] y) <float two = {2}, float e = {0.001}, int64[1] i = {-1}> "
                "{ q = Pow(x, two) m = ReduceMean(q, i) v = Add(m, e) s = Sqrt(v) r = Reciprocal(s) y = Mul(x, r) }",
                after,
                opset=23,
            ),
            Example(
                "agraph (float[a,4] x) => (float[a,4] y) <float one = {1}, float e = {0.001}, int64[1] i = {1}> "
                "{ q = Mul(x, x) m = ReduceMean(q, i) v = Add(m, e) s = Sqrt(v) r = Div(one, s) y = Mul(r, x) }",
                after,
                opset=23,
            ),
        )
