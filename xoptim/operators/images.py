"""Operators on images: Resize, Upsample, sampling at points and in regions, blocks, decoding.

Runtimes multiply in float32; a symbolic size is scaled only by numbers for which that product is
exact.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim, exact_quotient, floor_div, product
from xoptim.facts.shapes import Info, Shape, all_normalized
from xoptim.operators.axes import Axes, AxesView, Numbers, Shapes, axes_of_first
from xoptim.operators.costs import no_operations
from xoptim.operators.inference.arguments import (
    dim_of,
    dtype_of,
    fresh_shape,
    integer,
    integers,
    known,
    shapes,
    text,
    vector,
)
from xoptim.operators.inference.values import values
from xoptim.operators.protocols import Indices, NodeContext, NodeView, Results
from xoptim.operators.registry import Trait, counts, describes, infers, register, steers, takes

register(Trait.KEEPS_FINITE, "DepthToSpace", "SpaceToDepth")
register(Trait.KEEPS_FLOAT16, "DepthToSpace", "Resize", "SpaceToDepth")
register(Trait.ROUNDS, "Resize")
register(Trait.BOUNDS, "NonMaxSuppression")
takes({1: "unit"}, "GridSample")
takes({1: "unit"}, "GridSample", domain="com.microsoft")
takes({2: "count", 3: "one"}, "NonMaxSuppression")
takes({2: "one"}, "Resize")
takes({2: Indices(0, 0)}, "RoiAlign")
takes({2: Indices(0, 0)}, "CropAndResize", domain="com.microsoft")
steers(1, "CenterCropPad", "Resize", "Upsample")
counts("DepthToSpace", "SpaceToDepth")(no_operations)


@shapes("GridSample", operands=(0, 1))
@shapes("GridSample", operands=(0, 1), domain="com.microsoft")
def grid_sample(ctx: NodeContext, x: Shape | None, grid: Shape | None) -> Shape | None:
    """X (N, C, ...) sampled at grid (N, *sizes, axes) gives (N, C, *sizes)."""
    rank = len(x) if x is not None else len(grid) if grid is not None else 0
    if rank < 3 or (grid is not None and len(grid) != rank):
        return None
    batch = known(ctx, None if x is None else x[0], None if grid is None else grid[0])
    channels = ctx.fresh() if x is None else x[1]
    return (batch, channels, *(fresh_shape(ctx, rank - 2) if grid is None else grid[1:-1]))


@infers("AffineGrid")
def affine_grid(ctx: NodeContext) -> Results:
    """Matrices theta (N, 2, 3) or (N, 3, 4) and size (N, C, *sizes) give (N, *sizes, 2 or 3)."""
    theta, size = ctx.input(0), vector(ctx, 1)
    length = len(size) if size is not None else dim_of(ctx.input(1), 0, 1)
    axes = dim_of(theta, 1, 3)
    if type(length) is int:
        axes = length - 2
    if type(axes) is not int or axes not in (2, 3):
        return [Info(dtype_of(theta))]
    sizes = tuple(known(ctx, dim) for dim in (size[2:] if size is not None else [None] * axes))
    batch = known(ctx, None if size is None else size[0], dim_of(theta, 0, 3))
    return [Info(dtype_of(theta), (batch, *sizes, axes))]


@infers("NonMaxSuppression")
def non_max_suppression(ctx: NodeContext) -> Results:
    """Rows (batch, class, box), whose number depends on the values of the inputs."""
    return [Info(TensorProto.INT64, (ctx.fresh(), 3))]


_CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}


@infers("ImageDecoder")
def image_decoder(ctx: NodeContext) -> Results:
    """(height, width, channels) of 8-bit numbers."""
    channels = _CHANNELS.get(text(ctx, "pixel_format", "RGB") or "")
    return [Info(TensorProto.UINT8, (ctx.fresh(), ctx.fresh(), known(ctx, channels)))]


@shapes("DepthToSpace", "SpaceToDepth")
def space_depth(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """(N, C, H, W) becomes (N, C / b^2, H * b, W * b), or (N, C * b^2, H / b, W / b)."""
    block = integer(ctx, "blocksize")
    if shape is None or len(shape) != 4 or block is None or block < 1:
        return None if shape is None else fresh_shape(ctx, 4)
    batch, channels, height, width = shape
    if ctx.op_type == "DepthToSpace":
        return (batch, _part(ctx, channels, block * block), height * block, width * block)
    return (batch, channels * (block * block), _part(ctx, height, block), _part(ctx, width, block))


def _part(ctx: NodeContext, dim: Dim, count: int) -> Dim:
    """The quotient; a symbol for a number that is not divisible, since the model is invalid."""
    return ctx.fresh() if type(dim) is int and dim % count else floor_div(dim, count)


@shapes("Col2Im")
def col2im(ctx: NodeContext, columns: Shape | None) -> Shape | None:
    """Inputs (N, C * prod(block), L), image_shape, block_shape; result (N, C, *image_shape)."""
    image, block = vector(ctx, 1), vector(ctx, 2)
    spatial = _spatial_axes(ctx)
    if spatial is None:
        return None
    batch, channels = None, None
    if columns is not None and len(columns) == 3:
        batch = columns[0]
        channels = None if block is None else exact_quotient(columns[1], product(block))
    batch = ctx.fresh() if batch is None else batch
    sizes = (
        fresh_shape(ctx, spatial) if image is None else tuple(known(ctx, size) for size in image)
    )
    return (batch, known(ctx, channels), *sizes)


def _spatial_axes(ctx: NodeContext) -> int | None:
    """Number of axes of the image, from any operand or attribute that determines it."""
    for index in (1, 2):
        data = vector(ctx, index)
        length = len(data) if data is not None else dim_of(ctx.input(index), 0, 1)
        if type(length) is int:
            return length
    for name, per_axis in (("strides", 1), ("dilations", 1), ("pads", 2)):
        values = integers(ctx, name)
        if values is not None and len(values) % per_axis == 0:
            return len(values) // per_axis
    return None


_MAX_TERM = 256
"""Largest numerator and denominator of a scale: the product with sizes up to 65536 then fits the 24
bits of a float.
"""
_MAX_SCALE = 2.0**20
"""No valid model has a scale of this size or a larger one."""


@shapes("Upsample")
def upsample(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """Scales are the second input since operator set 9, an attribute before."""
    return _scaled(ctx, shape, _input_scales(ctx, 1) if ctx.opset >= 9 else ctx.attribute("scales"))


@shapes("Resize")
def resize(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """Inputs X, scales in operator set 10; X, roi, scales, sizes since 11; ``axes`` since 18."""
    if ctx.opset >= 11 and ctx.input(3) is not None:
        return _resized(ctx, shape)
    return _scaled(ctx, shape, _input_scales(ctx, 1 if ctx.opset < 11 else 2))


def _input_scales(ctx: NodeContext, index: int) -> Any:
    """Scales that are an input: a constant, or inferred integers."""
    scales = ctx.constant(index)
    return values(ctx, index) if scales is None else scales


def _positions(ctx: NodeContext, rank: int) -> list[int] | None:
    return (
        list(range(rank))
        if ctx.attribute("axes") is None
        else all_normalized(integers(ctx, "axes"), rank)
    )


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
    if not 0 < factor < _MAX_SCALE:
        return ctx.fresh()
    if type(size) is int:
        return int(np.floor(np.float32(size) * factor))  # rounded to 32 bits, as runtimes do
    ratio = Fraction(float(factor))
    if max(ratio.numerator, ratio.denominator) > _MAX_TERM:
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
        return (
            tuple(known(ctx, size) for size in sizes)
            if sizes is not None and stretched
            else fresh_shape(ctx, count)
        )
    positions = _positions(ctx, len(shape))
    if positions is None:
        return fresh_shape(ctx, len(shape))
    if sizes is not None and len(sizes) != len(positions):
        sizes = None
    if sizes is not None and _policy(ctx) != "stretch":
        # onnxruntime leaves axes that are counted from the end as they are
        written = integers(ctx, "axes") or positions
        pairs = [(axis, size) for axis, size in zip(written, sizes, strict=True) if axis >= 0]
        positions = [axis for axis, _ in pairs]
        dims = [shape[axis] for axis in positions]
        sizes = _keep_ratio(dims, [size for _, size in pairs], _policy(ctx))
    dims = list(shape)
    for i, axis in enumerate(positions):
        dims[axis] = known(ctx, None if sizes is None else sizes[i])
    return tuple(dims)


def _policy(ctx: NodeContext) -> str | None:
    return text(ctx, "keep_aspect_ratio_policy", "stretch")


def _keep_ratio(dims: Sequence[Dim], sizes: Sequence[Dim], policy: str | None) -> list[Dim] | None:
    """Sizes with the proportions of the input, rounded half up."""
    choose = {"not_larger": min, "not_smaller": max}.get(policy or "")
    pairs = [
        (d, s)
        for d, s in zip(dims, sizes, strict=True)
        if type(d) is int and type(s) is int and d > 0
    ]
    if choose is None or len(pairs) != len(dims) or not pairs:
        return None
    scale = choose(np.float32(s) / np.float32(d) for d, s in pairs)  # 32 bits, as in the runtimes
    return [int(np.floor(scale * np.float32(d) + np.float32(0.5))) for d, _ in pairs]


@describes("Resize")
def resized_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """One number for each axis: its size or its scale."""
    place = next((place for place in (3, 2) if len(node.input) > place and node.input[place]), None)
    numbers = None if place is None else g.get_computed_constant(node.input[place])
    if node.attribute.get(
        "coordinate_transformation_mode"
    ) == "tf_crop_and_resize" or node.attribute.get("axes"):
        return None
    if place is None or numbers is None or numbers.shape != (len(shapes[0]),):
        return None
    resized = (axis for axis, factor in enumerate(numbers) if place == 3 or factor != 1)
    return axes_of_first(
        node,
        shapes,
        whole=resized,
        numbers={place: Numbers(dict(enumerate(numbers)), 1, numbers.dtype)},
    )
