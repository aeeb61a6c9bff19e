"""Attention of the standard operator set (23 and later), LinearAttention and CausalConvWithState."""

from xoptim.facts.dims import Dim, exact_quotient, floor_div
from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dim_of, dtype_of, integer, known, natural, shape_of
from xoptim.inference.registry import NodeContext, Results, infers


def heads_of(ctx: NodeContext, info: Info | None, heads: int | None) -> Shape | None:
    """(batch, heads, length, head size) of a tensor in that layout or packed as (batch, length, heads * head size)."""
    shape = shape_of(info)
    if shape is None or len(shape) not in (3, 4):
        return None
    if len(shape) == 4:
        return shape
    return (shape[0], known(ctx, heads), shape[1], known(ctx, per_head(shape[2], heads)))


def per_head(features: Dim | None, heads: int | None) -> Dim | None:
    """Features of one of ``heads`` equal shares, ``None`` when unknown."""
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
    """Inputs Q, K, V, mask, past_key, past_value; outputs Y, present_key, present_value, qk_matmul_output.

    Four axes mean (batch, heads, length, head size), three (batch, length, heads * head size) with the number of heads
    in the attributes. The caches always have four axes.
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


def _output_shape(ctx: NodeContext, q: Shape | None, v: Shape | None, heads: int | None) -> Shape | None:
    if q is None:
        return None
    if len(shape_of(ctx.input(0)) or ()) == 4:
        return (*q[:3], ctx.fresh() if v is None else v[3])
    if v is not None and heads is not None and v[1] == heads:
        packed = dim_of(ctx.input(2), 2, 3)
        return (q[0], q[2], v[3] * heads if packed is None else packed)
    return (q[0], q[2], ctx.fresh() if v is None or heads is None else v[3] * heads)


def _cache_shape(ctx: NodeContext, now: Shape | None, past: Info | None, length: Dim) -> Shape | None:
    before = shape_of(past, 4)
    if now is None or before is None:
        source = now or before
        return None if source is None else (*source[:2], length, source[3])
    batch, heads, size = (known(ctx, now[axis], before[axis]) for axis in (0, 1, 3))
    return (batch, heads, length, size)


@infers("LinearAttention")
@infers("LinearAttention", domain="com.microsoft")
def linear_attention(ctx: NodeContext) -> Results:
    """Inputs query, key, value (batch, length, heads * size), past_state; outputs the result and the state.

    The state is (batch, kv_num_heads, key size, value size), in onnxruntime's operator behind an axis of
    ``state_window`` entries where that is not 0.
    """
    query, key, value, past = (ctx.input(i) for i in range(4))
    q_heads, kv_heads = natural(ctx, "q_num_heads"), natural(ctx, "kv_num_heads")
    window = natural(ctx, "state_window", 0) if ctx.domain else 0
    state = None if window is None else shape_of(past, 5 if window else 4)
    offset = 1 if window else 0
    key_size = known(ctx, per_head(dim_of(key, 2, 3), kv_heads), state[offset + 2] if state else None)
    value_size = known(ctx, per_head(dim_of(value, 2, 3), kv_heads), state[offset + 3] if state else None)
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
    return [output, Info(dtype_of(query if past is None else past), (window, *present) if window else present)]


@infers("CausalConvWithState")
@infers("CausalConvWithState", domain="com.microsoft")
def causal_conv(ctx: NodeContext) -> Results:
    """Inputs (batch, channels, length), weight (channels, 1, k); the state keeps k - 1 positions.

    onnxruntime's operator may have more axes (``ndim``), dilation, another layout and a window of states.
    """
    x, weight, past = ctx.input(0), ctx.input(1), ctx.input(3)
    output, dtype, before = Info(dtype_of(x), shape_of(x)), dtype_of(x), shape_of(past)
    if ctx.domain and before is not None:
        return [output, Info(dtype, before)]
    dilation, window, taps = natural(ctx, "dilation", 1), natural(ctx, "state_window", 0), dim_of(weight, 2, 3)
    if integer(ctx, "ndim", 1) != 1 or integer(ctx, "channels_last", 0) != 0 or dilation is None or window is None:
        return [output, Info(dtype)]
    length = known(ctx, dim_of(past, 2, 3), None if taps is None else (taps - 1) * dilation)
    state = (known(ctx, dim_of(x, 0, 3)), known(ctx, dim_of(x, 1, 3), dim_of(weight, 0, 3)), length)
    return [output, Info(dtype, (window, *state) if window else state)]
