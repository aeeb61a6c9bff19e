"""LinearAttention and CausalConvWithState, as standard operators and as onnxruntime's."""

from __future__ import annotations

from xoptim.facts.dims import Dim
from xoptim.facts.info import Info
from xoptim.inference.arguments import dim_of, dtype_of, integer, known, natural, shape_of
from xoptim.inference.attention import per_head
from xoptim.inference.registry import NodeContext, Results, infers


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
    dtype = dtype_of(query if past is None else past)
    return [output, Info(dtype, (window, *present) if window else present)]


@infers("CausalConvWithState")
def causal_conv(ctx: NodeContext) -> Results:
    """Inputs (batch, channels, length), weight (channels, 1, k); the state keeps k - 1 positions."""
    x, weight = ctx.input(0), ctx.input(1)
    taps = dim_of(weight, 2, 3)
    channels = known(ctx, dim_of(x, 1, 3), dim_of(weight, 0, 3))
    state = (known(ctx, dim_of(x, 0, 3)), channels, known(ctx, dim_of(ctx.input(3), 2, 3), _minus_one(taps)))
    return [Info(dtype_of(x), shape_of(x)), Info(dtype_of(x), state)]


def _minus_one(dim: Dim | None) -> Dim | None:
    return None if dim is None else dim - 1


@infers("CausalConvWithState", domain="com.microsoft")
def causal_conv_microsoft(ctx: NodeContext) -> Results:
    """As the standard operator, with more axes (``ndim``), dilation, another layout and a window of states."""
    x = ctx.input(0)
    output, dtype = Info(dtype_of(x), shape_of(x)), dtype_of(x)
    past = shape_of(ctx.input(3))
    shape, taps = shape_of(x, 3), dim_of(ctx.input(1), 2, 3)
    dilation, window = natural(ctx, "dilation", 1), natural(ctx, "state_window", 0)
    last = integer(ctx, "channels_last", 0)
    if past is not None:
        return [output, Info(dtype, past)]
    if integer(ctx, "ndim", 1) != 1 or last != 0 or shape is None or dilation is None or window is None:
        return [output, Info(dtype)]
    length = known(ctx, None if taps is None else (taps - 1) * dilation)
    state = (shape[0], shape[1], length)
    return [output, Info(dtype, (window, *state) if window else state)]
