"""A rewrite that was applied, for listeners that check or record each of them."""

from __future__ import annotations

from dataclasses import dataclass

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.rewrite import Rewrite


@dataclass(frozen=True, slots=True)
class Application:
    """A match that was applied. The graph is in the state right after it, before cleaning.

    Attributes:
        number: number of the rewrite in the run, counted from 1.
        pattern: the pattern or the pass.
        anchor: node at which it matched; it may have been removed from the graph.
        graph: the graph that was rewritten.
        matched: all nodes of the match, those that stay included, in order; empty for a pass.
        given: the nodes that the pattern returned for them, those that stay included.
    """

    number: int
    pattern: Rewrite
    anchor: Node
    graph: Graph
    matched: tuple[Node, ...]
    given: tuple[Node, ...]
