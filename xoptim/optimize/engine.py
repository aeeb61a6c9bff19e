"""The loop: rounds of matching and rewriting until nothing changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import groupby
from time import perf_counter

from xoptim.facts.errors import BudgetError, Declined, RewriteError, XoptimError
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.disjoint import first_found, strategy_named
from xoptim.match.pattern import PHASES, PatternOptimization
from xoptim.match.refusal import Refusal, listening
from xoptim.match.result import MatchResult
from xoptim.match.view import GraphBuilderPatternOptimization, PatternRewriter
from xoptim.optimize.application import Application
from xoptim.optimize.cleanup import remove_identities
from xoptim.optimize.dump import dump_application
from xoptim.optimize.events import EventStream
from xoptim.optimize.index import PatternIndex, defect_of, index_of
from xoptim.optimize.options import OptimizationOptions
from xoptim.optimize.provenance import inherit
from xoptim.optimize.statistics import Statistics
from xoptim.optimize.worklist import Worklist

logger = logging.getLogger("xoptim")
REWRITES_PER_RESULT = 40
"""A result whose producer is replaced more often than this, by no fewer nodes, is tossed to and fro between patterns."""
_PASSED_ON = (BudgetError, BrokenPipeError, MemoryError)
"""What is not the fault of the pattern that raises it, so that going on without the pattern would not help."""
GROWTH = 10
"""A graph that has become so many times as large as it was (and a thousand nodes) will grow without end."""


class Engine:
    """Applies patterns to one graph.

    Args:
        graph: the graph.
        options: what to do.
        events: told of everything.
        statistics: counts and times.
        worklist: what changed.
    """

    def __init__(
        self,
        graph: Graph,
        options: OptimizationOptions,
        events: EventStream,
        statistics: Statistics,
        worklist: Worklist,
    ) -> None:
        self.graph = graph
        self.options = options
        self.events = events
        self.statistics = statistics
        self.worklist = worklist
        self.view = GraphBuilderPatternOptimization(graph, options.provider)
        self._failed: set[str] = statistics.failed
        self._dropped: set[tuple[str, Node]] = set()
        self._rewritten: dict[str, int] = {}
        self._last: dict[str, str] = {}
        self._stepping = options.debug.step
        self._active: list[PatternOptimization] = []
        self._index = index_of((), ())
        self._unconfirmed = 0
        self._rounds_left = options.max_iter if options.max_iter >= 0 else None
        self._most_nodes = GROWTH * (len(graph.nodes) + 1000)

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
            self.worklist.clear()
        total = self._rounds(None)
        for _, level in groupby(fresh, key=lambda p: (PHASES.index(p.phase), p.priority)):
            added = list(level)
            self._active += added
            explained = tuple(p for p in self._active if self.options.verbosity(p) >= 10)
            self._index = index_of(tuple(self._active), explained)
            total += self._rounds(index_of(tuple(added), explained))
        self._unconfirmed += total
        return total

    def is_usable(self, pattern: PatternOptimization) -> bool:
        """Whether a pattern can be tried in the graph: its operator set and provider fit, and what it says makes sense."""
        if not pattern.is_for(self.view.main_opset) or pattern.name() in self._failed:
            return False
        if pattern.providers and self.options.provider not in pattern.providers:
            return False
        error = defect_of(pattern)
        if error is not None:
            self._fail(pattern, None, error)
        return error is None

    def confirm(self) -> int:
        """Offer every node to every pattern once more if anything was rewritten since the last time; returns the rewrites."""
        if not self._unconfirmed:
            return 0
        self._unconfirmed = self._rounds(self._index)
        return self._unconfirmed

    def find(self, pattern: PatternOptimization) -> list[MatchResult]:
        """All matches of a pattern as the graph is now, in order; they may overlap."""
        index = index_of((pattern,), ())
        nodes = index.candidates(self.graph, index.anchors_in(self.graph)).get(0, [])
        return [match for match in (self._match(pattern, node, []) for node in nodes) if match is not None]

    def apply_at(self, pattern: PatternOptimization, node: Node) -> bool:
        """Match a pattern at one node and rewrite there at once; returns whether it did."""
        match = self._match(pattern, node, [])
        if match is None or not self._apply(match, fresh=True):
            return False
        self._clean()
        return True

    def _rounds(self, sweep: PatternIndex | None) -> int:
        """Offer all nodes to the patterns of ``sweep``, then what changes to all active patterns, until nothing does."""
        left = self._rounds_left
        many = len(self.graph.nodes) * (REWRITES_PER_RESULT if self._stepping else 1) + 100
        limit = many if left is None else left
        total = rounds = 0
        while rounds < limit and len(self.graph.nodes) <= self._most_nodes and not self._is_exhausted():
            index = self._index if sweep is None else sweep
            everywhere = sweep is not None
            sweep = None
            nodes = index.anchors_in(self.graph) if everywhere else self.worklist.take(self.graph, index.longest_reach)
            if not nodes:
                break
            total += self._round(index, nodes)
            rounds += 1
        if left is not None:
            self._rounds_left = left - rounds
        elif rounds == limit or len(self.graph.nodes) > self._most_nodes:
            counts = self.statistics.counts
            busiest = max(counts, key=lambda name: counts[name], default="some patterns")
            raise BudgetError(f"no end after {rounds} rounds and {len(self.graph.nodes)} nodes; try without {busiest} (--drop)")
        return total

    def _round(self, index: PatternIndex, nodes: Mapping[Node, int]) -> int:
        start = perf_counter()
        self.statistics.iteration += 1
        matches = self._collect(index, nodes)
        matched = perf_counter()
        applied = 0
        for position, match in enumerate(matches):
            applied += self._apply(match, fresh=position == 0)
        applied_at = perf_counter()
        self._clean()
        now = perf_counter()
        self.statistics.round(applied_at - matched, now - applied_at, now - start)
        self.events.send(
            "round",
            level=1,
            graph=self.graph.name,
            iteration=self.statistics.iteration,
            text=f"{len(matches)} matches, {applied} applied",
            nodes=len(self.graph.nodes),
        )
        return applied

    # ---------------------------------------------------------------- matching

    def _collect(self, index: PatternIndex, nodes: Mapping[Node, int]) -> list[MatchResult]:
        """Disjoint matches, by the strategy of the options."""
        strategy = strategy_named(self.options.strategy)
        # When those that are found first win, a node that is claimed need not be offered any more.
        claimed: set[Node] = set()
        taken = claimed if strategy is first_found else None
        matches: list[MatchResult] = []
        for number, anchors in index.candidates(self.graph, nodes).items():
            pattern = index.patterns[number]
            start = perf_counter()
            before = len(matches)
            self._try_pattern(pattern, anchors, matches, taken)
            self.statistics.matching(pattern, perf_counter() - start, len(matches) - before, len(anchors))
            if self._stepping and matches:
                self.worklist.add(nodes)  # all the others have their turn in the rounds that follow
                break
        return matches if taken is not None else [m for m in strategy(matches) if self._claim(m, claimed)]

    def _try_pattern(
        self, pattern: PatternOptimization, anchors: list[Node], matches: list[MatchResult], claimed: set[Node] | None
    ) -> None:
        """Add the matches of one pattern that are disjoint from what is ``claimed``, all of them for ``None``."""
        name = pattern.name()
        with listening(self._refused if self.options.verbosity(pattern) >= 10 else None):
            for node in anchors:
                if name in self._failed:
                    return
                if (claimed is not None and node in claimed) or (name, node) in self._dropped:
                    continue
                match = self._match(pattern, node, matches)
                if match is not None and (claimed is None or self._claim(match, claimed)):
                    matches.append(match)
                    self.events.send("matched", name, node=node, graph=self.graph.name, level=self._level(pattern))
                    if self._stepping:
                        return

    def _match(self, pattern: PatternOptimization, node: Node, matches: list[MatchResult]) -> MatchResult | None:
        try:
            return pattern.match_at(self.view, node, matches)
        except _PASSED_ON:
            raise
        except Exception as error:
            self._fail(pattern, node, error)
            return None

    def _claim(self, match: MatchResult, claimed: set[Node]) -> bool:
        nodes = [node for node in match.nodes if node is not None]
        if any(node in claimed for node in nodes):
            self._offer_again(match)
            return False
        claimed.update(nodes)
        return True

    def _level(self, pattern: PatternOptimization) -> int:
        """Verbosity from which on what a pattern does is logged."""
        return 0 if self.options.verbosity(pattern) >= 10 else 10

    def _is_exhausted(self) -> bool:
        return 0 <= self.options.max_rewrites <= self.statistics.rewrites

    def _offer_again(self, match: MatchResult) -> None:
        """A match that is not applied leaves nodes that other patterns, or the same one later, may want."""
        nodes = [node for node in (match.anchor, *match.nodes) if node is not None and node.graph is self.graph]
        self.worklist.add(nodes)

    def _refused(self, refusal: Refusal) -> None:
        logger.info("[xoptim] %s", refusal)
        self.statistics.refused(refusal)

    # ---------------------------------------------------------------- rewriting

    def _apply(self, match: MatchResult, fresh: bool) -> int:
        """Apply one match, if what it relied on still holds."""
        pattern, anchor = match.pattern, match.anchor
        if self._is_exhausted():
            return 0
        if any(node is not None and node.graph is not self.graph for node in match.nodes):
            self._offer_again(match)
            return 0
        assert anchor is not None
        if not fresh:
            again = self._match(pattern, anchor, [])
            if again is None or pattern.name() in self._failed:
                self.events.send(
                    "dropped", pattern.name(), node=anchor, text="it no longer matches", level=self._level(pattern)
                )
                self._offer_again(match)
                return 0
            match = again
        start = perf_counter()
        removed = sorted((node for node in match.nodes if node is not None), key=lambda node: node.label)
        new = self._replace(match, anchor, removed)
        if new is None:
            return 0
        added = [node for node in new if node not in removed]
        gone = [node for node in removed if node.graph is None]
        self._record(pattern, anchor, added, gone, perf_counter() - start)
        if self.options.on_application is not None:
            number = self.statistics.rewrites
            self.options.on_application(Application(number, pattern, anchor, self.graph, tuple(removed), tuple(new)))
        if self.options.debug.dump is not None:
            dump_application(self.options.debug.dump, self.graph, pattern, removed, new)
        return 1

    def _replace(self, match: MatchResult, anchor: Node, removed: list[Node]) -> list[Node] | None:
        """Make the replacement and put it in; ``None`` when that fails. Whatever is raised, everything is as it was."""
        pattern = match.pattern
        try:
            with match.edit or Edit(self.graph) as edit:
                edit.watch(removed)
                new = match.apply(PatternRewriter(self.graph, self.options.provider, edit), *match.nodes)
                if not isinstance(new, (list, tuple)) or not all(isinstance(node, Node) for node in new):
                    raise TypeError(f"apply returns a list of nodes, not {new!r:.80}")
                self._watch(removed, new, pattern)
                edit.commit(removed, new, match.insert_at)
        except _PASSED_ON:
            raise
        except RewriteError as error:
            self._drop(pattern, anchor, error)
            return None
        except Exception as error:
            self._fail(pattern, anchor, error)
            return None
        return new

    def _record(self, pattern: PatternOptimization, anchor: Node, added: list[Node], gone: list[Node], seconds: float) -> None:
        name = pattern.name()
        inherit(added, gone, name if self.options.tag_nodes else "")
        self._count(name, added, len(added) < len(gone))
        self.statistics.applied(pattern, seconds, len(added), len(gone))
        self.events.send(
            "applied", name, node=anchor, graph=self.graph.name, added=added, removed=gone, level=self._level(pattern)
        )

    def _count(self, name: str, added: list[Node], shrinks: bool) -> None:
        """Notice patterns that undo each other: a result is made anew again and again while the graph gets no smaller."""
        for result in [output for node in added for output in node.output if output]:
            other, self._last[result] = self._last.get(result, name), name
            if not shrinks:
                count = self._rewritten[result] = self._rewritten.get(result, 0) + 1
                if count > REWRITES_PER_RESULT:
                    who = f"patterns {other} and {name} keep" if other != name else f"pattern {name} keeps"
                    raise BudgetError(f"{who} rewriting {result!r} in turn; drop one of them (--drop {name})")

    def _watch(self, removed: list[Node], new: list[Node], pattern: PatternOptimization) -> None:
        kept = self.options.debug.keep
        if kept and any(kept in node.output for node in removed) and not any(kept in node.output for node in new):
            raise BudgetError(f"PATTERNNOREMOVE: pattern {pattern.name()} removes result {kept!r}")

    def _drop(self, pattern: PatternOptimization, anchor: Node, error: RewriteError) -> None:
        self._dropped.add((pattern.name(), anchor))
        logger.debug("%s at %r: %s", pattern.name(), anchor.name, error)
        self.events.send("dropped", pattern.name(), node=anchor, text=str(error), level=self._level(pattern))
        if self.options.strict and not isinstance(error, Declined):
            raise XoptimError(f"pattern {pattern.name()} at {anchor.name or anchor.op_type!r}: {error}") from error

    def _fail(self, pattern: PatternOptimization, node: Node | None, error: Exception) -> None:
        where = "" if node is None else f" at {node.name or node.op_type!r}"
        text = f"pattern {pattern.name()} failed{where}: {type(error).__name__}: {error}"
        self._failed.add(pattern.name())
        if self.options.strict:
            raise XoptimError(text) from error
        logger.warning("%s; it is skipped from now on", text)
        self.events.send("failed", pattern.name(), node=node, text=str(error))

    # ---------------------------------------------------------------- cleaning

    def _clean(self) -> None:
        graph = self.graph
        kept = self.options.debug.keep
        had = bool(kept) and graph.defines(kept)
        identities, self.worklist.identities = self.worklist.identities, []
        if self.options.remove_identity:
            remove_identities(graph, identities)
        if self.options.remove_unused:
            graph.sweep()
        if had and not graph.defines(kept):
            raise BudgetError(f"PATTERNNOREMOVE: cleaning removes result {kept!r}")
