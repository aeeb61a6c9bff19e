"""Operators whose results have the types and shapes of inputs, or are scalars."""

from __future__ import annotations

from typing import Final

from onnx import TensorProto

from xoptim.facts.info import Info
from xoptim.inference.arguments import dtype_of, shape_of
from xoptim.inference.registry import NodeContext, Results, infers

_OTHER_INPUTS: Final[dict[str, tuple[int, ...]]] = {
    "EngramGate": (0, 0),  # the gated value and its norm, both like the keys
    "GemmaRotaryEmbedding": (1, 3),  # rotated query and key
    "LinearAttentionGate": (0, 3),  # decay, update rate
    "NGramRepeatBlock": (1,),  # scores, some of them replaced
    "SkipGroupNorm": (0, 0),  # the result and the sum of the inputs
}
"""For each result, the input whose type and shape it has."""
_SCALARS: Final[dict[str, int]] = {
    "IsAllFinite": TensorProto.BOOL,
    "OptionalHasElement": TensorProto.BOOL,
    "SequenceLength": TensorProto.INT64,
}


@infers("InstanceNormalization", "GroupNormalization", "LpNormalization", "LRN", "MeanVarianceNormalization")
@infers("RotaryEmbedding", "TensorScatter")
@infers("Imputer", domain="ai.onnx.ml")
@infers("BiasAdd", "BiasGelu", "BiasSoftmax", "BranchwiseRMSNorm", "FastGelu", "GatedAdd", domain="com.microsoft")
@infers("GatedRMSNorm", "Gelu", "GroupNorm", "Inverse", "LongformerAttention", domain="com.microsoft")
@infers("MRotaryEmbedding", "MoE", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", domain="com.microsoft")
@infers("QMoE", "QOrderedGelu", "QOrderedLayerNormalization", "QuickGelu", "RotaryEmbedding", domain="com.microsoft")
@infers("SampleOp", "ScaledSiLU", "Trilu", *_OTHER_INPUTS, domain="com.microsoft")
def like_inputs(ctx: NodeContext) -> Results:
    """Type and shape of the first input, or of other inputs, without its values."""
    return [Info(dtype_of(x), shape_of(x)) for x in map(ctx.input, _OTHER_INPUTS.get(ctx.op_type, (0,)))]


@infers("OptionalHasElement", "SequenceLength")
@infers("IsAllFinite", domain="com.microsoft")
def scalar_result(ctx: NodeContext) -> Results:
    """One truth value or one number."""
    return [Info(_SCALARS[ctx.op_type], ())]
