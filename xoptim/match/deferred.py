"""A pattern that is imported when it is first tried at a node."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from xoptim.graph.node import Node
from xoptim.match.pattern import Key, MatchResult, PatternOptimization
from xoptim.match.view import GraphBuilderPatternOptimization as GraphView

Path = tuple[Key, tuple[Key, ...]]
"""The operator of an anchor, and those of the producers that must lead to it."""


@dataclass(frozen=True)
class PatternFacts:
    """What is known about a pattern without importing it."""

    name: str
    family: str
    module: str
    class_name: str
    paths: frozenset[Path]
    reach: int
    metadata: Mapping[str, Any] = field(default_factory=dict)  # what differs from the defaults


class DeferredPattern(PatternOptimization):
    """A pattern of which only facts are known: its name, its metadata, and where it may match.

    Whatever else is asked of it imports it. Matches belong to the imported pattern.
    """

    def __init__(
        self, facts: PatternFacts, load: Callable[[PatternFacts], PatternOptimization]
    ) -> None:
        self.facts = facts
        self._load = load
        # They belong to the instance: unlike other patterns, instances of this class differ.
        vars(self).update(facts.metadata)
        vars(self).update(
            name=partial(str, facts.name),
            family=partial(str, facts.family),
            is_shipped=partial(bool, True),
        )

    @cached_property
    def loaded(self) -> PatternOptimization:
        """The pattern."""
        return self._load(self.facts)

    def anchor_keys(self) -> frozenset[Key]:
        """Operators of the anchors."""
        return frozenset(anchor for anchor, _ in self.facts.paths)

    def paths(self) -> frozenset[Path]:
        """Operators of the anchors, each with the operators that must lead to it."""
        return self.facts.paths

    def reach(self) -> int:
        """Distance in nodes from the anchor within which a change may make it match."""
        return self.facts.reach

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Look for the pattern around a node."""
        return self.loaded.match(g, node, matched)

    def match_at(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Look for the pattern around a node, and check the type of the result."""
        return self.loaded.match_at(g, node, matched)

    def progress(self, line: int) -> int:
        """Progress of a match that is refused at a line."""
        return self.loaded.progress(line)
