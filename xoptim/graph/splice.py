"""Copy the nodes of a subgraph into the enclosing graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import AttributeProto, GraphProto, NodeProto

from xoptim.graph.export import export_nodes
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node


def can_splice(body: Graph) -> bool:
    """Whether everything that a subgraph defines can be defined outside too (sparse and overridable initializers cannot)."""
    given = body.source.sparse_initializer if body.source is not None else ()
    return not given and not body.overridable


def splice(body: Graph, into: Graph, inputs: Mapping[str, str], outputs: Sequence[str]) -> list[Node]:
    """Copies of the nodes of a subgraph for the enclosing graph; the subgraph is left unchanged.

    Everything that the subgraph defines, except its outputs, gets a new name, since other subgraphs may use the same names.
    Its initializers are stored in ``into``.

    Args:
        body: the subgraph.
        into: the enclosing graph.
        inputs: the name that replaces each input of the subgraph.
        outputs: a name for each output of the subgraph.

    Returns:
        The nodes in order, to be inserted at the place of the owner. Their subgraphs are in their protobufs.
    """
    names = dict(inputs)
    for name, tensor in body.initializers.items():
        names[name] = into.names.fresh(name)
        into.add_initializer(names[name], tensor)
    produced = {name for node in body.nodes for name in node.output if name}
    copies: list[tuple[str, str]] = []
    for name, target in zip(body.outputs, outputs, strict=True):
        if name in produced and name not in names:
            names[name] = target
        else:
            copies.append((name, target))
    nodes = []
    for source in export_nodes(body):
        proto = NodeProto()
        proto.CopyFrom(source)
        proto.name = into.node_names.fresh(source.name or source.op_type)
        names |= {name: into.names.fresh(name) for name in source.output if name and name not in names}
        _rename(proto, names)
        nodes.append(Node.from_proto(proto))
    nodes += [
        Node("Identity", [names.get(name, name)], [target], name=into.node_names.fresh("Identity")) for name, target in copies
    ]
    return nodes


def _rename(proto: NodeProto, names: Mapping[str, str]) -> None:
    """Rename operands and results of a node, in its subgraphs too, where these do not define the name themselves."""
    proto.input[:] = [names.get(name, name) for name in proto.input]
    proto.output[:] = [names.get(name, name) for name in proto.output]
    for attribute in proto.attribute:
        if attribute.type == AttributeProto.GRAPH:
            _rename_graph(attribute.g, names)


def _rename_graph(graph: GraphProto, names: Mapping[str, str]) -> None:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own.update(name for node in graph.node for name in node.output)
    outer = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        _rename(node, outer)
    for value in graph.output:
        value.name = outer.get(value.name, value.name)
