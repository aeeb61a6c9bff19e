"""One model with a switch for each product: so that any choice of products runs in one session.

Each value of a model has its own name here, in subgraphs too.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import onnx
from onnx import TensorProto, helper

from xoptim.facts.protos import every_node, inner_graphs
from xoptim.match.rounding import first_result
from xoptim.preparation.ports import defined_names

_Form: TypeAlias = tuple[str, str]


class Part(NamedTuple):
    """The nodes that compute a result in a rewritten model, with the initializers that only this
    model has.

    Attributes:
        nodes: in order.
        stored: initializers.
    """

    nodes: list[onnx.NodeProto]
    stored: list[onnx.TensorProto]

    @property
    def reads(self) -> list[str]:
        """The names of other values that the nodes read."""
        own = {tensor.name for tensor in self.stored} | {
            name for node in self.nodes for name in node.output
        }
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


def replaced_parts(
    before: onnx.ModelProto, after: onnx.ModelProto, results: Iterable[str]
) -> dict[str, Part]:
    """For each of some results, the nodes by which ``after`` computes it from values that
    ``before`` has too.
    """
    known, nodes = defined_names(before), [*every_node(after.graph.node)]
    places = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    stored = {
        tensor.name: tensor
        for graph in (after.graph, *inner_graphs(after.graph.node))
        for tensor in graph.initializer
    }
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


def switched(
    before: onnx.ModelProto, parts: Mapping[_Form, Part], *, is_optimized: bool = True
) -> tuple[onnx.ModelProto, dict[_Form, str]]:
    """A model that computes each result as before, or by one of its parts where a Boolean input
    says so.

    Args:
        before: the model.
        parts: by the name of a result, and any name of the form.
        is_optimized: whether onnxruntime optimizes the model when it loads it.

    Returns:
        The model, and the name of the input that switches each part.
    """
    model = onnx.ModelProto()
    model.CopyFrom(before)
    taken = defined_names(before)
    switches: dict[_Form, str] = {}
    choices: dict[str, list[tuple[str, Part]]] = {}
    for (result, pattern), part in parts.items():
        name = f"switch_{len(switches)}"
        while name in taken:
            name = f"{name}_"
        switches[result, pattern] = name
        choices.setdefault(result, []).append((name, part))
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.BOOL, ()))
    writer = _Writer(model.graph, is_optimized)
    # a node is copied with its subgraphs
    for graph in reversed([model.graph, *inner_graphs(model.graph.node)]):
        nodes = [deepcopy(node) for node in graph.node]
        del graph.node[:]
        for node in nodes:
            writer.write(graph.node.add(), node, choices.get(first_result(node), ()))
    return model, switches


class _Writer:
    """Writes choices of nodes to their places, so that weights, which fill most of the memory, are
    copied once.

    Constants go to the main graph, equal ones once: those of a table and of a product. There they
    may be larger than a protobuf of 2 GiB. Blocks stay in their subgraph where onnxruntime
    optimizes: version 1.32 does not load a model then that dequantizes blocks from outside of one.
    """

    def __init__(self, main: onnx.GraphProto, is_optimized: bool) -> None:
        self._main = main
        self._is_optimized = is_optimized
        self._kept = dict[bytes, str]()

    def write(
        self, target: onnx.NodeProto, node: onnx.NodeProto, choices: Sequence[tuple[str, Part]]
    ) -> None:
        """Write a node, or an If with the last part in one branch and a node of the other choices
        in the other one.
        """
        if not choices:
            target.CopyFrom(node)
            return
        switch, part = choices[-1]
        target.op_type = "If"
        target.input.append(switch)
        target.output.extend(name for name in node.output if name)
        rounded = _branch(target, "then_branch", f"{switch}_on")
        names = self._store(part, rounded)
        names |= {
            name: f"{rounded.name}/{name}" for each in part.nodes for name in each.output if name
        }
        for each in part.nodes:
            copy = rounded.node.add()
            copy.CopyFrom(each)
            _rename(copy, names)
        plain = _branch(target, "else_branch", f"{switch}_off")
        other = plain.node.add()
        self.write(other, node, choices[:-1])
        _rename(other, {name: f"{plain.name}/{name}" for name in target.output})

    def _store(self, part: Part, branch: onnx.GraphProto) -> dict[str, str]:
        """Store the constants of a part; returns their new names."""
        blocks = (
            {name for node in part.nodes if _reads_blocks(node) for name in node.input}
            if self._is_optimized
            else ()
        )
        names = dict[str, str]()
        for tensor in part.stored:
            name = f"{branch.name}/{tensor.name}"
            names[tensor.name] = (
                name if tensor.name in blocks else self._kept.setdefault(_digest(tensor), name)
            )
            if names[tensor.name] == name:
                copy = (branch if tensor.name in blocks else self._main).initializer.add()
                copy.CopyFrom(tensor)
                copy.name = name
        return names


def _branch(choice: onnx.NodeProto, name: str, prefix: str) -> onnx.GraphProto:
    """A new branch without nodes, whose own names begin with its name: a subgraph may not define
    one of the graph around it.
    """
    branch: onnx.GraphProto = choice.attribute.add(name=name, type=onnx.AttributeProto.GRAPH).g
    branch.name = prefix
    for result in choice.output:
        output = branch.output.add(name=f"{prefix}/{result}")
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    return branch


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename what a node of a branch reads and computes, and leave its own name out."""
    node.name = ""
    for field in (node.input, node.output):
        field[:] = [names.get(name, name) for name in field]


def store_once(model: onnx.ModelProto, old: Collection[str]) -> None:
    """Move new constants of subgraphs to the main graph, but for blocks (see `_Writer`), and keep
    one of equal ones.
    """
    main, kept, names = model.graph, dict[bytes, str](), dict[str, str]()
    for graph in (main, *inner_graphs(main.node)):
        if graph is not main:
            old = {
                *old,
                *(name for node in graph.node if _reads_blocks(node) for name in node.input),
            }
        new = [place for place, tensor in enumerate(graph.initializer) if tensor.name not in old]
        for place in new:
            tensor = graph.initializer[place]
            names[tensor.name] = kept.setdefault(_digest(tensor), tensor.name)
            if names[tensor.name] == tensor.name and graph is not main:
                main.initializer.add().CopyFrom(tensor)
        for place in reversed(new):
            name = graph.initializer[place].name
            if graph is not main or names[name] != name:
                del graph.initializer[place]
    for node in every_node(main.node):
        node.input[:] = [names.get(name, name) for name in node.input]


def _digest(tensor: onnx.TensorProto) -> bytes:
    """Of all but the name."""
    name, tensor.name = tensor.name, ""
    content = sha256(tensor.SerializeToString(deterministic=True)).digest()
    tensor.name = name
    return content


def _reads_blocks(node: onnx.NodeProto) -> bool:
    return node.op_type == "DequantizeLinear" and any(
        each.name == "block_size" for each in node.attribute
    )
