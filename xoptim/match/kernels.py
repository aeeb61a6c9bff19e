"""Whether the provider that a graph is optimized for has kernels for the operators that a fusion makes."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.kernels import has_kernel
from xoptim.match.view import GraphBuilderPatternOptimization


def runs(g: GraphBuilderPatternOptimization, op_type: str, like: str, domain: str = "") -> bool:
    """Whether the provider is known to have a kernel of an operator for the element type of the result ``like``.

    On the CPU the kernel for 32 bits serves 16-bit floats too: onnxruntime casts around it, once for the fused operator and
    once for each of the operators that it replaces.
    """
    dtype, opset = g.try_infer_type(like), g.opsets.get(domain, 1)
    if has_kernel(g.provider, domain, op_type, dtype, opset):
        return True
    # `is True`, because has_kernel returns None for unknown providers, operators and types.
    on_cpu = g.provider.lower().removesuffix("executionprovider") == "cpu"
    return on_cpu and dtype == TensorProto.FLOAT16 and has_kernel(g.provider, domain, op_type, TensorProto.FLOAT, opset) is True
