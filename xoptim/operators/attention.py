"""Attention, of the standard operator set and of onnxruntime.

Source: onnxruntime's docs/ContribOperators.md, and runs. In shapes: N batch size, S length of the
queries, L of the keys, H features of the queries, Hv of the values.
"""

import math
from typing import Final

from xoptim.facts.dims import Dim, dim_max, exact_quotient, floor_div
from xoptim.facts.shapes import Info, Shape
from xoptim.operators.costs import KnownShapes
from xoptim.operators.inference.arguments import (
    dim_of,
    dtype_of,
    integer,
    integers,
    known,
    natural,
    scalar,
    shape_of,
)
from xoptim.operators.inference.shared import like, like_first
from xoptim.operators.protocols import Indices, NodeContext, NodeView, Results
from xoptim.operators.registry import Trait, counts, infers, register, takes

register(Trait.SUMS_PRODUCTS, "Attention")
register(
    Trait.SUMS_PRODUCTS,
    *("Attention", "DecoderMaskedMultiHeadAttention", "DecoderMaskedSelfAttention"),
    *("GatedRelativePositionBias", "GroupQueryAttention", "LongformerAttention"),
    *("MultiHeadAttention", "PackedAttention", "PackedMultiHeadAttention", "QAttention"),
    "SparseAttention",
    domain="com.microsoft",
)
register(Trait.KEEPS_FLOAT16, "RotaryEmbedding")
register(Trait.KEEPS_FLOAT16, "RotaryEmbedding", domain="com.microsoft")
register(Trait.HAS_BODY, "RotaryEmbedding")
register(Trait.ROUNDS, "Attention")
register(Trait.ROUNDS, "Attention", "MultiHeadAttention", domain="com.microsoft")
takes({3: Indices(1, 0)}, "RotaryEmbedding")
takes({1: Indices(2, 0)}, "RotaryEmbedding", domain="com.microsoft")
takes({3: "mask"}, "Attention", domain="com.microsoft")
takes({4: "mask"}, "MultiHeadAttention", domain="com.microsoft")
takes({5: "mask"}, "QAttention", domain="com.microsoft")


def heads_of(ctx: NodeContext, info: Info | None, heads: int | None) -> Shape | None:
    """(batch, heads, length, head size) of a tensor in that layout or packed as (batch, length,
    heads * head size).
    """
    shape = shape_of(info)
    if shape is None or len(shape) not in (3, 4):
        return None
    if len(shape) == 4:
        return shape
    return (shape[0], known(ctx, heads), shape[1], known(ctx, per_head(shape[2], heads)))


def per_head(features: Dim | None, heads: int | None) -> Dim | None:
    """Features of one head, ``None`` when unknown."""
    if features is None or not heads:
        return None
    size = exact_quotient(features, heads)
    return floor_div(features, heads) if size is None and type(features) is not int else size


def extended(past: Info | None, length: Dim | None, axis: int, rank: int) -> Dim | None:
    """Length of a cache after ``length`` more entries; ``None`` when unknown."""
    if past is None:
        return length
    before = dim_of(past, axis, rank)
    return None if before is None or length is None else before + length


@infers("Attention")
def attention(ctx: NodeContext) -> Results:
    """Inputs Q, K, V, mask, past_key, past_value; outputs Y, present_key, present_value,
    qk_matmul_output.

    Four axes mean (batch, heads, length, head size), three (batch, length, heads * head size) with
    the number of heads in the attributes. The caches always have four axes.
    """
    q_heads, kv_heads = natural(ctx, "q_num_heads"), natural(ctx, "kv_num_heads")
    q = heads_of(ctx, ctx.input(0), q_heads)
    k = heads_of(ctx, ctx.input(1), kv_heads)
    v = heads_of(ctx, ctx.input(2), kv_heads)
    dtype, v_dtype = dtype_of(ctx.input(0)), dtype_of(ctx.input(2))
    y = Info(dtype, _output_shape(ctx, q, v, q_heads))
    if ctx.num_outputs == 1:
        return [y]
    past_key, past_value = ctx.input(4), ctx.input(5)
    total = extended(past_key, None if k is None else k[2], 2, 4)
    if total is None:
        total = extended(past_value, None if v is None else v[2], 2, 4)
    length = known(ctx, total)
    return [
        y,
        Info(dtype, _cache_shape(ctx, k, past_key, length)),
        Info(v_dtype, _cache_shape(ctx, v, past_value, length)),
        Info(dtype, None if q is None else (q[0], q[1], q[2], length)),
    ]


