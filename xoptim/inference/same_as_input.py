"""Operators whose result has the type and shape of their first input."""

from __future__ import annotations

from xoptim.facts.info import Info
from xoptim.inference.arguments import dtype_of, shape_of
from xoptim.inference.registry import NodeContext, Results, infers


@infers(
    "InstanceNormalization",
    "GroupNormalization",
    "LpNormalization",
    "LRN",
    "MeanVarianceNormalization",
    "RotaryEmbedding",
    "TensorScatter",
)
@infers(
    "BiasAdd",
    "BiasGelu",
    "BiasSoftmax",
    "BranchwiseRMSNorm",
    "FastGelu",
    "GatedAdd",
    "GatedRMSNorm",
    "Gelu",
    "GroupNorm",
    "Inverse",
    "LongformerAttention",
    "MRotaryEmbedding",
    "MoE",
    "QLinearLeakyRelu",
    "QLinearSigmoid",
    "QLinearSoftmax",
    "QMoE",
    "QOrderedGelu",
    "QOrderedLayerNormalization",
    "QuickGelu",
    "RotaryEmbedding",
    "SampleOp",
    "ScaledSiLU",
    "Trilu",
    domain="com.microsoft",
)
def same_as_input(ctx: NodeContext) -> Results:
    """Type and shape of the first input, without its values."""
    x = ctx.input(0)
    return [Info(dtype_of(x), shape_of(x))]
