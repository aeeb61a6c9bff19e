"""Operators on images: sampling at points and in regions, blocks, decoding."""

from onnx import TensorProto

from xoptim.facts.dims import Dim, exact_quotient, floor_div, product
from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dim_of, dtype_of, fresh_shape, integer, integers, known, shapes, text, vector
from xoptim.inference.registry import NodeContext, Results, infers


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
    sizes = fresh_shape(ctx, spatial) if image is None else tuple(known(ctx, size) for size in image)
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
