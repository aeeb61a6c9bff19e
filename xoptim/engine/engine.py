"""Rounds of matching and rewriting in all graphs of a model, until nothing changes."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, groupby
from time import perf_counter

import onnx

from xoptim.catalogue.selection import Selection, select
from xoptim.engine.applier import Applier, added_nodes
from xoptim.engine.index import PatternIndex, index_of
from xoptim.engine.state import EXPLAINED, State
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
from xoptim.match.view import GraphView
from xoptim.passes.cleanup import inner_first, learn_results


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
        """Run patterns by phase, then by priority, and earlier patterns again after later ones
        changed something.

        Patterns of earlier calls stay active, but see only nodes near a change. Call `confirm`
        afterwards: it offers every node to all patterns, until nothing changes. Returns the number
        of rewrites. Raises `BudgetError` when patterns undo each other, or the loop would not end.
        """
        if not self._active:
            self.state.worklist.clear()
        total = self._follow_changes()
        active = set(map(id, self._active))
        additions = [pattern for pattern in patterns if id(pattern) not in active]
        for _, members in groupby(additions, key=lambda p: (p.phase, p.priority)):
            group = list(members)
            first = len(self._active)
            self._active += group
            additions = additions[len(group) :]
            total += self._offer_all(first, additions)
        self._unconfirmed += total
        return total

    def confirm(self) -> int:
        """Offer every node to every pattern once more if anything was rewritten since the last
        call; returns the rewrites.
        """
        if self._unconfirmed:
            self.state.worklist.clear()  # all nodes are offered anyway
            self._unconfirmed = sum(
                self._offer(graph, 0) + self._follow_changes_in(graph)
                for graph in inner_first(self.model)
            )
            self._unconfirmed += self._follow_changes()
        return self._unconfirmed

    def _offer_all(self, first: int, later: Sequence[PatternOptimization]) -> int:
        """Offer all nodes to the active patterns from index ``first`` on, then the nodes near a
        change to all active patterns; returns the rewrites.

        If no node fits a pattern that comes ``later``, nodes near a change are left to `confirm`,
        which offers all nodes to all patterns.
        """
        total, is_last = 0, True
        for graph in inner_first(self.model):
            rewrites = self._offer(graph, first)
            if rewrites and is_last:
                # A rewrite of one graph adds no nodes to the graphs that were checked before.
                is_last = not self._may_match(later, [graph] if total else self.model.graphs())
            if not is_last:
                rewrites += self._follow_changes_in(graph)
            total += rewrites
        return total if is_last else total + self._follow_changes()

    def _may_match(self, patterns: Sequence[PatternOptimization], graphs: Iterable[Graph]) -> bool:
        """Whether there is a node in some graphs at which one of the patterns may match."""
        for graph in graphs:
            opset = graph.opsets.get("", 0)
            usable = tuple(pattern for pattern in patterns if self.state.is_usable(pattern, opset))
            if index_of(usable, ()).has_candidates(graph):
                return True
        return False

    def _follow_changes(self) -> int:
        """Offer the nodes near a change to all active patterns, until nothing changes; returns the
        rewrites.
        """
        total = 0
        while changed := [
            graph for graph in self.state.worklist.graphs() if self._may_go_on(graph)
        ]:
            total += self._follow_changes_in(changed[0])
        return total

    def _offer(self, graph: Graph, first: int) -> int:
        """Offer all nodes of a graph to the active patterns from index ``first`` on, once; returns
        the rewrites.
        """
        if not self._may_go_on(graph):
            return 0
        index = self._index(graph, first)
        return self._round(graph, index, index.anchors_in(graph))

    def _follow_changes_in(self, graph: Graph) -> int:
        """Offer the nodes near a change in a graph to all active patterns, until nothing changes;
        returns the rewrites.
        """
        total = 0
        while self._may_go_on(graph):
            index = self._index(graph, 0)
            nodes = self.state.worklist.take(graph, index.longest_reach)
            if not nodes:
                break
            total += self._round(graph, index, nodes)
        return total

    def _round(self, graph: Graph, index: PatternIndex, nodes: Mapping[Node, int]) -> int:
        if not nodes:
            return 0
        rewrites = self._rounds_of(graph).run(index, nodes)
        if rewrites and graph.owner is not None:
            learn_results(graph)
            self.state.worklist.add([graph.owner])
        return rewrites

    def _may_go_on(self, graph: Graph) -> bool:
        limit = self.state.options.max_iter
        return not self.state.is_exhausted and (limit < 0 or self._rounds_of(graph).count < limit)

    def _rounds_of(self, graph: Graph) -> Rounds:
        if graph not in self._rounds:
            self._rounds[graph] = Rounds(graph, self.state, partial(self._index, graph, 0))
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

    def __init__(
        self, graph: Graph, state: State, active_index: Callable[[], PatternIndex]
    ) -> None:
        self.graph = graph
        self.state = state
        self._active_index = active_index  # the index of all patterns that are active now
        self.count = 0  # number of rounds so far
        self._applier = Applier(graph, state)
        self._strategy = strategy_named(state.options.strategy)
        self._added: list[Node] = []  # by the matches of the current pattern
        # Number of nodes up to which later patterns match new nodes: `Budgets` counts nodes after a
        # round, and patterns that double each other's nodes would not come to its end.
        self._largest = 0

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
        self._added = []
        self._largest = 2 * len(graph.nodes) + 1000
        for match, is_fresh in self._disjoint_matches(index, nodes, claims):
            replacement = applier.apply(match, is_fresh)
            matches, rewrites = matches + 1, rewrites + (replacement is not None)
            claims.nodes.update(replacement or ())
            self._added += added_nodes(replacement or (), match.nodes)
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
        candidates = index.candidates(graph, nodes)
        numbers, released, last = [*candidates], list[Node](), -1
        for number in numbers:  # grows behind the current number
            if released and not index.are_equal(number, last):
                claimed.update(released)  # patterns of higher numbers match them in the next round
                released = []
            last = number
            pattern, start, offset = index.patterns[number], perf_counter(), len(matches)
            level = state.level(pattern)
            # level 0: the pattern is logged in full
            find = applier.match if level else applier.explained_match
            anchors = candidates[number]
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
            if self._added and len(graph.nodes) <= self._largest:
                offers = index.later_candidates(graph, self._added, number)
                free = self._free_nodes(offers, pattern)
                claimed.difference_update(free)
                released += free
                for later, added in offers.items():
                    if later not in candidates:
                        insort(numbers, later)
                    candidates.setdefault(later, []).extend(added)
                self._added = []
            seconds, count = perf_counter() - start, len(matches) - offset
            state.events.send(
                "tried", pattern.name(), seconds=seconds, count=count, tried=len(anchors)
            )

    def _free_nodes(
        self, offers: Mapping[int, Sequence[Node]], pattern: PatternOptimization
    ) -> list[Node]:
        """The new nodes that later patterns may match in this round: no pattern of an earlier
        phase or a lower priority matches there, which would have to come first.
        """
        nodes = dict.fromkeys(node for added in offers.values() for node in added)
        return [
            node
            for node in nodes
            if not any(
                self._applier.match(earlier, node, [])
                for earlier in self._active_index().earlier_candidates(self.graph, node, pattern)
            )
        ]
