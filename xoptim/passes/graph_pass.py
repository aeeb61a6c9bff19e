"""Passes that change one graph after the other."""

from typing import Any

from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.propagate import refresh
from xoptim.match.rewrite import Step


def inner_first(model: Model) -> list[Graph]:
    """All graphs of a model: the main graph, then the bodies of functions, each after its subgraphs."""
    roots = (model.graph, *(function.body for function in model.functions))
    return [graph for root in roots for graph in reversed(list(root.all_graphs()))]


def learn_results(body: Graph) -> None:
    """Infer the results of the node that owns a subgraph again: more may be known since the subgraph changed."""
    owner = body.owner
    if owner is not None and owner.graph is not None:
        refresh(owner.graph, [owner])


class GraphPass(Step):
    """A step that changes each graph of a model, subgraphs before the graph that contains them."""

    def run(self, model: Model) -> int:
        """Change all graphs of a model; returns the number of changes."""
        total = 0
        for graph in inner_first(model):
            count = self.run_on(graph)
            if count:
                learn_results(graph)
            total += count
        return total

    def run_in(self, model: Model, state: Any) -> int:
        """Change all graphs of a model, and send an event if anything changes; returns the number of changes."""
        count = self.run(model)
        if count:
            state.events.send("cleaned", self.title, text=f"{count} removed", level=10)
        return count

    def run_on(self, graph: Graph) -> int:
        """Change one graph, without its subgraphs; returns the number of changes."""
        raise NotImplementedError(f"{type(self).__name__} has no run_on")
