"""Matches that are gone after other patterns were applied, and which of these took their nodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from xoptim.diagnose.explanation import Explanation
from xoptim.engine.events import Application


class Takers:
    """A listener that remembers which rewrite removed each node first."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[int, str]] = {}

    def __call__(self, application: Application) -> None:
        """Remember a rewrite."""
        for node in set(application.matched) - set(application.given):
            for name in node.output:
                self._taken.setdefault(name, (application.number, application.pattern.name()))

    def explain(self, matches: Sequence[Explanation], left: Collection[str]) -> list[Explanation]:
        """The matches of a pattern that are gone, each with the rewrite that took one of its nodes first.

        Args:
            matches: the matches before the optimization.
            left: names of the results that are left after it.
        """
        found = []
        for match in matches:
            names = [name for place in match.matched for name in place.outputs if name]
            takers = sorted(self._taken[name] for name in names if name in self._taken)
            if any(name == match.pattern for _, name in takers):
                reason = "it was applied"
            elif takers:
                reason = f"{takers[0][1]} took a node of it"
            elif all(name in left for name in names):
                continue
            else:
                reason = "cleaning, folding or merging removed a node of it"
            found.append(replace(match, status="taken", reason=reason, progress=0.0, bindings=None))
        return found


def is_at(explanation: Explanation, at: str) -> bool:
    """Whether a node of a match has a name, a result of that name, or a position."""
    return any(at in (place.name, f"#{place.position}", *place.outputs) for place in explanation.matched)
