"""Prove each rewrite of an optimization while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import onnx

from xoptim.engine.events import Application
from xoptim.facts.assumptions import Assumptions
from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.words import counted
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
        refused: rewrites that were undone because they were not proved; their numbers are those of
            an earlier run.
    """

    __json__ = JsonForm("grades=counts steps refused", name="Proofs")
    steps: list[ProvedStep] = field(default_factory=list)
    refused: list[ProvedStep] = field(default_factory=list)
    _proofs: dict[bytes, Proof] = field(default_factory=dict, repr=False)

    def again(self) -> ProofObserver:
        """An observer of another run on the same model, which proves nothing twice."""
        return ProofObserver(refused=self.refused, _proofs=self._proofs)

    def refuse(self, steps: Iterable[ProvedStep]) -> None:
        """Note rewrites that are undone, each with the pattern and place of its first refusal."""
        places = {(step.pattern, step.anchor): step for step in self.refused}
        for step in steps:
            places.setdefault((step.pattern, step.anchor), step)
        self.refused = [*places.values()]

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
        text = f"{proved} of {len(self.steps)} rewrites proved for all sizes"
        if grades:
            text += f": {grades}"
        if self.unproved:
            text += f"; {len(self.unproved)} only run ({_named(self.unproved)})"
        return text

    def refusals(self) -> str:
        """The rewrites that were undone in one line; empty where there are none."""
        count = len(self.refused)
        return f"{counted(count, 'rewrite')} not proved ({_named(self.refused)})" if count else ""

    def _proof_of(self, application: Application) -> Proof:
        if not application.matched:
            return Proof("only run", "a pass over the model")
        try:
            models = side_by_side(application.graph, application.matched, application.given)
            texts = application.graph.model.assumptions.texts
            assumptions = Assumptions.of(fitting(texts, models[0])[0])
        except XoptimError as error:
            return Proof("only run", str(error))
        key = _digest(models, assumptions.texts)
        if key not in self._proofs:
            self._proofs[key] = prove(models, assumptions)
        return self._proofs[key]


def _named(steps: Sequence[ProvedStep]) -> str:
    """The names of the patterns of some rewrites, the first ones only."""
    names = [*dict.fromkeys(step.pattern for step in steps)]
    more = ", ..." if len(names) > _MAX_LISTED else ""
    return f"{', '.join(names[:_MAX_LISTED])}{more}"


def _digest(models: Iterable[onnx.ModelProto], texts: Iterable[str]) -> bytes:
    """A key of everything that a proof depends on."""
    parts = [model.SerializeToString(deterministic=True) for model in models]
    parts += [text.encode() for text in texts]
    lengths = ",".join(str(len(part)) for part in parts)
    return sha256(b"".join([lengths.encode(), *parts])).digest()
