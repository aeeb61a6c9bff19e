"""The rewrite or step with which an optimized model computes different results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from xoptim.diagnose.each import Disagreement
from xoptim.engine.options import OptimizationOptions
from xoptim.validate.session import Value

Step = Literal["pattern", "constant_folding", "merge", "unknown"]
STEPS: Final[tuple[Step, ...]] = ("constant_folding", "merge")
"""Steps other than patterns that change a model and can be switched off."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The rewrite or step with which an optimized model computes different results.

    Attributes:
        step: ``pattern``, or a step of the optimizer.
        name: name of the pattern; the step otherwise.
        number: number of the rewrite in the run, counted from 1; 0 for a step that is not a rewrite.
        node: name of the node at which the pattern matched.
        evidence: how the results differ, in one line.
        around: results of the nodes of the rewrite.
        feeds: values of the results near it in the original model.
        runs: number of validations in the search.
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
        """The culprit of a disagreement that the check of each rewrite found."""
        around = tuple(name for node in found.before.graph.node for name in node.output if name)
        return cls("pattern", found.pattern, found.number, found.node, found.report.reason, around, found.feeds)

    def to_json(self) -> dict[str, Any]:
        """All fields but ``around`` and ``feeds``, as JSON values."""
        fields = ("step", "name", "number", "node", "evidence", "runs")
        return {name: getattr(self, name) for name in fields}

    def avoided_by(self, options: OptimizationOptions) -> OptimizationOptions:
        """The options that switch it off."""
        return replace(options, drop=(*options.drop, self.name))
