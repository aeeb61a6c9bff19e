"""The model: the main graph, the local functions, and other fields, which are kept unchanged; and a
record of changes.
"""

from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dims import Dim
from xoptim.facts.protos import UNLISTED_SINCE
from xoptim.facts.schema import KNOWN_DOMAINS
from xoptim.graph.graph import Graph
from xoptim.graph.names import Names
from xoptim.graph.node import LOCAL, Node
from xoptim.graph.references import Listener

_MAX_DATA = (1 << 31) - 1
"""Maximal number of bytes of external data that are treated as if they were in the model itself."""


def call_domain(domain: str) -> str:
    """The domain, in memory, of nodes that call a local function of ``domain``.

    A function may have the name of an operator that formulas and patterns cover, such as
    ``com.microsoft::Gelu``. In another domain, they do not apply to calls of the function.
    """
    return domain + LOCAL if domain in KNOWN_DOMAINS else domain


@dataclass(slots=True, eq=False)
class Function:
    """A local function: its body as a graph, and the protobuf that holds its other fields."""

    proto: onnx.FunctionProto
    body: Graph

    @property
    def key(self) -> tuple[str, str, str]:
        """Domain (see `call_domain`), name and overload by which nodes call it."""
        return call_domain(self.proto.domain), self.proto.name, self.proto.overload


class Model:
    """A model in memory."""

    def __init__(
        self, opsets: dict[str, int], ir_version: int, base_dir: Path | None = None
    ) -> None:
        self.names = Names()  # all result names of the model, subgraphs and functions included
        # version of each operator set imported, by domain (``""`` for the standard one)
        self.opsets = opsets
        # IR version; a model without one is read as a model of the newest version
        self.ir_version = ir_version
        self.base_dir = base_dir  # folder of the file, for external data
        # bytes of the external data of the main graph, as the file had it
        self.external_size = 0
        # The protobuf without graph and functions: producer, versions, metadata, training info
        self.shell = onnx.ModelProto()
        # The sizes that input dimensions must have, by name: numbers or expressions in other names
        self.equal_sizes: dict[str, Dim] = {}
        self.assumptions = Assumptions()
        # The dimensions that replace names of input dimensions because of the assumptions
        self.assumed_sizes: dict[str, Dim] = {}
        self.listeners: list[Listener] = []  # called after each change of any graph of the model
        # local functions; new ones are appended, and only the last ones are removed
        self.functions: list[Function] = []
        self._last_function: Function | None = None
        self._function_keys: frozenset[tuple[str, str, str]] = frozenset()
        self._function_operators: frozenset[tuple[str, str]] = frozenset()
        self.hidden_operators: set[tuple[str, str]] = set()
        """Domain and name of the operators that are hidden by a local function of the same name."""
        self._node_names: Names | None = None
        self.graph = Graph(self)

    @property
    def has_large_data(self) -> bool:
        """Whether the external data is too large to keep derived constants in memory."""
        return self.external_size > _MAX_DATA

    def graphs(self) -> Iterator[Graph]:
        """All graphs: bodies of functions first, then the main graph, each followed by its
        subgraphs.
        """
        for function in self.functions:
            yield from function.body.all_graphs()
        yield from self.graph.all_graphs()

    def function_keys(self) -> Set[tuple[str, str, str]]:
        """Domain, name and overload by which nodes call the local functions."""
        last = self.functions[-1] if self.functions else None
        if last is not self._last_function or len(self.functions) != len(self._function_keys):
            self._last_function = last
            self._function_keys = frozenset(function.key for function in self.functions)
            self._function_operators = frozenset(key[:2] for key in self._function_keys)
        return self._function_keys

    def function_operators(self) -> Set[tuple[str, str]]:
        """Domain and name by which nodes call the local functions."""
        self.function_keys()
        return self._function_operators

    def dispose(self) -> None:
        """Break the reference cycles of a model that is no longer needed.

        Its memory is then freed at once, not when the cyclic garbage collector traverses hundreds
        of thousands of objects.
        """
        for graph in list(self.graphs()):
            for node in graph.nodes:
                node.graph = node.previous = node.next = None
            graph.clear()

    @property
    def lists_initializers(self) -> bool:
        """Whether the IR version requires initializers among the inputs, although a caller cannot
        override them.
        """
        return self.ir_version < UNLISTED_SINCE

    @property
    def node_names(self) -> Names:
        """All names of nodes, collected at the first access."""
        if self._node_names is None:
            self._node_names = Names()
            self._node_names.used.update(
                node.name for graph in self.graphs() for node in graph.nodes
            )
        return self._node_names


class Changes:
    """Listens to a model and records the changes to it: their number, the node that changed first,
    and nodes added and removed.

    Some of the ``inserted_nodes`` may have been removed since.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: Node | None = None
        self.inserted_nodes: dict[Node, None] = {}
        self.removed_nodes: list[Node] = []

    def inserted(self, node: Node) -> None:
        """A node was added."""
        self._count(node)
        self.inserted_nodes[node] = None

    def removed(self, node: Node) -> None:
        """A node was taken out."""
        self._count(node)
        if node not in self.inserted_nodes:
            self.removed_nodes.append(node)

    def touched(self, node: Node) -> None:
        """The inputs of a node, or the readers of its results, changed."""
        self._count(node)

    def _count(self, node: Node) -> None:
        self.count += 1
        if self.first is None:
            self.first = node

    @property
    def added_nodes(self) -> list[Node]:
        """Nodes that were added and are still in the model."""
        return [node for node in self.inserted_nodes if node.graph is not None]


@contextmanager
def watching(model: Model) -> Iterator[Changes]:
    """Record the changes to a model while the block runs."""
    changes = Changes()
    model.listeners.append(changes)
    try:
        yield changes
    finally:
        model.listeners.remove(changes)
