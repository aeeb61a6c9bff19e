"""Operators of ONNX Runtime that compute an activation after a sum of products."""

from __future__ import annotations

from dataclasses import replace

from xoptim.facts.dtypes import is_float
from xoptim.proof.calls import Call, denotes
from xoptim.proof.denotations.functions import activation_of
from xoptim.proof.denotations.sums import gemm
from xoptim.proof.denotations.windows import conv
from xoptim.proof.tensors import Tensor, elementwise


@denotes("FusedGemm", domain="com.microsoft")
def fused_gemm(call: Call) -> Tensor | None:
    """A Gemm and an activation."""
    parameters = [call.attribute(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    result = gemm(call)
    return _activated(call, result, [value for value in parameters if value is not None])


@denotes("FusedConv", domain="com.microsoft")
def fused_conv(call: Call) -> Tensor | None:
    """A convolution, to which a tensor may be added, and an activation."""
    result = conv(replace(call, operands=call.operands[:3]))
    if result is not None and call.has(3):
        pair = [result, call.operand(3)]
        if pair[1].shape != result.shape or pair[1].dtype != result.dtype:
            return None
        result = elementwise(lambda a, b: a + b, pair, result.shape, result.dtype)
    return _activated(call, result, call.attribute("activation_params") or [])


def _activated(call: Call, result: Tensor | None, parameters: list[float]) -> Tensor | None:
    """A result after the activation of a node, ``None`` where it is unknown."""
    if result is None or not is_float(result.dtype):
        return None
    activation = activation_of(call, call.attribute("activation", "") or "", parameters)
    return None if activation is None else result.mapped(activation)
