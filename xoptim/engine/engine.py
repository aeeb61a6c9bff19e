"""Rounds of matching and rewriting in all graphs of a model, until nothing changes."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, groupby
from time import perf_counter

import onnx

from xoptim.catalogue.selection import Selection, select
from xoptim.engine.events import Application
from xoptim.engine.index import PatternIndex, index_of
from xoptim.engine.kernels import check_copies, check_strings
from xoptim.engine.state import EXPLAINED, State
from xoptim.facts.errors import BudgetError, Declined, RewriteError, UnstoppableError
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.pattern import (
    Claims,
    MatchResult,
    PatternOptimization,
    disjoint,
    first_found,
    strategy_named,
)
from xoptim.match.view import GraphView, PatternRewriter
from xoptim.passes.cleanup import inner_first, learn_results

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
        added = [node for node in replacement if node not in matched]
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
                added = [node for node in nodes if node not in matched]
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


def match_patterns(
    model: onnx.ModelProto | Model | Graph,
    patterns: Selection = "default",
    strategy: str = "largest",
    provider: str = "",
) -> tuple[list[MatchResult], dict[Node, MatchResult]]:
    """The matches of all patterns in a model, each node in at most one of them.

    The model is left unchanged.

    Returns the matches, graph by graph in the order of the strategy, and a dictionary from the
    last node of each match to the match.

    Args:
        model: the model, subgraphs and local functions included, or one graph.
        patterns: the patterns to find; patterns of all phases are matched at once.
        strategy: the rule that keeps one of several overlapping matches, a name in
            `xoptim.match.pattern.STRATEGIES`. Ties go to the earlier pattern (phase, priority,
            ``before``, name), then to the earlier anchor.
        provider: execution provider of the patterns, empty for any.

    Raises:
        ValueError: when there is no such strategy.
        UnknownPatternError: when a pattern name is not known.
    """
    strategy_named(strategy)
    finders = [rewrite for rewrite in select(patterns) if isinstance(rewrite, PatternOptimization)]
    source = load_model(model) if isinstance(model, onnx.ModelProto) else model
    graphs = [source] if isinstance(source, Graph) else list(source.graphs())
    matches = [
        match
        for graph in graphs
        for match in disjoint(all_matches(graph, finders, provider), strategy)
    ]
    return matches, {max(filter(None, m.nodes), key=lambda node: node.label): m for m in matches}


def all_matches(
    graph: Graph, patterns: Sequence[PatternOptimization], provider: str
) -> list[MatchResult]:
    """All matches in a graph, by pattern, then by node; they may overlap."""
    view = GraphView(graph, provider)
    index = index_of(tuple(p for p in patterns if not p.unfit_for(view.main_opset, provider)), ())
    matches: list[MatchResult] = []
    for number, nodes in index.candidates(graph, index.anchors_in(graph)).items():
        for node in nodes:
            match = index.patterns[number].match_at(view, node, matches)
            if match is not None:
                matches.append(match)
    return matches


class Engine:
    """Applies patterns to all graphs of a model."""

    def __init__(self, model: Model, state: State) -> None:
        self.model = model
        self.state = state
        self._active: list[PatternOptimization] = []
        # by operator set: whether each active pattern is usable
        self._usable: defaultdict[int, list[bool]] = defaultdict(list)
        self._indexes: dict[tuple[int, int, int], PatternIndex] = {}
        self._rounds: dict[Graph, Rounds] = {}
        self._unconfirmed = 0  # rewrites since every node was offered to every pattern

    def run(self, patterns: list[PatternOptimization]) -> int:
        """Run patterns until nothing changes: by phase, then by priority, and earlier patterns
        again after later ones changed something.

        Patterns of earlier calls stay active, but see only nodes near a change; `confirm` offers
        every node to all patterns. Returns the number of rewrites. Raises `BudgetError` when
        patterns undo each other, or the loop would not end.
        """
        if not self._active:
            self.state.worklist.clear()
        total = self._loop()
        active = set(map(id, self._active))
        additions = [pattern for pattern in patterns if id(pattern) not in active]
        for _, group in groupby(additions, key=lambda p: (p.phase, p.priority)):
            first = len(self._active)
            self._active += group
            total += self._loop(first)
        self._unconfirmed += total
        return total

    def confirm(self) -> int:
        """Offer every node to every pattern once more if anything was rewritten since the last
        call; returns the rewrites.
        """
        if self._unconfirmed:
            self.state.worklist.clear()  # all nodes are offered anyway
            self._unconfirmed = self._loop(0)
        return self._unconfirmed

    def _loop(self, first: int | None = None) -> int:
        """Offer all nodes to the active patterns from index ``first`` on, if any; then nodes near a
        change to all active patterns, until nothing changes.
        """
        total = 0
        for graph in () if first is None else inner_first(self.model):
            total += self._rewrite(graph, first)
        while changed := [
            graph for graph in self.state.worklist.graphs() if self._may_go_on(graph)
        ]:
            total += self._rewrite(changed[0], None)
        return total

    def _rewrite(self, graph: Graph, first: int | None) -> int:
        """Run rounds in one graph until nothing changes there; returns the rewrites.

        ``first`` as in `_loop`, for the first round.
        """
        worklist, total = self.state.worklist, 0
        while self._may_go_on(graph):
            index = self._index(graph, first or 0)
            nodes = (
                worklist.take(graph, index.longest_reach)
                if first is None
                else index.anchors_in(graph)
            )
            if not nodes:
                break
            first = None
            total += self._rounds_of(graph).run(index, nodes)
        if total and graph.owner is not None:
            learn_results(graph)
            worklist.add([graph.owner])
        return total

    def _may_go_on(self, graph: Graph) -> bool:
        limit = self.state.options.max_iter
        return not self.state.is_exhausted and (limit < 0 or self._rounds_of(graph).count < limit)

    def _rounds_of(self, graph: Graph) -> Rounds:
        if graph not in self._rounds:
            self._rounds[graph] = Rounds(graph, self.state)
        return self._rounds[graph]

    def _index(self, graph: Graph, first: int) -> PatternIndex:
        """The index of the active patterns from ``first`` on that can be used in a graph."""
        opset = graph.opsets.get("", 0)
        key = (opset, first, len(self._active))
        if key not in self._indexes:
            flags = self._usable[opset]
            flags += [
                self.state.is_usable(pattern, opset) for pattern in self._active[len(flags) :]
            ]
            patterns = tuple(compress(self._active[first:], flags[first:]))
            self._indexes[key] = index_of(
                patterns, tuple(self.state.options.with_verbosity(EXPLAINED, patterns))
            )
        return self._indexes[key]


class Rounds:
    """Rounds of matching and rewriting in one graph."""

    def __init__(self, graph: Graph, state: State) -> None:
        self.graph = graph
        self.state = state
        self.count = 0  # number of rounds so far
        self._applier = Applier(graph, state)
        self._strategy = strategy_named(state.options.strategy)

    def run(self, index: PatternIndex, nodes: Mapping[Node, int]) -> int:
        """Run a round: collect matches, choose disjoint ones, apply these, clean.

        ``nodes`` are offered to the patterns, with their distances from the nearest change.
        Returns the number of rewrites.
        """
        graph, state, applier, claims = self.graph, self.state, self._applier, Claims()
        self.count += 1
        state.events.iteration += 1
        matches, rewrites, start = 0, 0, perf_counter()
        applier.view.notes = {}
        for match, is_fresh in self._disjoint_matches(index, nodes, claims):
            replacement = applier.apply(match, is_fresh)
            matches, rewrites = matches + 1, rewrites + (replacement is not None)
            claims.nodes.update(replacement or ())  # new nodes are matched in the next round
            if state.options.debug.step:
                state.worklist.add(node for node in nodes if node.graph is graph)
                break
        applier.view.notes = None
        cleaning = perf_counter()
        state.clean([graph])
        now, text = perf_counter(), f"{matches} matches, {rewrites} applied"
        size, send = len(graph.nodes), state.events.send
        send(
            "round",
            level=1,
            graph=graph.name,
            text=text,
            nodes=size,
            source=graph,
            seconds=now - start,
        )
        send("timed", "remove_unused", seconds=now - cleaning)
        return rewrites

    def _disjoint_matches(
        self, index: PatternIndex, nodes: Mapping[Node, int], claims: Claims
    ) -> Iterator[tuple[MatchResult, bool]]:
        """Matches that do not overlap, each with whether the graph is unchanged since the match.

        Under the strategy ``priority``, a match is yielded and applied before the search continues.
        Other strategies compare all matches of the round.
        """
        matches, is_fresh = self._matches(index, nodes, claims), self._strategy is first_found
        for match in matches if is_fresh else self._strategy(list(matches)):
            if claims.take(match):
                yield match, is_fresh
            else:
                self._applier.offer_again(match)

    def _matches(
        self, index: PatternIndex, nodes: Mapping[Node, int], claims: Claims
    ) -> Iterator[MatchResult]:
        """All matches of a round at unclaimed nodes, in the order of the patterns."""
        graph, state, applier, claimed = self.graph, self.state, self._applier, claims.nodes
        matches: list[MatchResult] = []
        for number, anchors in index.candidates(graph, nodes).items():
            pattern, start, offset = index.patterns[number], perf_counter(), len(matches)
            level = state.level(pattern)
            # level 0: the pattern is logged in full
            find = applier.match if level else applier.explained_match
            for node in anchors:
                if node in claimed or node.graph is not graph:
                    continue
                match = find(pattern, node, matches)
                if match is not None:
                    matches.append(match)
                    state.events.send(
                        "matched", pattern.name(), node=match.anchor, graph=graph.name, level=level
                    )
                    pause = perf_counter()
                    yield match
                    start += perf_counter() - pause
            seconds, count = perf_counter() - start, len(matches) - offset
            state.events.send(
                "tried", pattern.name(), seconds=seconds, count=count, tried=len(anchors)
            )
