"""The nodes that compute a result: in the float32 model, and in a model with quantized operands.

Each value of a model has its own name here, in subgraphs too.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import onnx

from xoptim.facts.protos import every_node, inner_graphs, proto_reads
from xoptim.preparation.ports import defined_names


class ResultSubgraph(NamedTuple):
    """The nodes that compute a result in a rewritten model, with the initializers that only this
    model has.

    Attributes:
        nodes: in order.
        initializers: those that the nodes read.
    """

    nodes: list[onnx.NodeProto]
    initializers: list[onnx.TensorProto]

    @property
    def reads(self) -> list[str]:
        """The names of other values that the nodes read."""
        own = {tensor.name for tensor in self.initializers} | {
            name for node in self.nodes for name in node.output
        }
        return sorted({name for node in self.nodes for name in proto_reads(node) if name} - own)

    @property
    def byte_size(self) -> int:
        """Bytes of the nodes and of the initializers."""
        return sum(each.ByteSize() for each in (*self.nodes, *self.initializers))


def original_subgraph(
    makers: Mapping[str, onnx.NodeProto], result: str, given: Iterable[str]
) -> ResultSubgraph:
    """The nodes that compute a result from given ones.

    Args:
        makers: the node of each result.
        result: the result.
        given: what is not computed, with all that it is computed from.
    """
    last, ends = makers[result], {*given}
    if not makers.keys().isdisjoint({*proto_reads(last)} - ends):  # rare: most read constants
        ends = _with_sources(makers, ends)
    nodes, waiting = list[onnx.NodeProto](), [result]
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and not any(node is each for each in nodes):
            nodes.append(node)
            waiting += [name for name in proto_reads(node) if name and name not in ends]
    return ResultSubgraph(nodes[::-1], [])


def _with_sources(makers: Mapping[str, onnx.NodeProto], names: Iterable[str]) -> set[str]:
    """Some values, and all values from which they are computed."""
    sources, waiting = set[str](), [*names]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources.add(name)
            node = makers.get(name)
            waiting += [] if node is None else proto_reads(node)
    return sources


def replaced_subgraphs(
    before: onnx.ModelProto, after: onnx.ModelProto, results: Iterable[str]
) -> dict[str, ResultSubgraph]:
    """For each of some results, the nodes by which ``after`` computes it from values that
    ``before`` has too.
    """
    known, nodes = defined_names(before), [*every_node(after.graph.node)]
    indices = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    initializers = {
        tensor.name: tensor
        for graph in (after.graph, *inner_graphs(after.graph.node))
        for tensor in graph.initializer
    }
    return {result: _replaced(nodes, result, known, indices, initializers) for result in results}


def _replaced(
    after: Sequence[onnx.NodeProto],
    result: str,
    known: set[str],
    indices: Mapping[str, int],
    initializers: Mapping[str, onnx.TensorProto],
) -> ResultSubgraph:
    found, tensors, waiting = set[int](), dict[str, onnx.TensorProto](), [result]
    while waiting:
        name = waiting.pop()
        if name in initializers and name not in known:
            tensors[name] = initializers[name]
        elif name == result or (name not in known and name in indices):
            index = indices[name]
            if index not in found:
                found.add(index)
                waiting += after[index].input
    return ResultSubgraph([after[index] for index in sorted(found)], list(tensors.values()))
