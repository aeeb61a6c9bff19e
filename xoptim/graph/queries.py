"""Queries about a graph that are common to builders and patterns."""

from collections.abc import Iterator

from xoptim.facts.shapes import Shape
from xoptim.graph.constants import is_constant
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.splice import can_splice
from xoptim.graph.walk import reads


class GraphQueries:
    """Methods that return facts about one graph and its results, looked up in ``scope``: the graph
    or an edit of it.
    """

    __slots__ = ()

    graph: Graph
    scope: Graph

    @property
    def main_opset(self) -> int:
        """Version of the standard operator set."""
        return self.graph.opsets.get("", 0)

    @property
    def opsets(self) -> dict[str, int]:
        """Versions of all imported operator sets, by domain."""
        return dict(self.graph.opsets)

    @property
    def nodes(self) -> list[Node]:
        """All nodes in order."""
        return list(self.graph.nodes)

    @property
    def input_names(self) -> list[str]:
        """Inputs of the graph."""
        return list(self.graph.inputs)

    @property
    def output_names(self) -> list[str]:
        """Outputs of the graph."""
        return list(self.graph.outputs)

    def node_before(self, name: str) -> Node | None:
        """The node that produces a result, ``None`` for inputs, initializers and results of an
        enclosing graph.
        """
        return self.graph.producer(name)

    def next_nodes(self, name: str) -> list[Node]:
        """The nodes that read a result, each once; nodes of subgraphs are not among them."""
        return self.graph.consumers(name)

    def reads(self, node: Node) -> Iterator[str]:
        """Everything that a node and its subgraphs read. Names may repeat."""
        return reads(node)

    def can_splice(self, body: Graph) -> bool:
        """Whether a subgraph of a node can be copied into this graph (`PatternRewriter.splice`)."""
        return can_splice(body)

    def has_type(self, name: str) -> bool:
        """Whether the element type of a result is known."""
        return self.scope.info_of(name).dtype != 0

    def get_type(self, name: str) -> int:
        """Element type of a result, a value of ``TensorProto.DataType``.

        Raises ``LookupError`` when it is unknown.
        """
        dtype = self.scope.info_of(name).dtype
        if not dtype:
            raise LookupError(f"the type of {name!r} is unknown")
        return dtype

    def has_shape(self, name: str) -> bool:
        """Whether the rank of a result is known, so that each axis is a number or a symbol."""
        return self.scope.info_of(name).shape is not None

    def get_shape(self, name: str) -> Shape:
        """Shape of a result, numbers and symbolic dimensions.

        Raises ``LookupError`` when it is unknown.
        """
        shape = self.scope.info_of(name).shape
        if shape is None:
            raise LookupError(f"the shape of {name!r} is unknown")
        return shape

    def has_rank(self, name: str) -> bool:
        """Whether the rank of a result is known."""
        return self.has_shape(name)

    def get_rank(self, name: str) -> int:
        """Rank of a result; raises ``LookupError`` when it is unknown."""
        return len(self.get_shape(name))

    def is_constant(self, name: str) -> bool:
        """Whether a result is the same at every run: stored, computed only from such results, or
        determined by shapes alone.
        """
        return bool(name) and is_constant(self.scope, name)
