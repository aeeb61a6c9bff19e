"""Whether two models compute the same: in one run of each, or section by section where memory is
short.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import onnx

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dtypes import byte_size, element_type, type_name
from xoptim.facts.errors import ModelError
from xoptim.facts.protos import fed_inputs, proto_reads
from xoptim.facts.shapes import Info
from xoptim.graph.assumed import (
    assumed_of,
    check_fit,
    fitting,
    noted,
    option_of,
    unused,
    unused_text,
)
from xoptim.graph.load import load_model
from xoptim.graph.propagate import quietly
from xoptim.system.machine import available_memory
from xoptim.validate.errors import ChoiceError, FeedError, LoadError, RunError
from xoptim.validate.judge import Judge, compare_signatures, hollow_outputs, hollow_reason, judge
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import Located, ModelLike, read_proto
from xoptim.validate.reference import Reference, read_original, run_reference
from xoptim.validate.report import RunReport, ValidationReport, rounding_note
from xoptim.validate.runs import ReferenceRun, RunPlan, planned_batches, run_plan
from xoptim.validate.session import Port, Session, Value
from xoptim.validate.sized import SizedModel
from xoptim.validate.work import COPIES, MemoryNeed, fits_into_memory, is_mapped, size_text

_LEAST_IR_VERSION = 4  # before, initializers had to be inputs too


_Pair: TypeAlias = tuple[onnx.ModelProto, "Path | None"]
"""A model, and the folder of its external data."""


class Cut(NamedTuple):
    """A place between two nodes: the number of nodes before it, and their results that the other
    nodes read.
    """

    end: int
    carried: frozenset[str]


class Piece(NamedTuple):
    """Nodes, by position, that compute the wanted results from those that they read.

    ``bytes`` is the size of their weights.
    """

    nodes: list[int]
    reads: frozenset[str]
    wanted: list[str]
    bytes: int


class Pieces:
    """A model to be cut, which is only read: ``known`` types and shapes of results, and bytes of
    the weights by name.
    """

    def __init__(self, proto: onnx.ModelProto, base_dir: Path | None) -> None:
        self.proto = proto
        self.base_dir = base_dir
        graph = proto.graph
        self.inputs = [value.name for value in fed_inputs(proto)]
        self.outputs = [value.name for value in graph.output]
        self.weights = {
            t.name: byte_size(t.data_type, math.prod(t.dims)) for t in graph.initializer
        }
        self.weights |= {
            t.values.name: byte_size(t.values.data_type, len(t.values.dims))
            for t in graph.sparse_initializer
        }
        self._stored = {t.name: t for t in graph.initializer}
        self._sparse = {t.values.name: t for t in graph.sparse_initializer}
        self._declared = {value.name: value for value in graph.input}
        self._reads = [frozenset(filter(None, proto_reads(node))) for node in graph.node]
        self._makers = {
            name: at for at, node in enumerate(graph.node) for name in node.output if name
        }
        try:
            with quietly():
                self.known: dict[str, Info] = dict(load_model(proto, base_dir).graph.all_known())
        except ModelError:  # without types, there is no place to cut
            self.known = {}

    def cuts(self, other: Pieces, limit: int) -> list[Cut]:
        """Places to cut at, the end last: as far apart as possible with less than ``limit`` bytes
        of weights in between.

        Where there is no such place, more lie in between. The other model must have the results at
        the cuts too.
        """
        last = {
            name: at
            for at, reads in enumerate(self._reads)
            for name in reads
            if name in self._makers
        }
        found: list[Cut] = []
        start = best = at = size = unfit = 0
        seen: set[str] = set()
        dying: dict[int, int] = {}
        while at < len(self._reads):
            new = {name for name in self._reads[at] if name in self.weights} - seen
            grown = size + sum(self.weights[name] for name in new)
            if grown > limit and best > start:
                found.append(self._cut(best, last))
                # At a cut, every carried result exists in the other model: counting starts again.
                start, at, size, unfit, seen, dying = best, best, 0, 0, set(), {}
                continue
            size, seen = grown, seen | new
            unfit += self._count_unfit(at, other, last, dying)
            at += 1
            if not unfit:
                best = at
        return [*found, Cut(len(self._reads), frozenset())]

    def _count_unfit(
        self, at: int, other: Pieces, last: dict[str, int], dying: dict[int, int]
    ) -> int:
        """The change, at a node, of the number of results that later nodes read and that the other
        model lacks.
        """
        change = -dying.pop(at, 0)
        for name in self.proto.graph.node[at].output:
            if name in last and last[name] > at and not self._is_common(name, other):
                dying[last[name]] = dying.get(last[name], 0) + 1
                change += 1
        return change

    def _is_common(self, name: str, other: Pieces) -> bool:
        if name not in other._makers:
            return False
        mine, its = self.known.get(name), other.known.get(name)
        if (
            mine is None
            or its is None
            or not mine.is_tensor
            or not mine.dtype
            or mine.dtype != its.dtype
        ):
            return False
        if mine.shape is None or its.shape is None:
            return True
        pairs = [
            pair
            for pair in zip(mine.shape, its.shape, strict=False)
            if all(type(dim) is int for dim in pair)
        ]
        return len(mine.shape) == len(its.shape) and all(a == b for a, b in pairs)

    def _cut(self, end: int, last: dict[str, int]) -> Cut:
        return Cut(
            end,
            frozenset(name for name, at in last.items() if at >= end and self._makers[name] < end),
        )

    def made(self, start: int, end: int) -> Iterator[str]:
        """Results of the nodes between two places, in order.

        Outputs that no node computes belong to the end.
        """
        for node in self.proto.graph.node[start:end]:
            yield from filter(None, node.output)
        if end == len(self._reads):
            yield from (name for name in self.outputs if name not in self._makers)

    def piece(self, wanted: Sequence[str], known: Collection[str]) -> Piece:
        """The nodes that compute the wanted results from those that are known."""
        needed: set[int] = set()
        reads: set[str] = set()
        pending = list(wanted)
        while pending:
            name = pending.pop()
            if name in known or name not in self._makers:
                reads.add(name)
            elif self._makers[name] not in needed:
                needed.add(self._makers[name])
                pending.extend(self._reads[self._makers[name]])
        return Piece(
            sorted(needed),
            frozenset(reads),
            list(wanted),
            sum(self.weights.get(name, 0) for name in reads),
        )

    def model(self, piece: Piece, inputs: Sequence[onnx.ValueInfoProto]) -> onnx.ModelProto:
        """A piece as a model with these inputs; weights in external files stay there."""
        graph = onnx.GraphProto(name=self.proto.graph.name or "section")
        graph.node.extend(self.proto.graph.node[at] for at in piece.nodes)
        graph.input.extend(self._declared.get(value.name, value) for value in inputs)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in piece.wanted)
        stored = sorted(name for name in piece.reads if name in self.weights)
        graph.initializer.extend(self._stored[name] for name in stored if name in self._stored)
        graph.sparse_initializer.extend(
            self._sparse[name] for name in stored if name in self._sparse
        )
        version = max(self.proto.ir_version, _LEAST_IR_VERSION)
        model = onnx.ModelProto(
            ir_version=version, opset_import=self.proto.opset_import, graph=graph
        )
        model.functions.extend(self.proto.functions)
        return model


# of the memory that is free, the part for the stored weights of a section
_SHARE: Final = 2 * COPIES
_MOST_BATCHES: Final = 8  # attempts to find values on which the original runs


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
    original: _Pair, optimized: _Pair, options: ValidationOptions
) -> ValidationReport:
    """Compare a model with the original, section by section.

    ``memory_limit`` bounds the weights of a section.

    Tries the sizes of `xoptim.validate.validate`, without the extremes. Raises the errors of
    `run_reference`.
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
        return judging.report("not validated", _too_heavy(heavy, limit), "memory")
    failures: list[Exception] = []
    need = MemoryNeed(SizedModel(before.proto, before.base_dir), options.memory_limit)
    for plans in itertools.islice(planned_batches(before.proto, options), _MOST_BATCHES):
        runs = [_Run(plan) for plan in _possible(plans, need, failures)]
        report = (
            _Sections(before, after, sections, options).verdict(runs, failures) if runs else None
        )
        if report is not None:
            return report
    first = f"; the first error: {failures[0]}" if failures else ""
    raise RunError(f"it ran with none of {len(failures)} feeds{first}")


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
    mine, its = pieces.known.get(name), other.known.get(name)
    return (
        type_name(mine.dtype)
        if mine is not None and its is not None and mine.dtype and its.dtype
        else ""
    )


