"""Rewrites with inputs in place of their large constants: one proof holds for all layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx

from xoptim.facts.dtypes import is_float

_MIN_ELEMENTS: Final = 65
"""Constants of fewer elements may be sizes, limits or factors, which a rewrite depends on."""


@dataclass(frozen=True, slots=True)
class GeneralizedRewrite:
    """Both sides of a rewrite with inputs in place of large constants.

    Attributes:
        models: both sides. Their last inputs are the constants.
        names: the names of the constants.
        arrays: their elements, which are finite.
        folded: the names of the constants that only one side has: they may be folded from others.
    """

    models: tuple[onnx.ModelProto, onnx.ModelProto]
    names: tuple[str, ...]
    arrays: tuple[np.ndarray[Any, Any], ...]
    folded: tuple[str, ...]


def generalized(models: Sequence[onnx.ModelProto]) -> GeneralizedRewrite | None:
    """Both sides of a rewrite with inputs in place of the large constants.

    A proof for all finite values of these inputs is one for the constants. ``None`` where there are
    no such constants, one is not finite, or one differs between the sides. A constant that only one
    side has stays a constant where all its elements are equal: the proof may need its value, as 0.
    """
    before, after = (_stored(model) for model in models)
    tensors: dict[str, onnx.TensorProto] = {}
    arrays: list[np.ndarray[Any, Any]] = []
    for name, tensor in {**before, **after}.items():
        is_shared = name in before and name in after
        if is_shared and not _is_equal(before[name], after[name]):
            return None
        array = onnx.numpy_helper.to_array(tensor)
        if not _is_finite(array):
            return None
        if is_shared or not _is_uniform(array):
            tensors[name] = tensor
            arrays.append(array)
    if not tensors:
        return None
    first, second = (_with_inputs(model, tensors) for model in models)
    folded = [name for name in tensors if name not in before or name not in after]
    return GeneralizedRewrite((first, second), (*tensors,), (*arrays,), (*folded,))


def _stored(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    """The large floating-point constants of a model that it holds as bytes."""
    return {
        tensor.name: tensor
        for tensor in model.graph.initializer
        if is_float(tensor.data_type)
        and tensor.raw_data
        and math.prod(tensor.dims) >= _MIN_ELEMENTS
    }


def _is_equal(tensor: onnx.TensorProto, other: onnx.TensorProto) -> bool:
    return tensor is other or (
        (tensor.data_type, [*tensor.dims]) == (other.data_type, [*other.dims])
        and tensor.raw_data == other.raw_data
    )


def _is_finite(array: np.ndarray[Any, Any]) -> bool:
    numbers = array if array.dtype.kind == "f" else array.astype(np.float64)
    return bool(np.isfinite(numbers).all())


def _is_uniform(array: np.ndarray[Any, Any]) -> bool:
    first = array.flat[0]
    return bool(array.flat[-1] == first and (array == first).all())


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
