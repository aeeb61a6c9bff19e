"""What the optimizer does beside applying patterns, as passes: cleaning, folding, merging."""

from __future__ import annotations

from typing import ClassVar

from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.match.rewrite import ModelPass
from xoptim.optimize.cleanup import remove_identities, remove_unused, remove_unused_initializers
from xoptim.optimize.events import EventStream
from xoptim.optimize.fold import Folder
from xoptim.optimize.merge import merge_initializers, merge_nodes


def roots(model: Model) -> tuple[Graph, ...]:
    """The graphs of a model that stand in no other: the main graph, and the bodies of functions."""
    return (model.graph, *(function.body for function in model.functions))


def inner_first(model: Model) -> list[Graph]:
    """All graphs of a model, subgraphs before the graph that they stand in."""
    return [graph for root in roots(model) for graph in reversed(list(root.all_graphs()))]


class GraphPass(ModelPass):
    """A pass that works on one graph at a time.

    `run` is `run_on` for every graph of the model, inner ones first. The optimizer calls `run_on`: it brings one graph to its
    fixed point before it begins with the one around it, and passes take turns with patterns there.

    Class attributes, beside those of `ModelPass`:
        title: what it is called in statistics and events.
    """

    title: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """Its title."""
        return cls.title

    def run(self, model: Model) -> int:
        """Change all graphs of a model; returns the number of changes."""
        return sum(map(self.run_on, inner_first(model)))

    def run_on(self, graph: Graph) -> int:
        """Change one graph, without its subgraphs; returns the number of changes."""
        raise NotImplementedError(f"{type(self).__name__} has no run_on")


class RemoveUnused(GraphPass):
    """Removes nodes and initializers that nothing reads."""

    title = "remove_unused"

    def run_on(self, graph: Graph) -> int:
        """Clean a graph; returns how many nodes went."""
        return remove_unused(graph)


class RemoveIdentities(GraphPass):
    """Removes Identity nodes."""

    title = "remove_identity"

    def run_on(self, graph: Graph) -> int:
        """Remove those of a graph whose input can take the place of their output; returns how many went."""
        return remove_identities(graph, graph.of_type("Identity"))


class RemoveInitializers(GraphPass):
    """Removes initializers that nothing reads."""

    title = "remove_initializers"

    def run_on(self, graph: Graph) -> int:
        """Clean a graph; returns how many initializers went."""
        return remove_unused_initializers(graph)


class FoldConstants(GraphPass):
    """Computes what depends on constants only.

    Args:
        limit: bytes above which a result must not be larger than what it makes superfluous.
        events: receives what is folded, and what is refused and why.

    Attributes:
        rounds: whether a run has stored floating-point results: runtimes add up products of stored matrices in another order
            than those of computed ones.
    """

    title = "constant_folding"
    exactness = "rounding"

    def __init__(self, limit: int, events: EventStream) -> None:
        self.limit = limit
        self.events = events
        self.rounds = False

    def run_on(self, graph: Graph) -> int:
        """Fold the constants of a graph; returns how many nodes went."""
        folder = Folder(graph, self.limit, self.events)
        count = folder.run()
        self.rounds |= folder.rounds
        return count


class MergeInitializers(GraphPass):
    """Keeps one of several equal initializers."""

    title = "merge_initializers"

    def run_on(self, graph: Graph) -> int:
        """Merge the initializers of a graph; returns how many went."""
        return merge_initializers(graph)


class MergeNodes(GraphPass):
    """Keeps one of several nodes that compute the same."""

    title = "merge_nodes"

    def run_on(self, graph: Graph) -> int:
        """Merge the nodes of a graph, and sweep what nothing reads any more; returns how many went."""
        return merge_nodes(graph) + graph.sweep()
