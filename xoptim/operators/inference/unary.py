"""Operators whose results are shaped like inputs: elementary functions, activations, casts,
normalizations; scalars.
"""

from collections.abc import Callable
from typing import Final

from onnx import TensorProto

from xoptim.facts.dims import Dim, dim_max, is_nonnegative, is_nonzero
from xoptim.facts.shapes import ELEMENTWISE, Info, Shape, normalized
from xoptim.operators.inference.arguments import dim_of, dtype_of, integer, known, shape_of, shapes
from xoptim.operators.inference.values import INTEGERS, valued, values, wrapped
from xoptim.operators.protocols import NodeContext, Results
from xoptim.operators.registry import infers


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
    """Y like X, then mean and inverse standard deviation; without mean, Y has the type of the
    scale.
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
    """Word numbers (N, S) and embeddings (words, H) give (N, S, H), lengths by the mask (N) and the
    sum before.

    Quantized embeddings give a result of the type of their scales (8), and no sum.
    """
    is_quantized, ids = ctx.op_type == "QEmbedLayerNormalization", ctx.input(0)
    hidden = known(
        ctx, *(dim_of(ctx.input(i), 1, 2) for i in (2, 3, 4)), dim_of(ctx.input(5), 0, 1)
    )
    batch, length = known(ctx, dim_of(ids, 0, 2)), known(ctx, dim_of(ids, 1, 2))
    result = Info(dtype_of(ctx.input(8 if is_quantized else 2)), (batch, length, hidden))
    return [result, Info(TensorProto.INT32, (batch,)), *([] if is_quantized else [result])]


def _itself(value: Dim) -> Dim:
    return value


def _sign(value: Dim) -> Dim | None:
    if type(value) is int:
        return (value > 0) - (value < 0)
    return 1 if is_nonnegative(value - 1) else -1 if is_nonnegative(-value - 1) else None


_RULES: Final[dict[str, Callable[[Dim], Dim | None]]] = {
    "Abs": lambda value: (
        value if is_nonnegative(value) else -value if is_nonnegative(-value) else None
    ),
    "Ceil": _itself,
    "Floor": _itself,
    "Neg": lambda value: -value,
    "Relu": lambda value: dim_max(value, 0),
    "Round": _itself,
    "Sign": _sign,
}
_OWN_FORMULAS: Final = frozenset(("Cast", "Clip", "IsInf", "IsNaN", "Not"))
"""Elementwise operators with further known facts, or whose result has another type."""


@infers(*sorted(ELEMENTWISE - _OWN_FORMULAS))
@infers(
    "CumProd", "CumSum", "Hardmax", "LogSoftmax", "ReverseSequence", "Softmax", "SwiGLU", "Trilu"
)
def unary(ctx: NodeContext) -> Results:
    """Type and shape of the first input."""
    inputs = ctx.inputs
    x = inputs[0] if inputs else None
    if x is None or x.data is None:
        return (x,)
    rule = _RULES.get(ctx.op_type)
    if rule is None:
        return (Info(x.dtype, x.shape),)
    # The opposite of zero is a negative zero in floating point.
    if ctx.op_type == "Neg" and x.dtype not in INTEGERS and 0 in x.data:
        return (Info(x.dtype, x.shape),)
    return (valued(x.dtype, x.shape, [wrapped(x.dtype, rule(value)) for value in x.data]),)


@infers("Identity")
def identity(ctx: NodeContext) -> Results:
    """All facts about the input, sequences and optionals included."""
    return (ctx.input(0),)


@infers("IsInf", "IsNaN", "Not")
def predicate(ctx: NodeContext) -> Results:
    """One truth value per element."""
    x = ctx.input(0)
    if x is None or x.container:
        return (Info(TensorProto.BOOL),)
    if x.data is not None and ctx.op_type == "Not":
        return (valued(TensorProto.BOOL, x.shape, [1 - value for value in x.data]),)
    return (
        x if x.dtype == TensorProto.BOOL and x.data is None else Info(TensorProto.BOOL, x.shape),
    )


@infers("Dropout")
def dropout(ctx: NodeContext) -> Results:
    """The data and a mask, which is of type BOOL since operator set 10 and of the type of the data
    before.
    """
    x = ctx.input(0)
    if x is None:
        return ()
    result = x if x.data is None else Info(x.dtype, x.shape)
    return (result, Info(TensorProto.BOOL if ctx.opset >= 10 else x.dtype, x.shape))


@infers("Cast")
def cast(ctx: NodeContext) -> Results:
    """The attribute is the number of an element type; before operator set 6 it is its name."""
    to = ctx.attribute("to", 0)
    if isinstance(to, str):
        known = TensorProto.DataType.keys()
        to = TensorProto.DataType.Value(to) if to in known else 0
    return (_converted(ctx, to if type(to) is int else 0),)


@infers("CastLike")
def cast_like(ctx: NodeContext) -> Results:
    """The type of the second input."""
    return (_converted(ctx, dtype_of(ctx.input(1))),)


def _converted(ctx: NodeContext, dtype: int) -> Info:
    x = ctx.input(0)
    if x is None or x.container:
        return Info(dtype)
    if x.data is None:
        return x if dtype == x.dtype else Info(dtype, x.shape)
    data = values(ctx, 0)
    if data is not None and dtype == TensorProto.BOOL:
        truth = [
            int(value != 0) if type(value) is int else 1 if is_nonzero(value) else None
            for value in data
        ]
        return valued(dtype, x.shape, truth)
    return valued(
        dtype, x.shape, None if data is None else [wrapped(dtype, value) for value in data]
    )


_OTHER_INPUTS: Final[dict[str, tuple[int, ...]]] = {
    "EngramGate": (0, 0),  # the gated value and its norm, both like the keys
    "GemmaRotaryEmbedding": (1, 3),  # rotated query and key
    "LinearAttentionGate": (0, 3),  # decay, update rate
    "NGramRepeatBlock": (1,),  # scores, some of them replaced
    "SkipGroupNorm": (0, 0),  # the result and the sum of the inputs
}
"""For each result, the input whose type and shape it has."""


@infers(
    "InstanceNormalization",
    "GroupNormalization",
    "LpNormalization",
    "LRN",
    "MeanVarianceNormalization",
)
@infers("RotaryEmbedding", "TensorScatter")
@infers("Imputer", domain="ai.onnx.ml")
@infers(
    "BiasAdd",
    "BiasGelu",
    "BiasSoftmax",
    "BranchwiseRMSNorm",
    "FastGelu",
    "GatedAdd",
    domain="com.microsoft",
)
@infers(
    "GatedRMSNorm", "Gelu", "GroupNorm", "Inverse", "LongformerAttention", domain="com.microsoft"
)
@infers(
    "MRotaryEmbedding",
    "MoE",
    "QLinearLeakyRelu",
    "QLinearSigmoid",
    "QLinearSoftmax",
    domain="com.microsoft",
)
@infers(
    "QMoE",
    "QOrderedGelu",
    "QOrderedLayerNormalization",
    "QuickGelu",
    "RotaryEmbedding",
    domain="com.microsoft",
)
@infers("SampleOp", "ScaledSiLU", "Trilu", *_OTHER_INPUTS, domain="com.microsoft")
def like_inputs(ctx: NodeContext) -> Results:
    """Type and shape of the first input, or of other inputs, without its values."""
    return [
        Info(dtype_of(x), shape_of(x)) for x in map(ctx.input, _OTHER_INPUTS.get(ctx.op_type, (0,)))
    ]


@shapes("GatherElements", operands=(1,))  # one element per index
# the scale and the input have one type in every model that runs
@shapes("RMSNormalization", typed_by=(1, 0))
@shapes("Scaler", "Normalizer", dtype=TensorProto.FLOAT, domain="ai.onnx.ml")
def same_shape(_ctx: NodeContext, x: Shape | None) -> Shape | None:
    """The shape of one operand, and another type."""
    return x


@shapes("SequenceLength", dtype=TensorProto.INT64, operands=())
@shapes("OptionalHasElement", dtype=TensorProto.BOOL, operands=())
@shapes("IsAllFinite", dtype=TensorProto.BOOL, operands=(), domain="com.microsoft")
def scalar_result(_ctx: NodeContext) -> Shape:
    """One truth value or one number."""
    return ()
