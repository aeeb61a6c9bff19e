import numpy as np

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import ANY, Optional, Symbol

from .._proofs import keeps_shape


class IdentityResizePattern(EasyPatternOptimization):
    """Resize(x) or Upsample(x) by scales of 1 → x

    What: drops a resampling at the positions of the samples themselves.
    Why: it copies the whole tensor, or computes each element anew.
    Refuses when:
    1. a scale is not 1 or not constant, or sizes are given that are not provably those of x.
    2. a region is cropped: the same sizes then show a part, magnified.
    """

    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol, first: Optional, scales: Optional, sizes: Optional) -> Symbol:
        # Scales were an attribute, then the only other operand; now a region of interest comes before them.
        if g.option("resize"):
            return g.op.Resize(x, first, scales, sizes, attributes=ANY)
        return g.op.Upsample(x, first, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # Sizes take precedence: onnxruntime then ignores scales.
        node = m.nodes[0]
        if g.get_attribute(node, "coordinate_transformation_mode") == "tf_crop_and_resize":  # (2)
            return self.none(node, msg="it crops")
        if m.sizes:
            return keeps_shape(g, node) or self.none(node, msg="the sizes differ or are unknown")  # (1)
        name = m.scales if m.resize and node.opset >= 11 else m.first
        scales = g.get_computed_constant(name) if name else node.attribute.get("scales")
        if scales is None or not np.size(scales) or not np.all(np.equal(scales, 1)):  # (1)
            return self.none(node, msg="the scales are not 1, or unknown")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    _after = "agraph (float[1,2,a,b] x) => (float[1,2,a,b] y) { y = Relu(x) }"
    examples = (
        Example(
            "agraph (float[1,2,a,b] x) => (float[1,2,a,b] y) <float[4] s = {1, 1, 1, 1}> "
            '{ t = Resize <mode = "linear"> (x, , s) y = Relu(t) }',
            _after,
        ),
        Example(
            "agraph (float[1,2,a,b] x) => (float[1,2,a,b] y) <float[4] s = {1, 1, 1, 1}> { t = Upsample(x, s) y = Relu(t) }",
            _after,
            opset=9,
        ),
    )
