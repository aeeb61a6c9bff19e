"""Matches, and tie-breaks: a strategy decides which of several overlapping matches are applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from xoptim.graph.node import Node

if TYPE_CHECKING:
    from xoptim.graph.edit import Edit
    from xoptim.match.pattern import PatternOptimization


Apply = Callable[..., "list[Node]"]


class MatchResult:
    """The result of `PatternOptimization.match`.

    Attributes:
        pattern: the pattern that matched.
        nodes: nodes involved, ``None`` where an optional one is absent. They are passed to ``apply``, which decides which of
            them stay; no other rewrite of the same round may match them.
        apply: makes the replacement.
        insert_at: existing node where the new nodes go; chosen automatically when not given.
        comment: a remark for the log.
        bindings: captures of a declared pattern, by name.
        edit: the edit with everything that `match` made, ``None`` if it made nothing.
    """

    __slots__ = ("anchor", "apply", "bindings", "comment", "edit", "insert_at", "nodes", "pattern")

    def __init__(
        self,
        pattern: PatternOptimization,
        nodes: Sequence[Node | None],
        apply: Apply,
        insert_at: Node | None = None,
        comment: str = "",
        bindings: dict[str, Any] | None = None,
    ) -> None:
        self.pattern = pattern
        self.nodes = list(nodes)
        self.apply = apply
        self.insert_at = insert_at
        self.comment = comment
        self.bindings = bindings
        self.anchor: Node | None = None
        self.edit: Edit | None = None

    def __repr__(self) -> str:
        types = ", ".join("" if node is None else node.op_type for node in self.nodes)
        return f"MatchResult({type(self.pattern).__name__}, [{types}])"


def checked(found: Any, anchor: Node) -> MatchResult:
    """The match that a pattern returned, with ``anchor`` set; raises `TypeError` when it is not a match."""
    if not isinstance(found, MatchResult):
        raise TypeError(f"match returns a MatchResult or None, not {found!r:.80}")
    if not all(each is None or isinstance(each, Node) for each in found.nodes):
        raise TypeError(f"the nodes of a MatchResult are nodes of the graph or None, not {found.nodes!r:.80}")
    found.anchor = anchor
    return found


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
