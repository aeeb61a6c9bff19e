"""Inputs and outputs of the type float16."""

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from xoptim.graph.names import Names
from xoptim.preparation.ports import defined_names, rename_ports
from xoptim.verification.runs.session import Port, Value


def with_float16_io(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model whose float32 inputs and outputs are float16, under the same names.

    Casts follow the inputs and precede the outputs. Inputs with a default value, which is an
    initializer of the same name, keep their types.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph, stored = result.graph, {tensor.name for tensor in result.graph.initializer}
    inputs = [value for value in graph.input if _is_float(value) and value.name not in stored]
    outputs = [value for value in graph.output if _is_float(value)]
    names = Names()
    names.reserve(defined_names(result), {})
    float32_names = {
        name: names.fresh(f"{name}_float32")
        for name in dict.fromkeys(value.name for value in (*inputs, *outputs))
    }
    rename_ports(result, float32_names)
    port_names = {new: name for name, new in float32_names.items()}
    for value in (*inputs, *outputs):
        value.name = port_names[value.name]
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    input_names = dict.fromkeys(value.name for value in inputs)
    input_casts = [
        helper.make_node("Cast", [name], [float32_names[name]], to=TensorProto.FLOAT)
        for name in input_names
    ]
    output_names = dict.fromkeys(value.name for value in outputs if value.name not in input_names)
    output_casts = [
        helper.make_node("Cast", [float32_names[name]], [name], to=TensorProto.FLOAT16)
        for name in output_names
    ]
    nodes = [*input_casts, *graph.node, *output_casts]
    graph.ClearField("node")
    graph.node.extend(nodes)
    return result


def with_float16_feeds(feeds: Mapping[str, Value], ports: Iterable[Port]) -> dict[str, Value]:
    """The feeds, in which float32 values of float16 inputs are converted to float16."""
    float16 = {port.name for port in ports if port.type == "tensor(float16)"}

    def converted(name: str, value: Value) -> Value:
        is_wide = name in float16 and isinstance(value, np.ndarray) and value.dtype == np.float32
        return np.asarray(value, np.float16) if is_wide else value

    with np.errstate(over="ignore"):
        return {name: converted(name, value) for name, value in feeds.items()}


def _is_float(value: onnx.ValueInfoProto) -> bool:
    return (
        value.type.WhichOneof("value") == "tensor_type"
        and value.type.tensor_type.elem_type == TensorProto.FLOAT
    )
