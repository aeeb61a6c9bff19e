"""The verdict: run the original, run the optimized model on the same values, compare, and judge what differs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import onnx

from xoptim.validate.compare import Comparison, compare_values
from xoptim.validate.errors import FeedError, LoadError, RunError
from xoptim.validate.noise import noisy_feeds, noisy_graph, noisy_weights
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import ModelLike
from xoptim.validate.reference import Reference, ReferenceRun, run_reference
from xoptim.validate.report import Noise, RunReport, Status, ValidationReport
from xoptim.validate.session import Port, Session, Value

_DRAWS: Final = 2  # times that the noise is measured, the first without noise on the results within the model
_RANDOM: Final = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
_HOPELESS: Final = 0.1  # accepted noise, relative to the scale of an output, beyond which a comparison is no evidence


def validate(original: ModelLike, optimized: ModelLike, options: ValidationOptions | None = None) -> ValidationReport:
    """Whether an optimized model computes what the original computes.

    Both are run in onnxruntime as they are written, its own optimizations off, on the same values. The status is
    ``not validated`` when the original cannot be loaded or run, or when its results are no evidence (it does not
    repeat them, they hold no finite number, or rounding alone changes them a lot); it is ``different`` when the
    optimized model has another signature, cannot be loaded or run, or computes something else.

    Args:
        original: the model to trust, a file or a protobuf.
        optimized: the model to judge.
        options: the choices of the user.

    Raises:
        ProviderUnavailable: onnxruntime does not have an execution provider that was asked for.
    """
    options = options or ValidationOptions()
    judge = _Judge(options)
    try:
        reference = run_reference(original, options)
    except LoadError as error:
        return judge.report("not validated", f"onnxruntime cannot load the original: {error}")
    except (FeedError, RunError) as error:
        return judge.report("not validated", f"onnxruntime cannot run the original: {error}")
    try:
        candidate = Session(optimized, options.settings, base_dir=options.optimized_dir)
    except LoadError as error:
        return judge.report("different", f"onnxruntime cannot load the optimized model: {error}")
    judge.faults = _compare_signatures(reference, candidate)
    if judge.faults:
        fault = judge.faults[0]
        return judge.report("different", f"{fault.output}: {fault.message}")
    for run in reference.runs:
        try:
            judge.runs.append(_compare_run(run, reference.outputs, candidate, options))
        except RunError as error:
            return judge.report("different", f"onnxruntime cannot run the optimized model{_where(run.sizes)}: {error}")
    return judge.verdict(original, reference)


def _where(sizes: Mapping[str, int]) -> str:
    return f" with {', '.join(f'{name}={size}' for name, size in sizes.items())}" if sizes else ""


def _compare_signatures(reference: Reference, candidate: Session) -> tuple[Comparison, ...]:
    """Faults of names, order and types of inputs and outputs."""
    return (*_compare_ports("input", reference.inputs, candidate.inputs),
            *_compare_ports("output", reference.outputs, candidate.outputs))  # fmt: skip


def _compare_ports(kind: str, expected: Sequence[Port], actual: Sequence[Port]) -> list[Comparison]:
    types, found = {p.name: p.type for p in expected}, {p.name: p.type for p in actual}
    faults = [Comparison(f"{kind} {name!r}", "missing", "is missing") for name in types if name not in found]
    faults += [Comparison(f"{kind} {name!r}", "structure", "is new") for name in found if name not in types]
    faults += [
        Comparison(f"{kind} {name!r}", "dtype", f"{found[name]} instead of {types[name]}")
        for name in types
        if found.get(name, types[name]) != types[name]
    ]
    if not faults and list(types) != list(found):
        faults.append(Comparison(f"{kind}s", "structure", f"order {list(found)} instead of {list(types)}"))
    return faults


def _compare_run(run: ReferenceRun, outputs: Sequence[Port], candidate: Session, options: ValidationOptions) -> RunReport:
    start = time.perf_counter()
    results = candidate.run(run.feeds)
    seconds = time.perf_counter() - start
    compared = _compare_results(outputs, run.results, results, options)
    return RunReport(run.source, dict(run.sizes), run.seed, run.seconds, seconds, compared)


def _compare_results(
    outputs: Sequence[Port], expected: Sequence[Value], actual: Sequence[Value], options: ValidationOptions
) -> tuple[Comparison, ...]:
    triples = zip(outputs, expected, actual, strict=True)
    return tuple(c for port, e, a in triples for c in compare_values(port.name, e, a, options.rules))


def _random_operator(model: onnx.ModelProto) -> str:
    """An operator that draws other numbers when it is at another place of the graph, ``""`` when there is none."""
    nodes = list(model.graph.node) + [node for function in model.functions for node in function.node]
    for node in nodes:  # grows by the nodes of subgraphs
        if node.op_type in _RANDOM and all(a.name != "seed" for a in node.attribute):
            return f"{node.op_type} without a seed"
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                nodes.extend(a.g.node)
    return ""


def _sensitivity(run: RunReport, c: Comparison) -> str:
    """Why no difference of an output would tell anything."""
    return (
        f"differs by {c.max_abs:.2g}, but moves by {run.noise[c.output].level:.2g} when all numbers move by one unit in "
        f"the last place (its typical magnitude is {c.scale:.2g}); give rtol and atol to judge it"
    )


class _Judge:
    """Collects what was found and decides what it means."""

    def __init__(self, options: ValidationOptions) -> None:
        self._options = options
        self._notes: list[str] = []
        if any(name.lower().startswith("cuda") for name in options.providers):
            self._notes.append(f"TF32 is {'on' if options.tf32 else 'off'}")
        self.faults: tuple[Comparison, ...] = ()
        self.runs: list[RunReport] = []

    def report(self, status: Status, reason: str = "") -> ValidationReport:
        """The report as it stands."""
        return ValidationReport(
            status=status,
            reason=reason,
            exactness=self._options.exactness,
            providers=tuple(self._options.providers),
            faults=self.faults,
            runs=tuple(self.runs),
            notes=tuple(self._notes),
        )

    def verdict(self, original: ModelLike, reference: Reference) -> ValidationReport:
        """The report after all runs."""
        broken = [i for i, run in enumerate(self.runs) if not all(c.ok for c in run.comparisons)]
        if broken:
            unsteady = _random_operator(reference.proto) or self._unsteady_output(original, reference, broken[0])
            if unsteady:
                return self.report("not validated", f"the original does not repeat its own results: {unsteady}")
            if self._options.considers_noise:
                self._measure_noise(reference, broken)
        rejected = [(run, c) for run in self.runs for c in run.comparisons if not run.accepts(c)]
        # An output so sensitive that no difference would tell anything excuses itself, but not a fault elsewhere.
        rejected.sort(key=lambda pair: self._is_hopeless(*pair))
        if rejected:
            run, comparison = rejected[0]
            place = f"output {comparison.output!r}{_where(run.dims)}"
            if self._is_hopeless(run, comparison):
                return self.report("not validated", f"{place} {_sensitivity(run, comparison)}")
            return self.report("different", f"{place}: {comparison.message}")
        return self._weigh_evidence()

    def _weigh_evidence(self) -> ValidationReport:
        """Equal, unless there was nothing to compare."""
        compared = [c for run in self.runs for c in run.comparisons]
        if compared and not any(c.count for c in compared):
            self._notes.append("no output held an element")
        hollow = {c.output for c in compared if not c.finite} - {c.output for c in compared if c.finite}
        if hollow and hollow == {c.output for c in compared}:
            return self.report("not validated", "no output of the original holds a finite number")
        self._notes += [f"output {name!r} never held a finite number" for name in sorted(hollow)]
        self._notes += [
            f"output {name!r}: the difference is rounding, {noise.level:.2g} comes of one unit in the last place"
            for name, noise in {name: n for run in self.runs for name, n in run.noise.items()}.items()
        ]
        tried = {tuple(run.dims.items()) for run in self.runs if run.source == "random"}
        if len(tried) == 1 and tried != {()} and self._options.assignments > 1:
            self._notes.append("only one assignment of sizes was found on which the original runs")
        return self.report("equal")

    def _unsteady_output(self, original: ModelLike, reference: Reference, index: int) -> str:
        """What a fresh session of the original computes otherwise, ``""`` when it breaks no rule."""
        run, options = reference.runs[index], self._options
        results = Session(original, options.settings, base_dir=options.original_dir).run(run.feeds)
        again = _compare_results(reference.outputs, run.results, results, options)
        return next((f"output {c.output!r}: {c.message}" for c in again if not c.ok), "")

    def _measure_noise(self, reference: Reference, broken: Sequence[int]) -> None:
        """Add to the broken runs how far rounding alone moves the outputs that differ."""
        levels: list[dict[str, float]] = [{} for _ in reference.runs]
        for draw in range(_DRAWS):
            try:
                self._draw_noise(draw, reference, broken, levels)
            except (LoadError, RunError) as error:
                self._notes.append(f"the sensitivity to rounding is known in part only: {error}")
                break
        for index in broken:
            self.runs[index] = replace(self.runs[index], noise=self._noise(self.runs[index], levels[index]))

    def _draw_noise(self, draw: int, reference: Reference, broken: Sequence[int], levels: Sequence[dict[str, float]]) -> None:
        """Raise the levels to what one draw gives."""
        options = self._options
        rng = np.random.default_rng((options.seed, draw))
        weights = noisy_weights(reference.proto, reference.base_dir, rng)
        proto = noisy_graph(reference.proto, rng) if draw else reference.proto
        session = Session(proto, options.settings, base_dir=reference.base_dir, weights=weights)
        for index in broken:
            run = reference.runs[index]
            moved = session.run(noisy_feeds(run.feeds, rng))
            for c in _compare_results(reference.outputs, run.results, moved, options):
                levels[index][c.output] = max(levels[index].get(c.output, 0.0), c.max_abs)

    def _noise(self, run: RunReport, levels: Mapping[str, float]) -> dict[str, Noise]:
        """The noise of the outputs that break the rule by finite differences, and whether it excuses these."""
        noise: dict[str, Noise] = {}
        for c in run.comparisons:
            if c.fault == "value" and c.tolerance is not None and math.isfinite(c.excess):
                level = levels.get(c.output, 0.0)
                reach = self._options.noise_multiple * level
                noise[c.output] = Noise(level, c.max_abs <= reach <= _HOPELESS * c.scale)
        return noise

    def _is_hopeless(self, run: RunReport, comparison: Comparison) -> bool:
        """Whether rounding alone moves an output as much as it differs, but by too much to accept that."""
        noise = run.noise.get(comparison.output)
        return noise is not None and comparison.max_abs <= self._options.noise_multiple * noise.level
