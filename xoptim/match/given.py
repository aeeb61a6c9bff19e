"""The inputs of a graph and of the graphs around it, by the axes of their shapes."""

from __future__ import annotations

from collections.abc import Iterable

from xoptim.facts.dims import Dim
from xoptim.facts.info import Shape
from xoptim.graph.graph import Graph


class GivenTensors:
    """The tensor inputs of a graph and of the enclosing graphs, those of the graph first."""

    __slots__ = ("_by_axis", "_graph", "_leading")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._by_axis: dict[Dim, dict[int, tuple[str, Shape]]] | None = None
        self._leading: frozenset[str] = frozenset()

    @property
    def leading(self) -> frozenset[str]:
        """Symbols in their first two axes."""
        self._index()
        return self._leading

    def with_axes(self, axes: Iterable[Dim]) -> list[tuple[str, Shape]]:
        """Those that have one of some axes, with their shapes, in order."""
        index = self._index()
        found = {place: tensor for axis in axes for place, tensor in index.get(axis, {}).items()}
        return [found[place] for place in sorted(found)]

    def _index(self) -> dict[Dim, dict[int, tuple[str, Shape]]]:
        """The tensors by axis and position, listed once: there may be as many of them as nodes that look them up."""
        if self._by_axis is None:
            self._by_axis = {}
            scope: Graph | None = self._graph
            place, leading = 0, set[str]()
            while scope is not None:
                for name in scope.inputs:
                    info = scope.info_of(name)
                    if info.shape is None or not info.is_tensor:
                        continue
                    place += 1
                    for axis in info.shape:
                        self._by_axis.setdefault(axis, {})[place] = (name, info.shape)
                    leading.update(*(axis.symbols for axis in info.shape[:2] if not isinstance(axis, int)))
                scope = scope.parent
            self._leading = frozenset(leading)
        return self._by_axis
