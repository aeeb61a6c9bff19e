"""Navigators: passes that visit the nodes of a model once and apply patterns there."""

from collections.abc import Container, Iterable
from functools import partial
from typing import Any, ClassVar

from xoptim.catalogue.selection import Item, select
from xoptim.engine.applier import Applier
from xoptim.engine.index import PatternIndex, index_of
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.state import State
from xoptim.facts.dtypes import GRADES, Exactness
from xoptim.graph.changes import watching
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.making import checked
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import ModelPass, Rewrite
from xoptim.passes.graph_pass import inner_first


class Navigator(ModelPass):
    """Visits each node once, and immediately applies the first pattern that matches there.

    It visits subgraphs too, inner ones first. A new node is visited in the same walk only if it comes after the next node
    to be visited, and nodes that are made there are not, so that every walk ends. Nodes that replace the visited one are left
    to the next walk: the optimizer repeats a navigator as long as anything changes.

    Args:
        *patterns: names, classes or instances of patterns.
        name: its name; made of its kind and the names of the patterns when empty.
        **metadata: class attributes of `Rewrite`, such as ``phase``. The exactness is the weakest of the patterns unless given.

    Raises:
        TypeError: when there is no pattern, or one of them is a pass.
        UnknownPatternError: when a name is not known.
    """

    is_step = True  # its patterns are reported as in the rounds of the optimizer
    backwards: ClassVar[bool] = False

    def __init__(self, *patterns: Item, name: str = "", **metadata: Any) -> None:
        found: dict[str, PatternOptimization] = {}
        for each in (rewrite for item in patterns for rewrite in select(item)):
            if not isinstance(each, PatternOptimization):
                raise TypeError(f"{each.name()} rewrites whole models: it cannot be applied at a node")
            found[each.name()] = each
        if not found:
            raise TypeError(f"a {type(self).__name__} needs patterns to apply")
        self.patterns = tuple(found.values())
        title = name or f"{type(self).__name__.removesuffix('Navigator')}{''.join(found)}"
        weakest = max((p.exactness for p in self.patterns), key=GRADES.index)
        given = {"exactness": weakest, **checked(type(self), metadata)}
        # Name and metadata belong to the instance: unlike other rewrites, instances of this class differ.
        vars(self).update(given, name=partial(str, title))

    def run(self, model: Model) -> int:
        """Visit the nodes of a model once, with default options and without other passes; returns the number of rewrites."""
        state = State(model, OptimizationOptions())
        model.listeners.append(state.worklist)
        try:
            return self.run_in(model, state)
        finally:
            model.listeners.remove(state.worklist)

    def run_in(self, model: Model, state: State) -> int:
        """Visit the nodes of a model once, as a part of an optimization; returns the number of rewrites."""
        return sum(self._walk_graph(Applier(graph, state)) for graph in inner_first(model))

    def _walk_graph(self, applier: Applier) -> int:
        graph = applier.graph
        index = index_of(tuple(p for p in self.patterns if applier.state.is_usable(p, graph.opsets.get("", 0))), ())
        if not index.anchors_in(graph):
            return 0
        queue = list(graph.nodes if self.backwards else reversed(graph.nodes))
        """The nodes to be visited, the next one last."""
        new: list[Node] = []
        count = 0
        with watching(graph.model) as changes:
            while queue or new:
                node, is_new = self._next(graph, queue, new)
                if node is None:
                    break
                changes.inserted_nodes.clear()
                if _rewrite_at(applier, index, node):
                    count += 1
                    following = None if is_new else _last_left(graph, queue)
                    if following is not None:
                        added = [n for n in changes.added_nodes if n.graph is graph]
                        new += [n for n in added if self._is_before(following, n)]
        return count

    def _next(self, graph: Graph, queue: list[Node], new: list[Node]) -> tuple[Node | None, bool]:
        """The next node, and whether it was added during the walk."""
        new[:] = [node for node in new if node.graph is graph]
        following = _last_left(graph, queue)
        if new:
            first = max(new, key=lambda n: n.label) if self.backwards else min(new, key=lambda n: n.label)
            if following is None or self._is_before(first, following):
                new.remove(first)
                return first, True
        return (queue.pop() if following is not None else None), False

    def _is_before(self, first: Node, second: Node) -> bool:
        return first.label > second.label if self.backwards else first.label < second.label


class TopologicalNavigator(Navigator):
    """A `Navigator` that visits the producer of a result before its consumers."""


class ReverseNavigator(Navigator):
    """A `Navigator` that visits the consumers of a result before its producer."""

    backwards = True


def grades_of(rewrites: Iterable[Rewrite], counts: Container[str]) -> list[Exactness]:
    """Exactness of the rewrites that were applied, by navigators too."""
    found = [rewrite.exactness for rewrite in rewrites if rewrite.name() in counts]
    for navigator in rewrites:
        if isinstance(navigator, Navigator):
            found += grades_of(navigator.patterns, counts)
    return found


def _last_left(graph: Graph, queue: list[Node]) -> Node | None:
    """The last node of a queue that is still in the graph; removed nodes at its end are dropped."""
    while queue and queue[-1].graph is not graph:
        queue.pop()
    return queue[-1] if queue else None


def _rewrite_at(applier: Applier, index: PatternIndex, node: Node) -> bool:
    """Apply the first pattern that matches at a node, if any does."""
    for number in index.candidates(applier.graph, {node: 0}):
        pattern = index.patterns[number]
        with applier.state.refusals(pattern):
            if applier.apply_at(pattern, node):
                return True
        if node.graph is not applier.graph:
            break
    return False
