"""The exactness that a single rewrite must have."""

from collections.abc import Iterable
from typing import Final

import onnx
from onnx import TensorProto

from xoptim.facts.dtypes import Exactness

_HALVES: Final = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_QUANTIZED: Final = (TensorProto.UINT8, TensorProto.INT8)


def required_exactness(exactness: Exactness, models: Iterable[onnx.ModelProto]) -> Exactness:
    """The exactness that a rewrite must have: not ``exact`` where its models compute in 16 bits.

    Runtimes without float16 kernels insert casts to float32. Their places depend on the
    neighbouring nodes and the subgraph, so that moving a node out of a branch may change how
    results are rounded.
    """
    return "rounding" if exactness == "exact" and any(map(_has_halves, models)) else exactness


def _has_halves(model: onnx.ModelProto) -> bool:
    graph = model.graph
    types = [
        value.type.tensor_type.elem_type
        for value in (*graph.input, *graph.output, *graph.value_info)
    ]
    return any(
        element in _HALVES
        for element in (*types, *(tensor.data_type for tensor in graph.initializer))
    )


def are_quantized(model: onnx.ModelProto) -> bool:
    """Whether all results are 8-bit integers, where rounding may differ by one."""
    return all(value.type.tensor_type.elem_type in _QUANTIZED for value in model.graph.output)
