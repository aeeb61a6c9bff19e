"""Models as protobufs: reading without their weights, and light copies whose large tensors live
elsewhere.
"""

import math
import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

from xoptim.facts.dtypes import bits, byte_size
from xoptim.facts.errors import XoptimError
from xoptim.facts.operators import short_name
from xoptim.facts.protos import (
    FUNCTIONS_SINCE,
    copy_fields,
    every_node,
    hide_from_onnx,
    is_external,
    opset_versions,
    standard_domain,
)
from xoptim.graph import load
from xoptim.graph.data_file import refer, settle_locations, stored_tensors
from xoptim.graph.forms import BEGINNING, text_form
from xoptim.graph.names import repeated
from xoptim.graph.splice import inline_functions
from xoptim.graph.stored import is_unsettled
from xoptim.operators.registry import OPERATORS
from xoptim.system.reading import open_file
from xoptim.verification.runs.contrib_functions import with_contrib_functions

ModelLike: TypeAlias = "onnx.ModelProto | str | os.PathLike[str]"
TYPE_ATTRIBUTES: Final = frozenset(
    ("to", "dtype", "output_dtype", "output_datatype", "softmax_precision")
)
"""Attributes that name an element type."""


class Located(NamedTuple):
    """A model, and the folder of its external data."""

    proto: onnx.ModelProto
    base_dir: Path | None


# a part of the names of quantized operators
_QUANTIZED = re.compile("[Qq]uantize|Integer|QLinear|NBits")
_NOWHERE = "in-memory"  # location written into stubs; it is never opened


def read_proto(
    model: ModelLike, base_dir: Path | None = None
) -> tuple[onnx.ModelProto, Path | None]:
    """The protobuf of a model without its external data, and the folder that contains the data.

    Raises `ModelError` when the file cannot be read, or is not a model.
    """
    if isinstance(model, onnx.ModelProto):
        return model, base_dir
    path = Path(model)
    return load.read_proto(path), path.resolve().parent