def _sections(before: Pieces, after: Pieces, limit: int) -> Iterator[tuple[Piece, Piece]]:
    known = frozenset(before.inputs)
    start = 0
    for end, carried in before.cuts(after, limit):
        wanted = [
            name for name in before.made(start, end) if name in carried or name in before.outputs
        ]
        if wanted:
            yield before.piece(wanted, known), after.piece(wanted, known)
        known = frozenset(before.inputs) | carried
        start = end


def _too_heavy(piece: Piece, limit: int) -> str:
    weights, room = size_text(piece.bytes), size_text(limit)
    return (
        "the weights do not fit into memory, and no cut makes sections that do: "
        f"{len(piece.nodes)} nodes up to {piece.wanted[-1]!r}, without a result among them that "
        f"both models compute, read {weights} of weights; a section may read {room}"
    )


class _Sections:
    """Runs both models section by section."""

    def __init__(
        self,
        before: Pieces,
        after: Pieces,
        sections: Sequence[tuple[Piece, Piece]],
        options: ValidationOptions,
    ) -> None:
        self._before, self._after = before, after
        self._sections = sections
        self._options = options

    def verdict(self, runs: list[_Run], failures: list[Exception]) -> ValidationReport | None:
        """The comparison of the models, ``None`` when the original fails on all values.

        Runs on which the original fails are dropped, and the errors are appended to ``failures``.
        """
        worst: ValidationReport | None = None
        notes: dict[str, None] = {}
        for number, (mine, its) in enumerate(self._sections):
            reference = self._reference(mine, its, runs, failures)
            if not runs:
                return None
            optimized = self._after.model(its, self._inputs(mine, its, runs[0]))
            report = judge(reference, optimized, self._options, self._after.base_dir, is_part=True)
            for run, compared in zip(runs, report.runs, strict=False):
                run.reports.append(compared)
            notes |= dict.fromkeys(report.notes)
            if worst is None and not report.ok:
                worst = self._placed(number, mine, report)
            if report.status == "different":
                worst = self._placed(number, mine, report)
                break
            self._forget(runs, number)
        return self._summed(runs, worst, list(notes))

    def _summed(
        self, runs: Sequence[_Run], worst: ValidationReport | None, notes: list[str]
    ) -> ValidationReport:
        judging = Judge(self._options)
        merged = tuple(run.merged() for run in runs if run.reports)
        report = replace(
            worst or judging.report("equal"), runs=merged, sections=len(self._sections)
        )
        hollow = hollow_outputs(merged, [Port(name, "") for name in self._before.outputs])
        if report.ok and hollow:
            reason = hollow_reason(hollow, len(self._before.outputs))
            report = replace(report, status="not validated", reason=reason, cause="evidence")
        notes += rounding_note(merged) if report.ok else ()
        notes.append(
            f"the models were compared in {len(self._sections)} sections, on the results of the "
            "original before each"
        )
        return replace(report, notes=tuple(notes))

    def _placed(self, number: int, piece: Piece, report: ValidationReport) -> ValidationReport:
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
        self, mine: Piece, its: Piece, runs: list[_Run], failures: list[Exception]
    ) -> Reference:
        """Run a section of the original and keep its results. Runs that fail are removed."""
        model = self._before.model(mine, self._inputs(mine, its, runs[0]))
        session = Session(model, self._options.settings, base_dir=self._before.base_dir)
        done: list[ReferenceRun] = []
        for run in list(runs):
            plan = replace(
                run.plan, feeds={port.name: run.values[port.name] for port in session.inputs}
            )
            try:
                done.append(run_plan(session, plan))
            except (RunError, MemoryError) as error:
                failures.append(error)
                runs.remove(run)
                continue
            run.values |= dict(zip(mine.wanted, done[-1].results, strict=True))
        return Reference(
            model,
            self._before.base_dir,
            session.inputs,
            session.outputs,
            done,
            settings=self._options.settings,
        )

    def _inputs(self, mine: Piece, its: Piece, run: _Run) -> list[onnx.ValueInfoProto]:
        """The known results that either section reads: both have the same inputs."""
        names = [name for name in run.values if name in mine.reads or name in its.reads]
        return [_value_info(name, run.values[name]) for name in names]

    def _forget(self, runs: Sequence[_Run], number: int) -> None:
        """Drop results that no later section reads."""
        later = {
            name for pair in self._sections[number + 1 :] for piece in pair for name in piece.reads
        }
        for run in runs:
            run.values = {name: value for name, value in run.values.items() if name in later}


