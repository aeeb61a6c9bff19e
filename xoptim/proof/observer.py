"""Prove each rewrite of an optimization while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from xoptim.engine.events import Application, EventStream
from xoptim.facts.assumptions import Assumptions
from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.words import counted
from xoptim.graph.assumed import fitting
from xoptim.graph.fragment import side_by_side
from xoptim.graph.model import Model
from xoptim.match.quantization import first_result
from xoptim.proof.certificate import Obligation
from xoptim.proof.grades import GRADES
from xoptim.proof.passes import PassProver, ProvedPass
from xoptim.proof.proving import Proof
from xoptim.proof.repeated import RepeatedProofs

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
        anchor: first result of the node at which the pattern matched; empty for a rewrite of a
            whole model.
    """

    __json__ = JsonForm("number pattern result grade=proof.grade proof.reason proof.premises")
    number: int
    pattern: str
    result: str
    proof: Proof
    anchor: str = ""


@dataclass(slots=True)
class ProofObserver(JsonResult):
    """The proofs of all rewrites.

    It listens to the rewrites of an optimization (`OptimizationOptions.on_application`) and proves
    each of them.

    Attributes:
        steps: the rewrites in order.
        passes: the passes that changed the model, such as constant folding.
        refused: rewrites that were undone because they were not proved; their numbers are those of
            an earlier run.
        keeps_sides: whether both sides of each rewrite are kept, for a certificate.
        obligations: the rewrites with both sides, if they are kept.
    """

    __json__ = JsonForm("grades=counts steps passes refused", name="Proofs")
    steps: list[ProvedStep] = field(default_factory=list)
    refused: list[ProvedStep] = field(default_factory=list)
    keeps_sides: bool = False
    obligations: list[Obligation] = field(default_factory=list, repr=False)
    _proofs: RepeatedProofs = field(default_factory=RepeatedProofs, repr=False)
    _prover: PassProver | None = field(default=None, repr=False)

    def watch(self, model: Model, events: EventStream) -> None:
        """Also prove the passes of an optimization of a model, which sends these events."""
        self._prover = PassProver(model)
        model.listeners.append(self._prover)
        events.subscribe(self._prover, PassProver.kinds)

    def again(self) -> ProofObserver:
        """An observer of another run on the same model, which proves nothing twice."""
        return replace(self, steps=[], obligations=[], _prover=None)

    def refuse(self, steps: Iterable[ProvedStep]) -> None:
        """Note rewrites that are undone; only the first one for each pattern and anchor is kept."""
        steps_by_anchor = {(step.pattern, step.anchor): step for step in self.refused}
        for step in steps:
            steps_by_anchor.setdefault((step.pattern, step.anchor), step)
        self.refused = [*steps_by_anchor.values()]

    def __call__(self, application: Application) -> None:
        """Prove a rewrite that was applied."""
        matched = application.matched
        self.steps.append(
            ProvedStep(
                application.number,
                application.pattern.name(),
                first_result(matched[-1]) if matched else "",
                self._proof_of(application),
                first_result(application.anchor) if matched else "",
            )
        )

    @property
    def passes(self) -> list[ProvedPass]:
        """The passes that changed the model, such as constant folding, each with all its runs."""
        return [] if self._prover is None else [*self._prover.passes.values()]

    @property
    def counts(self) -> dict[str, int]:
        """The number of rewrites and passes of each grade, the strongest grade first."""
        counts = Counter[str](step.proof.grade for step in self.steps)
        counts.update(record.grade for record in self.passes)
        return {grade: counts[grade] for grade in GRADES}

    @property
    def unproved(self) -> Sequence[ProvedStep]:
        """The rewrites that are only run."""
        return [step for step in self.steps if not step.proof.is_proved]

    def summary(self) -> str:
        """The grades of all rewrites and passes in one line."""
        counts = self.counts
        total = sum(counts.values())
        unproved = [step.pattern for step in self.unproved]
        unproved += [record.name for record in self.passes if record.reason]
        grades = ", ".join(
            f"{n} {grade}" for grade, n in counts.items() if n and grade in GRADES[:3]
        )
        noun = "steps" if self.passes else "rewrites"
        text = f"{total - len(unproved)} of {total} {noun} proved for all sizes from {self._sizes}"
        if grades:
            text += f": {grades}"
        if unproved:
            text += f"; {len(unproved)} only run ({_first(unproved)})"
        return text

    @property
    def _sizes(self) -> str:
        """The smallest size for which all is proved, and how much is also proved for 0."""
        proved = [step for step in self.steps if step.proof.is_proved]
        count = sum(step.proof.smallest_size == 0 for step in proved)
        if count == len(proved) and not self.passes:
            return "0"
        return f"1, {count} of them from 0" if count else "1"

    def refusals(self) -> str:
        """The rewrites that were undone in one line; empty where there are none."""
        count, names = len(self.refused), [step.pattern for step in self.refused]
        return f"{counted(count, 'rewrite')} not proved ({_first(names)})" if count else ""

    def _proof_of_pass(self, name: str) -> Proof:
        """The proof of a pass that counts as a rewrite."""
        if self._prover is None:
            return Proof("only run", "a pass over the model")
        return self._prover.proof_of(name)

    def _proof_of(self, application: Application) -> Proof:
        if not application.matched:
            return self._proof_of_pass(application.pattern.name())
        try:
            nodes = application.matched, application.given
            models = side_by_side(application.graph, *nodes, declares_all=False)
            texts = application.graph.model.assumptions.texts
            assumptions = Assumptions.of(fitting(texts, models[0])[0])
        except XoptimError as error:
            return Proof("only run", str(error))
        proof = self._proofs.prove(models, assumptions)
        if self.keeps_sides:
            before, after = (model.SerializeToString(deterministic=True) for model in models)
            number, name = application.number, application.pattern.name()
            self.obligations.append(
                Obligation(number, name, proof.grade, proof.premises, before, after)
            )
        return proof


def _first(names: Sequence[str]) -> str:
    """Some names, each once, the first ones only."""
    unique = [*dict.fromkeys(names)]
    more = ", ..." if len(unique) > _MAX_LISTED else ""
    return f"{', '.join(unique[:_MAX_LISTED])}{more}"
