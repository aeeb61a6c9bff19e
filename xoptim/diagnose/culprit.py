"""What makes an optimized model compute something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from xoptim.diagnose.each import Disagreement
from xoptim.optimize.options import OptimizationOptions
from xoptim.validate.session import Value

Step = Literal["pattern", "constant_folding", "merge", "unknown"]
STEPS: Final[tuple[Step, ...]] = ("constant_folding", "merge")
"""What else changes a model, and can be switched off."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """What makes a model compute something else.

    Attributes:
        step: a pattern, or a step of the optimizer.
        name: of the pattern; the step otherwise.
        number: which rewrite of the run, counted from 1; 0 for a step that is not a rewrite.
        node: where.
        evidence: how the results differ, in one line.
        around: results that the rewrite made.
        feeds: values of the results near it in the original.
        runs: validations that it took to find it.
    """

    step: Step
    name: str
    number: int = 0
    node: str = ""
    evidence: str = ""
    around: tuple[str, ...] = ()
    feeds: Mapping[str, Value] = field(default_factory=dict)
    runs: int = 0

    def __str__(self) -> str:
        what = f"pattern {self.name}" if self.step == "pattern" else f"step {self.name}"
        at = f" at {self.node!r} (rewrite {self.number})" if self.node else ""
        return f"{what}{at}: {self.evidence}"

    @classmethod
    def of(cls, found: Disagreement) -> Culprit:
        """What was found by checking rewrites by themselves."""
        around = tuple(name for node in found.before.graph.node for name in node.output if name)
        return cls("pattern", found.pattern, found.number, found.node, found.report.reason, around, found.feeds)

    def to_json(self) -> dict[str, Any]:
        """Everything but values, for machines."""
        fields = ("step", "name", "number", "node", "evidence", "runs")
        return {name: getattr(self, name) for name in fields}

    def avoided_by(self, options: OptimizationOptions) -> OptimizationOptions:
        """The same options without it."""
        if self.step == "constant_folding":
            return replace(options, constant_folding=False)
        if self.step == "merge":
            return replace(options, merge=False)
        return replace(options, drop=(*options.drop, self.name))
