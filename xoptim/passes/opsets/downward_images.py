"""Adapters to older operator sets for operators on images."""

from operator import gt
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.passes.opsets.call import Adapter, OpsetCall, Refused
from xoptim.passes.opsets.downward_forms import no_value
from xoptim.passes.opsets.downward_operands import counted_from_start

_OLD_NAMES: Final = {"linear": "bilinear", "cubic": "bicubic"}
_IMAGE_RANK: Final = 4


def sample_modes(call: OpsetCall) -> None:
    """GridSample 20: the modes have other names, and images may have any number of axes."""
    if call.info().rank != _IMAGE_RANK:
        raise Refused("its rank is not 4, or unknown")
    mode = call.get("mode")
    call.attributes["mode"] = _OLD_NAMES.get(mode, mode)


def region_pixels(call: OpsetCall) -> None:
    """RoiAlign 16: an attribute has the coordinate mode; before, regions are not shifted."""
    if call.take("coordinate_transformation_mode") != "output_half_pixel":
        raise Refused("its regions are shifted by half a pixel (coordinate_transformation_mode)")


def whole_windows(call: OpsetCall) -> None:
    """AveragePool and MaxPool 22: with ``ceil_mode``, a window that begins after the end is
    dropped.

    ONNX said so before, but kernels differ. With ``pad`` pixels of padding after the end, no window
    begins there if ``pad + stride <= kernel``.
    """
    if not call.get("ceil_mode") or call.get("auto_pad") in ("SAME_UPPER", "SAME_LOWER"):
        return
    kernel = call.get("kernel_shape")
    ones, zeros = [1] * len(kernel), [0] * 2 * len(kernel)
    strides, dilations = call.get("strides") or ones, call.get("dilations") or ones
    pads = (call.get("pads") or zeros)[len(kernel) :]
    if all(
        pad + stride <= (size - 1) * dilation + 1
        for pad, stride, size, dilation in zip(pads, strides, kernel, dilations, strict=True)
    ):
        return
    raise Refused("its last window may begin after the end (ceil_mode), and is not dropped there")


def no_gaps(call: OpsetCall) -> None:
    """AveragePool 19: before, kernels refuse ``SAME`` pads with gaps between the windows, where the
    number of pixels may be negative.
    """
    strides = call.get("strides") or ()
    is_same = call.get("auto_pad") in ("SAME_UPPER", "SAME_LOWER")
    if is_same and any(map(gt, strides, call.get("kernel_shape"))):
        raise Refused("it has gaps between its windows (auto_pad), which kernels do not support")


def all_axes(call: OpsetCall) -> None:
    """Resize 18: it may name the axes to resize, antialias, and keep the aspect ratio."""
    if call.take("antialias"):
        raise Refused("antialias has no equivalent there")
    if call.take("keep_aspect_ratio_policy") != "stretch":
        raise Refused("keep_aspect_ratio_policy has no equivalent there")
    axes, rank = call.take("axes"), call.info().rank
    if axes is None:
        return
    if rank is None:
        raise Refused("it names axes, and the rank is unknown")
    indices = np.array(counted_from_start(axes, rank), np.int64)
    if call.has_input(1):
        dtype = numpy_dtype(call.info(1).dtype or TensorProto.FLOAT)
        region = call.constant(np.repeat([0.0, 1.0], rank), dtype, "roi")
        call.inputs[1] = _scatter(call, region, np.concatenate([indices, indices + rank]), 1)
    if call.has_input(2):
        ones = call.constant(np.ones(rank), np.float32, "ones")
        call.inputs[2] = _scatter(call, ones, indices, 2)
    if call.has_input(3):
        call.inputs[3] = _scatter(call, call.make("Shape", call.inputs[:1]), indices, 3)


def _scatter(call: OpsetCall, base: str, indices: np.ndarray, place: int) -> str:
    """The operand at ``place``, scattered into ``base``; a constant if both are."""
    value, base_value = call.value(place), call.scratch.value(base)
    if value is not None and not value.size:
        return call.inputs[place]
    if value is not None and base_value is not None:
        full = base_value.copy()
        full[indices] = np.ravel(value)
        return call.constant(full, value.dtype, "full")
    operands = [base, call.integers(indices, "places"), call.inputs[place]]
    return call.make("ScatterElements", operands, version=18, axis=0)


def required_operands(call: OpsetCall) -> None:
    """Resize 13: the region and the scales may be omitted; before, they are empty."""
    for place, hint in ((1, "roi"), (2, "scales")):
        if not call.has_input(place):
            call.set_input(place, call.constant([], np.float32, hint))


def only_scales(call: OpsetCall) -> None:
    """Resize 11: a coordinate mode is an attribute; before, an index is divided by the scale.

    ``nearest`` rounds down where an axis grows, and up where it shrinks.
    """
    scales = call.value(2)
    if call.has_input(3) or (scales is not None and not scales.size):
        raise Refused("it has sizes, not scales")
    if call.take("coordinate_transformation_mode") != "asymmetric":
        raise Refused("its coordinates are not asymmetric (coordinate_transformation_mode)")
    nearest = call.take("nearest_mode")
    if call.get("mode") == "nearest":
        grows = scales is not None and bool((scales >= 1).all()) and nearest == "floor"
        shrinks = scales is not None and bool((scales <= 1).all()) and nearest == "ceil"
        if not grows and not shrinks:
            raise Refused("its nearest_mode has no equivalent there")
    elif call.get("mode") != "linear":
        raise Refused(f"mode={call.get('mode')!r} has no equivalent there")
    for name in ("cubic_coeff_a", "exclude_outside", "extrapolation_value"):
        call.attributes.pop(name, None)  # attributes of other modes
    call.inputs = [call.inputs[0], call.inputs[2]]


def upsample(call: OpsetCall) -> None:
    """Resize 10: before, it is Upsample, which only enlarges."""
    scales = call.value(1)
    if scales is None or (scales < 1).any():
        raise Refused("it may shrink a dimension")
    call.op_type, call.version = "Upsample", 9


def scales_attribute(call: OpsetCall) -> None:
    """Upsample 9: the scales are an operand."""
    scales = call.value(1)
    if scales is None:
        raise Refused("its operand scales must be constant there, and is computed at run time")
    call.attributes["scales"] = [float(scale) for scale in scales]
    del call.inputs[1:]


LOWERED_IMAGES: Final[dict[tuple[str, int], Adapter]] = {
    ("AveragePool", 22): whole_windows,
    ("AveragePool", 19): no_gaps,
    ("MaxPool", 22): whole_windows,
    ("GridSample", 20): sample_modes,
    ("RoiAlign", 16): region_pixels,
    ("Resize", 19): no_value("coordinate_transformation_mode", "half_pixel_symmetric"),
    ("Resize", 18): all_axes,
    ("Resize", 13): required_operands,
    ("Resize", 11): only_scales,
    ("Resize", 10): upsample,
    ("Upsample", 9): scales_attribute,
}
"""By operator, and operator set that changes or introduces it."""
