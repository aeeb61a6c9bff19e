"""Other element types, other numbers, and dimensions that are unknown, symbolic, 0, or 1."""

from collections.abc import Iterator, Mapping
from copy import deepcopy

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, numpy_helper

from xoptim.facts.dtypes import numpy_dtype, type_name
from xoptim.facts.protos import replace_items
from xoptim.testing.feeds import LARGE_INTEGERS, TAILS
from xoptim.testing.variant import Case, Variant, all_graphs, constants, loosen

_ELEMENT_ATTRIBUTES = frozenset(("to", "dtype", "stash_type", "output_dtype"))


def floats(case: Case) -> Iterator[Variant]:
    """All float32 tensors as float16, float64 and bfloat16."""
    for element in (TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16):
        mapping: dict[int, int] = {TensorProto.FLOAT: element}
        model = retyped(case.model, mapping)
        if model != case.model:
            yield Variant(f"type: float as {type_name(element)}", model)


def integers(case: Case) -> Iterator[Variant]:
    """int64 as int32, all or one constant; each int64 or float input as int32 and as double."""
    mapping: dict[int, int] = {TensorProto.INT64: TensorProto.INT32}
    model = retyped(case.model, mapping)
    if model != case.model:
        yield Variant("type: int64 as int32", model)
    for name, array in constants(case.model):
        if array.dtype == np.int64:
            model = case.copy()
            _retype_constants(model, mapping, {name})
            yield Variant(f"type: {name} as int32", loosen(model))
    for position, value in enumerate(case.model.graph.input):
        if value.type.tensor_type.elem_type in (TensorProto.INT64, TensorProto.FLOAT):
            for element in (TensorProto.INT32, TensorProto.DOUBLE):
                model = case.copy()
                model.graph.input[position].type.tensor_type.elem_type = element
                yield Variant(f"type: input {value.name} as {type_name(element)}", loosen(model))


def retyped(model: ModelProto, mapping: Mapping[int, int]) -> ModelProto:
    """A copy in which ``mapping`` replaces element types: of inputs, outputs, constants, Casts."""
    model = deepcopy(model)
    for graph in all_graphs(model.graph):
        del graph.value_info[:]
        for value in (*graph.input, *graph.output):
            _retype_value(value.type, mapping)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name in _ELEMENT_ATTRIBUTES and attribute.i in mapping:
                    attribute.i = mapping[attribute.i]
                elif attribute.type == AttributeProto.TENSOR and node.op_type != "Constant":
                    attribute.t.CopyFrom(_retyped_tensor(attribute.t, mapping))
    _retype_constants(model, mapping)
    return model


def _retype_value(type_proto: onnx.TypeProto, mapping: Mapping[int, int]) -> None:
    if type_proto.HasField("tensor_type"):
        tensor = type_proto.tensor_type
        tensor.elem_type = mapping.get(tensor.elem_type, tensor.elem_type)
    elif type_proto.HasField("sequence_type"):
        _retype_value(type_proto.sequence_type.elem_type, mapping)
    elif type_proto.HasField("optional_type"):
        _retype_value(type_proto.optional_type.elem_type, mapping)


def _retype_constants(
    model: ModelProto, mapping: Mapping[int, int], only: set[str] | None = None
) -> None:
    values = {name: numpy_helper.from_array(array, name) for name, array in constants(model)}
    for graph in all_graphs(model.graph):
        for tensor in graph.initializer:
            if only is None or tensor.name in only:
                tensor.CopyFrom(_retyped_tensor(tensor, mapping))
        for node in graph.node:
            if node.op_type == "Constant" and node.output[0] in (values if only is None else only):
                replacement = _retyped_tensor(values[node.output[0]], mapping)
                if replacement is not values[node.output[0]]:
                    replace_items(
                        node.attribute, [onnx.helper.make_attribute("value", replacement)]
                    )


def _retyped_tensor(tensor: TensorProto, mapping: Mapping[int, int]) -> TensorProto:
    if tensor.data_type not in mapping:
        return tensor
    with np.errstate(all="ignore"):
        array = numpy_helper.to_array(tensor).astype(numpy_dtype(mapping[tensor.data_type]))
    return numpy_helper.from_array(array, tensor.name)


def tails(case: Case) -> Iterator[Variant]:
    """Numbers far from 0 and close to it; each result is judged by its relative error, as if a Log
    or a Div read it.
    """
    if any(v.type.tensor_type.elem_type == TensorProto.FLOAT for v in case.model.graph.input):
        yield Variant("values: tails", case.copy(), values=(TAILS,))