def _value_info(name: str, value: Value) -> onnx.ValueInfoProto:
    """Type and rank of a value; a graph input declares them in the model."""
    if not isinstance(value, np.ndarray):
        return onnx.ValueInfoProto(name=name)
    return onnx.helper.make_tensor_value_info(name, element_type(value.dtype), [None] * value.ndim)


def validate(
    original: ModelLike, optimized: ModelLike, options: ValidationOptions | None = None
) -> ValidationReport:
    """Compare a model with the original; see `compare`.

    Assumptions in the metadata of the models are used only with ``assume_from_model``. Without it,
    models that differ and list assumptions that are not given are ``not validated``: they may be
    equal where these hold.
    """
    options = options or ValidationOptions()
    record = _recorded(original, optimized)
    if options.assume_from_model:
        return compare(original, optimized, replace(options, assume=(*options.assume, *record)))
    left = unused(record, Assumptions.of(options.assume))
    report = compare(original, optimized, options)
    if not left:
        return report
    if report.status != "different" or report.faults:
        return replace(report, notes=(*report.notes, unused_text(left)))
    reason = f"{unused_text(left)}, {option_of(left[:1])} states one; without them: {report.reason}"
    return replace(report, status="not validated", reason=reason, cause="assumptions")


def _recorded(original: ModelLike, optimized: ModelLike) -> list[str]:
    """The assumptions in the metadata of two models that fit the original."""
    found: list[str] = []
    with suppress(ModelError):  # the comparison tells that one cannot be read
        first = read_proto(original)[0]
        found += noted(first).texts
        found += fitting(noted(read_proto(optimized)[0]).texts, first)[0]
    return list(dict.fromkeys(found))


