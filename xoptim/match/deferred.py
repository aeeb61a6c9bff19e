"""Patterns whose modules are imported only when they are first tried at a node."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from xoptim.graph.node import Node
from xoptim.match.pattern import Key, MatchResult, PatternOptimization
from xoptim.match.view import GraphView

Path = tuple[Key, tuple[Key, ...]]
"""The operator of an anchor, and the operators of producers that must lead to it."""


@dataclass(frozen=True)
class PatternSummary:
    """The facts about a pattern that are known without importing its module."""

    name: str
    family: str
    module: str
    class_name: str
    paths: frozenset[Path]
    reach: int
    # the class attributes that differ from their defaults
    metadata: Mapping[str, Any] = field(default_factory=dict)


class DeferredPattern(PatternOptimization):
    """Stands for a pattern whose module is not imported yet.

    It has the name and the metadata of the pattern, and knows where the pattern may match. `match`
    imports the pattern, and its matches belong to the imported pattern.
    """

    def __init__(
        self, summary: PatternSummary, load: Callable[[PatternSummary], PatternOptimization]
    ) -> None:
        self.summary = summary
        self._load = load
        # Set on the instance: the instances of this class are different patterns.
        vars(self).update(summary.metadata)
        vars(self).update(
            name=partial(str, summary.name),
            family=partial(str, summary.family),
            is_shipped=partial(bool, True),
        )

    @cached_property
    def loaded(self) -> PatternOptimization:
        """The imported pattern."""
        return self._load(self.summary)

    @cached_property
    def _anchors(self) -> frozenset[Key]:
        return frozenset(anchor for anchor, _ in self.summary.paths)

    def anchor_keys(self) -> frozenset[Key]:
        """Operators of the anchors."""
        return self._anchors

    def paths(self) -> frozenset[Path]:
        """Operators of the anchors, each with the operators that must lead to it."""
        return self.summary.paths

    def reach(self) -> int:
        """Distance in nodes from the anchor within which a change may make the pattern match."""
        return self.summary.reach

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Look for the pattern around a node."""
        return self.loaded.match(g, node, matched)

    def match_at(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Look for the pattern around a node, and check the type of the result."""
        return self.loaded.match_at(g, node, matched)
