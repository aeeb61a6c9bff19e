"""Comparison of two models section by section, where memory is short."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import onnx

from xoptim.facts.dtypes import element_type, type_name
from xoptim.facts.progress import silent, with_progress
from xoptim.system.machine import available_memory
from xoptim.verification.errors import RunError
from xoptim.verification.inputs.branches import Coverage, count_bodies
from xoptim.verification.inputs.feeding import ReferenceRun, RunPlan, planned_batches, run_plan
from xoptim.verification.inputs.reference import Reference
from xoptim.verification.inputs.sized import SizedModel
from xoptim.verification.inputs.work import COPIES, MemoryNeed, size_text
from xoptim.verification.judging.evidence import hollow_reason
from xoptim.verification.judging.judge import Judge, judge
from xoptim.verification.judging.report import RunReport, VerificationReport, rounding_note
from xoptim.verification.judging.signatures import compare_signatures
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.sections import Piece, Pieces
from xoptim.verification.runs.session import Port, Session, Value

_Pair: TypeAlias = tuple[onnx.ModelProto, "Path | None"]
"""A model, and the folder of its external data."""

# free memory divided by the largest weights of a section
_SHARE: Final = 2 * COPIES
_MAX_BATCHES: Final = 8  # attempts to find values on which the original runs
_UNCOUNTED: Final = "it is not known which branches ran: the models ran in sections"


class _Run:
    """One run through the sections: the results of the original so far, and the comparisons of the
    sections.
    """

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self.values: dict[str, Value] = dict(plan.feeds)
        self.reports: list[RunReport] = []

    def merged(self) -> RunReport:
        """The runs of all sections as one."""
        return replace(
            self.reports[0],
            original_seconds=sum(report.original_seconds for report in self.reports),
            optimized_seconds=sum(report.optimized_seconds for report in self.reports),
            comparisons=tuple(c for report in self.reports for c in report.comparisons),
            noise={name: noise for report in self.reports for name, noise in report.noise.items()},
        )


def judge_in_sections(
    original: _Pair,
    optimized: _Pair,
    options: VerificationOptions,
    on_step: Callable[[str], object] = silent,
) -> VerificationReport:
    """Compare a model with the original, section by section.

    ``options.memory_limit`` bounds the weights of a section. The sizes are those of
    `xoptim.verification.verify_models`, without extremes. ``on_step`` is called before each
    section.

    Raises the errors of `run_reference`.
    """
    judging = Judge(options)
    before, after = Pieces(*original), Pieces(*optimized)
    judging.faults = compare_signatures(
        _signature(before, after), _signature(after, before), fewer_inputs=options.fewer_inputs
    )
    if judging.faults:
        fault = judging.faults[0]
        return judging.report("different", f"{fault.output}: {fault.message}")
    free = available_memory() if options.memory_limit is None else options.memory_limit
    limit = sum(before.weights.values()) // 2 if free is None else free // _SHARE
    sections = list(_sections(before, after, limit))
    heavy = next((piece for pair in sections for piece in pair if piece.bytes > limit), None)
    if heavy is not None:
        return judging.report("not verified", _too_heavy(heavy, limit), "memory")
    failures: list[Exception] = []
    need = MemoryNeed(SizedModel(before.proto, before.base_dir), options.memory_limit)
    for plans in itertools.islice(planned_batches(before.proto, options), _MAX_BATCHES):
        runs = [_Run(plan) for plan in _possible(plans, need, failures)]
        comparison = _Sections(before, after, sections, options, on_step)
        report = comparison.verdict(runs, failures) if runs else None
        if report is not None:
            return report
    first = f"; the first error: {failures[0]}" if failures else ""
    raise RunError(f"the model runs with none of {len(failures)} feeds{first}")


def _possible(
    plans: Sequence[RunPlan], need: MemoryNeed, failures: list[Exception]
) -> Iterator[RunPlan]:
    """The plans except those whose results are known to exceed memory."""
    for plan in plans:
        try:
            need.check(plan.sizes)
            yield plan
        except RunError as error:
            failures.append(error)


def _signature(pieces: Pieces, other: Pieces) -> tuple[list[Port], list[Port]]:
    """Inputs and outputs with the types that both models declare."""
    inputs, outputs = (
        [Port(name, _type(name, pieces, other)) for name in names]
        for names in (pieces.inputs, pieces.outputs)
    )
    return inputs, outputs


def _type(name: str, pieces: Pieces, other: Pieces) -> str:
    left, right = pieces.infos.get(name), other.infos.get(name)
    return (
        type_name(left.dtype)
        if left is not None and right is not None and left.dtype and right.dtype
        else ""
    )


def _sections(before: Pieces, after: Pieces, limit: int) -> Iterator[tuple[Piece, Piece]]:
    available = frozenset(before.inputs)
    start = 0
    for end, carried in before.cuts(after, limit):
        results = [
            name for name in before.results(start, end) if name in carried or name in before.outputs
        ]
        if results:
            yield before.piece(results, available), after.piece(results, available)
        available = frozenset(before.inputs) | carried
        start = end


def _too_heavy(piece: Piece, limit: int) -> str:
    weights, max_weights = size_text(piece.bytes), size_text(limit)
    return (
        "the weights do not fit into memory, and the models cannot be split into sections that "
        f"do: the {len(piece.nodes)} nodes up to {piece.wanted[-1]!r} have no result that both "
        f"models compute, and read {weights} of weights; a section may read {max_weights}"
    )


class _Sections:
    """Runs both models section by section."""

    def __init__(
        self,
        before: Pieces,
        after: Pieces,
        sections: Sequence[tuple[Piece, Piece]],
        options: VerificationOptions,
        on_step: Callable[[str], object],
    ) -> None:
        self._before, self._after = before, after
        self._on_step = on_step
        self._sections = sections
        self._options = options

    def verdict(self, runs: list[_Run], failures: list[Exception]) -> VerificationReport | None:
        """The comparison of the models, ``None`` when the original fails on all values.

        Runs on which the original fails are dropped, and the errors are appended to ``failures``.
        """
        worst: VerificationReport | None = None
        notes: dict[str, None] = {}
        for number, (piece, peer) in enumerate(
            with_progress(self._sections, "verifying: comparing sections", self._on_step)
        ):
            reference = self._reference(piece, peer, runs, failures)
            if not runs:
                return None
            optimized = self._after.model(peer, self._inputs(piece, peer, runs[0]))
            report = judge(reference, optimized, self._options, self._after.base_dir, is_part=True)
            for run, run_report in zip(runs, report.runs, strict=False):
                run.reports.append(run_report)
            notes |= dict.fromkeys(report.notes)
            if worst is None and not report.ok:
                worst = self._placed(number, piece, report)
            if report.status == "different":
                worst = self._placed(number, piece, report)
                break
            self._forget(runs, number)
        return self._summed(runs, worst, list(notes))

    def _summed(
        self, runs: Sequence[_Run], worst: VerificationReport | None, notes: list[str]
    ) -> VerificationReport:
        judging = Judge(self._options)
        if count_bodies(self._before.proto):
            judging.coverage = Coverage(uncounted=_UNCOUNTED)
            notes.append(_UNCOUNTED)
        merged = tuple(run.merged() for run in runs if run.reports)
        report = replace(
            worst or judging.report("equal"), runs=merged, sections=len(self._sections)
        )
        reason = hollow_reason(merged, self._before.proto.graph)
        if report.ok and reason:
            report = replace(report, status="not verified", reason=reason, cause="evidence")
        notes += rounding_note(merged) if report.ok else ()
        notes.append(
            f"the models were compared in {len(self._sections)} sections, each on results of the "
            "original"
        )
        return replace(report, notes=tuple(notes))

    def _placed(self, number: int, piece: Piece, report: VerificationReport) -> VerificationReport:
        """A report that names its section."""
        names = ", ".join(map(repr, piece.wanted[:3])) + (", ..." if len(piece.wanted) > 3 else "")
        return replace(
            report,
            reason=(
                f"section {number + 1} of {len(self._sections)}, which computes {names}: "
                f"{report.reason}"
            ),
        )

    def _reference(
        self, piece: Piece, peer: Piece, runs: list[_Run], failures: list[Exception]
    ) -> Reference:
        """Run a section of the original and keep its results. Runs that fail are removed."""
        model = self._before.model(piece, self._inputs(piece, peer, runs[0]))
        session = Session(model, self._options.settings, base_dir=self._before.base_dir)
        finished: list[ReferenceRun] = []
        for run in list(runs):
            plan = replace(
                run.plan, feeds={port.name: run.values[port.name] for port in session.inputs}
            )
            try:
                finished.append(run_plan(session, plan))
            except (RunError, MemoryError) as error:
                failures.append(error)
                runs.remove(run)
                continue
            run.values |= dict(zip(piece.wanted, finished[-1].results, strict=True))
        return Reference(
            model,
            self._before.base_dir,
            session.inputs,
            session.outputs,
            finished,
            settings=self._options.settings,
        )

    def _inputs(self, piece: Piece, peer: Piece, run: _Run) -> list[onnx.ValueInfoProto]:
        """The values that either section reads: both get the same inputs."""
        names = [name for name in run.values if name in piece.reads or name in peer.reads]
        return [_value_info(name, run.values[name]) for name in names]

    def _forget(self, runs: Sequence[_Run], number: int) -> None:
        """Drop results that no later section reads."""
        later = {
            name for pair in self._sections[number + 1 :] for piece in pair for name in piece.reads
        }
        for run in runs:
            run.values = {name: value for name, value in run.values.items() if name in later}


def _value_info(name: str, value: Value) -> onnx.ValueInfoProto:
    """Type and rank of a value, as a graph input declares them."""
    if not isinstance(value, np.ndarray):
        return onnx.ValueInfoProto(name=name)
    return onnx.helper.make_tensor_value_info(name, element_type(value.dtype), [None] * value.ndim)
