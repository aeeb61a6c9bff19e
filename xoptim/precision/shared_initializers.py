"""Initializers that quantization adds: equal ones are stored once, in the main graph."""

from collections.abc import Collection
from hashlib import sha256

import onnx

from xoptim.facts.protos import every_node, inner_graphs


def share_initializers(model: onnx.ModelProto, old: Collection[str]) -> None:
    """Move new initializers of subgraphs to the main graph, and keep one of equal ones; in place.

    Block-wise weights stay in their subgraph: onnxruntime 1.32 does not load a model in which a
    subgraph dequantizes block-wise weights of an outer graph.

    Args:
        model: the model, in which each value has its own name.
        old: names of the initializers that stay as they are.
    """
    main, owners, names = model.graph, dict[bytes, str](), dict[str, str]()
    for graph in (main, *inner_graphs(main.node)):
        if graph is not main:
            blocks = [name for node in graph.node if reads_blocks(node) for name in node.input]
            old = {*old, *blocks}
        indices = [
            index for index, tensor in enumerate(graph.initializer) if tensor.name not in old
        ]
        for index in indices:
            tensor = graph.initializer[index]
            names[tensor.name] = owners.setdefault(digest(tensor), tensor.name)
            if names[tensor.name] == tensor.name and graph is not main:
                main.initializer.add().CopyFrom(tensor)
        for index in reversed(indices):
            name = graph.initializer[index].name
            if graph is not main or names[name] != name:
                del graph.initializer[index]
    for node in every_node(main.node):
        node.input[:] = [names.get(name, name) for name in node.input]


def digest(tensor: onnx.TensorProto) -> bytes:
    """A hash of a tensor without its name."""
    name, tensor.name = tensor.name, ""
    content = sha256(tensor.SerializeToString(deterministic=True)).digest()
    tensor.name = name
    return content


def reads_blocks(node: onnx.NodeProto) -> bool:
    """Whether a node dequantizes with a scale for each block."""
    return node.op_type == "DequantizeLinear" and any(
        attribute.name == "block_size" for attribute in node.attribute
    )
