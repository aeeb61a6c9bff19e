"""The model: the main graph, the local functions, and everything around them that is carried through unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from xoptim.graph.graph import Graph, Listener
from xoptim.graph.names import Names


class Function:
    """A local function: its body as a graph and the protobuf that holds the rest of it."""

    __slots__ = ("body", "proto")

    def __init__(self, proto: onnx.FunctionProto, body: Graph) -> None:
        self.proto = proto
        self.body = body

    @property
    def key(self) -> tuple[str, str, str]:
        """Domain, name and overload by which nodes call it."""
        return self.proto.domain, self.proto.name, self.proto.overload


class Model:
    """A model in memory.

    Attributes:
        names: all result names of the model, subgraphs and functions included.
        opsets: version of each operator set imported, by domain (``""`` for the standard one).
        ir_version: version of the file format.
        base_dir: folder of the file, for external data.
        shell: the model without its graph and functions: producer, versions, metadata, training info.
        listeners: told of each change to any graph of the model.
    """

    def __init__(self, opsets: dict[str, int], ir_version: int, base_dir: Path | None = None) -> None:
        self.names = Names()
        self.opsets = opsets
        self.ir_version = ir_version
        self.base_dir = base_dir
        self.shell = onnx.ModelProto()
        self.listeners: list[Listener] = []
        self.functions: list[Function] = []
        self._node_names: Names | None = None
        self.graph = Graph(self)

    def graphs(self) -> Iterator[Graph]:
        """All graphs: bodies of functions first, then the main graph, each followed by its subgraphs."""
        for function in self.functions:
            yield from function.body.all_graphs()
        yield from self.graph.all_graphs()

    def dispose(self) -> None:
        """Break the reference cycles of a model that is not needed any more.

        Its memory is then freed at once, instead of when the cyclic garbage collector walks hundreds of thousands of objects.
        """
        for graph in list(self.graphs()):
            for node in graph.nodes:
                node.graph = node.previous = node.next = None
            graph.forget()

    def fresh_node_name(self, hint: str) -> str:
        """A node name that no node has."""
        if self._node_names is None:
            self._node_names = Names()
            self._node_names.used.update(node.name for graph in self.graphs() for node in graph.nodes)
        return self._node_names.fresh(hint)
