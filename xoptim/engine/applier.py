"""Match and apply one pattern at one node, record the origin of new nodes, and handle any error that a pattern raises."""

import logging
from collections.abc import Sequence
from time import perf_counter

from xoptim.engine.events import Application
from xoptim.engine.state import State
from xoptim.facts.dtypes import type_name
from xoptim.facts.errors import BudgetError, Declined, RewriteError
from xoptim.facts.kernels import lacks_copies
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.pattern import PatternOptimization
from xoptim.match.result import MatchResult
from xoptim.match.view import GraphBuilderPatternOptimization, PatternRewriter

TAG = "xoptim.pattern"
"""Key of the metadata of a node that names the pattern that made it."""
logger = logging.getLogger("xoptim")
PASSED_ON = (BudgetError, BrokenPipeError, MemoryError)
"""Errors that a pattern did not cause: dropping it would not prevent them."""


def inherit(added: Sequence[Node], removed: Sequence[Node], tag: str = "") -> None:
    """Record the origin of new nodes, which are in the graph already; ``tag`` is the name of the pattern, empty for none.

    The origin of a new node is the removed node that produced the same result, else the last one removed. The new node gets its
    metadata and its remark; its name when both have the same operator; else the scope of its name (``/encoder/layer.0/`` of
    ``/encoder/layer.0/Add``). Values that the pattern gave itself are kept.
    """
    makers = {name: node for node in removed for name in node.output}
    named: set[Node] = set()
    for node in added:
        origin = next((makers[name] for name in node.output if name in makers), removed[-1] if removed else None)
        if origin is not None:
            metadata = origin.metadata_props()
            if metadata:
                node.metadata = {**metadata, **(node.metadata or {})}
            node.doc_string = node.doc_string or origin.remark
            prefix, _, number = node.name.rpartition("_")
            is_made_up = node.name == node.op_type or (prefix == node.op_type and number.isdecimal())
            if origin.name and is_made_up:
                _name_after(node, origin, named)
        if tag:
            node.metadata = {**(node.metadata or {}), TAG: tag}
        elif node.metadata:
            node.metadata.pop(TAG, None)


def _name_after(node: Node, origin: Node, named: set[Node]) -> None:
    assert node.graph is not None
    if node.op_type == origin.op_type and origin not in named:
        named.add(origin)
        node.name = origin.name
        return
    scope, slash, _ = origin.name.rpartition("/")
    if slash:
        node.name = node.graph.node_names.fresh(f"{scope}/{node.op_type}")


