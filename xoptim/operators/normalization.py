"""Normalizations, and Softmax, LogSoftmax and Hardmax."""

from dataclasses import replace
from typing import Final

from onnx import TensorProto

from xoptim.facts.shapes import Info, Shape, normalized
from xoptim.operators.axes import (
    Axes,
    AxesView,
    AxisOperand,
    Shapes,
    axes_of_first,
    axis_within,
    label_range,
    mixed_along_axis,
)
from xoptim.operators.costs import passes
from xoptim.operators.inference.arguments import dim_of, dtype_of, integer, known, shape_of, shapes
from xoptim.operators.inference.shared import like, like_first, like_first_operand, same_shape
from xoptim.operators.protocols import Indices, NodeContext, NodeView, Results
from xoptim.operators.registry import Trait, counts, describes, infers, register, takes

register(Trait.SOFTMAX, "Softmax", "LogSoftmax", "Hardmax")
register(
    Trait.SAME_SHAPE,
    *("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization"),
    *("LpNormalization", "LRN", "MeanVarianceNormalization", "RMSNormalization"),
    *("Softmax", "LogSoftmax", "Hardmax"),
)
register(
    Trait.ROUNDS,
    *("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN"),
    *("LayerNormalization", "LogSoftmax", "RMSNormalization", "SimplifiedLayerNormalization"),
    "Softmax",
)
register(
    Trait.ROUNDS,
    *("SimplifiedLayerNormalization", "SkipLayerNormalization"),
    domain="com.microsoft",
)
register(
    Trait.KEEPS_FLOAT16,
    *("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN"),
    *("LayerNormalization", "LogSoftmax", "RMSNormalization", "SimplifiedLayerNormalization"),
    "Softmax",
)
register(
    Trait.KEEPS_FLOAT16,
    *("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
    domain="com.microsoft",
)
register(Trait.HAS_BODY, "GroupNormalization", "MeanVarianceNormalization")
register(Trait.TIES, "Hardmax")
register(Trait.TAKES_EMPTY, "LayerNormalization", "LogSoftmax", "LpNormalization")
register(Trait.TAKES_EMPTY, "RMSNormalization", "Softmax")
takes({1: Indices(0, 1)}, "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
_EMBEDDED: Final = {0: Indices(2, 0), 1: Indices(4, 0)}
takes({**_EMBEDDED, 7: "mask", 8: Indices(3, 0)}, "EmbedLayerNormalization", domain="com.microsoft")
takes(_EMBEDDED, "QEmbedLayerNormalization", domain="com.microsoft")
counts("Softmax", "LogSoftmax")(passes(5))
counts("LayerNormalization", "InstanceNormalization")(passes(7))
counts("BatchNormalization")(passes(2))


def _statistics(ctx: NodeContext, shape: Shape | None) -> Info:
    """One number per normalized block, in the precision of ``stash_type``."""
    dtype = integer(ctx, "stash_type", TensorProto.FLOAT) or 0
    axis = None if shape is None else normalized(integer(ctx, "axis", -1), len(shape))
    if shape is None or axis is None:
        return Info(dtype)
    return Info(dtype, (*shape[:axis], *[1] * (len(shape) - axis)))


@infers("LayerNormalization", "SimplifiedLayerNormalization")
@infers("SimplifiedLayerNormalization", domain="com.microsoft")
def layer_normalization(ctx: NodeContext) -> Results:
    """Y like X, then mean and inverse standard deviation.

    SimplifiedLayerNormalization has no mean, and its Y has the type of the scale.
    """
    shape, is_simplified = shape_of(ctx.input(0)), ctx.op_type != "LayerNormalization"
    statistics = _statistics(ctx, shape) if ctx.num_outputs > 1 else None
    return [
        Info(dtype_of(ctx.input(int(is_simplified))), shape),
        *[statistics] * (1 if is_simplified else 2),
    ]


@infers("BatchNormalization")
def batch_normalization(ctx: NodeContext) -> Results:
    """Inputs X, scale, B, mean, var.

    The outputs after the first hold statistics, shaped and typed like ``mean``.
    """
    x, mean = ctx.input(0), ctx.input(3)
    shape = shape_of(x)
    statistics: Shape | None = shape_of(mean)
    per_channel = ctx.opset >= 9 or integer(ctx, "spatial", 1) == 1
    if statistics is None and shape is not None and len(shape) > 1 and per_channel:
        statistics = (shape[1],)
    dtype = dtype_of(mean) or (dtype_of(x) if ctx.opset < 14 else 0)
    return [Info(dtype_of(x), shape), *[Info(dtype, statistics)] * 4]


@infers("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_layer_normalization(ctx: NodeContext) -> Results:
    """Outputs the result, mean, inverse deviation (both for training only) and the sum of the
    inputs.
    """
    x = ctx.input(0)
    like_input = Info(dtype_of(x), shape_of(x))
    return [like_input, Info(TensorProto.FLOAT), Info(TensorProto.FLOAT), like_input]


@infers("EmbedLayerNormalization", "QEmbedLayerNormalization", domain="com.microsoft")
def embed_layer_normalization(ctx: NodeContext) -> Results:
    """Token ids (N, S) and embeddings (words, H) give (N, S, H), lengths by the mask (N), and the
    sum before the normalization.

    Quantized embeddings give a result of the type of their scales (input 8), and no sum.
    """
    is_quantized, ids = ctx.op_type == "QEmbedLayerNormalization", ctx.input(0)
    hidden = known(
        ctx, *(dim_of(ctx.input(i), 1, 2) for i in (2, 3, 4)), dim_of(ctx.input(5), 0, 1)
    )
    batch, length = known(ctx, dim_of(ids, 0, 2)), known(ctx, dim_of(ids, 1, 2))
    result = Info(dtype_of(ctx.input(8 if is_quantized else 2)), (batch, length, hidden))
    return [result, Info(TensorProto.INT32, (batch,)), *([] if is_quantized else [result])]


infers("Hardmax", "LogSoftmax", "Softmax")(like_first_operand)
infers("GroupNormalization", "InstanceNormalization", "LpNormalization", "LRN")(like_first)
infers("MeanVarianceNormalization")(like_first)
# the scale and the input have one type in every model that runs
shapes("RMSNormalization", typed_by=(1, 0))(same_shape)
infers("BiasSoftmax", "BranchwiseRMSNorm", "GatedRMSNorm", "GroupNorm", domain="com.microsoft")(
    like_first
)
infers("QOrderedLayerNormalization", domain="com.microsoft")(like_first)
# the gated value and its norm, both like the keys
infers("EngramGate", domain="com.microsoft")(like(0, 0))
infers("SkipGroupNorm", domain="com.microsoft")(like(0, 0))  # the result and the sum of the inputs


@describes("Softmax", "LogSoftmax", "Hardmax")
def softmax_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """Before operator set 13, the operand is flattened."""
    return None if node.opset < 13 else mixed_along_axis(g, node, shapes)


@describes("LayerNormalization", "RMSNormalization")
def layer_normalization_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """The last axes are normalized, from ``axis`` on.

    A scale may have axes of size 1 before them, with labels of their own.
    """
    rank = len(shapes[0])
    axis = axis_within(g, node, rank)
    if axis is None or any(
        dim != 1 for shape in shapes[1:] for dim in shape[: max(len(shape) - rank + axis, 0)]
    ):
        return None
    axes = axes_of_first(
        node, shapes, whole=range(axis, rank), last=rank - axis, names={"axis": axis}
    )
    scales = []
    for shape in shapes[1:]:
        labels = tuple(
            label if label >= axis else label - rank for label in label_range(len(shape), rank)
        )
        scales.append(AxisOperand(labels, frozenset(range(axis, rank)), is_apart=True))
    return replace(axes, operands=(axes.operands[0], *scales))
