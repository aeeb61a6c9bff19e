"""Match and apply one pattern at one node, and give new nodes the names of those they replace."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from time import perf_counter

from xoptim.engine.events import Application
from xoptim.engine.kernels import check_copies, check_strings
from xoptim.engine.state import State
from xoptim.facts.errors import BudgetError, Declined, RewriteError, UnstoppableError
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.pattern import MatchResult, PatternOptimization
from xoptim.match.view import GraphView, PatternRewriter

TAG = "xoptim.pattern"
"""Metadata key of a node for the name of the pattern that wrote it."""
logger = logging.getLogger("xoptim")
PASSED_ON = (BudgetError, BrokenPipeError, MemoryError, UnstoppableError)
"""Errors that end the optimization even if it is not strict."""


def inherit(added: Sequence[Node], removed: Sequence[Node], tag: str = "") -> None:
    """Record the origin of new nodes, which are in the graph already.

    The origin of a new node is the removed node that produced the same result, else the last
    removed node. The new node gets the metadata and the remark of its origin, and the name when
    both have the same operator, else the scope of the name (``/encoder/layer.0/`` of
    ``/encoder/layer.0/Add``). Metadata, remarks and names that the pattern set are kept.

    ``tag`` is the name of the pattern, empty for none.
    """
    producers = {name: node for node in removed for name in node.output}
    name_sources: set[Node] = set()
    for node in added:
        origin = next(
            (producers[name] for name in node.output if name in producers),
            removed[-1] if removed else None,
        )
        if origin is not None:
            metadata = origin.metadata_props()
            if metadata:
                node.metadata = {**metadata, **(node.metadata or {})}
            node.doc_string = node.doc_string or origin.remark
            prefix, _, number = node.name.rpartition("_")
            is_generated = node.name == node.op_type or (
                prefix == node.op_type and number.isdecimal()
            )
            if origin.name and is_generated:
                _name_after(node, origin, name_sources)
        if tag:
            node.metadata = {**(node.metadata or {}), TAG: tag}
        elif node.metadata:
            node.metadata.pop(TAG, None)


def _name_after(node: Node, origin: Node, name_sources: set[Node]) -> None:
    assert node.graph is not None
    if node.op_type == origin.op_type and origin not in name_sources:
        name_sources.add(origin)
        node.name = origin.name
        return
    scope, slash, _ = origin.name.rpartition("/")
    if slash:
        node.name = node.graph.node_names.fresh(f"{scope}/{node.op_type}")


def added_nodes(replacement: Iterable[Node], matched: Iterable[Node | None]) -> list[Node]:
    """The nodes of a replacement that were not matched."""
    old = set(matched)
    return [node for node in replacement if node not in old]


class Applier:
    """Matches and applies patterns in one graph.

    A pattern that raises an exception is skipped for the rest of the run.
    """

    def __init__(self, graph: Graph, state: State) -> None:
        self.graph = graph
        self.state = state
        self.view = GraphView(graph, state.options.provider, state.options.cpu)
        self._dropped: set[tuple[str, Node]] = set()

    def match(
        self, pattern: PatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        """The match at a node; ``None`` if there is none, it was dropped, or the pattern fails."""
        failed, dropped = self.state.failed, self._dropped
        if (failed or dropped) and (pattern.name() in failed or (pattern.name(), node) in dropped):
            return None
        try:
            match = pattern.match_at(self.view, node, matched)
            return match if match is None or self.state.may_apply(match) else None
        except PASSED_ON:
            raise
        except Exception as error:  # the code of a pattern may raise anything
            self.state.fail(pattern, node, error)
            return None

    def explained_match(
        self, pattern: PatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        """Like `match`; refusals are sent as events."""
        with self.state.refusals(pattern):
            return self.match(pattern, node, matched)

    def apply(self, match: MatchResult, is_fresh: bool) -> list[Node] | None:
        """Apply a match if it still holds.

        Returns the new nodes and those that stay, ``None`` when the match was not applied.

        Unless ``is_fresh``, the graph may have changed since the match was found, and the pattern
        is matched again.
        """
        pattern, anchor = match.pattern, match.anchor
        assert anchor is not None
        if self.state.is_exhausted:
            return None
        current: MatchResult | None = match
        if any(node is not None and node.graph is not self.graph for node in match.nodes):
            current = None
        elif not is_fresh:
            current = self.match(pattern, anchor, [])
            if current is None:
                self._report_drop(pattern, anchor, "it no longer matches")
        if current is None:
            self.offer_again(match)
            return None
        return self._rewrite(current, anchor)

    def apply_at(self, pattern: PatternOptimization, node: Node) -> bool:
        """Match a pattern at one node, apply the match at once, and clean.

        Returns whether it was applied.
        """
        match = self.match(pattern, node, [])
        if match is None or self.apply(match, is_fresh=True) is None:
            return False
        self.state.clean([self.graph])
        return True

    def offer_again(self, match: MatchResult) -> None:
        """Put the nodes of a match that was not applied back into the worklist."""
        nodes = [
            node
            for node in (match.anchor, *match.nodes)
            if node is not None and node.graph is self.graph
        ]
        self.state.worklist.add(nodes)

    def _rewrite(self, match: MatchResult, anchor: Node) -> list[Node] | None:
        start = perf_counter()
        matched = sorted(
            (node for node in match.nodes if node is not None), key=lambda node: node.label
        )
        replacement = self._replace(match, anchor, matched)
        if replacement is None:
            return None
        self.view.notes = {}
        added = added_nodes(replacement, matched)
        removed = [node for node in matched if node.graph is None]
        state, pattern = self.state, match.pattern
        inherit(added, removed, pattern.name() if state.options.tag_nodes else "")
        application = Application(
            state.rewrites + 1, pattern, anchor, self.graph, tuple(matched), tuple(replacement)
        )
        state.applied(application, added, removed, perf_counter() - start)
        return replacement

    def _replace(self, match: MatchResult, anchor: Node, matched: list[Node]) -> list[Node] | None:
        """Write and commit the replacement; ``None``, with the graph unchanged, on failure."""
        pattern = match.pattern
        try:
            with match.edit or Edit(self.graph) as edit:
                edit.watch(matched)
                options = self.state.options
                rewriter = PatternRewriter(self.graph, options.provider, edit, options.cpu)
                nodes = match.apply(rewriter, *match.nodes)
                if not isinstance(nodes, (list, tuple)) or not all(
                    isinstance(node, Node) for node in nodes
                ):
                    raise TypeError(f"apply must return a list of nodes, not {nodes!r:.80}")
                added = added_nodes(nodes, matched)
                removes_identity = self.state.options.remove_identity
                check_copies(self.graph, added, removes_identity=removes_identity)
                check_strings(self.graph, added)
                edit.commit(matched, nodes, match.insert_at)
        except PASSED_ON:
            raise
        except RewriteError as error:
            self._drop(pattern, anchor, error)
            return None
        except Exception as error:  # the code of a pattern may raise anything
            self.state.fail(pattern, anchor, error)
            return None
        return nodes

    def _drop(self, pattern: PatternOptimization, anchor: Node, error: RewriteError) -> None:
        self._dropped.add((pattern.name(), anchor))
        logger.debug("%s at %r: %s", pattern.name(), anchor.name, error)
        self._report_drop(pattern, anchor, str(error))
        if not isinstance(error, Declined):
            self.state.warn_of_mistake(pattern, anchor, error)

    def _report_drop(self, pattern: PatternOptimization, anchor: Node, reason: str) -> None:
        self.state.events.send(
            "dropped", pattern.name(), node=anchor, text=reason, level=self.state.level(pattern)
        )
