"""The loop: rounds of matching and rewriting in all graphs of a model until nothing changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import compress, groupby
from time import perf_counter

from xoptim.engine.applier import Applier
from xoptim.engine.index import PatternIndex, index_of
from xoptim.engine.state import EXPLAINED, State
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.pattern import PatternOptimization
from xoptim.match.result import Claims, MatchResult, first_found, strategy_named
from xoptim.passes.graph_pass import inner_first, learn_results


class Engine:
    """Applies patterns to all graphs of a model."""

    def __init__(self, model: Model, state: State) -> None:
        self.model = model
        self.state = state
        self._active: list[PatternOptimization] = []
        self._usable: defaultdict[int, list[bool]] = defaultdict(list)  # whether each active pattern is, by operator set
        self._indexes: dict[tuple[int, int, int], PatternIndex] = {}
        self._rounds: dict[Graph, Rounds] = {}
        self._unconfirmed = 0

    def run(self, patterns: list[PatternOptimization]) -> int:
        """Run patterns until nothing changes: lower phases and priorities first, and again after later changes.

        The first call offers every node to every pattern, later calls only the nodes near a change; `confirm` offers all
        again. Returns the number of rewrites. Raises `BudgetError` when patterns undo each other, or the loop would not end.
        """
        if not self._active:
            self.state.worklist.clear()
        total = self._loop()
        active = set(map(id, self._active))
        fresh = [pattern for pattern in patterns if id(pattern) not in active]
        for _, level in groupby(fresh, key=lambda p: (p.phase, p.priority)):
            first = len(self._active)
            self._active += level
            total += self._loop(first)
        self._unconfirmed += total
        return total

    def confirm(self) -> int:
        """Offer every node to every pattern once more if anything was rewritten since the last call; returns the rewrites."""
        if self._unconfirmed:
            self.state.worklist.clear()  # all nodes are offered anyway
            self._unconfirmed = self._loop(0)
        return self._unconfirmed

    def _loop(self, first: int | None = None) -> int:
        """Offer all nodes to the active patterns from ``first`` on, then those near a change to all, until nothing changes."""
        total = 0
        for graph in () if first is None else inner_first(self.model):
            total += self._rewrite(graph, first)
        while changed := [graph for graph in self.state.worklist.graphs() if self._may_go_on(graph)]:
            total += self._rewrite(changed[0], None)
        return total

    def _rewrite(self, graph: Graph, first: int | None) -> int:
        """Run rounds in one graph until nothing changes there; returns the rewrites."""
        worklist, total = self.state.worklist, 0
        while self._may_go_on(graph):
            index = self._index(graph, first or 0)
            nodes = worklist.take(graph, index.longest_reach) if first is None else index.anchors_in(graph)
            if not nodes:
                break
            first = None
            total += self._rounds_of(graph).run(index, nodes)
        if total and graph.owner is not None:
            learn_results(graph)
            worklist.add([graph.owner])
        return total

    def _may_go_on(self, graph: Graph) -> bool:
        most = self.state.options.max_iter
        return not self.state.is_exhausted and (most < 0 or self._rounds_of(graph).count < most)

    def _rounds_of(self, graph: Graph) -> Rounds:
        if graph not in self._rounds:
            self._rounds[graph] = Rounds(graph, self.state)
        return self._rounds[graph]

    def _index(self, graph: Graph, first: int) -> PatternIndex:
        """The index of the active patterns from ``first`` on that can be used in a graph."""
        opset = graph.opsets.get("", 0)
        key = (opset, first, len(self._active))
        if key not in self._indexes:
            known = self._usable[opset]
            known += [self.state.is_usable(pattern, opset) for pattern in self._active[len(known) :]]
            usable = tuple(compress(self._active[first:], known[first:]))
            self._indexes[key] = index_of(usable, tuple(self.state.options.with_verbosity(EXPLAINED, usable)))
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
        """Run a round: collect matches, choose disjoint ones, commit these, clean. Returns the number of rewrites.

        ``nodes`` are offered to the patterns, with their distances from the nearest change.
        """
        graph, state, applier, claims = self.graph, self.state, self._applier, Claims()
        self.count += 1
        state.events.iteration += 1
        found, applied, start = 0, 0, perf_counter()
        applier.view.notes = {}
        for match, is_fresh in self._chosen(index, nodes, claims):
            given = applier.apply(match, is_fresh)
            found, applied = found + 1, applied + (given is not None)
            claims.nodes.update(given or ())  # new nodes are matched in the next round
            if state.options.debug.step:
                state.worklist.add(node for node in nodes if node.graph is graph)
                break
        applier.view.notes = None
        rewritten = perf_counter()
        state.clean([graph])
        now, text = perf_counter(), f"{found} matches, {applied} applied"
        size, send = len(graph.nodes), state.events.send
        send("round", level=1, graph=graph.name, text=text, nodes=size, source=graph, seconds=now - start)
        send("timed", "remove_unused", seconds=now - rewritten)
        return applied

    def _chosen(self, index: PatternIndex, nodes: Mapping[Node, int], claims: Claims) -> Iterator[tuple[MatchResult, bool]]:
        """Matches that do not overlap, each with whether the graph is unchanged since it was found.

        Under the strategy ``priority``, each match is yielded when it is found, and applied before the search continues. Other
        strategies compare all matches of the round.
        """
        found, is_fresh = self._matches(index, nodes, claims), self._strategy is first_found
        for match in found if is_fresh else self._strategy(list(found)):
            if claims.take(match):
                yield match, is_fresh
            else:
                self._applier.offer_again(match)

    def _matches(self, index: PatternIndex, nodes: Mapping[Node, int], claims: Claims) -> Iterator[MatchResult]:
        """All matches of a round at unclaimed nodes, in the order of the patterns."""
        graph, state, applier, taken = self.graph, self.state, self._applier, claims.nodes
        matches: list[MatchResult] = []
        for number, anchors in index.candidates(graph, nodes).items():
            pattern, start, before = index.patterns[number], perf_counter(), len(matches)
            level = state.level(pattern)
            find = applier.match if level else applier.explained_match
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
