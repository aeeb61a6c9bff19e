"""Conditions on a model that passes require and ensure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from xoptim.graph.graph import Graph
from xoptim.graph.model import Model

Condition: TypeAlias = Literal["defined", "used", "stored"]


def _undefined(graph: Graph) -> Iterator[str]:
    known = {""}
    for node in graph.nodes:
        for name in node.input:
            if name not in known:
                if graph.producer(name) is not None or graph.scope(name) is None:
                    yield f"{name!r} is read before it is defined"
                known.add(name)
        known.update(node.output)
    yield from (f"output {name!r} is not defined" for name in graph.outputs if graph.scope(name) is None)


def _unused(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if node.output and not graph.is_node_needed(node):
            yield f"nothing reads {node.output[0]!r}"
    yield from _unread(graph)


def _unread(graph: Graph) -> Iterator[str]:
    for name in graph.initializers:
        if not graph.is_needed(name) and name not in graph.overridable:
            yield f"nothing reads the initializer {name!r}"


CONDITIONS: Final[Mapping[Condition, Callable[[Graph], Iterator[str]]]] = {
    "defined": _undefined,
    "used": _unused,
    "stored": _unread,
}
"""The contradictions to each condition in a graph.

- ``defined``: values are defined before they are read.
- ``used``: something reads every node and initializer.
- ``stored``: something reads every initializer.
"""


def unmet(model: Model, conditions: Iterable[Condition]) -> str:
    """The first contradiction to some conditions, empty when they hold."""
    for contradictions in map(CONDITIONS.__getitem__, conditions):
        for graph in model.graphs():
            for text in contradictions(graph):
                return text
    return ""
