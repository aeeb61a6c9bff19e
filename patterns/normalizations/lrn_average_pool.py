"""A local response normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import TensorProto

from xoptim.facts.dims import is_nonzero
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class LRNAveragePoolPattern(EasyPatternOptimization):
    """LRN(x, alpha=a, beta=0.75, bias=k, size=n) → x / t ** 0.75 with t = AveragePool(a · x²) + k over n channels

    What: spells the operator out; the power is Sqrt(t) · Sqrt(Sqrt(t)).
    Why: measured 0.12 of the time of onnxruntime's CPU kernel, which takes half of that of a GoogLeNet.
    Refuses when:
    1. the power is another one, t may be 0 or negative, or the number of channels is 1 or even.
    2. x is not an image of type float, or may be an empty one.
    """

    phase = "target"
    exactness = "rounding"
    min_opset = 7
    providers = ("cpu",)
    tags = ("onnxruntime",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """The schema's defaults are those of AlexNet, but for the bias."""
        alpha = g.capture("alpha", lambda value: value is None or 0 <= value <= 1, optional=True)
        bias = g.capture("bias", lambda value: value is None or value >= 0.01, optional=True)
        return g.op.LRN(x, size=g.capture("size", lambda n: n > 1 and n % 2), alpha=alpha, bias=bias, beta=g.any_of(None, 0.75))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Derive the factor of x (1)."""
        shape = g.try_infer_shape(m.x) or ()
        if len(shape) != 4 or not all(map(is_nonzero, shape[1:])) or g.try_infer_type(m.x) != TensorProto.FLOAT:  # (2)
            return self.none(m.nodes[0], msg="not an image of floats, or an image may be empty")
        return m.derive(factor=math.sqrt(g.get_attribute(m.nodes[0], "alpha")), offset=g.get_attribute(m.nodes[0], "bias"))

    def apply_pattern(self, g: PatternRewriter, x: str, size: int, factor: float, offset: float) -> str:
        """Squares of x · √a, which are finite wherever a · x² is."""
        scaled = g.op.Mul(x, factor)
        squares = g.op.Unsqueeze(g.op.Mul(scaled, scaled), axes=[1])
        means = g.op.AveragePool(squares, kernel_shape=[size, 1, 1], pads=[size // 2, 0, 0] * 2, count_include_pad=1)
        root = g.op.Sqrt(g.op.Add(g.op.Squeeze(means, axes=[1]), offset))
        return str(g.op.Div(x, g.op.Mul(root, g.op.Sqrt(root))))

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Five channels."""
        start = "agraph (float[n,3,4,5] x) => (float[n,3,4,5] y)"
        pool = "AveragePool <kernel_shape = [5, 1, 1], pads = [2, 0, 0, 2, 0, 0], count_include_pad = 1> (u)"
        after = (
            f"<int64[1] i = {{1}}, float f = {{0.5}}, float k = {{2}}> {{ s = Mul(x, f) q = Mul(s, s) u = Unsqueeze(q, i) "
            f"m = {pool} v = Squeeze(m, i) t = Add(v, k) r = Sqrt(t) w = Sqrt(r) p = Mul(r, w) y = Div(x, p) }}"
        )
        return (Example(f"{start} {{ y = LRN <size = 5, alpha = 0.25, bias = 2.0> (x) }}", f"{start} {after}"),)
