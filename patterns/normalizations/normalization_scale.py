"""Normalizations whose result is multiplied."""

from typing import Any, ClassVar

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._folding import Array
from ._trailing import multiplied, same_trailing


class _NormalizationScale(EasyPatternOptimization):
    """A normalization by an `operator` that has a scale, times a factor.

    What: multiplies while the tensor is normalized.
    Why: saves one pass over the tensor.
    Refuses when:
    1. the factor does not have the shape of the scale, and is not a constant that broadcasts to it.
    2. the scale is not constant, or the factor is not constant and the scale not 1, or a
       product leaves the range of the type.
    """

    exactness = "rounding"
    operator: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        start, normalize = "agraph (float[a,2] x", f"{cls.operator} <axis = -1, epsilon = 0.001>"
        cls.examples = Example.pairs(
            f"{start}) => (float[a,2] y) <float[2] s = {{2, 3}}, float[1,2] f = {{4, 5}}> "
            f"{{ t = {normalize} (x, s) y = Mul(f, t) }}",
            f"<float[2] s = {{8, 15}}> {{ y = {normalize} (x, s) }}",
            f"{start}, float[2] f) => (float[a,2] y) <float[2] s = {{1, 1}}> {{ t = {normalize} (x, s) y = Mul(t, f) }}",
            f"{{ y = {normalize} (x, f) }}",
            opset=max(18, cls.min_opset),
        )

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, factor: Symbol) -> Symbol:
        return g.op.Mul(getattr(g.op, self.operator)(x, scale, attributes=g.capture("attributes")), factor)  # (3)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not same_trailing(g, m.factor, m.scale, m.x):  # (1)
            return self.none(m.nodes[1], msg="the factor has another shape than the scale")
        return m.derive(product=multiplied(g, m.scale, m.factor))  # (2)

    def apply_pattern(self, g: PatternRewriter, x: str, product: Array | str, attributes: dict[str, Any]) -> str:
        return str(getattr(g.op, self.operator)(x, product, **attributes))


class LayerNormalizationScalePattern(_NormalizationScale):
    """LayerNormalization(x, scale) · factor → LayerNormalization(x, scale · factor)

    Refuses when:
    1. the factor does not have the shape of the scale, and is not a constant that broadcasts to it.
    2. the scale is not constant, or the factor is not constant and the scale not 1, or a
       product leaves the range of the type.
    3. there is a bias.
    """

    phase = "specialize"
    operator = "LayerNormalization"
    min_opset = 7


class RMSNormalizationMulPattern(_NormalizationScale):
    """RMSNormalization(x, scale) · factor → RMSNormalization(x, scale · factor)"""

    phase = "specialize"
    operator = "RMSNormalization"
    min_opset = 23


class SimplifiedLayerNormalizationMulPattern(_NormalizationScale):
    """SimplifiedLayerNormalization(x, scale) · factor → SimplifiedLayerNormalization(x, scale · factor)

    What: multiplies while the tensor is normalized, by the operator that onnxruntime has below operator set 23.
    """

    phase = "target"
    operator = "SimplifiedLayerNormalization"
    min_opset = 7
    max_opset = 22
    tags = ("onnxruntime",)
    unchecked = ("SimplifiedLayerNormalization",)
