"""Tie-breaks: a strategy decides which of several overlapping matches are applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from xoptim.graph.node import Node
from xoptim.match.result import MatchResult

Strategy: TypeAlias = Callable[[Sequence[MatchResult]], list[MatchResult]]
"""Sorts matches into the order in which they claim their nodes; a match with a claimed node is not applied."""


def size(match: MatchResult) -> int:
    """Number of nodes that a match involves."""
    return sum(node is not None for node in match.nodes)


def first_found(matches: Sequence[MatchResult]) -> list[MatchResult]:
    """In the order in which they were found."""
    return list(matches)


def largest_first(matches: Sequence[MatchResult]) -> list[MatchResult]:
    """Larger matches first; equally large ones in the order in which they were found."""
    return sorted(matches, key=size, reverse=True)  # sorting is stable, in reverse too


STRATEGIES: dict[str, Strategy] = {"priority": first_found, "largest": largest_first}
"""The strategies by name."""


def strategy_named(name: str) -> Strategy:
    """The strategy of this name; raises `ValueError` when there is none."""
    found = STRATEGIES.get(name)
    if found is None:
        raise ValueError(f"unknown strategy {name!r}; there are: {', '.join(STRATEGIES)}")
    return found


class Claims:
    """Records which nodes are matched, so that each belongs to at most one match."""

    def __init__(self) -> None:
        self.nodes: set[Node] = set()

    def take(self, match: MatchResult) -> bool:
        """Claim the nodes of a match; returns False, and claims none, when one of them belongs to another match."""
        nodes = [node for node in match.nodes if node is not None]
        if not self.nodes.isdisjoint(nodes):
            return False
        self.nodes.update(nodes)
        return True


def disjoint(matches: Iterable[MatchResult], strategy: str = "largest") -> list[MatchResult]:
    """A subset of the matches in which each node belongs to at most one match, in the order of a strategy, given by name.

    The matches are in the order in which they were found. Raises `ValueError` when there is no such strategy.
    """
    claims = Claims()
    return [match for match in strategy_named(strategy)(list(matches)) if claims.take(match)]
