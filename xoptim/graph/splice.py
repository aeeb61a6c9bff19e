"""Copy the nodes of a subgraph or of a local function into the graph that runs them, or change the
subgraph of a node.
"""

import graphlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Final

import onnx
from onnx import GraphProto, NodeProto, checker, inliner

from xoptim.facts.advice import Advice
from xoptim.facts.bodies import write_defaults
from xoptim.facts.errors import ModelError
from xoptim.facts.protos import (
    copy_fields,
    every_node,
    own_graphs,
    own_names,
    proto_reads,
    replace_items,
)
from xoptim.graph.export import export_graph, export_node, export_nodes
from xoptim.graph.graph import Graph
from xoptim.graph.model import call_domain
from xoptim.graph.node import Node
from xoptim.graph.walk import reads

EXPANSION_LIMIT = 1_000_000
"""Number of nodes above which calls are not replaced: functions that each call the next one twice
grow exponentially.
"""


_LIBRARIES: Final = ("pkg.onnxscript.torch_lib", "pkg.onnxscript.torch_lib.common")
"""Domains of functions that early versions of torch's dynamo exporter wrote for its operators.

Their bodies branch on attributes and ranks, which are known where they are called. Nobody chose
them as the structure of a model.
"""


def inline_libraries(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model without the functions that torch's exporter wrote for its operators.

    It is ``proto`` itself if it has none, or if their calls cannot be replaced.
    """
    if not any(function.domain in _LIBRARIES for function in proto.functions):
        return proto
    try:
        return inline_functions(proto, _LIBRARIES)
    except ModelError:
        return proto


def inline_functions(proto: onnx.ModelProto, domains: Sequence[str] = ()) -> onnx.ModelProto:
    """A model without local functions, or without those of some domains. ``proto`` is not modified.

    The weights are kept out of the call: the inliner works on serialized models, whose size is
    limited. Raises `ModelError` when a function calls itself, or the model would have more than
    ``EXPANSION_LIMIT`` nodes.
    """
    if (count := expanded_size(proto)) > EXPANSION_LIMIT:
        raise ModelError(
            f"without local functions the model would have {count:,} nodes; run without "
            f"{Advice('inline')}"
        )
    light = onnx.ModelProto()
    copy_fields(proto, light, ("graph",))
    copy_fields(proto.graph, light.graph, ("initializer",))
    _write_defaults(light)
    try:
        if domains:
            names = [(f.domain, f.name) for f in light.functions if f.domain in domains]
            inlined = inliner.inline_selected_functions(light, names)
        else:
            inlined = inliner.inline_local_functions(light)
    except checker.ValidationError as error:
        raise ModelError(
            f"onnx cannot replace the calls of local functions: {error} Run without "
            f"{Advice('inline')}"
        ) from error
    inlined.graph.initializer.extend(proto.graph.initializer)
    return inlined


def expanded_size(proto: onnx.ModelProto) -> int:
    """Number of nodes of a model, subgraphs included, once every call of a local function is
    replaced by its body.

    Raises `ModelError` when a function calls itself, directly or through other functions.
    """
    functions = {(f.domain, f.name, f.overload): f for f in proto.functions}
    calls = {key: Counter(_operators(function.node)) for key, function in functions.items()}
    sizes: dict[tuple[str, str, str], int] = {}
    dependencies = {key: callees.keys() & calls.keys() for key, callees in calls.items()}
    try:
        for key in graphlib.TopologicalSorter(dependencies).static_order():
            sizes[key] = _total(calls[key], sizes)
    except graphlib.CycleError as error:
        raise ModelError(f"local function {error.args[1][0][1]!r} calls itself") from error
    return _total(Counter(_operators(proto.graph.node)), sizes)


def _total(
    calls: Mapping[tuple[str, str, str], int], sizes: Mapping[tuple[str, str, str], int]
) -> int:
    return sum(count * sizes.get(key, 1) for key, count in calls.items())


def _operators(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, str, str]]:
    """The operators and functions that the nodes call, nodes of subgraphs included."""
    return ((node.domain, node.op_type, node.overload) for node in every_node(nodes))


def _write_defaults(model: onnx.ModelProto) -> None:
    """Write on each call the attributes that have a default in the function: the inliner drops the
    defaults.
    """
    defaults = {
        (f.domain, f.name, f.overload): f.attribute_proto
        for f in model.functions
        if f.attribute_proto
    }
    if defaults:
        for nodes in (model.graph.node, *(function.node for function in model.functions)):
            for node in every_node(nodes):
                write_defaults(node, defaults.get((node.domain, node.op_type, node.overload), ()))


def can_splice(body: Graph) -> bool:
    """Whether everything that a subgraph defines can be defined outside it (sparse and overridable
    initializers cannot).
    """
    sparse = body.source.sparse_initializer if body.source is not None else ()
    return not sparse and not body.overridable


def splice(
    body: Graph, into: Graph, inputs: Mapping[str, str], outputs: Sequence[str]
) -> list[Node]:
    """Copies of the nodes of a subgraph, in order, to be inserted in the enclosing graph at the
    place of the owner.

    The subgraph is left unchanged. ``inputs`` gives the name that replaces each input, ``outputs``
    a name for each output; everything else that the subgraph defines gets a new name, since other
    subgraphs may use the same names. Its initializers are stored in ``into``. Subgraphs of the
    copies are not loaded.
    """
    names = dict(inputs)
    _store(body, body.initializers, into, names)
    produced = {name for node in body.nodes for name in node.output if name}
    copies: list[tuple[str, str]] = []
    for name, target in zip(body.outputs, outputs, strict=True):
        if name in produced and name not in names:
            names[name] = target
        else:
            copies.append((name, target))
    nodes = [_copy(source, into, names) for source in export_nodes(body)]
    nodes += [
        Node("Identity", [names.get(name, name)], [target], name=into.node_names.fresh("Identity"))
        for name, target in copies
    ]
    return nodes


def lift(body: Graph, nodes: Sequence[Node], into: Graph, names: dict[str, str]) -> list[Node]:
    """Copies of some nodes of a subgraph for the enclosing graph; the subgraph is left unchanged.

    Their results get new names, and the initializers that they read are stored in ``into``.
    ``names`` maps values of the subgraph to their names outside; the new results and initializers
    are added. The nodes must be in an order in which they can run, and read nothing but results of
    each other, initializers, values in ``names`` and values from outside.
    """
    constants = dict.fromkeys(
        name
        for node in nodes
        for name in reads(node)
        if name in body.initializers and name not in names
    )
    _store(body, constants, into, names)
    return [_copy(export_node(node), into, names) for node in nodes]


def _store(body: Graph, constants: Iterable[str], into: Graph, names: dict[str, str]) -> None:
    for name in constants:
        names[name] = into.names.fresh(name)
        into.add_initializer(names[name], body.initializers[name])


def _copy(source: NodeProto, into: Graph, names: dict[str, str]) -> Node:
    """A copy of a node with other names; its results that have no other name yet get new ones."""
    proto = deepcopy(source)
    proto.name = into.node_names.fresh(source.name or source.op_type)
    names |= {name: into.names.fresh(name) for name in source.output if name and name not in names}
    _rename(proto, names)
    node = Node.from_proto(proto)
    if (node.domain, node.op_type) in into.model.hidden_operators:
        node.domain = call_domain(node.domain)
    return node


def _rename(proto: NodeProto, names: Mapping[str, str]) -> None:
    """Rename operands and results of a node, and what its subgraphs read from outside."""
    proto.input[:] = [names.get(name, name) for name in proto.input]
    proto.output[:] = [names.get(name, name) for name in proto.output]
    for body in own_graphs(proto):
        rename_graph(body, names)


def rename_graph(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename what a subgraph reads from outside."""
    own = own_names(graph)
    outer = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        _rename(node, outer)
    for value in graph.output:
        value.name = outer.get(value.name, value.name)


def rebuilt(
    body: Graph,
    names: Mapping[str, str],
    inputs: Collection[int] = (),
    outputs: Collection[int] = (),
) -> GraphProto:
    """A copy of a subgraph in which values from outside replace some of its own, without the nodes
    that are no longer needed.

    ``names`` gives the outside value for each replaced one; the inputs and outputs at the indices
    ``inputs`` and ``outputs`` are removed. No remaining node may read a removed input that is not
    in ``names``. An output that comes from outside becomes an Identity of it, as runtimes require a
    node for each output.
    """
    proto = GraphProto()
    export_graph(body, proto)
    nodes = [node for node in proto.node if not all(name in names for name in node.output if name)]
    for node in nodes:
        node.input[:] = [names.get(name, name) for name in node.input]
        for inner in own_graphs(node):
            rename_graph(inner, names)
    remaining = [value for place, value in enumerate(proto.output) if place not in outputs]
    nodes += [
        NodeProto(op_type="Identity", input=[names[name]], output=[name])
        for name in dict.fromkeys(value.name for value in remaining)
        if name in names
    ]
    needed = _needed(nodes, {value.name for value in remaining})
    replace_items(
        proto.node, [node for node in nodes if any(name in needed for name in node.output)]
    )
    replace_items(
        proto.input, [value for place, value in enumerate(proto.input) if place not in inputs]
    )
    replace_items(proto.output, remaining)
    replace_items(
        proto.initializer, [tensor for tensor in proto.initializer if tensor.name in needed]
    )
    defined = {name for node in proto.node for name in node.output}
    replace_items(proto.value_info, [value for value in proto.value_info if value.name in defined])
    return proto


def _needed(nodes: list[NodeProto], outputs: set[str]) -> set[str]:
    needed = set(outputs)
    for node in reversed(nodes):
        if any(name in needed for name in node.output):
            needed.update(proto_reads(node))
    return needed
