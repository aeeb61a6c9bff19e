from typing import Any, Final

from onnx import TensorProto

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, Optional, PatternBuilder, PatternRewriter, Symbol

from ._scales import POWERS, factors

_EXACT: Final = ("half_pixel", "pytorch_half_pixel", "asymmetric")
"""Coordinates that both kernels compute without rounding, by scales that are powers of two."""


class CubicResizePattern(EasyPatternOptimization):
    """Resize(x, 2, mode=cubic) → Resize(x, 2, mode=cubic, antialias=1)

    What: asks for the filter against aliasing, which is the filter of the interpolation itself where no axis shrinks.
    Why: onnxruntime's CPU kernel for it treats one axis after the other, and the plain one sixteen elements for each result:
    measured 0.03 to 0.09 of the time.
    Refuses when:
    1. the last two axes of four are not resized by 1, 2, 4 or 8: the kernels round the coordinates of others differently.
    2. coordinates are computed from the corners, or a part is cropped.
    3. the type is not float.
    """

    phase = "target"
    exactness = "finite"  # an infinity times a weight of 0 is NaN in one of them
    min_opset = 18
    providers = ("cpu",)
    operand_types = {"x": {TensorProto.FLOAT}}  # (3)

    def match_pattern(self, g: PatternBuilder, x: Symbol, roi: Optional, scales: Optional, sizes: Optional) -> Symbol:
        others = g.capture("others")
        return g.op.Resize(x, roi, scales, sizes, mode="cubic", antialias=g.any_of(None, 0), attributes=others)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        if m.others.get("coordinate_transformation_mode", "half_pixel") not in _EXACT:  # (2)
            return self.none(node, msg="coordinates are computed from corners, or a part is cropped")
        scales = factors(g, node)
        if scales is None or scales[:2] != [1, 1] or not all(scale in POWERS for scale in scales[2:]):  # (1)
            return self.none(node, msg="a scale is unknown, or not 1, 2, 4 or 8, or batch or channels are resized")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, roi: str, scales: str, sizes: str, others: dict[str, Any]) -> str:
        return g.op.Resize(x, roi or None, scales or None, sizes or None, mode="cubic", antialias=1, **others)

    _torch = 'mode = "cubic", coordinate_transformation_mode = "half_pixel", cubic_coeff_a = -0.75'
    _scaled = "agraph (float[n,3,h,w] x) => (float[n,3,k,l] y) <float[4] s = {1, 1, 2, 4}>"
    _sized = "agraph (float[n,3,5,6] x) => (float[n,3,10,6] y) <int64[2] s = {10, 6}>"
    examples = (
        Example(
            f"{_scaled} {{ y = Resize <{_torch}> (x, , s) }}",
            f"{_scaled} {{ y = Resize <{_torch}, antialias = 1> (x, , s) }}",
        ),
        Example(
            f'{_sized} {{ y = Resize <axes = [2, 3], mode = "cubic", exclude_outside = 1> (x, , , s) }}',
            f'{_sized} {{ y = Resize <axes = [2, 3], mode = "cubic", exclude_outside = 1, antialias = 1> (x, , , s) }}',
        ),
    )
