"""Whether two models compute the same, in one run of each or section by section."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import onnx

from xoptim.facts.advice import Advice
from xoptim.facts.assumptions import Assumptions
from xoptim.facts.errors import ModelError
from xoptim.facts.progress import silent
from xoptim.facts.words import quoted
from xoptim.graph.assumed import assumed_of, check_fit, fitting, noted, unused, unused_text
from xoptim.verification.errors import ChoiceError, FeedError, LoadError, RunError
from xoptim.verification.inputs.feeding import warn_of_missing
from xoptim.verification.inputs.reference import read_original, run_reference
from xoptim.verification.inputs.work import COPIES, fits_into_memory, is_mapped
from xoptim.verification.judging.judge import Judge, judge
from xoptim.verification.judging.judge_sections import judge_in_sections
from xoptim.verification.judging.randomness import random_output
from xoptim.verification.judging.report import VerificationReport
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.contrib_functions import contrib_functions
from xoptim.verification.runs.protos import (
    Located,
    ModelLike,
    pack_definitions,
    read_defined,
    read_proto,
)


def verify_models(
    original: ModelLike,
    optimized: ModelLike,
    options: VerificationOptions | None = None,
    *,
    on_step: Callable[[str], object] = silent,
) -> VerificationReport:
    """Compare a model with the original; see `compare`.

    Assumptions in the metadata of the models are used only with ``assume_from_model``. Without it,
    models that differ and list assumptions that are not given are ``not verified``: they may be
    equal where the assumptions hold.
    """
    options = options or VerificationOptions()
    record = _recorded(original, optimized)
    assume = (*options.assume, *record) if options.assume_from_model else options.assume
    report = compare(original, optimized, replace(options, assume=assume), on_step=on_step)
    warn_of_missing(original, options.feeds)
    return report if options.assume_from_model else with_record(report, record, options)


def with_record(
    report: VerificationReport, record: Sequence[str], options: VerificationOptions
) -> VerificationReport:
    """The verdict on models whose metadata list the assumptions ``record``.

    The report names the assumptions that the caller did not give. If there are any, models whose
    results differ are ``not verified``.
    """
    missing = unused(record, Assumptions.of(options.assume))
    if not missing or options.assume_from_model:
        return report
    if report.status != "different" or report.faults:
        return replace(report, notes=(*report.notes, unused_text(missing)))
    reason = (
        f"{unused_text(missing)}, {Advice('assume', (missing[0],))} uses the first; "
        f"without them: {report.reason}"
    )
    return replace(report, status="not verified", reason=reason, cause="assumptions")


def _recorded(original: ModelLike, optimized: ModelLike) -> list[str]:
    """The assumptions in the metadata of two models that fit the original."""
    texts: list[str] = []
    with suppress(ModelError):  # the comparison reports what cannot be read
        proto = read_proto(original)[0]
        texts += noted(proto).texts
        texts += fitting(noted(read_proto(optimized)[0]).texts, proto)[0]
    return list(dict.fromkeys(texts))


def compare(
    original: ModelLike,
    optimized: ModelLike,
    options: VerificationOptions | None = None,
    *,
    on_step: Callable[[str], object] = silent,
) -> VerificationReport:
    """Compare an optimized model with the original, under the assumptions of the options alone.

    Both are run in onnxruntime as they are written, its own optimizations off, on the same values.
    The status is ``not verified`` when the original cannot be loaded or run, or when its results
    are not evidence: a second run gives other results, the results hold no finite number, or
    rounding alone changes them a lot. The status is ``different`` when the optimized model has
    another signature, cannot be loaded or run, or computes other results.

    Models whose weights do not fit into memory are run in sections, by
    `xoptim.verification.judging.judge_sections`. ``on_step`` is called with a description of each
    step.

    Raises `ChoiceError` when values or sizes of the options do not fit the original, or break an
    assumption under which a model was optimized; `AssumptionError` when the assumptions of the
    options do not fit the original; and `ProviderUnavailable` when onnxruntime lacks a requested
    execution provider.
    """
    options = options or VerificationOptions()
    refuse = Judge(options).report
    try:
        proto, base_dir = read_original(original, options)
        other, fault = _read(optimized, options)
        options = _assuming(options, proto)
        if _needs_sections(proto, options):
            if other is None:
                return refuse("different", fault)
            report = judge_in_sections((proto, base_dir), other, options, on_step)
            if options.samples:
                text = f"compared on the first of {1 + len(options.samples)} samples only"
                report = replace(report, notes=(*report.notes, text))
            return _qualified(report, proto, other.proto, options)
        on_step("verifying: running the original")
        reference = run_reference(original, options, proto, None if other is None else other.proto)
    except ChoiceError:
        raise
    except LoadError as error:
        return refuse("not verified", f"onnxruntime cannot load the original: {error}", "load")
    except (FeedError, RunError) as error:
        return refuse("not verified", f"onnxruntime cannot run the original: {error}", "run")
    name = _name_of(original, optimized)
    folder = options.optimized_dir
    report = judge(reference, optimized, options, folder, other=other, name=name, on_step=on_step)
    return _qualified(report, proto, None if other is None else other.proto, options)


def _needs_sections(proto: onnx.ModelProto, options: VerificationOptions) -> bool:
    """Whether a model is run section by section: as the options say, else by its weights."""
    if options.sections is not None:
        return options.sections
    copies = 1 if is_mapped(proto) else COPIES
    return not fits_into_memory(proto, options.memory_limit, copies=copies)


def _qualified(
    report: VerificationReport,
    original: onnx.ModelProto,
    optimized: onnx.ModelProto | None,
    options: VerificationOptions,
) -> VerificationReport:
    """The verdict, with notes about operators that ran by the definition of a pack, and about
    random outputs for which both models drew the same numbers.
    """
    protos = [proto for proto in (original, optimized) if proto is not None]
    defined = {name for proto in protos for name in pack_definitions(proto)}
    if defined and not options.custom_op_libs:
        text = f"{', '.join(sorted(defined))}: ran by the reference implementation of a pack"
        report = replace(report, notes=(*report.notes, text))
    functions = sorted({name for proto in protos for name in contrib_functions(proto)})
    if functions:
        text = f"{', '.join(functions)}: ran by definition, as CPUs have no kernel"
        report = replace(report, notes=(*report.notes, text))
    output = random_output(original) if report.ok else ""
    if output:
        text = f"{output}; both models drew the same numbers"
        report = replace(report, notes=(*report.notes, text))
    return report


def _name_of(original: ModelLike, optimized: ModelLike) -> str:
    """The name of the second model in messages: its file where two files are compared, as it need
    not be an optimized one.
    """
    are_files = not isinstance(original, onnx.ModelProto) and not isinstance(
        optimized, onnx.ModelProto
    )
    return quoted(optimized) if are_files else "the optimized model"


def _read(model: ModelLike, options: VerificationOptions) -> tuple[Located | None, str]:
    """The optimized model; ``None``, and the reason, when it cannot be read."""
    try:
        read = read_defined(model, options.optimized_dir, options.custom_op_libs, options.providers)
    except ModelError as error:
        return None, str(error)
    return Located(*read), ""


def _assuming(options: VerificationOptions, original: onnx.ModelProto) -> VerificationOptions:
    """The options with the assumptions of the caller and, if asked for, of the metadata."""
    check_fit(Assumptions.of(options.assume), original)
    if not options.assume_from_model:
        return options
    assumptions = assumed_of(original, options.assume, from_model=True)
    return replace(options, assume=assumptions.texts, assume_from_model=False)
