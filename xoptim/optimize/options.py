"""What the optimizer is asked to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypedDict

from xoptim.catalogue.database import database
from xoptim.catalogue.query import Name, Selection
from xoptim.catalogue.selection import select
from xoptim.match.pattern import PatternOptimization
from xoptim.optimize.application import Application
from xoptim.optimize.environment import DebugSettings, read_environment
from xoptim.optimize.events import Event


@dataclass(frozen=True, kw_only=True)
class OptimizationOptions:
    """Options of `xoptim.optimize` and of `GraphBuilder.optimize`. Immutable.

    Attributes:
        patterns: selection string, query, list of names, queries, classes or instances, or ``None`` for no pattern.
        verbose: 1 logs a line a round, 10 and more why each candidate was refused.
        max_iter: most rounds of a phase; -1 for as many as the graph has nodes.
        remove_unused: remove nodes and initializers that nothing reads.
        remove_identity: remove Identity nodes.
        constant_folding: compute what depends on constants only.
        merge: merge equal nodes and equal initializers.
        strategy: which of two overlapping matches wins: the one of the earlier pattern, or the one of more nodes.
        provider: execution provider to optimize for.
        strict: errors in patterns are fatal instead of skipped with a warning.
        drop: patterns to leave out.
        fold_limit: bytes above which a folded result must not be larger than what it makes superfluous.
        max_rewrites: most rewrites; -1 for as many as there are. The same first ones are made whatever the number is.
        tag_nodes: write the name of the pattern into the metadata of the nodes that it makes.
        on_event: called with each event.
        on_application: called after each rewrite.
        debug: debugging settings; read from the environment unless given.
    """

    patterns: Selection = "default"
    verbose: int = 0
    max_iter: int = -1
    max_rewrites: int = -1
    remove_unused: bool = True
    remove_identity: bool = True
    constant_folding: bool = True
    merge: bool = True
    strategy: Literal["priority", "largest"] = "priority"
    provider: str = "cpu"
    strict: bool = False
    drop: tuple[str, ...] = ()
    fold_limit: int = 1 << 20
    tag_nodes: bool = True
    on_event: Callable[[Event], None] | None = None
    on_application: Callable[[Application], None] | None = None
    debug: DebugSettings = field(default_factory=read_environment)

    def selected(self) -> list[PatternOptimization]:
        """The patterns, in the order in which they are tried.

        Raises:
            UnknownPatternError: when a name is not known.
        """
        debug = self.debug
        chosen = select(self.patterns, [*self.drop, *(Name(word, "DROPPATTERN") for word in debug.drop)])
        if debug.patterns:  # an error where there is none of that name
            select(self.patterns, (Name(word, "PATTERN") for word in debug.patterns))
        return [p for p in chosen if not p.unfit_for(None, self.provider)]

    def verbosity(self, pattern: PatternOptimization) -> int:
        """How much to log about a pattern."""
        named = self._levels
        return max(self.verbose, self.debug.verbose, named.get(pattern.name(), 0) if named else 0)

    @cached_property
    def _levels(self) -> dict[str, int]:
        """Verbosity of the patterns that the environment names, by present name."""
        names = self.debug.patterns
        explained = {*names, *(entry.item.name() for name in names for entry in database().named(name))}
        levels = self.debug.levels
        return {**levels, **{name: max(10, levels.get(name, 0)) for name in explained}}


class OptimizationChanges(TypedDict, total=False):
    """The fields of `OptimizationOptions` as keyword arguments."""

    patterns: Selection
    verbose: int
    max_iter: int
    max_rewrites: int
    remove_unused: bool
    remove_identity: bool
    constant_folding: bool
    merge: bool
    strategy: Literal["priority", "largest"]
    provider: str
    strict: bool
    drop: tuple[str, ...]
    fold_limit: int
    tag_nodes: bool
    on_event: Callable[[Event], None] | None
    on_application: Callable[[Application], None] | None
    debug: DebugSettings
