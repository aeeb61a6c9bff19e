"""A model as it is drawn: nodes, values and the scopes around them, as plain data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from xoptim.diagnose.differences import attributes_of
from xoptim.diagnose.explanation import NodePlaces, describe
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.passes.blocks.scopes import scope_of

Path: TypeAlias = tuple[str, ...]
"""The scopes around a node, outermost first."""

_MAX_CHARACTERS: Final = 200
"""Characters of an attribute that are kept."""
_MIN_NODES: Final = 3
"""Minimum number of nodes of a scope that is drawn as a box."""


@dataclass(slots=True)
class DrawnNode:
    """A node."""

    op_type: str  # its operator, with its domain outside the standard one
    name: str  # its name, else the name of its first result
    path: Path  # the scopes around it
    # numbers of the values that it reads, and of the results of its subgraphs
    inputs: list[int]
    outputs: list[int]  # numbers of its results
    attributes: str  # as text
    tag: str = ""  # the pattern that made it, from its metadata
    # whether it is a Constant, which has no box and is shown with its readers
    is_constant: bool = False


@dataclass(slots=True)
class Drawing:
    """A model as it is drawn: the nodes of all graphs in order, and the name and description of
    each value. The description has type, shape and, if it is small, the constant.

    ``inputs`` are the numbers of the model's inputs without a default; ``index`` gives the numbers
    of the nodes of the model.
    """

    nodes: list[DrawnNode] = field(default_factory=list)
    values: list[tuple[str, str]] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    index: dict[Node, int] = field(default_factory=dict)

    def producers(self) -> dict[int, int]:
        """The node that makes each value, as numbers."""
        return {value: number for number, node in enumerate(self.nodes) for value in node.outputs}

    def readers(self) -> dict[int, list[tuple[int, int]]]:
        """The nodes that read each value, each with the place among its operands."""
        readers: dict[int, list[tuple[int, int]]] = {}
        for number, node in enumerate(self.nodes):
            for place, value in enumerate(node.inputs):
                readers.setdefault(value, []).append((number, place))
        return readers


def draw(model: Model) -> Drawing:
    """The drawing of a model as it is now.

    The drawing shares only the nodes in its index with the model.
    """
    return _Drawer(model).drawing


class _Drawer:
    """Reads a model."""

    def __init__(self, model: Model) -> None:
        self.drawing = Drawing()
        self._numbers: dict[tuple[int, str], int] = {}
        self._places = NodePlaces(model)
        self._add(model.graph, ())
        free = [name for name in model.graph.inputs if name not in model.graph.initializers]
        self.drawing.inputs = [self._value(model.graph, name) for name in free]
        self.drawing.outputs = [self._value(model.graph, name) for name in model.graph.outputs]
        for function in model.functions:
            self._add(function.body, (f"function {function.proto.domain}::{function.proto.name}",))

    def _add(self, graph: Graph, prefix: Path) -> None:
        for node in graph.nodes:
            # The modules around a node: from its metadata or name, else from the name of its first
            # result.
            modules = scope_of(node) or (
                part for name in node.output[:1] for part in name.split("/")[:-1] if part
            )
            path = (*prefix, *modules)
            results: list[int] = []
            for label, body in node.bodies.items():
                self._add(body, (*path, f"{node.op_type} {node.name or node.output[0]}", label))
                results += [self._value(body, name) for name in body.outputs]
            if node.bodies:
                path = (*path, f"{node.op_type} {node.name or node.output[0]}")
            drawn = DrawnNode(
                op_type=self._places.of(node).op_type,
                name=node.name or next(filter(None, node.output), ""),
                path=path,
                inputs=[*(self._value(graph, name) for name in node.input if name), *results],
                outputs=[self._value(graph, name) for name in node.output if name],
                attributes=_attributes(node),
                tag=node.metadata_props().get("xoptim.pattern", ""),
                is_constant=node.op_type == "Constant" and not node.domain,
            )
            self.drawing.index[node] = len(self.drawing.nodes)
            self.drawing.nodes.append(drawn)

    def _value(self, graph: Graph, name: str) -> int:
        """The number of a value; different branches may have values of one name."""
        scope = graph.scope(name) or graph
        number = self._numbers.setdefault((id(scope), name), len(self.drawing.values))
        if number == len(self.drawing.values):
            self.drawing.values.append((name, describe(graph, name).kind))
        return number


def _attributes(node: Node) -> str:
    if node.op_type == "Constant":
        return ""  # its result has the value
    return ", ".join(
        f"{name} = {text[:_MAX_CHARACTERS]}" for name, text in attributes_of(node).items()
    )


@dataclass(slots=True)
class Scope:
    """A box around nodes, drawn open or closed.

    ``label`` is the part of its path that its parent does not show; ``parent`` is -1 for the whole
    model. Nodes and scopes are those directly inside, by number.
    """

    path: Path
    label: str
    parent: int
    nodes: list[int] = field(default_factory=list)
    scopes: list[int] = field(default_factory=list)


def scopes_of(drawing: Drawing) -> list[Scope]:
    """The scopes that are drawn, the whole model first, outer scopes before inner ones.

    A scope with fewer than three nodes, or that contains only another scope, has no box.
    """
    children: dict[Path, dict[Path, None]] = {}
    direct: dict[Path, list[int]] = {}
    sizes: dict[Path, int] = {}
    for number, node in enumerate(drawing.nodes):
        if node.is_constant:
            continue
        direct.setdefault(node.path, []).append(number)
        for depth in range(len(node.path) + 1):
            sizes[node.path[:depth]] = sizes.get(node.path[:depth], 0) + 1
            if depth:
                children.setdefault(node.path[: depth - 1], {})[node.path[:depth]] = None
    scopes = [Scope((), "", -1)]
    pending = [(0, path) for path in reversed(children.get((), {}))]
    scopes[0].nodes += direct.get((), [])
    while pending:
        parent, path = pending.pop()
        while not direct.get(path) and len(children.get(path, {})) == 1:
            (path,) = children[path]
        inner = list(children.get(path, {}))
        if sizes[path] < _MIN_NODES:
            scopes[parent].nodes += [
                number for child in _below(path, children) for number in direct.get(child, [])
            ]
            continue
        index = len(scopes)
        scopes.append(
            Scope(
                path, "/".join(path[len(scopes[parent].path) :]), parent, list(direct.get(path, []))
            )
        )
        scopes[parent].scopes.append(index)
        pending += [(index, child) for child in reversed(inner)]
    return scopes


def _below(path: Path, children: Mapping[Path, Mapping[Path, None]]) -> Iterator[Path]:
    yield path
    for child in children.get(path, {}):
        yield from _below(child, children)


def to_json(drawing: Drawing) -> dict[str, Any]:
    """Nodes and values as the page's script reads them: in arrays, with numbers for repeated words,
    which takes a fraction of the space of JSON objects.
    """
    words: dict[str, int] = {}

    def word(text: str) -> int:
        return words.setdefault(text, len(words))

    nodes: list[Sequence[Any]] = [
        (
            word(node.op_type),
            node.name,
            node.inputs,
            node.outputs,
            word(node.attributes),
            int(node.is_constant),
        )
        for node in drawing.nodes
    ]
    values = [(name, word(kind)) for name, kind in drawing.values]
    return {
        "nodes": nodes,
        "values": values,
        "words": list(words),
        "inputs": drawing.inputs,
        "outputs": drawing.outputs,
    }