def with_definitions(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model in which custom operators are local functions: a copy if it calls any that a pack
    defines, else the model itself.
    """
    missing = list(_missing_definitions(model))
    if not missing:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.functions.extend(missing)
    copy.ir_version = max(copy.ir_version, FUNCTIONS_SINCE)
    imports = opset_versions(copy.opset_import)
    for entry in (entry for definition in missing for entry in definition.opset_import):
        if standard_domain(entry.domain) not in imports:
            imports[entry.domain] = entry.version
            copy.opset_import.append(entry)
    return copy


def _missing_definitions(model: onnx.ModelProto) -> Iterator[onnx.FunctionProto]:
    """The definitions of custom operators that a model calls and does not define itself."""
    definitions = {key: row.definition for key, row in OPERATORS.items() if row.definition}
    for function in model.functions:
        definitions.pop((function.domain, function.name), None)
    pending = _nodes(model) if definitions else []
    while pending:
        keys = {(node.domain, node.op_type) for node in pending}
        called = [definitions.pop(key) for key in sorted(keys & definitions.keys())]
        yield from called
        pending = [node for definition in called for node in every_node(definition.node)]


def pack_definitions(model: onnx.ModelProto) -> list[str]:
    """The custom operators that are local functions of a model with the definition of a pack."""
    names = []
    for function in model.functions:
        operator = OPERATORS.get((function.domain, function.name))
        if operator is not None and operator.definition == function:
            names.append(f"{function.domain}::{function.name}")
    return names


def read_defined(
    model: ModelLike,
    base_dir: Path | None,
    libraries: Sequence[str],
    providers: Sequence[str] = ("cpu",),
) -> tuple[onnx.ModelProto, Path | None]:
    """The protobuf of a model without its external data, and the folder that contains the data.

    Without ``libraries`` of operators, the custom operators that a pack defines are local
    functions. With ``cpu`` as the only provider, the contrib operators without a kernel on CPUs are
    local functions too.
    """
    proto, folder = read_proto(model, base_dir)
    if all(short_name(provider) == "cpu" for provider in providers):
        proto = with_contrib_functions(proto)
    return (proto if libraries else with_definitions(proto)), folder


def is_text(path: Path) -> bool:
    """Whether a file holds a model in a text form, which onnxruntime does not read."""
    with open_file(path) as stream:
        return text_form(stream.read(BEGINNING)) is not None


def tensor_bytes(tensor: TensorProto) -> int:
    """Bytes of the elements of a tensor, wherever they are."""
    return byte_size(tensor.data_type, math.prod(tensor.dims))


def stored_bytes(tensor: TensorProto) -> int:
    """Bytes of the elements of a tensor within the protobuf, 0 when they lie outside.

    Strings count as 0.
    """
    return 0 if is_external(tensor) else tensor_bytes(tensor)


def initializer_bytes(model: onnx.ModelProto) -> int:
    """Bytes of all initializers within the protobuf (``ByteSize`` would serialize the model)."""
    return sum(map(stored_bytes, model.graph.initializer))


def tensor_array(tensor: TensorProto, base_dir: Path | None) -> np.ndarray:
    """The numbers of an initializer, read from its external file if it has one."""
    return numpy_helper.to_array(tensor, str(base_dir or ""))


def large_tensors(model: onnx.ModelProto, limit: int) -> set[str]:
    """Names of the initializers of more than ``limit`` bytes in the protobuf whose elements fill
    whole bytes.
    """
    return {
        t.name
        for t in model.graph.initializer
        if stored_bytes(t) > limit and bits(t.data_type) >= 8
    }


def light_copy(model: onnx.ModelProto, dropped: Collection[str]) -> onnx.ModelProto:
    """A copy in which some initializers of the main graph are stubs: name, type, shape, and a
    location that does not exist.

    The data of the dropped tensors are never copied, so this works on models above the 2 GB limit
    of protobuf.
    """
    copy = onnx.ModelProto()
    copy_fields(model, copy, ("graph",))
    copy_fields(model.graph, copy.graph, ("initializer",))
    for tensor in model.graph.initializer:
        if tensor.name in dropped:
            stub = copy.graph.initializer.add(
                name=tensor.name, data_type=tensor.data_type, dims=tensor.dims
            )
            refer(stub, _NOWHERE, 0, tensor_bytes(tensor))
        else:
            copy.graph.initializer.add().CopyFrom(tensor)
    return copy


def inferred_graph(
    model: onnx.ModelProto, limit: int, *, data_prop: bool = False
) -> onnx.GraphProto | None:
    """The main graph with the types and shapes that onnx infers without initializers of more than
    ``limit`` bytes.

    ``None`` for a model that onnx cannot type, which may still run in onnxruntime. EyeLike is
    hidden from onnx: where the type of its operand is not known, onnx 1.23 ends the process.
    """
    light = light_copy(model, large_tensors(model, limit))
    hide_from_onnx(light, ("EyeLike",))
    try:
        return onnx.shape_inference.infer_shapes(light, data_prop=data_prop).graph
    except Exception:
        return None


def without_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all calls of local functions inlined, so that each operator in them counts.

    Custom operators that a pack describes, and contrib operators without a kernel on CPUs, are such
    calls. Returns the model itself if it calls none. Raises `ModelError` if they cannot be inlined.
    """
    model = with_definitions(with_contrib_functions(model))
    return inline_functions(model) if model.functions else model


def loadable_copy(
    model: ModelLike, base_dir: Path | None
) -> tuple[onnx.ModelProto, Path | None] | None:
    """A copy of a model that onnxruntime refused, and its folder.

    ``None`` when the copy would be the same.

    In the copy, names of nodes are unique. Custom operators that a pack describes, and contrib
    operators without a kernel on CPUs, are local functions. External data is where this system
    finds it.
    """
    try:
        proto, folder = read_proto(model, base_dir)
        names = repeated([node.name for node in _nodes(proto)])
        copy = with_definitions(with_contrib_functions(proto))
        if copy is proto:
            tensors = stored_tensors(proto)
            if not names and not any(is_unsettled(tensor, folder) for tensor in tensors):
                return None
            copy = onnx.ModelProto()
            copy.CopyFrom(proto)
        settle_locations(copy, folder)
    except (XoptimError, OSError, ValueError, TypeError):
        return None
    nodes = _nodes(copy)
    for index, name in names.items():
        nodes[index].name = name
    return copy, folder


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    parts = (model.graph.node, *(function.node for function in model.functions))
    return [node for part in parts for node in every_node(part)]


def element_types(model: onnx.ModelProto) -> set[int]:
    """The element types that a model names: of inputs, outputs, constants and results of casts."""
    elements = {tensor.data_type for tensor in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        elements.add(value.type.tensor_type.elem_type)
    for node in _nodes(model):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                elements.add(attribute.t.data_type)
            elif attribute.name in TYPE_ATTRIBUTES:
                elements.add(attribute.i)
    return elements


def quantized_operators(model: onnx.ModelProto) -> set[str]:
    """The quantized operators of a model, those of subgraphs and functions included."""
    return {node.op_type for node in _nodes(model) if _QUANTIZED.search(node.op_type)}