class Applier:
    """Matches and applies patterns in one graph. A pattern that raises an exception is skipped for the rest of the run."""

    def __init__(self, graph: Graph, state: State) -> None:
        self.graph = graph
        self.state = state
        self.view = GraphBuilderPatternOptimization(graph, state.options.provider)
        self._dropped: set[tuple[str, Node]] = set()

    def match(self, pattern: PatternOptimization, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """The match at a node, ``None`` when there is none, it was dropped before, or the pattern fails."""
        failed, dropped = self.state.failed, self._dropped
        if (failed or dropped) and (pattern.name() in failed or (pattern.name(), node) in dropped):
            return None
        try:
            return pattern.match_at(self.view, node, matched)
        except PASSED_ON:
            raise
        except Exception as error:  # the code of a pattern may raise anything
            self.state.fail(pattern, node, error)
            return None

    def explained_match(self, pattern: PatternOptimization, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Like `match`; refusals are sent as events."""
        with self.state.refusals(pattern):
            return self.match(pattern, node, matched)

    def apply(self, match: MatchResult, is_fresh: bool) -> list[Node] | None:
        """Apply a match if it still holds; returns its replacement, ``None`` when it was not applied.

        Unless it ``is_fresh``, the graph has changed since the match was found, and the pattern is matched again.
        """
        pattern, anchor = match.pattern, match.anchor
        assert anchor is not None
        if self.state.is_exhausted:
            return None
        found: MatchResult | None = match
        if any(node is not None and node.graph is not self.graph for node in match.nodes):
            found = None
        elif not is_fresh:
            found = self.match(pattern, anchor, [])
            if found is None:
                self._report_drop(pattern, anchor, "it no longer matches")
        if found is None:
            self.offer_again(match)
            return None
        return self._rewrite(found, anchor)

    def apply_at(self, pattern: PatternOptimization, node: Node) -> bool:
        """Match a pattern at one node, apply the match at once, and clean; returns whether it was applied."""
        match = self.match(pattern, node, [])
        if match is None or self.apply(match, is_fresh=True) is None:
            return False
        self.state.clean([self.graph])
        return True

    def offer_again(self, match: MatchResult) -> None:
        """Put the nodes of a match that is not applied back into the worklist: patterns may match them later."""
        nodes = [node for node in (match.anchor, *match.nodes) if node is not None and node.graph is self.graph]
        self.state.worklist.add(nodes)

    def _rewrite(self, match: MatchResult, anchor: Node) -> list[Node] | None:
        start = perf_counter()
        matched = sorted((node for node in match.nodes if node is not None), key=lambda node: node.label)
        given = self._replace(match, anchor, matched)
        if given is None:
            return None
        self.view.notes = {}
        added = [node for node in given if node not in matched]
        gone = [node for node in matched if node.graph is None]
        state, pattern = self.state, match.pattern
        inherit(added, gone, pattern.name() if state.options.tag_nodes else "")
        application = Application(state.rewrites + 1, pattern, anchor, self.graph, tuple(matched), tuple(given))
        state.applied(application, added, gone, perf_counter() - start)
        return given

    def _replace(self, match: MatchResult, anchor: Node, matched: list[Node]) -> list[Node] | None:
        """Make the replacement and commit it; ``None``, with the graph unchanged, when that fails."""
        pattern = match.pattern
        try:
            with match.edit or Edit(self.graph) as edit:
                edit.watch(matched)
                given = match.apply(PatternRewriter(self.graph, self.state.options.provider, edit), *match.nodes)
                if not isinstance(given, (list, tuple)) or not all(isinstance(node, Node) for node in given):
                    raise TypeError(f"apply returns a list of nodes, not {given!r:.80}")
                self._check_copies([node for node in given if node not in matched])
                edit.commit(matched, given, match.insert_at)
        except PASSED_ON:
            raise
        except RewriteError as error:
            self._drop(pattern, anchor, error)
            return None
        except Exception as error:  # the code of a pattern may raise anything
            self.state.fail(pattern, anchor, error)
            return None
        return given

    def _check_copies(self, added: Sequence[Node]) -> None:
        """Check that no Identity stays that onnxruntime cannot load."""
        for node in added:
            if node.op_type == "Identity" and not node.domain and self._stays(node, added):
                dtype = self.graph.info_of(node.output[0]).dtype
                if lacks_copies(dtype, self.graph.opsets.get("", 0)):
                    raise Declined(f"onnxruntime has no Identity for {type_name(dtype)}")

    def _stays(self, identity: Node, added: Sequence[Node]) -> bool:
        """Whether cleaning leaves an Identity: only an output that a node of this graph computes can be renamed."""
        graph, source = self.graph, identity.input[0]
        if not self.state.options.remove_identity:
            return True
        is_made = graph.producer(source) is not None or any(source in node.output for node in added)
        return graph.is_output(identity.output[0]) and (not is_made or graph.is_output(source))

    def _drop(self, pattern: PatternOptimization, anchor: Node, error: RewriteError) -> None:
        self._dropped.add((pattern.name(), anchor))
        logger.debug("%s at %r: %s", pattern.name(), anchor.name, error)
        self._report_drop(pattern, anchor, str(error))
        if not isinstance(error, Declined):
            self.state.warn_of_mistake(pattern, anchor, error)

    def _report_drop(self, pattern: PatternOptimization, anchor: Node, why: str) -> None:
        self.state.events.send("dropped", pattern.name(), node=anchor, text=why, level=self.state.level(pattern))
