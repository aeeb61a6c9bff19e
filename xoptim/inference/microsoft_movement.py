"""onnxruntime's operators that move, select and hash elements."""

from onnx import TensorProto

from xoptim.facts.dims import Dim, ceil_div, dim_max, floor_div
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import normalized
from xoptim.inference.arguments import dim_of, dtype_of, fresh_shape, integer, known, natural, scalar, shape_of, shapes, vector
from xoptim.inference.registry import NodeContext, Results, infers


@shapes("GatherND", operands=(0, 1), domain="com.microsoft")
def gather_nd_microsoft(_ctx: NodeContext, data: Shape | None, indices: Shape | None) -> Shape | None:
    """Indices (..., k) into data of rank r give the leading axes of the indices and the last r - k of the data."""
    if data is None or not indices or type(indices[-1]) is not int or not 0 <= indices[-1] <= len(data):
        return None
    return (*indices[:-1], *data[indices[-1] :])


@shapes("ExpandDims", domain="com.microsoft")
def expand_dims(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """Inserts an axis of 1 at the position of the scalar input."""
    if shape is None:
        return None
    axis = scalar(ctx, 1)
    at = normalized(axis, len(shape) + 1) if type(axis) is int else None
    return fresh_shape(ctx, len(shape) + 1) if at is None else (*shape[:at], 1, *shape[at:])


@infers("Unique", domain="com.microsoft")
def unique_microsoft(ctx: NodeContext) -> Results:
    """Distinct values, for each element the number of its value, and how often each value occurs."""
    x = ctx.input(0)
    count = (ctx.fresh(),)
    return [Info(dtype_of(x), count), Info(TensorProto.INT64, shape_of(x, 1)), Info(TensorProto.INT64, count)]


@shapes("Range", operands=(), domain="com.microsoft")
def range_microsoft(ctx: NodeContext) -> Shape:
    """From start up to limit by delta, 1 by default."""
    start, limit = scalar(ctx, 0), scalar(ctx, 1)
    delta: Dim | None = 1 if ctx.input(2) is None else scalar(ctx, 2)
    length: Dim | None = None
    if start is not None and limit is not None and type(delta) is int and delta:
        length = dim_max(ceil_div(limit - start, delta), 0)
    return (known(ctx, length),)


@shapes("Pad", domain="com.microsoft")
def pad_microsoft(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """Pads holds all begins, then all ends."""
    if shape is None:
        return None
    pads, rank = vector(ctx, 1), len(shape)
    if pads is None or len(pads) != 2 * rank:
        return fresh_shape(ctx, rank)
    return tuple(known(ctx, dim + pads[i] + pads[i + rank]) for i, dim in enumerate(shape))


@shapes("UnfoldTensor", domain="com.microsoft")
def unfold_tensor(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """One axis becomes the number of slices; the slices go to a new last axis."""
    if shape is None:
        return None
    axis = normalized(integer(ctx, "dim", -1), len(shape))
    size, step = natural(ctx, "size"), natural(ctx, "step", 1)
    dims: list[Dim] = [*shape, known(ctx, size)]
    if axis is None:
        return fresh_shape(ctx, len(dims))
    dims[axis] = known(ctx, floor_div(shape[axis] - size, step) + 1 if size is not None and step else None)
    return tuple(dims)


@shapes("TorchEmbedding", operands=(1,), domain="com.microsoft")
def torch_embedding(ctx: NodeContext, indices: Shape | None) -> Shape | None:
    """Weights (N, M) and indices give the shape of the indices and M."""
    return None if indices is None else (*indices, known(ctx, dim_of(ctx.input(0), 1, 2)))


@shapes("CropAndResize", operands=(), domain="com.microsoft")
def crop_and_resize(ctx: NodeContext) -> Shape:
    """X (N, C, H, W), regions (R, 4), their images (R) and a size give (R, C, height, width)."""
    size = vector(ctx, 3)
    regions = known(ctx, dim_of(ctx.input(1), 0, 2), dim_of(ctx.input(2), 0, 1))
    height, width = size if size is not None and len(size) == 2 else (None, None)
    return regions, known(ctx, dim_of(ctx.input(0), 1, 4)), known(ctx, height), known(ctx, width)


@shapes("Rfft", "Irfft", domain="com.microsoft")
def real_fourier(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """(..., n) and (..., n // 2 + 1, 2), one way or the other; signals of more axes are not followed."""
    if shape is None or integer(ctx, "signal_ndim", 1) != 1:
        return None
    if ctx.op_type == "Rfft":
        return (*shape[:-1], floor_div(shape[-1], 2) + 1, 2) if shape else None
    return (*shape[:-2], known(ctx, (shape[-2] - 1) * 2)) if len(shape) > 1 else None


@shapes("Tokenizer", dtype=TensorProto.STRING, domain="com.microsoft")
def tokenizer(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """The tokens of each string on a new last axis."""
    return None if shape is None else (*shape, ctx.fresh())


@shapes("CDist", operands=(), domain="com.microsoft")
def cdist(ctx: NodeContext) -> Shape:
    """(M, N) and (K, N) give (M, K)."""
    return known(ctx, dim_of(ctx.input(0), 0, 2)), known(ctx, dim_of(ctx.input(1), 0, 2))


@infers("MurmurHash3", domain="com.microsoft")
def murmur_hash3(ctx: NodeContext) -> Results:
    """A 32-bit number per element, with a sign unless ``positive``."""
    positive = integer(ctx, "positive", 1)
    dtype = 0 if positive is None else TensorProto.UINT32 if positive else TensorProto.INT32
    return [Info(dtype, shape_of(ctx.input(0)))]


@shapes("GatherBlockQuantized", typed_by=(2,), operands=(0, 1), domain="com.microsoft")
def gather_block_quantized(ctx: NodeContext, data: Shape | None, indices: Shape | None) -> Shape | None:
    """As Gather, with the type of the scales; 8-bit data holds 8 / ``bits`` numbers per element of the last axis."""
    if not data or indices is None:
        return None
    axis, kind = normalized(integer(ctx, "gather_axis", 0), len(data)), dtype_of(ctx.input(0))
    bits = integer(ctx, "bits", 4)
    if axis is None or bits not in (2, 4, 8) or not kind:
        return fresh_shape(ctx, len(data) + len(indices) - 1)
    dims = (*data[:-1], data[-1] * (8 // bits if kind == TensorProto.UINT8 else 1))
    return (*dims[:axis], *indices, *dims[axis + 1 :])
