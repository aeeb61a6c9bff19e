"""Patterns that almost match a model, for a report."""

from collections.abc import Sequence
from typing import Final

from xoptim.catalogue.discovery import installed_patterns
from xoptim.diagnose.explain import Explainer
from xoptim.diagnose.explanation import Explanation
from xoptim.diagnose.hints import may_match
from xoptim.graph.model import Model
from xoptim.match.pattern import PatternOptimization

_MIN_NODES: Final = 3
"""Minimum number of nodes of a pattern: a miss of a smaller one tells only that a node differs."""
_MAX_MISSES: Final = 30
"""Maximum number of misses that are shown."""
_MAX_TRIALS: Final = 24
"""Maximum number of nodes at which a pattern is tried, evenly spread: layers repeat."""


def nearest_misses(model: Model, provider: str = "cpu") -> list[Explanation]:
    """For each pattern of three nodes or more that does not match, the node where most of it fits,
    best first.

    At least half of the pattern's nodes must fit.
    """
    patterns = [
        cls()
        for cls in installed_patterns().values()
        if issubclass(cls, PatternOptimization) and "extra" not in cls.tags
    ]
    misses = [
        miss
        for pattern in patterns
        if may_match(model, [pattern])
        for miss in _misses(model, pattern, provider)
    ]
    misses.sort(key=lambda miss: (-_share(miss), -len(miss.matched), miss.pattern))
    return misses[:_MAX_MISSES]


def _misses(model: Model, pattern: PatternOptimization, provider: str) -> Sequence[Explanation]:
    """The nearest miss of a pattern, if it is near enough."""
    explainer = Explainer(model, pattern, provider)
    candidates = explainer.candidates() if explainer.keys else []
    explanations = [
        explainer.explain(node) for node in candidates[:: 1 + len(candidates) // _MAX_TRIALS]
    ]
    if any(miss.matches for miss in explanations):
        return ()
    refusals = [miss for miss in explanations if miss.status == "refused"]
    misses = [
        miss
        for miss in refusals
        if max(miss.total, len(miss.matched)) >= _MIN_NODES and 2 * _share(miss) >= 1
    ]
    return sorted(misses, key=lambda miss: -miss.progress)[:1]


def _share(miss: Explanation) -> float:
    return len(miss.matched) / (miss.total or len(miss.matched) or 1)
