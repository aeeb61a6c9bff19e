"""One model with a switch for each product: so that any choice of products runs in one session.

Each value of a model has its own name here, in subgraphs too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import onnx
from onnx import TensorProto, helper

from xoptim.facts.protos import every_node, inner_graphs, replace_items
from xoptim.match.rounding import first_result
from xoptim.preparation.ports import defined_names

_Form: TypeAlias = tuple[str, str]


class Part(NamedTuple):
    """The nodes that compute a result in a rewritten model, with the initializers that only this model has.

    Attributes:
        nodes: in order.
        stored: initializers.
    """

    nodes: list[onnx.NodeProto]
    stored: list[onnx.TensorProto]

    @property
    def reads(self) -> list[str]:
        """The names of other values that the nodes read."""
        own = {tensor.name for tensor in self.stored} | {name for node in self.nodes for name in node.output}
        return sorted({name for node in self.nodes for name in node.input if name} - own)


def original_part(makers: Mapping[str, onnx.NodeProto], result: str, given: Iterable[str]) -> Part:
    """The nodes that compute a result from given ones.

    Args:
        makers: the node of each result.
        result: the result.
        given: what is not computed.
    """
    nodes, waiting, ends = list[onnx.NodeProto](), [result], {*given}
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and not any(node is each for each in nodes):
            nodes.append(node)
            waiting += [name for name in node.input if name and name not in ends]
    return Part(nodes[::-1], [])


def replaced_parts(before: onnx.ModelProto, after: onnx.ModelProto, results: Iterable[str]) -> dict[str, Part]:
    """For each of some results, the nodes by which ``after`` computes it from values that ``before`` has too."""
    known, nodes = defined_names(before), [*every_node(after.graph.node)]
    places = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    stored = {tensor.name: tensor for graph in (after.graph, *inner_graphs(after.graph.node)) for tensor in graph.initializer}
    return {result: _part(nodes, result, known, places, stored) for result in results}


def _part(
    after: Sequence[onnx.NodeProto],
    result: str,
    known: set[str],
    places: Mapping[str, int],
    stored: Mapping[str, onnx.TensorProto],
) -> Part:
    found, tensors, waiting = set[int](), dict[str, onnx.TensorProto](), [result]
    while waiting:
        name = waiting.pop()
        if name in stored and name not in known:
            tensors[name] = stored[name]
        elif name == result or (name not in known and name in places):
            place = places[name]
            if place not in found:
                found.add(place)
                waiting += after[place].input
    return Part([after[place] for place in sorted(found)], list(tensors.values()))


def switched(before: onnx.ModelProto, parts: Mapping[_Form, Part]) -> tuple[onnx.ModelProto, dict[_Form, str]]:
    """A model that computes each result as before, or by one of its parts where a Boolean input says so.

    Args:
        before: the model.
        parts: by the name of a result, and any name of the form.

    Returns:
        The model, and the name of the input that switches each part.
    """
    model = onnx.ModelProto()
    model.CopyFrom(before)
    taken = defined_names(before)
    switches: dict[_Form, str] = {}
    for form in parts:
        name = f"switch_{len(switches)}"
        while name in taken:
            name = f"{name}_"
        switches[form] = name
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.BOOL, ()))
    for graph in reversed([model.graph, *inner_graphs(model.graph.node)]):  # a node is copied with its subgraphs
        nodes = {first_result(node): node for node in graph.node}
        here = [form for form in parts if form[0] in nodes]
        for form in here:
            nodes[form[0]] = _choice(nodes[form[0]], parts[form], switches[form])
        if here:
            replace_items(graph.node, nodes.values())
    store_once(model, taken)
    return model, switches


def store_once(model: onnx.ModelProto, old: Collection[str]) -> None:
    """Move new constants of subgraphs to the main graph, and store equal ones once: those of a table and of a product.

    There they may be larger than a protobuf of 2 GiB.

    Blocks stay in their subgraph: onnxruntime 1.32 does not load a model that dequantizes blocks from outside of one.
    """
    kept, names = dict[bytes, TensorProto](), dict[str, str]()
    for graph in (model.graph, *inner_graphs(model.graph.node)):
        if graph is not model.graph:
            old = {*old, *(name for node in graph.node if _reads_blocks(node) for name in node.input)}
        for tensor in graph.initializer:
            if tensor.name not in old:
                content = TensorProto()
                content.CopyFrom(tensor)
                content.name = ""
                names[tensor.name] = kept.setdefault(sha256(content.SerializeToString()).digest(), tensor).name
        replace_items(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in old])
    model.graph.initializer.extend(kept.values())
    for node in every_node(model.graph.node):
        node.input[:] = [names.get(name, name) for name in node.input]


def _reads_blocks(node: onnx.NodeProto) -> bool:
    return node.op_type == "DequantizeLinear" and any(each.name == "block_size" for each in node.attribute)


def _choice(node: onnx.NodeProto, part: Part, switch: str) -> onnx.NodeProto:
    """An If with the part in one branch, and the node in the other one."""
    results = [name for name in node.output if name]
    rounded = _branch(part.nodes, part.stored, results, f"{switch}_on")
    plain = _branch([node], [], results, f"{switch}_off")
    return helper.make_node("If", [switch], results, then_branch=rounded, else_branch=plain)


def _branch(
    nodes: Iterable[onnx.NodeProto], stored: Iterable[onnx.TensorProto], results: Iterable[str], prefix: str
) -> onnx.GraphProto:
    """A graph without inputs, whose own names begin with a prefix: a subgraph may not define a name of the graph around it."""
    copies, tensors = [deepcopy(node) for node in nodes], [deepcopy(tensor) for tensor in stored]
    own = {tensor.name for tensor in tensors} | {name for node in copies for name in node.output if name}
    for tensor in tensors:
        tensor.name = f"{prefix}/{tensor.name}"
    for node in copies:
        node.name = ""
        for names in (node.input, node.output):
            names[:] = list(_renamed(names, own, prefix))
    outputs = [onnx.ValueInfoProto(name=f"{prefix}/{result}") for result in results]
    for output in outputs:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    return helper.make_graph(copies, prefix, [], outputs, tensors)


def _renamed(names: Iterable[str], own: set[str], prefix: str) -> Iterator[str]:
    return (f"{prefix}/{name}" if name in own else name for name in names)
