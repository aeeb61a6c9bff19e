"""Rewrites whose constants are read as any numbers: what is proved of them holds for each layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx

from xoptim.facts.dtypes import is_float

_MIN_ELEMENTS: Final = 65
"""Constants of fewer elements may be sizes, limits or factors, which a rewrite depends on."""


def generalized(
    models: Sequence[onnx.ModelProto],
) -> tuple[onnx.ModelProto, onnx.ModelProto] | None:
    """Both sides of a rewrite with inputs in place of the large constants that both of them read.

    A proof for all values of these inputs is one for the constants, which are finite numbers.
    ``None`` where there are no such constants.
    """
    before, after = (_stored(model) for model in models)
    shared = {name: t for name, t in before.items() if _is_equal(t, after.get(name))}
    if not shared or not all(map(_is_finite, shared.values())):
        return None
    first, second = (_with_inputs(model, shared) for model in models)
    return first, second


def _stored(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    """The large floating-point constants of a model that it holds as bytes."""
    return {
        tensor.name: tensor
        for tensor in model.graph.initializer
        if is_float(tensor.data_type)
        and tensor.raw_data
        and int(np.prod(tensor.dims)) >= _MIN_ELEMENTS
    }


def _is_equal(tensor: onnx.TensorProto, other: onnx.TensorProto | None) -> bool:
    return (
        other is not None
        and (tensor.data_type, [*tensor.dims]) == (other.data_type, [*other.dims])
        and tensor.raw_data == other.raw_data
    )


def _is_finite(tensor: onnx.TensorProto) -> bool:
    array = onnx.numpy_helper.to_array(tensor)
    numbers = array if array.dtype.kind == "f" else array.astype(np.float64)
    return bool(np.isfinite(numbers).all())


def _with_inputs(
    model: onnx.ModelProto, tensors: Mapping[str, onnx.TensorProto]
) -> onnx.ModelProto:
    copy, graph = onnx.ModelProto(), model.graph
    copy.opset_import.extend(model.opset_import)
    copy.functions.extend(model.functions)
    copy.ir_version = model.ir_version
    copy.graph.name = graph.name
    copy.graph.node.extend(graph.node)
    copy.graph.input.extend(graph.input)
    copy.graph.output.extend(graph.output)
    copy.graph.initializer.extend(t for t in graph.initializer if t.name not in tensors)
    copy.graph.input.extend(
        onnx.helper.make_tensor_value_info(name, tensor.data_type, [*tensor.dims])
        for name, tensor in tensors.items()
    )
    return copy
