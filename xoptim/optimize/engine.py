"""The loop: rounds of matching and rewriting until nothing changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from time import perf_counter

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.disjoint import Claims, first_found, strategy_named
from xoptim.match.pattern import PHASES, PatternOptimization
from xoptim.match.result import MatchResult
from xoptim.optimize.applier import Applier
from xoptim.optimize.cleanup import remove_identities
from xoptim.optimize.index import PatternIndex, index_of
from xoptim.optimize.state import EXPLAINED, State


class Engine:
    """Applies patterns to one graph.

    Args:
        graph: the graph.
        state: what steers the optimization.
    """

    def __init__(self, graph: Graph, state: State) -> None:
        self.graph = graph
        self.state = state
        self.applier = Applier(graph, state)
        self._strategy = strategy_named(state.options.strategy)
        self._active: list[PatternOptimization] = []
        self._explained: tuple[PatternOptimization, ...] = ()
        self._index = index_of((), ())
        self._unconfirmed = 0
        self._rounds_left = state.options.max_iter

    def run(self, patterns: list[PatternOptimization]) -> int:
        """Run patterns until nothing changes: lower phases and priorities first, and again when a later one helps them.

        The first call offers every node to every pattern; later calls offer what changed since. `confirm` makes sure.

        Returns:
            Number of rewrites.

        Raises:
            BudgetError: when patterns undo each other, or would go on for ever.
        """
        fresh = [p for p in patterns if p not in self._active and self.is_usable(p)]
        if not self._active:
            self.state.worklist.clear()
        total = self._loop(None)
        for _, level in groupby(fresh, key=lambda p: (PHASES.index(p.phase), p.priority)):
            added = list(level)
            self._active += added
            self._explained += tuple(p for p in added if self.state.options.verbosity(p) >= EXPLAINED)
            self._index = index_of(tuple(self._active), self._explained)
            total += self._loop(index_of(tuple(added), self._explained))
        self._unconfirmed += total
        return total

    def confirm(self) -> int:
        """Offer every node to every pattern once more if anything was rewritten since the last time; returns the rewrites."""
        if self._unconfirmed:
            self._unconfirmed = self._loop(self._index)
        return self._unconfirmed

    def is_usable(self, pattern: PatternOptimization) -> bool:
        """Whether a pattern can be tried in the graph."""
        return self.state.is_usable(pattern, self.applier.view.main_opset)

    def find(self, pattern: PatternOptimization) -> list[MatchResult]:
        """All matches of a pattern as the graph is now, in order; they may overlap."""
        index = index_of((pattern,), ())
        nodes = index.candidates(self.graph, index.anchors_in(self.graph)).get(0, [])
        return [match for match in (self.applier.match(pattern, node, []) for node in nodes) if match is not None]

    def apply_at(self, pattern: PatternOptimization, node: Node) -> bool:
        """Match a pattern at one node and rewrite there at once; returns whether it did."""
        match = self.applier.match(pattern, node, [])
        if match is None or not self.applier.apply(match, is_fresh=True):
            return False
        self._clean()
        return True

    def _loop(self, sweep: PatternIndex | None) -> int:
        """Offer all nodes to the patterns of ``sweep``, then the nodes near a change to all, until nothing changes."""
        graph, state = self.graph, self.state
        total = 0
        while self._rounds_left and not state.is_exhausted:
            index = self._index if sweep is None else sweep
            nodes = state.worklist.take(graph, index.longest_reach) if sweep is None else index.anchors_in(graph)
            if not nodes:
                break
            sweep = None
            self._rounds_left -= 1
            state.events.iteration += 1
            start = perf_counter()
            matches = self._collect(index, nodes)
            collected = perf_counter()
            applied = sum(self.applier.apply(match, is_fresh=not place) for place, match in enumerate(matches))
            rewritten = perf_counter()
            self._clean()
            self._report_round(f"{len(matches)} matches, {applied} applied", start, collected, rewritten)
            total += applied
        return total

    def _collect(self, index: PatternIndex, nodes: Mapping[Node, int]) -> list[MatchResult]:
        """Matches that do not overlap, chosen by the strategy; what is left over is offered again."""
        claims, state = Claims(), self.state
        matches: list[MatchResult] = []
        for number, anchors in index.candidates(self.graph, nodes).items():
            pattern, start, before = index.patterns[number], perf_counter(), len(matches)
            with state.refusals(pattern):
                for match in self._matches(pattern, anchors, matches, claims):
                    matches.append(match)
                    state.events.send(
                        "matched", pattern.name(), node=match.anchor, graph=self.graph.name, level=state.level(pattern)
                    )
            seconds, found = perf_counter() - start, len(matches) - before
            state.events.send("tried", pattern.name(), seconds=seconds, count=found, tried=len(anchors))
        if self._strategy is not first_found:
            matches = [match for match in self._strategy(matches) if self._claim(match, claims)]
        if state.options.debug.step:
            for match in matches[1:]:
                self.applier.offer_again(match)
            return matches[:1]
        return matches

    def _matches(
        self, pattern: PatternOptimization, anchors: Iterable[Node], matched: list[MatchResult], claims: Claims
    ) -> Iterator[MatchResult]:
        """The matches of a pattern; when those that are found first win, without those that come too late."""
        taken = claims.nodes
        for node in anchors:
            if node not in taken:
                match = self.applier.match(pattern, node, matched)
                if match is not None and (self._strategy is not first_found or self._claim(match, claims)):
                    yield match

    def _claim(self, match: MatchResult, claims: Claims) -> bool:
        if claims.take(match):
            return True
        self.applier.offer_again(match)
        return False

    def _clean(self) -> None:
        options, worklist = self.state.options, self.state.worklist
        identities, worklist.identities = worklist.identities, []
        if options.remove_identity:
            remove_identities(self.graph, identities)
        if options.remove_unused:
            self.graph.sweep()

    def _report_round(self, text: str, start: float, collected: float, rewritten: float) -> None:
        events, now, nodes = self.state.events, perf_counter(), len(self.graph.nodes)
        events.send("round", level=1, graph=self.graph.name, text=text, nodes=nodes, source=self.graph)
        events.send("timed", "insert_and_remove_nodes", seconds=rewritten - collected)
        events.send("timed", "remove_unused", seconds=now - rewritten)
        events.send("timed", "iteration", seconds=now - start)
