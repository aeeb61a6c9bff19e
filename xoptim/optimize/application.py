"""One rewrite that was made, for those who check or record each of them."""

from __future__ import annotations

from dataclasses import dataclass

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.rewrite import Rewrite


@dataclass(frozen=True, slots=True)
class Application:
    """A match that was applied. The graph is as it is right after, before anything is cleaned.

    Attributes:
        number: which rewrite of the run it is, counted from 1.
        pattern: the pattern or the pass.
        anchor: node at which it matched; it may be out of the graph by now.
        graph: the graph that was rewritten.
        matched: all nodes of the match, those that stay included, in order; empty for a pass.
        given: what the pattern gave for them, those that stay included.
    """

    number: int
    pattern: Rewrite
    anchor: Node
    graph: Graph
    matched: tuple[Node, ...]
    given: tuple[Node, ...]
