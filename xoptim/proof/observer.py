"""Prove each rewrite of an optimization while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from xoptim.engine.events import Application
from xoptim.facts.assumptions import Assumptions
from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.graph.assumed import fitting
from xoptim.graph.fragment import side_by_side
from xoptim.match.quantization import first_result
from xoptim.proof.grades import GRADES
from xoptim.proof.proving import Proof, prove

_MAX_LISTED: Final = 3
"""Maximal number of patterns that a summary names."""


@dataclass(frozen=True, slots=True)
class ProvedStep(JsonResult):
    """A rewrite and its proof.

    Attributes:
        number: number of the rewrite in the run, counted from 1.
        pattern: name of the pattern.
        result: first result of the rewritten nodes; empty for a rewrite of a whole model.
        proof: its grade, and the reason where it is only run.
    """

    __json__ = JsonForm("number pattern result grade=proof.grade proof.reason proof.premises")
    number: int
    pattern: str
    result: str
    proof: Proof


@dataclass(slots=True)
class ProofObserver(JsonResult):
    """The proofs of all rewrites.

    It listens to the rewrites of an optimization (`OptimizationOptions.on_application`) and proves
    each of them.

    Attributes:
        steps: the rewrites in order.
    """

    __json__ = JsonForm("grades=counts steps", name="Proofs")
    steps: list[ProvedStep] = field(default_factory=list)

    def __call__(self, application: Application) -> None:
        """Prove a rewrite that was applied."""
        matched = application.matched
        self.steps.append(
            ProvedStep(
                application.number,
                application.pattern.name(),
                first_result(matched[-1]) if matched else "",
                _proof_of(application),
            )
        )

    @property
    def counts(self) -> dict[str, int]:
        """The number of rewrites of each grade, the strongest grade first."""
        counts = Counter[str](step.proof.grade for step in self.steps)
        return {grade: counts[grade] for grade in GRADES}

    @property
    def unproved(self) -> Sequence[ProvedStep]:
        """The rewrites that are only run."""
        return [step for step in self.steps if not step.proof.is_proved]

    def summary(self) -> str:
        """The grades of all rewrites in one line."""
        counts = self.counts
        proved = len(self.steps) - counts["only run"]
        grades = ", ".join(
            f"{n} {grade}" for grade, n in counts.items() if n and grade in GRADES[:3]
        )
        text = f"{proved} of {len(self.steps)} rewrites proved for all sizes from 1"
        if grades:
            text += f": {grades}"
        if self.unproved:
            names = dict.fromkeys(step.pattern for step in self.unproved)
            more = ", ..." if len(names) > _MAX_LISTED else ""
            text += f"; {len(self.unproved)} only run ({', '.join([*names][:_MAX_LISTED])}{more})"
        return text


def _proof_of(application: Application) -> Proof:
    if not application.matched:
        return Proof("only run", "a pass over the model")
    try:
        models = side_by_side(application.graph, application.matched, application.given)
        texts = application.graph.model.assumptions.texts
        assumptions = Assumptions.of(fitting(texts, models[0])[0])
    except XoptimError as error:
        return Proof("only run", str(error))
    return prove(models, assumptions)
