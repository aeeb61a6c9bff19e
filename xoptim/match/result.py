"""A match: the nodes of a rewrite, and the function that makes their replacement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

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
