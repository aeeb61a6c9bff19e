"""A fixed leading size made symbolic."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, ValueInfoProto, numpy_helper

from xoptim.facts.errors import ModelError
from xoptim.facts.protos import fed_inputs
from xoptim.graph.constants import constant_array
from xoptim.graph.export import value_info
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.preparation.ports import all_graphs


def free_batch(proto: ModelProto, name: str, base_dir: Path | None = None) -> tuple[int, list[str]]:
    """Make the leading size of the inputs a dimension of this name, in place; returns the size, and the inputs that had it.

    Constant shapes of Reshape that begin with this size compute it then; all other declarations are inferred anew. Whether
    the model is right for other sizes is not proved here: see `xoptim.api.preparing.freed`. Raises `ModelError` when no input
    has a fixed leading size, or they have several, or the name is one of a dimension already.
    """
    leading = {value.name: value for value in fed_inputs(proto) if _leading(value)}
    sizes = {_leading(value) for value in leading.values()}
    if len(sizes) != 1:
        listed = ", ".join(f"{each} {_leading(value)}" for each, value in leading.items())
        raise ModelError(f"--free {name}: the inputs need one fixed leading size, they have {listed or 'none'}")
    if any(dim.dim_param == name for value in proto.graph.input for dim in value.type.tensor_type.shape.dim):
        raise ModelError(f"--free {name}: the model has a dimension of this name")
    (size,) = sizes
    for value in leading.values():
        value.type.tensor_type.shape.dim[0].dim_param = name
    for part in all_graphs(proto):
        del part.value_info[:]
        for declared in (*part.output, *(() if part is proto.graph else part.input)):
            if declared.type.WhichOneof("value") == "tensor_type":
                declared.type.tensor_type.ClearField("shape")
    while _free_reshapes(proto, load_model(proto, base_dir).graph, name, size):
        pass  # the shapes after a Reshape are known when it is freed
    graph = load_model(proto, base_dir).graph
    for output in proto.graph.output:
        output.CopyFrom(value_info(output.name, graph.info_of(output.name)))
    return size, list(leading)


def _leading(value: ValueInfoProto) -> int:
    """The leading size of an input, 0 when it has none that is fixed."""
    dims = value.type.tensor_type.shape.dim
    return dims[0].dim_value if len(dims) else 0


def _free_reshapes(proto: ModelProto, graph: Graph, name: str, size: int) -> int:
    """Free the Reshapes of operands that are known to depend on the dimension; returns how many."""
    count = 0
    for node, written in zip(graph.nodes, proto.graph.node, strict=True):
        shape = _fixed_shape(graph, node, name, size)
        if shape is None:
            continue
        fresh = graph.names.fresh(f"{written.input[1]}_free")
        proto.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), fresh))
        written.input[1] = fresh
        count += 1
    return count


def _fixed_shape(graph: Graph, node: Node, name: str, size: int) -> Sequence[int] | None:
    """The shape of a Reshape that has to be freed, as it has to be then; ``None`` for all other nodes."""
    if node.op_type != "Reshape" or node.domain or len(node.input) < 2 or node.attribute.get("allowzero"):
        return None
    dims = graph.info_of(node.input[0]).shape
    array = constant_array(graph, node.input[1])
    if dims is None or array is None or not array.size or int(array[0]) != size:
        return None
    if not any(not isinstance(dim, int) and name in dim.symbols for dim in dims):
        return None
    rest = [int(each) for each in array[1:]]
    if -1 not in rest:
        return [-1, *rest]
    return [0, *rest] if str(dims[0]) == name else None
