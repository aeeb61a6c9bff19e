"""The exactness to which one rewrite is held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import onnx
from onnx import TensorProto

from xoptim.facts.dtypes import Exactness

_HALVES: Final = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def held_to(exactness: Exactness, models: Iterable[onnx.ModelProto]) -> Exactness:
    """The exactness to which a rewrite is held: not ``exact`` where its models compute in 16 bits.

    Runtimes without kernels for 16 bits insert casts to 32 bits, whose places depend on the neighbouring nodes and on the
    subgraph, so that taking a node out of a branch may change how results are rounded.
    """
    return "rounding" if exactness == "exact" and any(map(_has_halves, models)) else exactness


def _has_halves(model: onnx.ModelProto) -> bool:
    """Whether a value of a model is known to have 16 bits."""
    graph = model.graph
    return any(
        value.type.tensor_type.elem_type in _HALVES for value in (*graph.input, *graph.output, *graph.value_info)
    ) or any(tensor.data_type in _HALVES for tensor in graph.initializer)
