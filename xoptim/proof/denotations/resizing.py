"""Images that are enlarged by whole factors: each pixel is repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from onnx import TensorProto

from xoptim.facts.dims import Dim, exact_quotient
from xoptim.proof.calls import Call, as_whole, axis_within, denotes
from xoptim.proof.elements import Element
from xoptim.proof.tensors import Indices, Tensor, integer_tensor

_REPEATING: Final = frozenset(
    (
        ("half_pixel", "round_prefer_floor"),
        ("half_pixel", "round_prefer_ceil"),
        ("pytorch_half_pixel", "round_prefer_floor"),
        ("pytorch_half_pixel", "round_prefer_ceil"),
        ("asymmetric", "floor"),
    )
)
"""Coordinates and rounding with which pixel ``i`` is pixel ``i // factor`` of the operand."""
_AXES_SINCE: Final = 18
"""Operator set since which Resize may work along some axes only."""


@denotes("Resize")
def resize(call: Call) -> Tensor | list[Tensor] | None:
    """The nearest pixels, for whole factors; any interpolation for factors of 1.

    Otherwise, an uninterpreted function of the operand and the sizes along all axes.
    """
    repeated = _repeated_pixels(call)
    return _by_all_sizes(call) if repeated is None else repeated


def _by_all_sizes(call: Call) -> list[Tensor] | None:
    """The result as a function of the sizes along all axes, where the sizes of some are known."""
    x, sizes = call.operand(0), call.dims(3) if call.has(3) else None
    axes = [axis_within(axis, x.rank) for axis in call.attribute("axes") or range(x.rank)]
    policy = call.attribute("keep_aspect_ratio_policy", "stretch")
    crops = call.attribute("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    is_plain = call.opset >= _AXES_SINCE and policy == "stretch" and not crops
    if not is_plain or sizes is None or len(sizes) != len(axes) or len({*axes}) < len(axes):
        return None
    sizes_of_all_axes: list[Dim] = [*x.shape]
    for axis, size in zip(axes, sizes, strict=True):
        sizes_of_all_axes[axis] = size
    target = integer_tensor(sizes_of_all_axes, (x.rank,), TensorProto.INT64)
    return as_whole(replace(call, operands=[x, None, None, target]), ("axes",))


def _repeated_pixels(call: Call) -> Tensor | None:
    x = call.operand(0)
    names = ("antialias", "exclude_outside")
    is_special = any(call.attribute(name, 0) for name in names)
    policy = call.attribute("keep_aspect_ratio_policy", "stretch")
    if call.opset < 11 or is_special or policy != "stretch":
        return None
    axes = call.attribute("axes") or [*range(x.rank)]
    factors = [1] * x.rank
    by_axis = _factors_by_axis(call, x, [axis_within(axis, x.rank) for axis in axes])
    if by_axis is None:
        return None
    for axis, factor in by_axis.items():
        factors[axis] = factor
    coordinates = call.attribute("coordinate_transformation_mode", "half_pixel")
    modes = coordinates, call.attribute("nearest_mode", "round_prefer_floor")
    repeats = call.attribute("mode", "nearest") == "nearest" and modes in _REPEATING
    is_plain = coordinates != "tf_crop_and_resize" and all(factor == 1 for factor in factors)
    return _repeated(call, x, factors) if repeats or is_plain else None


def _factors_by_axis(call: Call, x: Tensor, axes: Sequence[int]) -> dict[int, int] | None:
    """The whole factors along some axes, from scales or from sizes; ``None`` for others."""
    if call.has(2):
        scales = call.array(2)
        if scales is not None and scales.size:
            numbers = [float(scale) for scale in scales.ravel()]
            are_whole = len(numbers) == len(axes) and all(n >= 1 and n == int(n) for n in numbers)
            return dict(zip(axes, map(int, numbers), strict=True)) if are_whole else None
    sizes = call.dims(3) if call.has(3) else None
    if sizes is None or len(sizes) != len(axes):
        return None
    factors: dict[int, int] = {}
    for size, axis in zip(sizes, axes, strict=True):
        quotient = exact_quotient(size, x.shape[axis])
        if not isinstance(quotient, int) or quotient < 1:
            return None
        factors[axis] = quotient
    return factors


@denotes("Upsample")
def upsample(call: Call) -> Tensor | None:
    """The nearest pixels, for whole factors."""
    x = call.operand(0)
    scales = call.array(1) if call.has(1) else call.attribute("scales")
    if scales is None or len(scales) != x.rank or any(n < 1 or n != int(n) for n in scales):
        return None
    factors = [int(number) for number in scales]
    is_nearest = call.attribute("mode", "nearest") == "nearest"
    return _repeated(call, x, factors) if is_nearest or {*factors} == {1} else None


def _repeated(call: Call, x: Tensor, factors: Sequence[int]) -> Tensor:
    def read(indices: Indices) -> Element:
        pixel: list[Dim] = [
            index if factor == 1 else call.case.divided(index, factor)[0]
            for index, factor in zip(indices, factors, strict=True)
        ]
        return x.at(pixel)

    shape = [size * factor for size, factor in zip(x.shape, factors, strict=True)]
    return Tensor(shape, x.dtype, read)