def _output_shape(
    ctx: NodeContext, q: Shape | None, v: Shape | None, heads: int | None
) -> Shape | None:
    if q is None:
        return None
    if len(shape_of(ctx.input(0)) or ()) == 4:
        return (*q[:3], ctx.fresh() if v is None else v[3])
    if v is not None and heads is not None and v[1] == heads:
        packed = dim_of(ctx.input(2), 2, 3)
        return (q[0], q[2], v[3] * heads if packed is None else packed)
    return (q[0], q[2], ctx.fresh() if v is None or heads is None else v[3] * heads)


def _cache_shape(
    ctx: NodeContext, current: Shape | None, past: Info | None, length: Dim
) -> Shape | None:
    before = shape_of(past, 4)
    if current is None or before is None:
        source = current or before
        return None if source is None else (*source[:2], length, source[3])
    batch, heads, size = (known(ctx, current[axis], before[axis]) for axis in (0, 1, 3))
    return (batch, heads, length, size)


@infers("LinearAttention")
@infers("LinearAttention", domain="com.microsoft")
def linear_attention(ctx: NodeContext) -> Results:
    """Inputs query, key, value (batch, length, heads * size), past_state; outputs result, state.

    The state is (batch, kv_num_heads, key size, value size); in onnxruntime's operator, with an
    axis of ``state_window`` entries in front if that is not 0.
    """
    query, key, value, past = (ctx.input(i) for i in range(4))
    q_heads, kv_heads = natural(ctx, "q_num_heads"), natural(ctx, "kv_num_heads")
    window = natural(ctx, "state_window", 0) if ctx.domain else 0
    state = None if window is None else shape_of(past, 5 if window else 4)
    offset = 1 if window else 0
    key_size = known(
        ctx, per_head(dim_of(query, 2, 3), q_heads), state[offset + 2] if state else None
    )
    value_size = known(
        ctx, per_head(dim_of(value, 2, 3), kv_heads), state[offset + 3] if state else None
    )
    batch = known(ctx, dim_of(query, 0, 3), dim_of(key, 0, 3), dim_of(value, 0, 3))
    out_heads = q_heads
    if ctx.domain and q_heads is not None and kv_heads is not None:
        out_heads = max(q_heads, kv_heads)
    width = ctx.fresh() if out_heads is None else value_size * out_heads
    length = known(ctx, dim_of(query, 1, 3), dim_of(key, 1, 3), dim_of(value, 1, 3))
    output = Info(dtype_of(query), (batch, length, width))
    if window is None:
        return [output]
    present = (batch, known(ctx, kv_heads), key_size, value_size)
    return [
        output,
        Info(dtype_of(query if past is None else past), (window, *present) if window else present),
    ]


@infers("CausalConvWithState")
@infers("CausalConvWithState", domain="com.microsoft")
def causal_conv(ctx: NodeContext) -> Results:
    """Inputs (batch, channels, length), weight (channels, 1, k); the state keeps k - 1 positions.

    onnxruntime's operator may have more axes (``ndim``), dilation, another layout and a window of
    states.
    """
    x, weight, past = ctx.input(0), ctx.input(1), ctx.input(3)
    output, dtype, before = Info(dtype_of(x), shape_of(x)), dtype_of(x), shape_of(past)
    if ctx.domain and before is not None:
        return [output, Info(dtype, before)]
    dilation, window, taps = (
        natural(ctx, "dilation", 1),
        natural(ctx, "state_window", 0),
        dim_of(weight, 2, 3),
    )
    if (
        integer(ctx, "ndim", 1) != 1
        or integer(ctx, "channels_last", 0) != 0
        or dilation is None
        or window is None
    ):
        return [output, Info(dtype)]
    length = known(ctx, dim_of(past, 2, 3), None if taps is None else (taps - 1) * dilation)
    state = (known(ctx, dim_of(x, 0, 3)), known(ctx, dim_of(x, 1, 3), dim_of(weight, 0, 3)), length)
    return [output, Info(dtype, (window, *state) if window else state)]


