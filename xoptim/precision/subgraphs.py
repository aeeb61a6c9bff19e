"""The nodes that compute a result: in the float32 model, and in a model with quantized operands.

Each value of a model has its own name here, also in subgraphs.
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
        own_names = {tensor.name for tensor in self.initializers} | {
            name for node in self.nodes for name in node.output
        }
        return sorted(
            {name for node in self.nodes for name in proto_reads(node) if name} - own_names
        )

    @property
    def byte_size(self) -> int:
        """Bytes of the nodes and of the initializers."""
        return sum(part.ByteSize() for part in (*self.nodes, *self.initializers))


def original_subgraph(
    makers: Mapping[str, onnx.NodeProto], result: str, inputs: Iterable[str]
) -> ResultSubgraph:
    """The nodes that compute a result from other values, in order.

    Args:
        makers: the node of each result.
        result: the result.
        inputs: names of the other values. Nodes that compute these values, or values on which these
            depend, are left out.
    """
    last, ends = makers[result], {*inputs}
    if not makers.keys().isdisjoint({*proto_reads(last)} - ends):  # rare: most are constants
        ends = with_sources(makers, ends)
    nodes, stack = dict[int, onnx.NodeProto](), [last]
    while stack:
        node = stack[-1]
        names = [name for name in proto_reads(node) if name in makers and name not in ends]
        producers = [makers[name] for name in names]
        missing = [producer for producer in producers if id(producer) not in nodes]
        if missing:
            stack += missing
        else:
            nodes[id(stack.pop())] = node
    return ResultSubgraph(list(nodes.values()), [])


def with_sources(makers: Mapping[str, onnx.NodeProto], names: Iterable[str]) -> set[str]:
    """Some values, and all values from which they are computed."""
    sources, stack = set[str](), [*names]
    while stack:
        name = stack.pop()
        if name not in sources:
            sources.add(name)
            node = makers.get(name)
            stack += [] if node is None else proto_reads(node)
    return sources


def replaced_subgraphs(
    before: onnx.ModelProto, after: onnx.ModelProto, results: Iterable[str]
) -> dict[str, ResultSubgraph]:
    """For each result, the nodes by which ``after`` computes it from values of ``before``."""
    old_names, nodes = defined_names(before), [*every_node(after.graph.node)]
    indices = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    initializers = {
        tensor.name: tensor
        for graph in (after.graph, *inner_graphs(after.graph.node))
        for tensor in graph.initializer
    }
    return {
        result: _replaced(nodes, result, old_names, indices, initializers) for result in results
    }


def _replaced(
    after: Sequence[onnx.NodeProto],
    result: str,
    old_names: set[str],
    indices: Mapping[str, int],
    initializers: Mapping[str, onnx.TensorProto],
) -> ResultSubgraph:
    positions, tensors, stack = set[int](), dict[str, onnx.TensorProto](), [result]
    while stack:
        name = stack.pop()
        if name in initializers and name not in old_names:
            tensors[name] = initializers[name]
        elif name == result or (name not in old_names and name in indices):
            index = indices[name]
            if index not in positions:
                positions.add(index)
                stack += after[index].input
    return ResultSubgraph([after[index] for index in sorted(positions)], list(tensors.values()))
