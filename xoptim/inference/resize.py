"""Resize and Upsample.

Runtimes multiply in 32-bit floats; a symbolic size is scaled only by numbers for which that product is exact.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from xoptim.facts.dims import Dim, floor_div
from xoptim.facts.info import Shape
from xoptim.facts.shapes import all_normalized
from xoptim.inference.arguments import dim_of, fresh_shape, integers, known, shapes, text, vector
from xoptim.inference.registry import NodeContext
from xoptim.inference.values import values

_EXACT = 256
"""Largest numerator and denominator of a scale: the product with sizes up to 65536 then fits the 24 bits of a float."""


_LARGEST = 2.0**20
"""No valid model has scales from here on."""


@shapes("Upsample")
def upsample(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """Scales are the second input since operator set 9, an attribute before."""
    return _scaled(ctx, shape, _input_scales(ctx, 1) if ctx.opset >= 9 else ctx.attribute("scales"))


@shapes("Resize")
def resize(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """Inputs X, scales in operator set 10; X, roi, scales, sizes since 11; some axes only since 18."""
    if ctx.opset >= 11 and ctx.input(3) is not None:
        return _resized(ctx, shape)
    return _scaled(ctx, shape, _input_scales(ctx, 1 if ctx.opset < 11 else 2))


def _input_scales(ctx: NodeContext, index: int) -> Any:
    """Scales that are an input: a constant, or whole numbers that were inferred."""
    scales = ctx.constant(index)
    return values(ctx, index) if scales is None else scales


def _positions(ctx: NodeContext, rank: int) -> list[int] | None:
    return list(range(rank)) if ctx.attribute("axes") is None else all_normalized(integers(ctx, "axes"), rank)


def _scaled(ctx: NodeContext, shape: Shape | None, scales: Any) -> Shape | None:
    if shape is None:
        return None
    positions = _positions(ctx, len(shape))
    if positions is None:
        return fresh_shape(ctx, len(shape))
    dims = list(shape)
    factors = _floats(scales, len(positions))
    for i, axis in enumerate(positions):
        dims[axis] = ctx.fresh() if factors is None else _scale(ctx, dims[axis], factors[i])
    return tuple(dims)


def _floats(scales: Any, length: int) -> list[np.float32] | None:
    if scales is None:
        return None
    try:
        values = np.asarray(scales, dtype=np.float32).ravel()
    except (TypeError, ValueError):
        return None
    return list(values) if values.size == length and bool(np.isfinite(values).all()) else None


def _scale(ctx: NodeContext, size: Dim, factor: np.float32) -> Dim:
    if factor == 1:
        return size
    if not 0 < factor < _LARGEST:
        return ctx.fresh()
    if type(size) is int:
        return int(np.floor(np.float32(size) * factor))  # rounded to 32 bits, as runtimes do
    ratio = Fraction(float(factor))
    if max(ratio.numerator, ratio.denominator) > _EXACT:
        return ctx.fresh()
    return floor_div(size * ratio.numerator, ratio.denominator)


def _resized(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """Shape from the input ``sizes``."""
    sizes = vector(ctx, 3)
    if shape is None:
        count = len(sizes) if sizes is not None else dim_of(ctx.input(3), 0, 1)
        if ctx.attribute("axes") is not None or type(count) is not int:
            return None
        stretched = sizes is not None and _policy(ctx) == "stretch"
        return tuple(known(ctx, size) for size in sizes) if sizes is not None and stretched else fresh_shape(ctx, count)
    positions = _positions(ctx, len(shape))
    if positions is None:
        return fresh_shape(ctx, len(shape))
    if sizes is not None and len(sizes) != len(positions):
        sizes = None
    if sizes is not None and _policy(ctx) != "stretch":
        sizes = _keep_ratio([shape[axis] for axis in positions], sizes, _policy(ctx))
    dims = list(shape)
    for i, axis in enumerate(positions):
        dims[axis] = known(ctx, None if sizes is None else sizes[i])
    return tuple(dims)


def _policy(ctx: NodeContext) -> str | None:
    return text(ctx, "keep_aspect_ratio_policy", "stretch")


def _keep_ratio(dims: Sequence[Dim], sizes: Sequence[Dim], policy: str | None) -> list[Dim] | None:
    """Sizes with the proportions of the input, rounded half up."""
    choose = {"not_larger": min, "not_smaller": max}.get(policy or "")
    pairs = [(d, s) for d, s in zip(dims, sizes, strict=True) if type(d) is int and type(s) is int and d > 0]
    if choose is None or len(pairs) != len(dims) or not pairs:
        return None
    scale = choose(np.float32(s) / np.float32(d) for d, s in pairs)  # 32 bits, as in the runtimes
    return [int(np.floor(scale * np.float32(d) + np.float32(0.5))) for d, _ in pairs]