def _query_sizes(
    ctx: NodeContext, heads: int | None, kv_heads: int | None
) -> tuple[Dim | None, Dim | None]:
    """Size of a head, and features of the queries; without a key input, input 0 also holds keys and
    values.
    """
    features = dim_of(ctx.input(0), 2, 3)
    if ctx.input(1) is not None:
        return per_head(features, heads), features
    size = None if heads is None or kv_heads is None else per_head(features, heads + 2 * kv_heads)
    return size, None if size is None or heads is None else size * heads


def _hidden_sizes(ctx: NodeContext) -> tuple[Dim | None, Dim | None]:
    """Features of the keys and of the values, from the attribute, the merged weights or the merged
    bias.
    """
    sizes = integers(ctx, "qkv_hidden_sizes", 3)
    if sizes is not None:
        return sizes[1], sizes[2]
    if ctx.attribute("qkv_hidden_sizes") is not None:
        return None, None
    size = exact_quotient(known(ctx, dim_of(ctx.input(1), 1, 2), dim_of(ctx.input(2), 0, 1)), 3)
    return size, size


@infers("Attention", "QAttention", "DecoderMaskedSelfAttention", domain="com.microsoft")
def merged_attention(ctx: NodeContext) -> Results:
    """Input (N, S, features), merged weights and bias give (N, S, Hv).

    The cache is (2, N, heads, length, size).
    """
    quantized = ctx.op_type == "QAttention"
    x, past = ctx.input(0), ctx.input(8 if quantized else 4)
    dtype = dtype_of(ctx.input(3 if quantized else 0))
    keys, values = _hidden_sizes(ctx)
    batch, length = dim_of(x, 0, 3), dim_of(x, 1, 3)
    output = Info(dtype, (known(ctx, batch), known(ctx, length), known(ctx, values)))
    before = shape_of(past, 5)
    shared = integer(ctx, "past_present_share_buffer", 0)
    if before is not None and shared:
        return [output, Info(dtype, before)]
    heads = natural(ctx, "num_heads")
    total = known(ctx, extended(past, length, 3, 5) if shared == 0 else None)
    # onnxruntime writes keys and values to one tensor, even where their sizes differ
    head_size = per_head(keys, heads) if keys == values else None
    size = known(ctx, head_size, before[4] if before else None)
    return [output, Info(dtype, (2, known(ctx, batch), known(ctx, heads), total, size))]


def _key_layout(ctx: NodeContext) -> tuple[Dim | None, Dim | None, Dim | None]:
    """Length of the keys, features of the keys and of the values of MultiHeadAttention.

    The query may hold all three as (N, S, heads, 3, size), the key both as (N, L, heads, 2, size);
    keys and values may be split into heads already, (N, heads, L, size).
    """
    query, key, value = (shape_of(ctx.input(i)) for i in range(3))
    if query is not None and len(query) == 5:
        return query[1], query[2] * query[4], query[2] * query[4]
    hidden = query[2] if query is not None and len(query) == 3 else None
    if key is None:
        return None, hidden, _value_features(value)
    if len(key) == 5:
        return key[1], key[2] * key[4], key[2] * key[4]
    if len(key) == 4:
        return key[2], key[1] * key[3], _value_features(value)
    return (key[1] if len(key) == 3 else None), hidden, _value_features(value)


def _value_features(value: Shape | None) -> Dim | None:
    if value is None or len(value) not in (3, 4):
        return None
    return value[2] if len(value) == 3 else value[1] * value[3]


