"""The base class of all patterns, which match around a node, and the choice among their matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

from xoptim.facts.advice import Advice
from xoptim.facts.attributes import AttributeReference
from xoptim.facts.errors import Declined
from xoptim.graph.node import Node
from xoptim.match.lines import calling_frame, raised_at
from xoptim.match.refusal import Refusal, listener
from xoptim.match.rewrite import Rewrite
from xoptim.match.values import not_known_finite

if TYPE_CHECKING:
    from xoptim.graph.edit import Edit
    from xoptim.graph.graph import Graph
    from xoptim.match.view import GraphView, PatternRewriter


Apply = Callable[..., "list[Node]"]
_MISREADINGS: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""Errors of code that expects a number, a list or a text in place of an `AttributeReference`."""
_UNKNOWN_ATTRIBUTE: Final = "an attribute takes its value from the caller of the function"


class MatchResult:
    """The result of `PatternOptimization.match`.

    Attributes:
        pattern: the pattern that matched.
        nodes: nodes involved, ``None`` where an optional one is absent. They are passed to
            ``apply``, which decides which of them stay; no other rewrite of the same round may
            match them.
        apply: makes the replacement.
        insert_at: existing node where the new nodes go; chosen automatically when not given.
        comment: a remark for the log.
        bindings: captures of a declared pattern, by name.
        anchor: the node at which `match` was called.
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


def checked(match: Any, anchor: Node) -> MatchResult:
    """The match that a pattern returned, with ``anchor`` set.

    Raises `TypeError` when it is not a match.
    """
    if not isinstance(match, MatchResult):
        raise TypeError(f"match must return a MatchResult or None, not {match!r:.80}")
    if not all(node is None or isinstance(node, Node) for node in match.nodes):
        raise TypeError(
            "the nodes of a MatchResult must be nodes of the graph or None, not "
            f"{match.nodes!r:.80}"
        )
    match.anchor = anchor
    return match


def _has_references(nodes: Iterable[Node]) -> bool:
    """Whether an attribute of a node takes its value from the caller of a function."""
    return any(
        isinstance(value, AttributeReference) for node in nodes for value in node.attribute.values()
    )


def _scopes(g: GraphView) -> Iterator[Graph]:
    """A graph, and the graphs around it."""
    scope: Graph | None = g.graph
    while scope is not None:
        yield scope
        scope = scope.parent


Strategy: TypeAlias = Callable[[Sequence[MatchResult]], list[MatchResult]]
"""Sorts matches into the order in which they claim their nodes.

A match with a claimed node is not applied.
"""


def size(match: MatchResult) -> int:
    """Number of nodes that a match involves."""
    return sum(node is not None for node in match.nodes)


def first_found(matches: Sequence[MatchResult]) -> list[MatchResult]:
    """In the order in which they were found."""
    return list(matches)


def largest_first(matches: Sequence[MatchResult]) -> list[MatchResult]:
    """Larger matches first; equally large ones in the order in which they were found."""
    return sorted(matches, key=size, reverse=True)  # stable, even in reverse


STRATEGIES: dict[str, Strategy] = {"priority": first_found, "largest": largest_first}
"""The strategies by name."""


def strategy_named(name: str) -> Strategy:
    """The strategy of this name; raises `ValueError` when there is none."""
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise ValueError(f"unknown strategy {name!r}; there are: {', '.join(STRATEGIES)}")
    return strategy


class Claims:
    """Records which nodes are matched, so that each belongs to at most one match."""

    def __init__(self) -> None:
        self.nodes: set[Node] = set()

    def take(self, match: MatchResult) -> bool:
        """Claim the nodes of a match.

        Returns False, and claims none, when one of them belongs to another match.
        """
        nodes = [node for node in match.nodes if node is not None]
        if not self.nodes.isdisjoint(nodes):
            return False
        self.nodes.update(nodes)
        return True


def disjoint(matches: Iterable[MatchResult], strategy: str = "largest") -> list[MatchResult]:
    """A subset of the matches in which each node belongs to at most one match.

    ``matches`` are in the order in which they were found; ``strategy`` is the name of the order in
    which they claim their nodes. Raises `ValueError` when there is no such strategy.
    """
    claims = Claims()
    return [match for match in strategy_named(strategy)(list(matches)) if claims.take(match)]


Returned = TypeVar("Returned")
"""The return type of the function that calls `PatternOptimization.none`."""
Key = tuple[str, str]
"""Domain and operator."""
CONSTANT_OPERAND = "<constant>"
"""Stands for a constant in `PatternOptimization.near`."""
CONSTANT: Key = ("", CONSTANT_OPERAND)
"""Marks a stored constant where a producer's operator is expected."""


