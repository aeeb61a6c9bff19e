"""Extract a few nodes of a graph as a model that can run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from xoptim.graph.export import export_function, export_node, value_info
from xoptim.graph.graph import Graph
from xoptim.graph.model import UNLISTED_SINCE
from xoptim.graph.node import LOCAL, Node
from xoptim.graph.walk import reads

_LARGE = 1 << 20
_FUNCTIONS_SINCE = 8


def fragment(graph: Graph, nodes: Sequence[Node], results: Sequence[str], *, largest: int = _LARGE) -> onnx.ModelProto:
    """A model of some nodes, in any order, that belong or belonged to a graph; its outputs are ``results``.

    Results that they read from elsewhere are its inputs, with the types and shapes that are known; constants are stored in it
    up to ``largest`` bytes. Local functions that the nodes call are included.
    """
    ordered = sorted(nodes, key=lambda node: node.label)
    made = {name for node in ordered for name in node.output}
    proto = onnx.GraphProto(name="fragment")
    proto.node.extend(map(export_node, ordered))
    for name in dict.fromkeys(name for node in ordered for name in reads(node) if name not in made):
        tensor = graph.tensor(name)
        if tensor is not None and not tensor.is_external and tensor.nbytes <= largest:
            proto.initializer.append(tensor.to_proto(name))
        else:
            proto.input.append(value_info(name, graph.info_of(name)))
    proto.output.extend(value_info(name, graph.info_of(name)) for name in results)
    return model_of(graph, proto, ordered)


def model_of(graph: Graph, proto: onnx.GraphProto, nodes: Sequence[Node]) -> onnx.ModelProto:
    """A model of a graph protobuf made of copies of ``nodes``, with the operator sets and local functions that they need."""
    model = graph.model
    opsets = {
        "": model.opsets.get("", 1),
        **graph.opsets,
        **{node.domain: 1 for node in nodes if node.domain not in graph.opsets and not node.domain.endswith(LOCAL)},
    }
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    functions = called_functions(graph, nodes)
    version = max(model.ir_version, _FUNCTIONS_SINCE if functions else UNLISTED_SINCE)
    return onnx.helper.make_model(proto, opset_imports=imports, ir_version=version, functions=functions)


def called_functions(graph: Graph, nodes: Sequence[Node]) -> list[onnx.FunctionProto]:
    """Local functions that the nodes call, directly or through other functions."""
    known = {function.key: function for function in graph.model.functions}
    if not known:
        return []
    pending = [node for each in nodes for node in _all_nodes(each)]
    found = {}
    while pending:
        node = pending.pop()
        function = known.get((node.domain, node.op_type, node.overload))
        if function is not None and function.key not in found:
            found[function.key] = function
            pending += [inner for each in function.body.nodes for inner in _all_nodes(each)]
    return [export_function(function) for key, function in known.items() if key in found]


def _all_nodes(node: Node) -> Iterator[Node]:
    yield node
    for body in node.bodies.values():
        for inner in body.nodes:
            yield from _all_nodes(inner)
