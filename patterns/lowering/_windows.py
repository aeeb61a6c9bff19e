"""Pads and windows of convolutions and pooling."""

from collections.abc import Mapping, Sequence
from typing import Any

from xoptim.facts.dims import Dim


def same_pads(
    image: Sequence[Dim], kernel: Sequence[int], form: Mapping[str, Any], *, upper: bool
) -> list[int] | None:
    """The pads of the rules SAME_UPPER and SAME_LOWER.

    ``None`` when an axis of the image is not static.

    A result has ceil(length / stride) elements; an odd pad is longer by one at the end (upper) or
    at the beginning.
    """
    strides = form.get("strides") or [1] * len(kernel)
    dilations = form.get("dilations") or [1] * len(kernel)
    begins, ends = [], []
    for length, size, stride, dilation in zip(image, kernel, strides, dilations, strict=True):
        if not isinstance(length, int):
            return None
        covered = (-(-length // stride) - 1) * stride + (size - 1) * dilation + 1
        total = max(covered - length, 0)
        short, long = total // 2, total - total // 2
        begins.append(short if upper else long)
        ends.append(long if upper else short)
    return begins + ends
