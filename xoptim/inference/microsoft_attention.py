"""onnxruntime's attention operators. Source: their documentation (docs/ContribOperators.md) and runs of onnxruntime.

A cache that shares its buffer between past and present keeps its length; any other grows by the new tokens.
"""

from xoptim.facts.dims import Dim, dim_max, exact_quotient
from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dim_of, dtype_of, integer, integers, known, natural, scalar, shape_of, shapes
from xoptim.inference.attention import extended, per_head
from xoptim.inference.registry import NodeContext, Results, infers


def _per_query_head(ctx: NodeContext, heads: int | None, kv_heads: int | None) -> tuple[Dim | None, Dim | None]:
    """Size of a head, and features of the query, which holds keys and values too where there is no key."""
    features = dim_of(ctx.input(0), 2, 3)
    if ctx.input(1) is not None:
        return per_head(features, heads), features
    size = None if heads is None or kv_heads is None else per_head(features, heads + 2 * kv_heads)
    return size, None if size is None or heads is None else size * heads


def _hidden_sizes(ctx: NodeContext) -> tuple[Dim | None, Dim | None]:
    """Features of the keys and of the values, from the attribute, the merged weights or the merged bias."""
    sizes = integers(ctx, "qkv_hidden_sizes", 3)
    if sizes is not None:
        return sizes[1], sizes[2]
    if ctx.attribute("qkv_hidden_sizes") is not None:
        return None, None
    size = exact_quotient(known(ctx, dim_of(ctx.input(1), 1, 2), dim_of(ctx.input(2), 0, 1)), 3)
    return size, size


@infers("Attention", "QAttention", "DecoderMaskedSelfAttention", domain="com.microsoft")
def merged_attention(ctx: NodeContext) -> Results:
    """Input (N, S, I), merged weights and bias give (N, S, Hv); the cache is (2, N, heads, length, size)."""
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
    size = known(ctx, per_head(keys, heads), before[4] if before else None)
    return [output, Info(dtype, (2, known(ctx, batch), known(ctx, heads), total, size))]


def _key_layout(ctx: NodeContext) -> tuple[Dim | None, Dim | None, Dim | None]:
    """Length of the keys, features of the keys and of the values of MultiHeadAttention.

    The query may hold all three as (N, S, heads, 3, size), the key both as (N, L, heads, 2, size); keys and values may
    be split in heads already, (N, heads, L, size).
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
    """Outputs (N, S, Hv), present key and value (N, heads, length, size) and the scores (N, heads, S, length)."""
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
    total = known(ctx, before[2] if before and shared else None if shared else extended(past, keys_length, 2, 4))
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
    """Outputs (N, S, H), present key and value (N, kv heads, length, size), scores (N, heads, S, total).

    Without a key the query holds all three: (heads + 2 * kv heads) * size features. Present is as long as the past or the
    total length (input 6), the larger of the two; with ``sliding_window_cache`` as the past.
    """
    query, past = ctx.input(0), ctx.input(3)
    heads, kv_heads = natural(ctx, "num_heads"), natural(ctx, "kv_num_heads")
    batch, length = known(ctx, dim_of(query, 0, 3)), known(ctx, dim_of(query, 1, 3))
    size, features = _per_query_head(ctx, heads, kv_heads)
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
            present = dim_max(total, before[2]) if before is not None and total is not None else None
        width = before[3] if before is not None else size if ctx.input(index) is None else None
        caches.append(Info(dtype, (*lead, known(ctx, present if windowed == 0 else None), known(ctx, width))))
    return caches


@infers("SparseAttention", domain="com.microsoft")
def sparse_attention(ctx: NodeContext) -> Results:
    """As GroupQueryAttention, with caches that keep their buffers."""
    query, past_key, past_value = ctx.input(0), ctx.input(3), ctx.input(4)
    _, features = _per_query_head(ctx, natural(ctx, "num_heads"), natural(ctx, "kv_num_heads"))
    return [
        Info(dtype_of(query), (known(ctx, dim_of(query, 0, 3)), known(ctx, dim_of(query, 1, 3)), known(ctx, features))),
        Info(dtype_of(past_key), shape_of(past_key)),
        Info(dtype_of(past_value), shape_of(past_value)),
    ]


@shapes("PackedAttention", operands=(), domain="com.microsoft")
def packed_attention(ctx: NodeContext) -> Shape:
    """(tokens, I), merged weights and bias give (tokens, Hv)."""
    return known(ctx, dim_of(ctx.input(0), 0, 2)), known(ctx, _hidden_sizes(ctx)[1])


@shapes("PackedMultiHeadAttention", domain="com.microsoft")
def packed_multi_head_attention(ctx: NodeContext, query: Shape | None) -> Shape:
    """Query (tokens, H) with a value (tokens, Hv), or all three in one as (tokens, heads, 3, size)."""
    if query is not None and len(query) == 4:
        return (query[0], query[1] * query[3])
    return known(ctx, dim_of(ctx.input(0), 0, 2)), known(ctx, dim_of(ctx.input(2), 1, 2))


@shapes("RelativePositionBias", operands=(), domain="com.microsoft")
def relative_position_bias(ctx: NodeContext) -> Shape:
    """A table (buckets, heads) and two lengths give (1, heads, query length, key length)."""
    return 1, known(ctx, dim_of(ctx.input(0), 1, 2)), known(ctx, scalar(ctx, 1)), known(ctx, scalar(ctx, 2))


@infers("RemovePadding", domain="com.microsoft")
def remove_padding(ctx: NodeContext) -> Results:
    """(N, S, H) gives (tokens, H), offsets (N, S), cumulated lengths (N + 1) and the longest length (1)."""
    x, counts = ctx.input(0), ctx.input(1)
    batch = known(ctx, dim_of(x, 0, 3), dim_of(counts, 0, 1))
    dtype = dtype_of(counts)
    return [
        Info(dtype_of(x), (ctx.fresh(), known(ctx, dim_of(x, 2, 3)))),
        Info(dtype, (batch, known(ctx, dim_of(x, 1, 3)))),
        Info(dtype, (batch + 1,)),
        Info(dtype, (1,)),
    ]


@shapes("RestorePadding", operands=(), domain="com.microsoft")
def restore_padding(ctx: NodeContext) -> Shape:
    """(tokens, H) and offsets (N, S) give (N, S, H)."""
    return tuple(known(ctx, dim_of(ctx.input(place), axis, 2)) for place, axis in ((1, 0), (1, 1), (0, 1)))
