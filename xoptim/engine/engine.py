"""The loop: rounds of matching and rewriting until nothing changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from time import perf_counter

from xoptim.engine.applier import Applier
from xoptim.engine.cleanup import remove_identities
from xoptim.engine.index import PatternIndex, index_of
from xoptim.engine.state import EXPLAINED, State
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.pattern import PatternOptimization
from xoptim.match.result import Claims, MatchResult, first_found, strategy_named


class Engine:
    """Applies patterns to one graph.

    Args:
        graph: the graph.
        state: the state of the optimization.
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
        """Run patterns until nothing changes: lower phases and priorities first, and again after later changes.

        The first call offers every node to every pattern, later calls only the nodes near a change; `confirm` offers all again.

        Returns:
            Number of rewrites.

        Raises:
            BudgetError: when patterns undo each other, or the loop would not end.
        """
        state, opset, active = self.state, self.applier.view.main_opset, set(map(id, self._active))
        fresh = [p for p in patterns if id(p) not in active and state.is_usable(p, opset)]
        if not self._active:
            state.worklist.clear()
        total = self._loop(None)
        for _, level in groupby(fresh, key=lambda p: (p.phase, p.priority)):
            added = list(level)
            self._active += added
            self._explained += tuple(state.options.with_verbosity(EXPLAINED, added))
            self._index = index_of(tuple(self._active), self._explained)
            total += self._loop(index_of(tuple(added), self._explained))
        self._unconfirmed += total
        return total

    def confirm(self) -> int:
        """Offer every node to every pattern once more if anything was rewritten since the last call; returns the rewrites."""
        if self._unconfirmed:
            self.state.worklist.clear()  # all nodes are offered anyway
            self._unconfirmed = self._loop(self._index)
        return self._unconfirmed

    def is_usable(self, pattern: PatternOptimization) -> bool:
        """Whether a pattern can be used in the graph."""
        return self.state.is_usable(pattern, self.applier.view.main_opset)

    def find(self, pattern: PatternOptimization) -> list[MatchResult]:
        """All matches of a pattern in the present graph, in order; they may overlap."""
        index = index_of((pattern,), ())
        nodes = index.candidates(self.graph, index.anchors_in(self.graph)).get(0, [])
        return [match for match in (self.applier.match(pattern, node, []) for node in nodes) if match is not None]

    def apply_at(self, pattern: PatternOptimization, node: Node) -> bool:
        """Match a pattern at one node and rewrite there at once; returns whether it was applied."""
        match = self.applier.match(pattern, node, [])
        if match is None or self.applier.apply(match, is_fresh=True) is None:
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
            self.applier.view.notes = {}
            self._rounds_left -= 1
            state.events.iteration += 1
            start, rewriting = perf_counter(), 0.0
            found = applied = 0
            claims = Claims()
            for match, is_fresh in self._chosen(index, nodes, claims):
                matched = perf_counter()
                given = self.applier.apply(match, is_fresh)
                found, applied = found + 1, applied + (given is not None)
                claims.nodes.update(given or ())  # new nodes are matched in the next round
                rewriting += perf_counter() - matched
                if state.options.debug.step:
                    state.worklist.add(node for node in nodes if node.graph is graph)
                    break
            rewritten = perf_counter()
            self._clean()
            _report_round(state, graph, f"{found} matches, {applied} applied", start, rewriting, rewritten)
            total += applied
        self.applier.view.notes = None
        return total

    def _chosen(self, index: PatternIndex, nodes: Mapping[Node, int], claims: Claims) -> Iterator[tuple[MatchResult, bool]]:
        """Matches that do not overlap, each with whether the graph is unchanged since it was found.

        Under the strategy ``priority``, each match is yielded when it is found, and applied before the search continues. Other
        strategies compare all matches of the round.
        """
        if self._strategy is first_found:
            for match in self._matches(index, nodes, claims):
                if self._claim(match, claims):
                    yield match, True
        else:
            for match in self._strategy(list(self._matches(index, nodes, claims))):
                if self._claim(match, claims):
                    yield match, False

    def _matches(self, index: PatternIndex, nodes: Mapping[Node, int], claims: Claims) -> Iterator[MatchResult]:
        """All matches of a round at unclaimed nodes, in the order of the patterns."""
        graph, state, taken = self.graph, self.state, claims.nodes
        matches: list[MatchResult] = []
        for number, anchors in index.candidates(graph, nodes).items():
            pattern, start, before = index.patterns[number], perf_counter(), len(matches)
            level = state.level(pattern)
            find = self.applier.match if level else self.applier.explained_match
            for node in anchors:
                if node in taken or node.graph is not graph:
                    continue
                match = find(pattern, node, matches)
                if match is not None:
                    matches.append(match)
                    state.events.send("matched", pattern.name(), node=match.anchor, graph=graph.name, level=level)
                    suspended = perf_counter()
                    yield match
                    start += perf_counter() - suspended
            seconds, found = perf_counter() - start, len(matches) - before
            state.events.send("tried", pattern.name(), seconds=seconds, count=found, tried=len(anchors))

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


def _report_round(state: State, graph: Graph, text: str, start: float, rewriting: float, rewritten: float) -> None:
    events, now = state.events, perf_counter()
    events.send("round", level=1, graph=graph.name, text=text, nodes=len(graph.nodes), source=graph)
    events.send("timed", "insert_and_remove_nodes", seconds=rewriting)
    events.send("timed", "remove_unused", seconds=now - rewritten)
    events.send("timed", "iteration", seconds=now - start)
