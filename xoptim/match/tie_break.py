"""Tie-breaks: a strategy decides which of several matches that overlap are applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from xoptim.graph.node import Node
from xoptim.match.result import MatchResult

Strategy: TypeAlias = Callable[[Sequence[MatchResult]], list[MatchResult]]
"""Puts matches into the order in which they claim their nodes; those that come too late are not applied."""


def size(match: MatchResult) -> int:
    """Number of nodes that a match involves."""
    return sum(node is not None for node in match.nodes)


def first_found(matches: Sequence[MatchResult]) -> list[MatchResult]:
    """As they were found: in the order of the patterns (position, priority, name), then in that of their anchors."""
    return list(matches)


def largest_first(matches: Sequence[MatchResult]) -> list[MatchResult]:
    """Those of more nodes first; equally large ones as they were found."""
    return sorted(matches, key=size, reverse=True)  # sorting is stable, in reverse too


STRATEGIES: dict[str, Strategy] = {"priority": first_found, "largest": largest_first}
"""The strategies by name."""


def strategy_named(name: str) -> Strategy:
    """A strategy.

    Raises:
        ValueError: when there is none of that name.
    """
    found = STRATEGIES.get(name)
    if found is None:
        raise ValueError(f"unknown strategy {name!r}; there are: {', '.join(STRATEGIES)}")
    return found


class Claims:
    """Makes sure that each node belongs to one match at most.

    Attributes:
        nodes: those that belong to a match already.
    """

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
    """The matches that are left when each node belongs to at most one of them.

    Args:
        matches: all of them, in the order in which they were found.
        strategy: which of those that overlap wins.

    Returns:
        Those that win, in the order of the strategy.

    Raises:
        ValueError: when there is no such strategy.
    """
    claims = Claims()
    return [match for match in strategy_named(strategy)(list(matches)) if claims.take(match)]
