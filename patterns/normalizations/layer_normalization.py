"""Layer normalization, spelled out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Scalar, Symbol

from .._kernels import runs
from ._trailing import trailing_shape


class LayerNormalizationPattern(EasyPatternOptimization):
    """(x - mean) / √(mean of (x - mean)² + epsilon) → LayerNormalization(x, 1)

    What: one operator instead of seven; what multiplies and shifts the result is taken in by other patterns.
    Why: measured 2 to 3.5 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. the means are not both over the last axes, or the lengths of these axes are not known.
    2. epsilon is no positive number.
    3. the provider has no kernel of LayerNormalization for the type, or the operator would compute in less than its precision.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 17

    def match_pattern(self, g: PatternBuilder, x: Symbol, epsilon: Scalar) -> Symbol:
        """The square as power or product; division by the deviation, or multiplication by its inverse."""
        distance = g.op.Sub(x, g.op.ReduceMean(x, axes=g.capture("axes")))
        square = g.op.Pow(distance, 2.0) if g.option("power") else g.op.Mul(distance, distance)
        deviation = g.op.Sqrt(g.op.Add(g.op.ReduceMean(square, axes=g.capture("axes")), epsilon))
        if g.option("division"):
            return g.op.Div(distance, deviation)
        return g.op.Mul(distance, g.op.Reciprocal(deviation) if g.option("reciprocal") else g.op.Div(1.0, deviation))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Hands on the shape of the scale and the number that is added."""
        shape = trailing_shape(g, m.x, m.axes)
        if shape is None:  # (1)
            return self.none(m.nodes[0], msg="not over last axes of known lengths")
        number = float(g.get_constant_scalar(m.epsilon) or 0)
        if not 0 < number < 1:  # (2)
            return self.none(m.nodes[-1], msg="epsilon is no small positive number")
        dtype = g.try_infer_type(m.x)
        if dtype == TensorProto.DOUBLE or not runs(g, "LayerNormalization", m.x):  # (3)
            return self.none(m.nodes[-1], msg="no kernel for the type")
        return m.derive(number=number, ones=np.ones(shape, numpy_dtype(dtype)))

    def apply_pattern(self, g: PatternRewriter, x: str, ones: np.ndarray, number: float) -> str:
        """The scale has the shape of the last axes."""
        return g.op.LayerNormalization(x, ones, axis=-ones.ndim, epsilon=number)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Over the last axis, and over the last two."""
        return (
            Example(
                "agraph (float[a,4] x) => (float[a,4] y) <float two = {2}, float e = {0.001}, int64[1] i = {-1}> "
                "{ m = ReduceMean(x, i) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, i) w = Add(v, e) s = Sqrt(w) "
                "y = Div(d, s) }",
                "agraph (float[a,4] x) => (float[a,4] y) <float[4] one = {1, 1, 1, 1}> "
                "{ y = LayerNormalization <axis = -1, epsilon = 0.001> (x, one) }",
            ),
            Example(
                "agraph (float[a,2,2] x) => (float[a,2,2] y) <float[1] e = {0.001}> "
                "{ m = ReduceMean <axes = [1, 2]> (x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean <axes = [1, 2]> (q) "
                "w = Add(e, v) s = Sqrt(w) r = Reciprocal(s) y = Mul(r, d) }",
                "agraph (float[a,2,2] x) => (float[a,2,2] y) <float[2,2] one = {1, 1, 1, 1}> "
                "{ y = LayerNormalization <axis = -2, epsilon = 0.001> (x, one) }",
                opset=17,
            ),
        )
