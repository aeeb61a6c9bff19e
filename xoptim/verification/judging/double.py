"""Models in float64, where two that differ by rounding alone agree to many more digits.

All tensors, types and casts of the narrow types that a model computes in become double.
Operators without a kernel for double become local functions of operators that have one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from xoptim.facts.protos import (
    FUNCTIONS_SINCE,
    every_node,
    inner_graphs,
    is_external,
    standard_domain,
)
from xoptim.verification.judging.double_conv import conv_function, is_conv, window_of
from xoptim.verification.judging.double_functions import DOMAIN, cast_reference, replacement
from xoptim.verification.judging.double_fused import split_operators
from xoptim.verification.runs.protos import (
    TYPE_ATTRIBUTES,
    Located,
    element_types,
    large_tensors,
    light_copy,
    tensor_array,
)

NARROW: Final = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_LARGE: Final = 1 << 16  # bytes of weights that are handed to onnxruntime outside the protobuf
_FRACTION_BITS: Final = 6  # most binary digits after the point of a number that was not rounded
_BITS: Final = 16  # most binary digits of such a number
_MIN_OPSET: Final = 13
"""In earlier opsets, some operators that the functions use have no kernels for double."""


class DoubleModel(NamedTuple):
    """A model that computes in double.

    ``weights`` are the numbers of its large initializers, which the protobuf lacks.
    """

    proto: onnx.ModelProto
    weights: dict[str, np.ndarray]


def in_doubles(
    model: onnx.ModelProto,
    base_dir: Path | None,
    open_constants: Collection[str] = (),
    wide: int = TensorProto.DOUBLE,
) -> DoubleModel | None:
    """A copy of a model that computes in double.

    ``None`` when it computes in no narrow type, or its opset is before 13.

    ``open_constants`` are constants of the main graph that become inputs, with the constants as
    defaults. ``wide`` may be float32, in which all operators have kernels, for a model of 16 bits.
    """
    narrow = narrow_types(model)
    if (
        not narrow
        or wide in narrow
        or any(o.domain in ("", "ai.onnx") and o.version < _MIN_OPSET for o in model.opset_import)
    ):
        return None
    large = large_tensors(model, _LARGE)
    weights = {
        tensor.name: _wide_array(tensor, base_dir, narrow, wide)
        for tensor in model.graph.initializer
        if is_external(tensor) or (tensor.name in large and tensor.data_type in narrow)
    }
    copy = light_copy(model, weights.keys())
    copy.ir_version = max(copy.ir_version, FUNCTIONS_SINCE)
    _store_constants(copy.graph)
    for tensor in copy.graph.initializer:
        if tensor.name in weights and tensor.data_type in narrow:
            tensor.data_type = wide
    # inner graphs first: a split graph has copies of its nodes
    if wide == TensorProto.DOUBLE:
        for graph in reversed(_graphs(copy)):
            split_operators(graph)
    for graph in _graphs(copy):
        _widen_graph(graph, narrow, wide, base_dir)
    for node in _all_nodes(copy):
        _widen_node(node, narrow, wide, base_dir)
    if wide == TensorProto.DOUBLE:
        _add_functions(copy)
    opened = set(open_constants) - {value.name for value in copy.graph.input}
    for tensor in copy.graph.initializer:
        if tensor.name in opened:
            copy.graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    return DoubleModel(copy, weights)


def _wide_array(
    tensor: TensorProto, base_dir: Path | None, narrow: Collection[int], wide: int
) -> np.ndarray:
    array = tensor_array(tensor, base_dir)
    return _widened(array, wide) if tensor.data_type in narrow else array


def _widened(array: np.ndarray, wide: int) -> np.ndarray:
    """Numbers in a wide type.

    The narrow type's maximum becomes the wide type's: in masks and bounds, it stands for infinity.
    """
    dtype = np.float64 if wide == TensorProto.DOUBLE else np.float32
    numbers = array.astype(dtype)
    largest = float(ml_dtypes.finfo(array.dtype).max)  # type: ignore[no-untyped-call]
    return np.where(np.abs(numbers) == largest, np.sign(numbers) * np.finfo(dtype).max, numbers)


def narrow_types(model: onnx.ModelProto) -> frozenset[int]:
    """The types below double in which a model computes."""
    return frozenset(NARROW).intersection(element_types(model))


def own_constants(model: Located, other: Located) -> dict[str, np.ndarray]:
    """The rounded constants in a model's main graph that the other model may hold in another form,
    by name.

    These are the constants that the other model lacks, and all single numbers: an operator of the
    other model may contain them.
    """
    other_keys = {_key(array) for _, array in _constants(*other)}
    constants = {
        name: array
        for name, array in _constants(*model)
        if array.size == 1 or _key(array) not in other_keys
    }
    return {name: array for name, array in constants.items() if not _has_few_digits(array)}


def _has_few_digits(array: np.ndarray) -> bool:
    """Whether all numbers have few digits, such as 0.5 or 3, and so were not rounded."""
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        scaled = np.abs(wide) * 2.0**_FRACTION_BITS
    return bool(np.all(~np.isfinite(wide) | ((scaled == np.rint(scaled)) & (scaled < 2.0**_BITS))))


def _key(array: np.ndarray) -> tuple[str, int, int, int]:
    """A key that equal arrays share, also transposed: the sum and exclusive or of their bits."""
    pattern = np.ascontiguousarray(array).reshape(-1).view(np.dtype(f"u{array.dtype.itemsize}"))
    return (
        array.dtype.str,
        array.size,
        int(pattern.sum(dtype=np.uint64)),
        int(np.bitwise_xor.reduce(pattern, initial=0)),
    )


def _constants(model: onnx.ModelProto, base_dir: Path | None) -> Iterator[tuple[str, np.ndarray]]:
    for tensor in model.graph.initializer:
        if tensor.data_type in NARROW:
            yield tensor.name, tensor_array(tensor, base_dir)
    for node in model.graph.node:
        stored = _stored(node)
        if stored is not None and stored.data_type in NARROW:
            yield node.output[0], numpy_helper.to_array(stored)


def _stored(node: NodeProto) -> TensorProto | None:
    """The tensor of a Constant, also of one that stores numbers in other attributes."""
    if node.op_type != "Constant" or standard_domain(node.domain) or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.ref_attr_name:
        return None
    if attribute.type == AttributeProto.TENSOR:
        return attribute.t
    if attribute.type == AttributeProto.FLOAT:
        return numpy_helper.from_array(np.array(attribute.f, np.float32))
    if attribute.type == AttributeProto.FLOATS:
        return numpy_helper.from_array(np.array(attribute.floats, np.float32))
    return None


def _store_constants(graph: onnx.GraphProto) -> None:
    """Turn the Constants of a graph into initializers."""
    remaining: list[NodeProto] = []
    for node in graph.node:
        tensor = _stored(node)
        if tensor is None:
            remaining.append(node)
            continue
        stored = graph.initializer.add()
        stored.CopyFrom(tensor)
        stored.name = node.output[0]
    if len(remaining) < len(graph.node):
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in remaining]
        del graph.node[:]
        graph.node.extend(nodes)


def _cast_references(function: FunctionProto) -> None:
    """Cast the constants of a function that are its attributes, of type float32, to double."""
    nodes = [part for node in function.node for part in cast_reference(node)]
    del function.node[:]
    function.node.extend(nodes)


def _all_nodes(model: onnx.ModelProto) -> list[NodeProto]:
    return list(
        every_node(
            [*model.graph.node, *(node for function in model.functions for node in function.node)]
        )
    )


def _graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    """The graphs of a model and of its functions at every depth, the outer ones first."""
    return [model.graph, *inner_graphs(model.graph.node), *_function_graphs(model)]


def _function_graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    for function in model.functions:
        yield from inner_graphs(function.node)


def _widen_graph(
    graph: onnx.GraphProto, narrow: Collection[int], wide: int, base_dir: Path | None
) -> None:
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        _widen_type(value.type, narrow, wide)
    for tensor in graph.initializer:
        _widen_tensor(tensor, narrow, wide, base_dir)


def _widen_type(kind: onnx.TypeProto, narrow: Collection[int], wide: int) -> None:
    field = kind.WhichOneof("value")
    if field == "tensor_type" and kind.tensor_type.elem_type in narrow:
        kind.tensor_type.elem_type = wide
    elif field in ("sequence_type", "optional_type"):
        _widen_type(getattr(kind, field).elem_type, narrow, wide)


def _widen_tensor(
    tensor: TensorProto, narrow: Collection[int], wide: int, base_dir: Path | None
) -> None:
    if tensor.data_type in narrow:
        name, array = tensor.name, tensor_array(tensor, base_dir)
        tensor.CopyFrom(numpy_helper.from_array(_widened(array, wide), name))


def _widen_node(node: NodeProto, narrow: Collection[int], wide: int, base_dir: Path | None) -> None:
    stored = _stored(node)
    if stored is not None and stored.data_type in narrow:
        _widen_tensor(stored, narrow, wide, base_dir)
        node.attribute[0].CopyFrom(helper.make_attribute("value", stored))
        return
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            _widen_tensor(attribute.t, narrow, wide, base_dir)
        elif attribute.name in TYPE_ATTRIBUTES and attribute.i in narrow:
            attribute.i = wide
    if node.op_type == "ConstantOfShape" and not node.attribute and TensorProto.FLOAT in narrow:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))


def _add_functions(model: onnx.ModelProto) -> None:
    """Let nodes whose operators have no kernel for double call functions."""
    for function in model.functions:
        _cast_references(function)
    functions: dict[str, FunctionProto] = {}
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 18)
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    pending = _all_nodes(model)
    while pending:
        node = pending.pop()
        window = window_of(node, shapes.get(node.input[1])) if is_conv(node) else None
        if window is not None:
            functions.setdefault(window.name, conv_function(window, DOMAIN, opset))
            node.op_type, node.domain = window.name, DOMAIN
            del node.attribute[:]
            continue
        body = replacement(node, opset)
        if body is None:
            continue
        if body.name not in functions:
            functions[body.name] = body
            pending += body.node
        node.op_type, node.domain = body.name, DOMAIN
        names = {*body.attribute, *(attribute.name for attribute in body.attribute_proto)}
        attributes = [attribute for attribute in node.attribute if attribute.name in names]
        copies = [
            AttributeProto.FromString(attribute.SerializeToString()) for attribute in attributes
        ]
        del node.attribute[:]
        node.attribute.extend(copies)
    if functions:
        model.functions.extend(functions.values())
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        for function in model.functions:
            if all(entry.domain != DOMAIN for entry in function.opset_import):
                function.opset_import.append(helper.make_opsetid(DOMAIN, 1))
