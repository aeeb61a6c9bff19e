"""onnxruntime's fusions around normalization and activations."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.dims import floor_div
from xoptim.facts.info import Info
from xoptim.inference.arguments import dim_of, dtype_of, known, shape_of
from xoptim.inference.registry import NodeContext, Results, infers


@infers("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_layer_normalization(ctx: NodeContext) -> Results:
    """Outputs the result, mean, inverse deviation (both for training only) and the sum of the inputs."""
    x = ctx.input(0)
    like_input = Info(dtype_of(x), shape_of(x))
    return [like_input, Info(TensorProto.FLOAT), Info(TensorProto.FLOAT), like_input]


@infers("SkipGroupNorm", domain="com.microsoft")
def skip_group_norm(ctx: NodeContext) -> Results:
    """Outputs the result and the sum of the inputs."""
    x = ctx.input(0)
    like_input = Info(dtype_of(x), shape_of(x))
    return [like_input, like_input]


@infers("EngramGate", domain="com.microsoft")
def engram_gate(ctx: NodeContext) -> Results:
    """The gated value and its norm, both like the keys."""
    keys = ctx.input(0)
    return [Info(dtype_of(keys), shape_of(keys))] * 2


@infers("LinearAttentionGate", domain="com.microsoft")
def linear_attention_gate(ctx: NodeContext) -> Results:
    """Decay from the first input, update rate from the fourth."""
    return [Info(dtype_of(x), shape_of(x)) for x in (ctx.input(0), ctx.input(3))]


@infers("BiasDropout", domain="com.microsoft")
def bias_dropout(ctx: NodeContext) -> Results:
    """Outputs the result and the mask."""
    shape = shape_of(ctx.input(0))
    return [Info(dtype_of(ctx.input(0)), shape), Info(TensorProto.BOOL, shape)]


@infers("BiasSplitGelu", domain="com.microsoft")
def bias_split_gelu(ctx: NodeContext) -> Results:
    """(N, S, D) becomes (N, S, D / 2)."""
    x = ctx.input(0)
    shape = shape_of(x, 3)
    return [Info(dtype_of(x), None if shape is None else (*shape[:2], floor_div(shape[2], 2)))]


@infers("EmbedLayerNormalization", domain="com.microsoft")
def embed_layer_normalization(ctx: NodeContext) -> Results:
    """Word numbers (N, S) and embeddings (words, H) give (N, S, H), lengths by the mask (N) and the sum before."""
    ids, words = ctx.input(0), ctx.input(2)
    hidden = known(ctx, *(dim_of(ctx.input(i), 1, 2) for i in (2, 3, 4)), dim_of(ctx.input(5), 0, 1))
    batch, length = known(ctx, dim_of(ids, 0, 2)), known(ctx, dim_of(ids, 1, 2))
    result = Info(dtype_of(words), (batch, length, hidden))
    return [result, Info(TensorProto.INT32, (batch,)), result]


@infers("QEmbedLayerNormalization", domain="com.microsoft")
def quantized_embed_layer_normalization(ctx: NodeContext) -> Results:
    """As above from quantized embeddings; the result has the type of their scales (8)."""
    ids = ctx.input(0)
    hidden = known(ctx, dim_of(ctx.input(2), 1, 2), dim_of(ctx.input(3), 1, 2), dim_of(ctx.input(5), 0, 1))
    batch, length = known(ctx, dim_of(ids, 0, 2)), known(ctx, dim_of(ids, 1, 2))
    return [Info(dtype_of(ctx.input(8)), (batch, length, hidden)), Info(TensorProto.INT32, (batch,))]
