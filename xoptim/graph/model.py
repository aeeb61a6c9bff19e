"""The model: the main graph, the local functions, and everything around them that is carried through unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from xoptim.facts.schema import KNOWN_DOMAINS
from xoptim.graph.graph import Graph, Listener
from xoptim.graph.names import Names
from xoptim.graph.node import LOCAL

UNLISTED_SINCE = 4
"""Version of the file format since which initializers need not be listed as inputs: one that is listed may be overridden."""


def call_domain(domain: str) -> str:
    """The domain that nodes have in memory when they call a local function of a domain.

    A function may have the name of an operator about which there is knowledge, such as ``com.microsoft::Gelu``. Another domain
    keeps that knowledge from being applied to its calls.
    """
    return domain + LOCAL if domain in KNOWN_DOMAINS else domain


class Function:
    """A local function: its body as a graph and the protobuf that holds the rest of it."""

    __slots__ = ("body", "proto")

    def __init__(self, proto: onnx.FunctionProto, body: Graph) -> None:
        self.proto = proto
        self.body = body

    @property
    def key(self) -> tuple[str, str, str]:
        """Domain (see `call_domain`), name and overload by which nodes call it."""
        return call_domain(self.proto.domain), self.proto.name, self.proto.overload


class Model:
    """A model in memory.

    Attributes:
        names: all result names of the model, subgraphs and functions included.
        opsets: version of each operator set imported, by domain (``""`` for the standard one).
        ir_version: version of the file format; a model that says none is read as one of the newest.
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
        self.hidden_operators: set[tuple[str, str]] = set()
        """Domain and name of operators in place of which a local function is called."""
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
            graph.clear()

    @property
    def lists_initializers(self) -> bool:
        """Whether the file format wants initializers among the inputs although no caller may override them."""
        return self.ir_version < UNLISTED_SINCE

    @property
    def node_names(self) -> Names:
        """All names of nodes, collected when one is asked for first."""
        if self._node_names is None:
            self._node_names = Names()
            self._node_names.used.update(node.name for graph in self.graphs() for node in graph.nodes)
        return self._node_names
