"""Products of matrices, and defects of onnxruntime's kernels for them."""

from collections.abc import Mapping
from typing import Any

from xoptim.facts.dims import is_nonzero
from xoptim.match import GraphView, runs


def contracts(g: GraphView, a: str, b: str, attributes: Mapping[str, Any]) -> bool:
    """Whether a product of matrices (``transA``, ``transB``) is known to add up at least one term for each element.

    onnxruntime computes a product over an axis of length 0 wrongly: FusedMatMul with a transposed operand returns
    uninitialized memory, and Gemm adds its bias without ``beta``.
    """
    places = ((a, -2 if attributes.get("transA") else -1), (b, -1 if attributes.get("transB") else -2))
    shapes = ((g.try_infer_shape(name), place) for name, place in places)
    return any(shape is not None and len(shape) >= -place and is_nonzero(shape[place]) for shape, place in shapes)


def can_fuse(g: GraphView, a: str, b: str, attributes: Mapping[str, Any]) -> bool:
    """Whether the provider has a correct kernel of ``com.microsoft.FusedMatMul`` for these operands and attributes."""
    return contracts(g, a, b, attributes) and runs(g, "FusedMatMul", a, "com.microsoft")
