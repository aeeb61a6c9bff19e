from typing import Any, Final

from onnx import TensorProto

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

_MIN_THRESHOLD: Final = 15
"""Threshold from which on Softplus(x) differs from x by less than half an ulp in float32."""


def _is_large(threshold: Any) -> bool:
    return bool(threshold >= _MIN_THRESHOLD)


class SoftplusThresholdPattern(EasyPatternOptimization):
    """Where(x > 20, x, Softplus(x)) → Softplus(x)

    What: drops the Where, since Softplus of a large number is this number.
    Why: two nodes fewer. torch's exporters write ``softplus`` this way, in each layer of Mamba 2
    and Qwen3-Next.
    Refuses when:
    1. the threshold is below 15, or has more axes than x. (From 15 on, both branches are equal.)
    2. the type is not float32: in float16, onnxruntime's Softplus overflows.
    """

    exactness = "rounding"
    min_opset = 9
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        threshold = g.constant("threshold", _is_large, scalar=True)  # (1)
        return g.op.Where(g.op.Greater(x, threshold), x, g.op.Softplus(x))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank, axes = g.info(m.x).rank, g.info(m.threshold).rank
        has_axes = axes == 0 or (rank is not None and axes is not None and axes <= rank)
        return has_axes or self.none(m.nodes[0], msg="the threshold may have more axes")  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Softplus(x)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <float t = {20}> { s = Softplus(x) "
        "c = Greater(x, t) y = Where(c, x, s) }",
        "{ y = Softplus(x) }",
        "agraph (float[a] x) => (float[a] y) <float[1] t = {15}> { c = Greater(x, t) "
        "s = Softplus(x) y = Where(c, x, s) }",
        "{ y = Softplus(x) }",
    )
