"""A model in which the shapes of all results are declared."""

from pathlib import Path

from onnx import GraphProto, ModelProto

from xoptim.graph.export import export_model, value_info
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model


def with_shapes(proto: ModelProto, base_dir: Path | None = None) -> ModelProto:
    """A copy of a model whose results are declared, in subgraphs too; unknown types and shapes are omitted.

    Declarations that contradict the operators are dropped.
    """
    model = load_model(proto, base_dir)
    found = export_model(model)
    _declare(model.graph, found.graph)
    return found


def _declare(graph: Graph, proto: GraphProto) -> None:
    ends = {value.name for value in proto.output}
    for value in proto.output:
        info = graph.info_of(value.name)
        if not value.HasField("type") and info.dtype:
            value.CopyFrom(value_info(value.name, info))
    del proto.value_info[:]
    for node, written in zip(graph.nodes, proto.node, strict=True):
        for name in filter(None, node.output):
            info = graph.info_of(name)
            if info.dtype and name not in ends:
                proto.value_info.append(value_info(name, info))
        for attribute in written.attribute:
            if attribute.name in node.bodies:
                _declare(node.bodies[attribute.name], attribute.g)
