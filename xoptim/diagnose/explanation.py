"""Explanations why a pattern does not match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from xoptim.diagnose.words import Place, ValueFacts, plain
from xoptim.facts.errors import XoptimError

Status = Literal["failed", "refused", "matches", "taken"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of matching a pattern at one node.

    Attributes:
        pattern: name of the pattern.
        status: ``refused``, ``matches``, ``failed`` when the pattern raised an error, or ``taken`` when it matched before other
            patterns were applied; places are then those of the model as it was.
        anchor: node at which the search began.
        reason: the first condition that failed; empty when the pattern gave none, or for a match.
        culprit: the node that does not fit, if it is a single one; the reader of a result that no fitting node computes.
        file: source file of the condition.
        line: line of the condition.
        values: results that the condition is about; inputs and outputs of the culprit when it names none.
        matched: nodes that fitted.
        total: number of nodes of the pattern, 0 when it is not known.
        progress: how much of the match fitted; comparable only between explanations of one pattern.
        bindings: captures of a match, by name.
        others: further results at this node, such as those of other variants, best first.
        gain: what a pass changes by rewriting the nodes, if it tells.
        advice: what else matters, such as the readers of a result, or an option that helps; may be empty.
    """

    pattern: str
    status: Status
    anchor: Place
    reason: str = ""
    culprit: Place | None = None
    file: str = ""
    line: int = 0
    values: tuple[ValueFacts, ...] = ()
    matched: tuple[Place, ...] = ()
    total: int = 0
    progress: float = 0
    bindings: dict[str, Any] | None = None
    others: tuple[Explanation, ...] = ()
    gain: str = ""
    advice: str = ""

    @property
    def matches(self) -> bool:
        """Whether the pattern applies here."""
        return self.status == "matches"

    @property
    def exit_point(self) -> str:
        """``file:line`` of the condition, empty when it is not known."""
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def reached(self) -> str:
        """The number of nodes that fitted, as text."""
        if self.status in ("matches", "taken"):
            return f"all {len(self.matched)} nodes"
        return f"{len(self.matched)} of {self.total} nodes" if self.total else ""

    @property
    def headline(self) -> str:
        """All but the values, in one line."""
        if self.matches:
            gain = f" ({self.gain})" if self.gain else ""
            return f"{self.pattern} matches at {self.anchor}: {', '.join(map(str, self.matched))}{gain}"
        if self.status == "taken":
            return f"{self.pattern} matched at {self.anchor}, before the others were applied: {self.reason}"
        node = "" if self.culprit in (None, self.anchor) else f" at {self.culprit}"
        far = f", {self.reached} fit" if self.reached else ""
        where = f" ({self.exit_point}{far})" if self.exit_point else f" ({far[2:]})" if far else ""
        return f"{self.pattern} {self.status} at {self.anchor}: {self.reason or 'no reason given'}{node}{where}"

    def __str__(self) -> str:
        advice = (f"    {self.advice}",) if self.advice else ()
        return "\n".join((self.headline, *advice, *(f"    {value}" for value in self.values)))

    def to_json(self) -> dict[str, Any]:
        """All fields, as JSON values."""
        found: dict[str, Any] = plain(asdict(self))
        found["others"] = [other.to_json() for other in self.others]
        return found


class NoMatchError(XoptimError):
    """The pattern does not match at the node at which it was to be applied; the explanations give the reasons."""

    def __init__(self, explanations: Sequence[Explanation]) -> None:
        super().__init__(explanations[0].headline)
        self.explanations = list(explanations)
