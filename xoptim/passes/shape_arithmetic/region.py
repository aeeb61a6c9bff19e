"""The nodes of a graph that compute only sizes, and the values that they compute."""

from collections.abc import Iterator

from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.shapes import Shape
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import around
from xoptim.operators.registry import Trait, has_trait

Key = tuple[int, tuple[Dim, ...]]
"""A value of 64-bit integers: its rank, 0 or 1, and its elements."""


class SizeRegion:
    """Nodes that compute only sizes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: dict[str, Key] = {}  # the value of each 64-bit size that the nodes compute
        # names of the values that other nodes, outputs or subgraphs read, in order
        self.demanded: list[str] = []
        members = self._grow()
        # Nodes that compute 64-bit sizes, at least one of them symbolic, and nodes whose results
        # only such nodes read; in order
        self.nodes = [node for node in graph.nodes if node in members]
        self.demanded.reverse()
        # The shapes of inputs, then of tensors whose shape is read already
        self.sources: dict[str, Shape] = dict(self._inputs())
        # sources that only the region reads: computing them counts as a cost
        self.spared: set[str] = set()
        for node in self.nodes:
            if has_trait(node.domain, node.op_type, Trait.MEASURES):
                self._measure(node.input[0], members)

    def _grow(self) -> set[Node]:
        """Walk backwards: a node is outside if its values are unknown, or if they are needed
        outside and not of type int64.
        """
        members: set[Node] = set()
        needed: set[str] = set()
        for node in reversed(list(self.graph.nodes)):
            value = size_of(self.graph, node)
            is_needed = any(name in needed or self._is_kept(name) for name in node.output)
            if value is not None:
                self.values[node.output[0]] = value
                if is_needed:
                    self.demanded.append(node.output[0])
            if value is not None or (not is_needed and _is_known(self.graph, node)):
                members.add(node)
            else:
                needed.update(node.input)
        return members

    def _is_kept(self, name: str) -> bool:
        graph = self.graph
        return graph.is_output(name) or graph.is_captured(name) or name in graph.pinned

    def _inputs(self) -> Iterator[tuple[str, Shape]]:
        for scope in (self.graph, *around(self.graph)):
            for name in scope.inputs:
                info = scope.info_of(name)
                if info.shape and info.is_tensor:
                    yield name, info.shape

    def _measure(self, name: str, members: set[Node]) -> None:
        graph = self.graph
        producer, shape = graph.producer(name), graph.info_of(name).shape
        if not shape or producer in members:
            return
        self.sources.setdefault(name, shape)
        if (
            producer is not None
            and not self._is_kept(name)
            and all(reader in members for reader in graph.consumers(name))
        ):
            self.spared.add(name)


def size_of(graph: Graph, node: Node) -> Key | None:
    """The value of a node that computes 64-bit sizes, at least one of them symbolic."""
    if node.bodies or node.domain or len(node.output) != 1:
        return None
    info = graph.info_of(node.output[0])
    if info.dtype != TensorProto.INT64 or info.data is None or info.shape is None:
        return None
    return None if all(type(dim) is int for dim in info.data) else (len(info.shape), info.data)


def _is_known(graph: Graph, node: Node) -> bool:
    """Whether a node computes values of another type from sizes only."""
    return (
        not node.bodies
        and not node.domain
        and all(graph.info_of(name).data is not None for name in node.output if name)
    )
