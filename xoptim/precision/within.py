"""Comparison of a quantized model with the original by metric and tolerance, as in quantization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from xoptim.precision.float16_io import with_float16_feeds
from xoptim.precision.metrics import holds_floats, metric_name, size_by
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.reference import Errors, FloatReference, largest_errors
from xoptim.precision.samples import samples_for
from xoptim.precision.slices import OutputSlice
from xoptim.precision.sources import sample_path, with_samples
from xoptim.verification.errors import FeedError, LoadError, NothingToQuantizeError, RunError
from xoptim.verification.inputs.feeding import FeedSource
from xoptim.verification.judging.compare import Comparison
from xoptim.verification.judging.report import Cause, RunReport, Status, VerificationReport
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.protos import Located, ModelLike, read_proto
from xoptim.verification.runs.session import Session, Value


def verify_within(
    original: ModelLike,
    other: ModelLike,
    precision: PrecisionOptions,
    options: VerificationOptions | None = None,
) -> VerificationReport:
    """Compare the outputs of two models by a metric, within a tolerance.

    Each slice of an output that has a scale of its own is compared alone, as in a quantization.

    Args:
        original: the float32 model.
        other: the quantized one.
        precision: the metric, the tolerances and the samples (``feeds``); the scheme does not
            matter. Without samples, values are random.
        options: options of the runs, and the folders of the external data.

    Returns:
        A report with the status ``equal`` if the error is within the tolerance on all samples. Its
        note gives the error.
    """
    checks = options or VerificationOptions()
    first = Located(*read_proto(original, checks.original_dir))
    second = Located(*read_proto(other, checks.optimized_dir))
    precision = with_samples(precision, first.proto)
    try:
        samples = samples_for(first.proto, first.base_dir, precision, checks)
        reference = FloatReference.of(*first, samples, precision, checks.settings)
    except NothingToQuantizeError as error:
        return _report(checks, "not verified", str(error), "evidence")
    except LoadError as error:
        reason = f"onnxruntime cannot load the original: {error}"
        return _report(checks, "not verified", reason, "load")
    except (FeedError, RunError) as error:
        reason = f"onnxruntime cannot run the original: {error}"
        return _report(checks, "not verified", reason, "run")
    try:
        session = Session(second.proto, checks.settings, base_dir=second.base_dir)
    except LoadError as error:
        return _report(checks, "different", f"onnxruntime cannot load the other model: {error}")
    names = [value.name for value in first.proto.graph.output]
    if names != [port.name for port in session.outputs]:
        return _report(checks, "different", "the names or the order of the outputs differ")
    try:
        return _judged(reference, session, checks)
    except RunError as error:
        return _report(checks, "different", f"onnxruntime cannot run the other model: {error}")


def _report(
    checks: VerificationOptions, status: Status, reason: str = "", cause: Cause = ""
) -> VerificationReport:
    providers = tuple(checks.providers)
    return VerificationReport(
        status, reason, cause=cause, exactness="approximate", providers=providers
    )


def _judged(
    reference: FloatReference, session: Session, checks: VerificationOptions
) -> VerificationReport:
    """The verdict on a model that loads; raises `RunError` when it does not run."""
    samples, precision = reference.samples, reference.precision
    source: FeedSource = "random" if samples.are_random else "given"
    names = [sample_path(sample) for sample in precision.samples] or [""] * samples.count
    runs, errors = list[RunReport](), list[Errors]()
    for index, feeds in enumerate(samples.feeds):
        start = perf_counter()
        results = session.run(with_float16_feeds(feeds, session.inputs))
        seconds = perf_counter() - start
        errors.append(reference.errors(index, results))
        comparisons = _comparisons(reference, index, results, errors[-1])
        runs.append(RunReport(source, {}, 0, 0.0, seconds, comparisons, sample=names[index]))
    worst = reference.worst(largest_errors(errors))
    file = names[max(range(samples.count), key=lambda index: max(errors[index]))]
    place = f", the largest on {file!r}" if file and samples.count > 1 else ""
    kind = f"({metric_name(precision.metric)}, {samples.summary()}){place}"
    text = f"the error of {worst.name} is {worst.error:.2%}"
    if worst.error <= worst.tolerance:
        note = f"{text}, at most {worst.tolerance:.2%} {kind}"
        return replace(_report(checks, "equal"), runs=tuple(runs), notes=(note,))
    reason = f"{text}, more than {worst.tolerance:.2%} {kind}"
    return replace(_report(checks, "different", reason), runs=tuple(runs))


def _comparisons(
    reference: FloatReference, index: int, results: Sequence[Value], errors: Errors
) -> tuple[Comparison, ...]:
    tolerance = reference.precision.tolerance
    expected = reference.expected[index]
    return tuple(
        Comparison(
            str(part),
            "" if error <= tolerance else "value",
            "" if error <= tolerance else "the error is beyond the tolerance",
            max_abs=_largest_difference(part, expected[part.place], results[part.place]),
            excess=error / tolerance,
            scale=part.typical,
            top=_top(part, expected[part.place]),
            count=int(np.size(part.of(np.asarray(expected[part.place])))),
            whole=part.output,
        )
        for part, error in zip(reference.slices.slices, errors, strict=True)
    )


def _top(part: OutputSlice, expected: Value) -> float:
    """The largest finite magnitude of a slice; 0 where it holds no floating-point numbers."""
    return size_by("largest", part.of(expected)) if isinstance(expected, np.ndarray) else 0.0


def _largest_difference(part: OutputSlice, expected: Value, actual: Value) -> float:
    """The largest difference of finite numbers, 0 where there is none."""
    arrays = [value for value in (expected, actual) if isinstance(value, np.ndarray)]
    if len(arrays) < 2 or arrays[0].shape != arrays[1].shape or not all(map(holds_floats, arrays)):
        return 0.0
    differences = np.abs(part.of(arrays[1]).astype(np.float64) - part.of(arrays[0]))
    return float(np.max(differences[np.isfinite(differences)], initial=0.0))
