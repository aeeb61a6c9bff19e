"""Resizes of images, with other attributes that select a faster kernel."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from onnx import TensorProto

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Node,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.trace import Optional, Symbol

_RANK: Final = 4
_POWERS: Final = (1, 2, 4, 8)
"""Scales for which kernels compute coordinates exactly."""
_EXACT: Final = ("half_pixel", "pytorch_half_pixel", "asymmetric")
"""Coordinate modes for which both kernels compute coordinates exactly with these scales."""
_SAME: Final = {
    "mode": ("nearest",),
    "coordinate_transformation_mode": ("half_pixel", "pytorch_half_pixel"),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil"),
}


class _ImageResize(EasyPatternOptimization):
    """A Resize that gets the attributes of ``form``."""

    phase = "target"
    providers = ("cpu",)
    form: ClassVar[Mapping[str, Any]]

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        roi: str,
        scales: str,
        sizes: str,
        attributes: dict[str, Any],
    ) -> str:
        return g.op.Resize(x, roi or None, scales or None, sizes or None, **self.form, **attributes)


class CubicResizePattern(_ImageResize):
    """Resize(x, 2, mode=cubic) → Resize(x, 2, mode=cubic, antialias=1)

    What: sets antialias, which only has an effect if an axis shrinks.
    Why: measured 0.03 to 0.09 of the time. onnxruntime's antialias kernel works axis by axis, the
    default kernel reads 16 elements for each result.
    Refuses when:
    1. the tensor is not an image of rank 4 whose last two axes are resized by 1, 2, 4 or 8. With
       other scales, the two kernels round coordinates differently.
    2. coordinate_transformation_mode aligns corners, or crops.
    3. the type is not float32.
    """

    exactness = "finite"  # an infinity times a weight of 0 is NaN in one of the kernels
    min_opset = 18
    form = {"mode": "cubic", "antialias": 1}
    operand_types = {"x": {TensorProto.FLOAT}}  # (3)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, roi: Optional, scales: Optional, sizes: Optional
    ) -> Symbol:
        return g.op.Resize(
            x,
            roi,
            scales,
            sizes,
            mode="cubic",
            antialias=g.any_of(None, 0),
            attributes=g.capture("attributes"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        if m.attributes.get("coordinate_transformation_mode", "half_pixel") not in _EXACT:  # (2)
            return self.none(node, msg="coordinate_transformation_mode aligns corners, or crops")
        scales = _factors(g, node)
        # (1)
        if (
            scales is None
            or scales[:2] != [1, 1]
            or not all(scale in _POWERS for scale in scales[2:])
        ):
            return self.none(
                node,
                msg="a scale is not 1, 2, 4 or 8, or batch or channels are resized",
            )
        return True

    _torch = 'mode = "cubic", coordinate_transformation_mode = "half_pixel", cubic_coeff_a = -0.75'
    _scaled = "agraph (float[n,3,h,w] x) => (float[n,3,k,l] y) <float[4] s = {1, 1, 2, 4}>"
    _sized = "agraph (float[n,3,5,6] x) => (float[n,3,10,6] y) <int64[2] s = {10, 6}>"
    examples = Example.pairs(
        f"{_scaled} {{ y = Resize <{_torch}> (x, , s) }}",
        f"{_scaled} {{ y = Resize <{_torch}, antialias = 1> (x, , s) }}",
        f'{_sized} {{ y = Resize <axes = [2, 3], mode = "cubic", exclude_outside = 1> (x, , ,'
        " s) }",
        f'{_sized} {{ y = Resize <axes = [2, 3], mode = "cubic", exclude_outside = 1, antialias ='
        " 1> (x, , , s) }",
    )


class NearestResizePattern(_ImageResize):
    """Resize(x, 2, mode=nearest, half_pixel) → Resize(x, 2, mode=nearest, asymmetric, floor)

    What: sets the asymmetric mode, with the same result: each element occurs twice. With
    half_pixel, element i of the result is at i / 2 - 1 / 4. The nearest integer is the integer part
    of i / 2.
    Why: onnxruntime's CPU kernel has a fast path for the asymmetric mode: measured 0.1 to 0.2 of
    the time.
    Refuses when:
    1. coordinate_transformation_mode is not a half_pixel mode, or nearest_mode does not round.
    2. the scales are not known to be 1 for batch and channels, and 2 for height and width.
    """

    min_opset = 11
    form = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, roi: Optional, scales: Optional, sizes: Optional
    ) -> Symbol:
        # (1) Coordinates are never halfway between integers, so both rounding modes are equal.
        same = {key: g.any_of(None, *values) for key, values in _SAME.items()}
        return g.op.Resize(x, roi, scales, sizes, **same, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # (2)
        return _factors(g, m.nodes[0]) == [1, 1, 2, 2] or self.none(
            m.nodes[0], msg="the scales are not 2 for height and width"
        )

    _scaled = "agraph (float[n,3,h,w] x) => (float[n,3,k,l] y) <float[4] s = {1, 1, 2, 2}>"
    _sized = "agraph (uint8[1,3,4,5] x) => (uint8[1,3,8,10] y) <int64[4] s = {1, 3, 8, 10}>"
    _form = (
        'mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'
    )
    examples = Example.pairs(
        f"{_scaled} {{ y = Resize(x, , s) }}",
        f"{_scaled} {{ y = Resize <{_form}> (x, , s) }}",
        f'{_sized} {{ y = Resize <coordinate_transformation_mode = "pytorch_half_pixel"> (x, , ,'
        " s) }",
        f"{_sized} {{ y = Resize <{_form}> (x, , , s) }}",
    )


def _factors(g: GraphView, node: Node) -> list[float] | None:
    """The scale of each of the four axes of a Resize; ``None`` if one is unknown.

    If the Resize has sizes, their ratios must be 1, 2, 4 or 8. For other ratios, runtimes round
    coordinates differently.
    """
    name = node.input[2] if len(node.input) > 2 else ""
    source, result = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    if source is None or len(source) != _RANK:
        return None
    scales = g.get_computed_constant(name) if name else None
    if scales is not None and scales.size:
        axes = node.get_attribute("axes") or range(_RANK)
        if len(axes) != scales.size or not all(-_RANK <= axis < _RANK for axis in axes):
            return None
        by_axis = dict(
            zip((axis % _RANK for axis in axes), map(float, scales.ravel()), strict=True)
        )
        return [by_axis.get(axis, 1.0) for axis in range(_RANK)]
    if (
        result is None
        or (name and scales is None)
        or node.get_attribute("keep_aspect_ratio_policy", "stretch") != "stretch"
    ):
        return None
    powers = [
        next((power for power in _POWERS if new == old * power), 0.0)
        for old, new in zip(source, result, strict=True)
    ]
    return powers if all(powers) else None