@infers("MultiHeadAttention", "DecoderMaskedMultiHeadAttention", domain="com.microsoft")
def multi_head_attention(ctx: NodeContext) -> Results:
    """Outputs (N, S, Hv), present key and value (N, heads, length, size) and the scores (N, heads,
    S, length).
    """
    masked = ctx.op_type != "MultiHeadAttention"
    query, past = ctx.input(0), ctx.input(5 if masked else 6)
    dtype, heads = dtype_of(query), natural(ctx, "num_heads")
    query_shape = shape_of(query)
    if query_shape is not None and len(query_shape) not in (3, 5):
        query_shape = None
    batch = known(ctx, query_shape[0] if query_shape else None)
    length = known(ctx, query_shape[1] if query_shape else None)
    keys_length, keys, values = _key_layout(ctx)
    output = Info(dtype, (batch, length, known(ctx, values)))
    if ctx.num_outputs == 1 or masked:
        return [output]
    before, shared = shape_of(past, 4), ctx.input(8) is not None
    total = known(
        ctx,
        before[2] if before and shared else None if shared else extended(past, keys_length, 2, 4),
    )
    head_count = known(ctx, heads)
    key_size = known(ctx, per_head(keys, heads), before[3] if before else None)
    value_size = known(ctx, per_head(values, heads), dim_of(ctx.input(7), 3, 4))
    return [
        output,
        Info(dtype, (batch, head_count, total, key_size)),
        Info(dtype, (batch, head_count, total, value_size)),
        Info(0, (batch, head_count, length, known(ctx, None if shared else total))),
    ]


@infers("GroupQueryAttention", domain="com.microsoft")
def group_query_attention(ctx: NodeContext) -> Results:
    """Outputs (N, S, H), present key and value (N, kv heads, length, size), scores (N, heads, S,
    total).

    Without a key, the query also holds keys and values: (heads + 2 * kv heads) * size features. A
    present cache has the length of the past or the total (input 6), whichever is larger; with
    ``sliding_window_cache``, it has the length of the past.
    """
    query, past = ctx.input(0), ctx.input(3)
    heads, kv_heads = natural(ctx, "num_heads"), natural(ctx, "kv_num_heads")
    batch, length = known(ctx, dim_of(query, 0, 3)), known(ctx, dim_of(query, 1, 3))
    size, features = _query_sizes(ctx, heads, kv_heads)
    output = Info(dtype_of(query), (batch, length, known(ctx, features)))
    if ctx.num_outputs == 1:
        return [output]
    dtype = dtype_of(query) if past is None else dtype_of(past)
    scores = Info(dtype_of(query), (batch, known(ctx, heads), length, known(ctx, scalar(ctx, 6))))
    return [output, *_grouped_caches(ctx, dtype, (batch, known(ctx, kv_heads)), size), scores]


def _grouped_caches(ctx: NodeContext, dtype: int, lead: Shape, size: Dim | None) -> list[Info]:
    total, windowed = scalar(ctx, 6), integer(ctx, "sliding_window_cache", 0)
    caches = []
    for index in (3, 4):
        before = shape_of(ctx.input(index), 4)
        if before is not None and windowed:
            caches.append(Info(dtype, before))
            continue
        present = total
        if ctx.input(index) is not None:
            present = (
                dim_max(total, before[2]) if before is not None and total is not None else None
            )
        width = before[3] if before is not None else size if ctx.input(index) is None else None
        caches.append(
            Info(dtype, (*lead, known(ctx, present if windowed == 0 else None), known(ctx, width)))
        )
    return caches


infers("RotaryEmbedding", "TensorScatter")(like_first)
infers("LongformerAttention", "MRotaryEmbedding", "RotaryEmbedding", domain="com.microsoft")(
    like_first
)
infers("GemmaRotaryEmbedding", domain="com.microsoft")(like(1, 3))  # rotated query and key
infers("LinearAttentionGate", domain="com.microsoft")(like(0, 3))  # decay, update rate


_PAST: Final = {"Attention": 4, "MultiHeadAttention": 6, "GroupQueryAttention": 3}
"""Operands of attention that hold the keys of earlier calls."""


@counts("Attention")
@counts("Attention", "MultiHeadAttention", "GroupQueryAttention", domain="com.microsoft")
def attention_operations(node: NodeView, operands: KnownShapes, results: KnownShapes) -> int:
    """Operations of the matrix multiplications, without the softmax; operands of rank 3 or 4."""
    queries, keys, place = operands[0], operands[1], _PAST[node.op_type]
    # com.microsoft: the second operand is the weight of the projections
    if node.op_type == "Attention" and node.domain:
        return 2 * math.prod(queries) * (2 * queries[-2] + math.prod(keys[-1:]))
    past = operands[place] if place < len(operands) else ()
    return (
        4
        * math.prod(queries)
        * sum(shape[-2] for shape in (keys or queries, past) if len(shape) > 2)
    )