def large_integers(case: Case) -> Iterator[Variant]:
    """Integers that floating-point numbers cannot represent, also in place of floats."""
    if any(v.type.tensor_type.elem_type == TensorProto.INT64 for v in case.model.graph.input):
        yield Variant("values: large integers", case.copy(), values=(LARGE_INTEGERS,))
    for element in (TensorProto.INT64, TensorProto.INT32):
        model = retyped(case.model, {TensorProto.FLOAT: element})
        if model != case.model:
            yield Variant(
                f"values: large int{32 if element == TensorProto.INT32 else 64}",
                model,
                values=(LARGE_INTEGERS,),
            )


Dim = onnx.TensorShapeProto.Dimension


def _dims(model: ModelProto) -> dict[tuple[str, int], Dim]:
    """The dimensions of the inputs by name and axis."""
    return {
        (v.name, axis): dim
        for v in model.graph.input
        for axis, dim in enumerate(v.type.tensor_type.shape.dim)
    }


def _with(case: Case, dims: Mapping[tuple[str, int], Dim]) -> ModelProto:
    """A copy with other dimensions of inputs."""
    model = case.copy()
    for key, dim in _dims(model).items():
        dim.CopyFrom(dims.get(key, dim))
    return loosen(model)


def unknown(case: Case) -> Iterator[Variant]:
    """No types of interior results, shapes of outputs, or ranks; anonymous dimensions."""
    model = case.copy()
    del model.graph.value_info[:]
    if len(case.model.graph.value_info):
        yield Variant("shapes: no value_info", model)
    yield Variant("shapes: outputs unknown", loosen(case.copy()))
    names = [v.name for v in case.model.graph.input if v.type.HasField("tensor_type")]
    for selection in (names, *([name] for name in names if len(names) > 1)):
        model = case.copy()
        for value in model.graph.input:
            if value.name in selection:
                value.type.tensor_type.ClearField("shape")
        yield Variant(f"shapes: rank of {', '.join(selection)} unknown", loosen(model))
    yield Variant("shapes: anonymous", _with(case, dict.fromkeys(_dims(case.model), Dim())))


def symbolic(case: Case) -> Iterator[Variant]:
    """Names for all dimensions: one for each size, each axis, or all; or a new name for one."""
    dims = _dims(case.model)
    symbols = {key: Dim(dim_param=_word(dim)) for key, dim in dims.items()}
    yield Variant("symbols: one for each size", _with(case, symbols))
    symbols = {(name, axis): Dim(dim_param=f"{name}_{axis}") for name, axis in dims}
    yield Variant("symbols: one for each axis", _with(case, symbols))
    yield Variant(
        "symbols: one for everything", _with(case, dict.fromkeys(dims, Dim(dim_param="n")))
    )
    for name, axis in dims if len(dims) > 1 else ():
        yield Variant(
            f"symbols: axis {axis} of {name} another",
            _with(case, {(name, axis): Dim(dim_param="other")}),
        )


def sizes(case: Case) -> Iterator[Variant]:
    """Each dimension as 0, 1 and 3 everywhere; then each axis alone as 1; then all fixed."""
    words = {key: _word(dim) for key, dim in _dims(case.model).items()}
    for word in dict.fromkeys(words.values()):
        for size in (0, 1, 3):
            dims = {key: Dim(dim_value=size) for key, symbol in words.items() if symbol == word}
            yield Variant(f"size: {word} = {size}", _with(case, dims))
    for name, axis in words:
        yield Variant(
            f"size: axis {axis} of {name} = 1", _with(case, {(name, axis): Dim(dim_value=1)})
        )
    symbols = [word for word in dict.fromkeys(words.values()) if not word.startswith("size_")]
    if symbols:
        dims = {
            key: Dim(dim_value=2 + symbols.index(word))
            for key, word in words.items()
            if word in symbols
        }
        yield Variant("size: all fixed", _with(case, dims))


def ranks(case: Case) -> Iterator[Variant]:
    """Each input with one more axis in front, and without its first axis."""
    for position, value in enumerate(case.model.graph.input):
        if not value.type.tensor_type.HasField("shape"):
            continue
        model = case.copy()
        shape = model.graph.input[position].type.tensor_type.shape
        replace_items(shape.dim, (Dim(dim_value=2), *shape.dim))
        yield Variant(f"rank: {value.name} one more", loosen(model))
        if len(shape.dim) > 1:
            model = case.copy()
            del model.graph.input[position].type.tensor_type.shape.dim[0]
            yield Variant(f"rank: {value.name} one less", loosen(model))


def _word(dim: Dim) -> str:
    return dim.dim_param or (f"size_{dim.dim_value}" if dim.HasField("dim_value") else "anonymous")
