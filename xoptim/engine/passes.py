"""The passes that the optimizer runs besides patterns: cleaning, folding, merging."""

from __future__ import annotations

from typing import ClassVar

from xoptim.engine.cleanup import drop_unread_results, remove_identities, remove_unused, remove_unused_initializers
from xoptim.engine.events import EventStream
from xoptim.engine.fold import Folder, close
from xoptim.engine.growth import Growth
from xoptim.engine.merge import merge_initializers, merge_nodes
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.match.rewrite import ModelPass


def roots(model: Model) -> tuple[Graph, ...]:
    """The graphs of a model that are not subgraphs: the main graph, and the bodies of functions."""
    return (model.graph, *(function.body for function in model.functions))


def inner_first(model: Model) -> list[Graph]:
    """All graphs of a model, subgraphs before the graph that contains them."""
    return [graph for root in roots(model) for graph in reversed(list(root.all_graphs()))]


class GraphPass(ModelPass):
    """A pass that works on one graph at a time.

    `run` calls `run_on` for every graph of the model, inner ones first. The optimizer calls `run_on` itself: it rewrites one
    graph to its fixed point, alternating passes and patterns, before it begins with the enclosing one.

    Class attributes, besides those of `ModelPass`:
        title: its name in statistics and events.
    """

    title: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """The title."""
        return cls.title

    def run(self, model: Model) -> int:
        """Change all graphs of a model; returns the number of changes."""
        return sum(map(self.run_on, inner_first(model)))

    def run_on(self, graph: Graph) -> int:
        """Change one graph, without its subgraphs; returns the number of changes."""
        raise NotImplementedError(f"{type(self).__name__} has no run_on")


class RemoveUnused(GraphPass):
    """Removes unused nodes and initializers."""

    title = "remove_unused"

    def run_on(self, graph: Graph) -> int:
        """Clean a graph; returns the number of nodes and initializers removed."""
        return remove_unused(graph)


class DropUnreadResults(GraphPass):
    """Leaves out optional results that nothing reads, such as the mask of Dropout or the last state of an LSTM."""

    title = "drop_unread_results"

    def run_on(self, graph: Graph) -> int:
        """Clean a graph; returns the number of results left out."""
        return drop_unread_results(graph)


class RemoveIdentities(GraphPass):
    """Removes Identity nodes."""

    title = "remove_identity"

    def run_on(self, graph: Graph) -> int:
        """Remove the Identity nodes of a graph whose input can replace their output; returns how many."""
        return remove_identities(graph, graph.of_type("Identity"))


class RemoveInitializers(GraphPass):
    """Removes unused initializers."""

    title = "remove_initializers"

    def run_on(self, graph: Graph) -> int:
        """Clean a graph; returns the number of initializers removed."""
        return remove_unused_initializers(graph)


class FoldConstants(GraphPass):
    """Computes results that depend on constants only.

    Args:
        growth: counts the bytes that are added to the model.
        events: receives an event for each folded node, and for each refusal with its reason.

    Attributes:
        rounds: whether a run has stored floating-point results: runtimes sum products of stored matrices in another order than
            those of computed ones.
    """

    title = "constant_folding"
    exactness = "rounding"

    def __init__(self, growth: Growth, events: EventStream) -> None:
        self.growth = growth
        self.events = events
        self.rounds = False

    def run_on(self, graph: Graph) -> int:
        """Fold the constants of a graph, those with small results first; returns the number of nodes folded."""
        folder = Folder(graph, self.growth, self.events)
        self.growth.is_sparing, self.growth.has_postponed = True, False
        count = folder.run()
        self.growth.is_sparing = False
        if self.growth.has_postponed:
            count = folder.run()
        self.rounds |= folder.rounds
        return count

    def close(self, model: Model) -> None:
        """Make the nodes again whose results are held in part and do not fit into the model; nothing is folded after this."""
        close(model, self.growth, self.events)


class MergeInitializers(GraphPass):
    """Keeps one of several equal initializers."""

    title = "merge_initializers"

    def run_on(self, graph: Graph) -> int:
        """Merge the initializers of a graph; returns the number of initializers removed."""
        return merge_initializers(graph)


class MergeNodes(GraphPass):
    """Keeps one of several equal nodes."""

    title = "merge_nodes"

    def run_on(self, graph: Graph) -> int:
        """Merge the nodes of a graph, and remove unused ones; returns the number of nodes merged and removed."""
        return merge_nodes(graph) + graph.sweep()
