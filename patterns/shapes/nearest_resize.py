from typing import Any, Final

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, Optional, PatternBuilder, PatternRewriter, Symbol

from ._scales import factors

_SAME: Final = {
    "mode": ("nearest",),
    "coordinate_transformation_mode": ("half_pixel", "pytorch_half_pixel"),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil"),
}
_FORM: Final = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


class NearestResizePattern(EasyPatternOptimization):
    """Resize(x, 2, mode=nearest, half_pixel) → Resize(x, 2, mode=nearest, asymmetric, floor)

    What: names the other coordinates that repeat each element twice: element i of the result is at i / 2 - 1 / 4, which is
    nearest to the integer part of i / 2.
    Why: onnxruntime's CPU kernel has a path of its own for these coordinates: measured 0.1 to 0.2 of the time.
    Refuses when:
    1. coordinates are others, or an integer is not taken to be the nearest of the two.
    2. scales are not known to be 1 and 1 for the batch and the channels, 2 and 2 for the other axes.
    """

    phase = "target"
    min_opset = 11
    providers = ("cpu",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, roi: Optional, scales: Optional, sizes: Optional) -> Symbol:
        # Ties do not occur, so either way of rounding them will do (1).
        same = {key: g.any_of(None, *values) for key, values in _SAME.items()}
        return g.op.Resize(x, roi, scales, sizes, **same, attributes=g.capture("others"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return factors(g, m.nodes[0]) == [1, 1, 2, 2] or self.none(m.nodes[0], msg="not twice as high and wide")  # (2)

    def apply_pattern(self, g: PatternRewriter, x: str, roi: str, scales: str, sizes: str, others: dict[str, Any]) -> str:
        return g.op.Resize(x, roi or None, scales or None, sizes or None, **_FORM, **others)

    _scaled = "agraph (float[n,3,h,w] x) => (float[n,3,k,l] y) <float[4] s = {1, 1, 2, 2}>"
    _sized = "agraph (uint8[1,3,4,5] x) => (uint8[1,3,8,10] y) <int64[4] s = {1, 3, 8, 10}>"
    _form = 'mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'
    examples = (
        Example(f"{_scaled} {{ y = Resize(x, , s) }}", f"{_scaled} {{ y = Resize <{_form}> (x, , s) }}"),
        Example(
            f'{_sized} {{ y = Resize <coordinate_transformation_mode = "pytorch_half_pixel"> (x, , , s) }}',
            f"{_sized} {{ y = Resize <{_form}> (x, , , s) }}",
        ),
    )
