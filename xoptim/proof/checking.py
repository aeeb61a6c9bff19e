"""Check a certificate: prove its rewrites again, and that they lead from a model to another."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dims import is_anonymous
from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.progress import silent
from xoptim.facts.protos import inner_graphs
from xoptim.facts.shapes import Info
from xoptim.facts.words import counted
from xoptim.graph.assumed import assumed_of, fitting
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.graph.propagate import quietly
from xoptim.graph.sources import Source
from xoptim.proof.certificate import Certificate, CertificateError, Obligation, fingerprint
from xoptim.proof.chain import Chain
from xoptim.proof.grades import GRADES, Grade
from xoptim.proof.indices import OutOfTime, Unproved
from xoptim.proof.proving import SIZES_FROM, Proof, prove_models

_MAX_SECONDS: Final = 900.0
"""Time after which no more rewrites are proved."""
_MAX_LISTED: Final = 3
_MAX_LENGTH: Final = 200
DEFINITIONS: Final = "under the definitions of ONNX's operators"


@dataclass(frozen=True, slots=True)
class CertificateCheck(JsonResult):
    """The outcome of a check of a certificate.

    Attributes:
        grade: how equal both models are proved to be.
        reason: what could not be checked again; empty for a proof.
        grades: the number of rewrites of each grade, as proved now.
        premises: what the proofs assume.
        unproved: rewrites that could not be proved now, as ``NUMBER PATTERN: REASON``.
        unmatched: rewrites whose nodes were not found in the model, in the same form.
        recomputed: number of constants that were computed again, with equal bits.
    """

    __json__ = JsonForm("grade reason grades premises unproved unmatched recomputed")
    grade: Grade
    reason: str
    grades: dict[str, int]
    premises: Sequence[str]
    unproved: Sequence[str] = ()
    unmatched: Sequence[str] = ()
    recomputed: int = 0

    @property
    def is_proved(self) -> bool:
        """Whether both models are proved to be equal in some sense."""
        return self.grade != "only run"

    def summary(self) -> str:
        """The verdict in one line."""
        total = sum(self.grades.values())
        counts = ", ".join(f"{n} {grade}" for grade, n in self.grades.items() if n)
        rewrites = f"{counted(total, 'rewrite')} proved again{f' ({counts})' if counts else ''}"
        if self.is_proved:
            grade = "to have the same bits" if self.grade == GRADES[0] else self.grade
            return f"equal: proved {grade}, {DEFINITIONS}; {rewrites}"
        return f"not proved: {self.reason}"


def check_certificate(
    original: Path, result: Path, path: Path, on_step: Callable[[str], object] = silent
) -> CertificateCheck:
    """Check a certificate without trusting who made it.

    Each rewrite is proved again. It is then shown that the rewrites and passes lead from the
    original to the result: all outputs are equal values. Nothing is run, except for constants that
    are computed again.

    Raises:
        CertificateError: when the certificate cannot be read, or is about other files.
        ModelError: when a model cannot be read.
    """
    certificate = Certificate.read(path)
    for model, digest, role in (
        (original, certificate.original, "original"),
        (result, certificate.result, "result"),
    ):
        if fingerprint(model) != digest:
            raise CertificateError(
                f"{str(path)!r} is not about {str(model)!r}: the SHA-256 of its {role} differs"
            )
    on_step("checking the certificate")
    with quietly():
        return _Check(certificate, Source(original), Source(result)).run()


class _Check:
    """The check of a certificate: its rewrites are proved, then applied to the original."""

    def __init__(self, certificate: Certificate, original: Source, result: Source) -> None:
        self.certificate = certificate
        self.original = original
        self.result = result
        self.proofs: list[Proof] = []
        self.unmatched: list[str] = []

    def run(self) -> CertificateCheck:
        """The outcome of the check."""
        self.proofs = self._prove_all()
        pairs = [*zip(self.certificate.obligations, self.proofs, strict=True)]
        unproved = [f"{_name(o)}: {p.reason}" for o, p in pairs if not p.is_proved]
        recomputed, reason = self._follow(is_lenient=False)
        if reason and unproved and not self._follow(is_lenient=True)[1]:
            names = ", ".join(text.partition(":")[0] for text in unproved[:_MAX_LISTED])
            more = ", ..." if len(unproved) > _MAX_LISTED else ""
            reason = f"{counted(len(unproved), 'rewrite')} not proved ({names}{more})"
        elif reason and self.unmatched:
            reason = f"{reason}; rewrite {self.unmatched[0]}"
        proved = [proof for proof in self.proofs if proof.is_proved]
        grades = Counter(proof.grade for proof in proved)
        weakest = max((proof.grade for proof in proved), key=GRADES.index, default=GRADES[0])
        premises = dict.fromkeys(text for proof in proved for text in proof.premises)
        # the passes between rewrites are not proved for sizes of 0
        other_premises = [text for text in premises if text not in SIZES_FROM]
        return CertificateCheck(
            "only run" if reason else weakest,
            reason,
            {grade: grades[grade] for grade in GRADES[:3]},
            [*[SIZES_FROM[1]] * bool(proved), *other_premises],
            unproved,
            self.unmatched,
            recomputed,
        )

    def _prove_all(self) -> list[Proof]:
        end = time.monotonic() + _MAX_SECONDS
        return [self._prove(entry, end) for entry in self.certificate.obligations]

    def _prove(self, obligation: Obligation, end: float) -> Proof:
        if time.monotonic() > end:
            return Proof("only run", str(OutOfTime()))
        before, after = obligation.models()
        assumed = fitting(self.certificate.assumptions, before)[0]
        return prove_models(before, after, Assumptions.of(assumed))

    def _follow(self, *, is_lenient: bool) -> tuple[int, str]:
        """Follow the rewrites from the original to the result.

        With ``is_lenient``, rewrites that are not proved count as well. Returns the number of
        constants that were computed again, and what is missing for a proof.
        """
        self.unmatched = []
        try:
            chain = Chain(self._loaded(self.original), reads_weights=True)
        except Unproved as error:
            return 0, f"the original: {error}"
        for obligation, proof in zip(self.certificate.obligations, self.proofs, strict=True):
            reason = self._link(chain, obligation, is_lenient or proof.is_proved)
            if reason:
                self.unmatched.append(f"{_name(obligation)}: {reason}")
        try:
            model = self._loaded(self.result, is_trusted=False)
            names = chain.differing(model)
        except Unproved as error:
            return chain.recomputed, f"the result: {error}"
        inputs = model.graph.declared_inputs.items()
        infos = chain.inputs
        extra = next((n for n, x in inputs if n not in infos or not _is_same(x, infos[n])), None)
        if extra is not None:
            return chain.recomputed, f"the original has no input {extra!r} of this type and shape"
        missing = f"output {names[0]!r} is not found equal" if names else ""
        return chain.recomputed, missing

    def _link(self, chain: Chain, obligation: Obligation, is_equal: bool) -> str:
        """Add a rewrite to the chain; returns the reason why it does not fit, if any."""
        try:
            before, after = (
                load_model(_without_claims(model), assumptions=self._assumptions(model))
                for model in obligation.models()
            )
            has_nodes = chain.rewrite(before, after, unites=is_equal)
        except (Unproved, XoptimError) as error:
            return str(error)
        except Exception as error:  # a certificate may have invalid nodes
            return f"{type(error).__name__}: {error}"[:_MAX_LENGTH]
        return "" if has_nodes else "the model does not have its nodes"

    def _assumptions(self, model: onnx.ModelProto) -> Assumptions:
        return Assumptions.of(fitting(self.certificate.assumptions, model)[0])

    def _loaded(self, source: Source, *, is_trusted: bool = True) -> Model:
        proto = source.proto if is_trusted else _without_claims(source.proto)
        assumptions = assumed_of(self.original.proto, self.certificate.assumptions)
        return load_model(proto, source.base_dir, assumptions=assumptions)


def _is_same(first: Info, second: Info) -> bool:
    """Whether two inputs have the same type and shape; dimensions without a name may differ."""
    if (first.dtype, first.container, first.rank) != (second.dtype, second.container, second.rank):
        return False
    pairs = zip(first.shape or (), second.shape or (), strict=True)
    return all(a == b or (is_anonymous(a) and is_anonymous(b)) for a, b in pairs)


def _name(obligation: Obligation) -> str:
    return f"{obligation.number} {obligation.pattern}"


def _without_claims(model: onnx.ModelProto) -> onnx.ModelProto:
    """Remove the declared shapes of intermediate results and outputs, which may be wrong.

    The model itself is changed.
    """
    bodies = [*inner_graphs(model.graph.node)]
    bodies += (graph for f in model.functions for graph in inner_graphs(f.node))
    for graph in (model.graph, *bodies):
        graph.ClearField("value_info")
        for output in graph.output:
            if output.type.HasField("tensor_type"):
                output.type.tensor_type.ClearField("shape")
    for function in model.functions:
        function.ClearField("value_info")
    return model