class PatternOptimization(Rewrite):
    """A rewrite around a node: `match` finds where it applies, `apply` makes the replacement.

    Patterns hold no state: everything that `match` finds is in the `MatchResult`. The class
    attributes of `Rewrite` apply as well.

    Class attributes:
        anchors: operators at whose nodes `match` is called (``"domain::Op"`` outside the standard
            domain); every node of the graph when empty.
        near: operators; one of them must produce an input of the anchor; any when empty. With
            `CONSTANT_OPERAND` among them, an input may be a constant instead.
        radius: distance in nodes from the anchor within which a change may make the pattern match.
    """

    anchors: ClassVar[tuple[str, ...]] = ()
    near: ClassVar[tuple[str, ...]] = ()
    radius: ClassVar[int] = 3

    def anchor_keys(self) -> frozenset[tuple[str, str]]:
        """The `anchors` as ``(domain, op_type)``; empty for every node."""
        return frozenset(map(operator_key, self.anchors))

    def near_keys(self) -> frozenset[tuple[str, str]]:
        """Operators; one of them must produce an input of the anchor; empty when any may."""
        return frozenset(map(operator_key, self.near))

    def paths(self) -> frozenset[tuple[Key, tuple[Key, ...]]]:
        """Operators of anchors, each with the operators of a chain of producers that must lead to
        it.
        """
        chains: list[tuple[Key, ...]] = [(key,) for key in self.near_keys()] or [()]
        return frozenset((anchor, chain) for anchor in self.anchor_keys() for chain in chains)

    def reach(self) -> int:
        """Distance in nodes from the anchor within which a change may make the pattern match."""
        return self.radius

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Look for the pattern around a node.

        The graph must not be changed. Returns the match, or what `none` returns.

        Args:
            g: the view of the graph.
            node: the node to match at; its operator is one of the `anchors`.
            matched: the matches of this round so far.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no match; a pattern with match_pattern extends "
            "EasyPatternOptimization"
        )

    def match_at(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Call `match` and check the type of its result: raises `TypeError` when that is neither a
        match nor ``None``.
        """
        try:
            match = self.match(g, node, matched)
        except Declined as reason:  # the view, or a helper, found a reason not to match
            if (listen := listener()) is not None:
                file, line = raised_at(reason)
                listen(Refusal(self.name(), node, str(reason), file, line, self.progress(line)))
            return None
        except _MISREADINGS:
            if not any(_has_references(scope.nodes) for scope in _scopes(g)):
                raise
            return self.none(node, msg=_UNKNOWN_ATTRIBUTE)
        if match is None:
            return None
        if _has_references(filter(None, checked(match, node).nodes)):
            return self.none(node, msg=_UNKNOWN_ATTRIBUTE)
        if self.exactness == "finite" and (
            name := not_known_finite(g.scope, checked(match, node).nodes)
        ):
            return self.none(
                node, msg=lambda: f"{name} is not known to be finite ({Advice('assume', 'finite')})"
            )
        return checked(match, node)

    def apply(self, g: PatternRewriter, *nodes: Any) -> list[Node]:
        """Make the replacement.

        Returns its nodes, in an order in which they can run.

        Args:
            g: the view of the graph, which makes nodes and initializers.
            *nodes: the nodes of the match. Those not in the returned list are removed.
        """
        raise NotImplementedError(f"{type(self).__name__} has no apply")

    def none(
        self,
        node: Node | None = None,
        lineno: int | None = None,
        msg: Callable[[], str] | str | None = None,
    ) -> Returned | None:
        """Refuse a match: ``return self.none(node, msg="...")``.

        Without a listener, the reason is not computed.

        Args:
            node: the node that does not fit.
            lineno: line of the condition; by default the caller's.
            msg: the reason, or a function that makes it.
        """
        listen = listener()
        if listen is None:
            return None
        frame = calling_frame()
        reason = msg() if callable(msg) else msg or ""
        line = lineno or frame.f_lineno
        listen(
            Refusal(self.name(), node, reason, frame.f_code.co_filename, line, self.progress(line))
        )
        return None

    def progress(self, line: int) -> int:
        """Progress of a match that is refused at a line: conditions are checked from top to
        bottom.
        """
        return line


def operator_key(anchor: str) -> tuple[str, str]:
    """``"Add"`` or ``"com.microsoft::Gelu"`` as ``(domain, op_type)``."""
    domain, _, op_type = anchor.rpartition("::")
    return domain, op_type