def compare(
    original: ModelLike, optimized: ModelLike, options: ValidationOptions | None = None
) -> ValidationReport:
    """Compare an optimized model with the original, under the assumptions of the options alone.

    Both are run in onnxruntime as they are written, its own optimizations off, on the same values.
    The status is ``not validated`` when the original cannot be loaded or run, or when its results
    are not evidence (it does not repeat them, they hold no finite number, or rounding alone changes
    them a lot); it is ``different`` when the optimized model has another signature, cannot be
    loaded or run, or computes something else.

    Models whose weights do not fit into memory are run in sections; see
    `xoptim.validate.validation`. Raises `ChoiceError` when values or sizes of the options do not
    fit the original, or break an assumption under which a model was optimized; `AssumptionError`
    when the assumptions of the options do not fit the original; and `ProviderUnavailable` when
    onnxruntime lacks a requested execution provider.
    """
    options = options or ValidationOptions()
    refuse = Judge(options).report
    try:
        proto, base_dir = read_original(original, options)
        other = _read(optimized, options)
        options = _assuming(options, proto)
        in_sections = options.sections
        if in_sections is None:
            in_sections = not fits_into_memory(
                proto, options.memory_limit, copies=1 if is_mapped(proto) else COPIES
            )
        if in_sections:
            return judge_in_sections(
                (proto, base_dir), read_proto(optimized, options.optimized_dir), options
            )
        reference = run_reference(original, options, proto, None if other is None else other.proto)
    except ChoiceError:
        raise
    except LoadError as error:
        return refuse("not validated", f"onnxruntime cannot load the original: {error}", "load")
    except (FeedError, RunError) as error:
        return refuse("not validated", f"onnxruntime cannot run the original: {error}", "run")
    return judge(reference, optimized, options, options.optimized_dir, other=other)


def _read(model: ModelLike, options: ValidationOptions) -> Located | None:
    """The optimized model.

    ``None`` when it cannot be read, which the report of the comparison tells.
    """
    try:
        return Located(*read_proto(model, options.optimized_dir))
    except ModelError:
        return None


def _assuming(options: ValidationOptions, original: onnx.ModelProto) -> ValidationOptions:
    """The options with the assumptions of the caller alone, to which those in the metadata are
    added if asked for.
    """
    check_fit(Assumptions.of(options.assume), original)
    if not options.assume_from_model:
        return options
    known = assumed_of(original, options.assume, from_model=True)
    return replace(options, assume=known.texts, assume_from_model=False)
