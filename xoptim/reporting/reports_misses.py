"""Patterns that almost match a model, for a report."""

from collections.abc import Sequence
from typing import Final

from xoptim.catalogue.discovery import installed_patterns
from xoptim.diagnose.explain import Explainer
from xoptim.diagnose.explanation import Explanation
from xoptim.diagnose.hints import may_match
from xoptim.graph.model import Model
from xoptim.match.pattern import PatternOptimization

_FEWEST: Final = 3
"""Nodes that a pattern has at least: a miss of a smaller one would tell only that another node is
there.
"""
_MOST: Final = 30
"""Misses that are shown."""
_TRIED: Final = 24
"""Nodes at which a pattern is tried, evenly spread: layers repeat."""


def nearest_misses(model: Model, provider: str = "cpu") -> list[Explanation]:
    """For each pattern of three nodes or more that does not match, the place where most of it fits,
    the best ones first.

    A place counts when at least half of the nodes fit, or when the model is too old for a pattern
    whose nodes all fit.
    """
    patterns = [
        cls()
        for cls in installed_patterns().values()
        if issubclass(cls, PatternOptimization) and "extra" not in cls.tags
    ]
    found = [
        miss
        for pattern in patterns
        if may_match(model, [pattern])
        for miss in _misses(model, pattern, provider)
    ]
    found.sort(key=lambda miss: (-_share(miss), -len(miss.matched), miss.pattern))
    return found[:_MOST]


def _misses(model: Model, pattern: PatternOptimization, provider: str) -> Sequence[Explanation]:
    """The nearest miss of a pattern, if it is near enough."""
    explainer = Explainer(model, pattern, provider)
    candidates = explainer.candidates() if explainer.keys else []
    found = [explainer.explain(node) for node in candidates[:: 1 + len(candidates) // _TRIED]]
    if any(each.matches for each in found):
        return ()
    refused = [each for each in found if each.status == "refused"]
    near = [
        each
        for each in refused
        if max(each.total, len(each.matched)) >= _FEWEST and 2 * _share(each) >= 1
    ]
    return sorted(near, key=lambda each: -each.progress)[:1]


def _share(miss: Explanation) -> float:
    return len(miss.matched) / (miss.total or len(miss.matched) or 1)
