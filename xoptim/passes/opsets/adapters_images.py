"""Adapters of operators that resize or sample images."""

from typing import Final

import numpy as np

from xoptim.passes.opsets.call import Adapter, OpsetCall, Refused

_RENAMED_MODES: Final = {"bilinear": "linear", "bicubic": "cubic"}
_COORDINATES: Final = 11
"""Operator set in which Resize got attributes for the coordinates of pixels."""


def upsample_renamed(call: OpsetCall) -> None:
    """Upsample 10: Resize replaces it. Its scales are 1 or more, so ``nearest`` rounds down."""
    call.op_type = "Resize"
    if call.scratch.target >= _COORDINATES:
        _place_scales(call, call.inputs[1], "floor")
        call.version = _COORDINATES


def resize_coordinates(call: OpsetCall) -> None:
    """Resize 11: the coordinates of pixels, and the rounding of ``nearest``, became attributes with
    other defaults.

    Before, the coordinate of a pixel was its index divided by the scale. ``nearest`` rounded down
    where an axis grows and up where it shrinks, as onnxruntime computes it; ONNX leaves this open.
    One Resize rounds all axes in the same way: scales of both kinds, or unknown ones, need a Resize
    that enlarges and then a Resize that shrinks.
    """
    scales = call.inputs[1]
    if call.get("mode") != "nearest":
        return _place_scales(call, scales, "")
    value = call.value(1)
    if value is not None and bool((value >= 1).all()):
        return _place_scales(call, scales, "floor")
    if value is None or not bool((value <= 1).all()):
        one, roi = call.constant([1.0], np.float32, "one"), call.constant([], np.float32, "roi")
        larger = [call.inputs[0], roi, call.make("Max", [scales, one])]
        call.inputs[0] = call.make(
            "Resize", larger, version=_COORDINATES, mode="nearest", **_modes("floor")
        )
        scales = call.make("Min", [scales, one])
    return _place_scales(call, scales, "ceil")


def _place_scales(call: OpsetCall, scales: str, nearest: str) -> None:
    """Write a Resize of operator set 11 with these scales, as Upsample defines them."""
    call.inputs[1:] = [call.constant([], np.float32, "roi"), scales]
    call.attributes.update(_modes(nearest))


def _modes(nearest: str) -> dict[str, str]:
    modes = {"coordinate_transformation_mode": "asymmetric"}
    return {**modes, "nearest_mode": nearest} if nearest else modes


def resize_operands(call: OpsetCall) -> None:
    """Resize 13: an empty region or empty scales are omitted; a coordinate mode disappeared."""
    if call.get("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        raise Refused("the coordinate mode tf_half_pixel_for_nn no longer exists")
    for place in (1, 2):
        shape = call.info(place).shape
        value = call.value(place)
        if shape == (0,) or (value is not None and value.size == 0):
            call.inputs[place] = ""


def sample_modes(call: OpsetCall) -> None:
    """GridSample 20: the interpolation modes have names for images of any rank."""
    mode = call.attributes.get("mode")
    if mode is not None:
        call.attributes["mode"] = _RENAMED_MODES.get(call.get("mode"), mode)


IMAGES: Final[dict[tuple[str, int], Adapter]] = {
    ("Upsample", 9): lambda call: call.set_input(
        1, call.constant(call.take("scales"), np.float32, "scales")
    ),
    ("Upsample", 10): upsample_renamed,
    ("Resize", 11): resize_coordinates,
    ("Resize", 13): resize_operands,
    ("GridSample", 20): sample_modes,
    # The coordinates of pixels became an attribute with another default.
    ("RoiAlign", 16): lambda call: call.attributes.update(
        coordinate_transformation_mode="output_half_pixel"
    ),
}
"""By operator, and operator set that changes it."""
