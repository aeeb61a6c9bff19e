"""Both models as users run them: under ORT graph optimizations, which may be wrong."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import onnx

from xoptim.facts.protos import every_node
from xoptim.operators.registry import Trait, operators_with
from xoptim.verification.errors import LoadError, ProviderUnavailable, RunError
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.inputs.further import TINY
from xoptim.verification.inputs.reference import Reference
from xoptim.verification.judging.compare import Comparison, compare_values
from xoptim.verification.judging.report import RunReport
from xoptim.verification.judging.steady import unsteady_output
from xoptim.verification.options import ComparisonRules
from xoptim.verification.runs.protos import Located, ModelLike
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.runs.session_settings import SessionSettings

# relative to the largest number; fused kernels add up in another order, and in other types
_ROUNDING: Final = 0.005
_ABSOLUTE: Final = 1e-6
_MULTIPLE: Final = 4.0
_FUSIONS: Final = (
    "QDQSelectorActionTransformer",
    "DynamicQuantizeMatMulFusion",
    "MatMulIntegerToFloatFusion",
)
"""The optimizations of onnxruntime that write operators with `Trait.INTEGER_KERNEL`."""


class RuntimeOutcome(NamedTuple):
    """Effects of onnxruntime's optimizations.

    Attributes:
        difference: a difference in the optimized model only, not made by kernels for integers.
        note: effects on the original, or of kernels for integers.
        is_doubt: whether the difference is about as large as the rounding without optimizations.
        unsteady: the output that the original does not repeat, and how.
    """

    difference: str = ""
    note: str = ""
    is_doubt: bool = False
    unsteady: str = ""


def under_optimizations(
    reference: Reference,
    optimized: ModelLike,
    other: Located,
    rules: ComparisonRules,
    accepted: Sequence[RunReport],
) -> RuntimeOutcome:
    """Compare both models, run with all optimizations of onnxruntime, with the original run without
    them.

    ``other`` is the optimized model as it was read; ``accepted`` are the reports of the runs
    without optimizations.
    """
    if rules.exactness == "exact":
        rules = replace(rules, exactness="rounding")  # fused kernels round in another way
    pairs = (
        (run, report)
        for run, report in zip(reference.runs, accepted, strict=True)
        if not run.is_probe
    )
    run, report = min(pairs, key=lambda pair: pair[0].work, default=(None, None))
    if run is None or report is None:
        return RuntimeOutcome()
    worst = _worst(reference, run, optimized, other, rules)
    if not worst.is_wrong and run.work > TINY:
        # loading the original takes time, and could only show that onnxruntime computes it wrongly
        return RuntimeOutcome()
    original = _worst(
        reference, run, reference.proto, Located(reference.proto, reference.base_dir), rules
    )
    note = (
        f"ORT graph optimizations change the results of the original: {original.text}"
        if original.is_wrong
        else ""
    )
    if original.is_wrong and not worst.is_wrong:
        note += "; the results of the optimized model are right"
    if not worst.is_wrong or original.is_wrong or worst.share <= _MULTIPLE * original.share:
        return RuntimeOutcome(note=note)
    kernels = integer_kernels(optimized, reference.settings, other)
    if kernels and not _worst(reference, run, optimized, other, rules, _FUSIONS).is_wrong:
        return RuntimeOutcome(
            note=f"{note}{'; ' * bool(note)}{_by_kernels(kernels, worst, original)}"
        )
    unsteady = _unsteady(reference, run, rules)
    if unsteady:
        return RuntimeOutcome(note=note, unsteady=unsteady)
    rounding = max((_share(c).share for c in report.comparisons), default=0.0)
    return RuntimeOutcome(worst.text, note, is_doubt=worst.share <= _MULTIPLE * rounding)


def change_by(reference: Reference, settings: SessionSettings, rules: ComparisonRules) -> str:
    """The largest change of a model's results by settings of its session, empty if it is rounding.

    ``reference`` has the results with its own settings.
    """
    changes = (
        _worst_with(settings, reference, run, reference.proto, reference.base_dir, rules)
        for run in reference.runs
    )
    worst = max(changes, default=_Worst())
    return worst.text if worst.is_wrong else ""


def _unsteady(reference: Reference, run: ReferenceRun, rules: ComparisonRules) -> str:
    """The output that the original does not repeat, without optimizations or with them."""
    model = Located(reference.proto, reference.base_dir)
    plain, outputs = reference.settings, reference.outputs
    optimized = replace(plain, level="all").safe_for(reference.proto)
    results = Session(model.proto, optimized, base_dir=model.base_dir).run(run.feeds)
    return unsteady_output(model, plain, outputs, [run], rules) or unsteady_output(
        model, optimized, outputs, [replace(run, results=results)], rules
    )


def _by_kernels(kernels: Sequence[str], worst: _Worst, original: _Worst) -> str:
    """The note that kernels of onnxruntime change the results of the optimized model, and the
    change of the original.
    """
    change = (
        f"{original.share:.2%} of the largest value"
        if math.isfinite(original.share)
        else original.text
    )
    return (
        f"with ORT graph optimizations, {', '.join(kernels)} changes {worst.text}; the original "
        f"changes by {change}"
    )


def integer_kernels(model: ModelLike, settings: SessionSettings, read: Located) -> list[str]:
    """The integer operators that onnxruntime's optimizations write into a model. Their kernels may
    saturate (uint8 by int8 without VNNI), or quantize activations (MatMulNBits).

    ``read`` is the model as it was read.
    """
    level = replace(settings, level="all")
    if not isinstance(model, onnx.ModelProto):
        level = level.safe_for(read.proto)
    with tempfile.TemporaryDirectory(prefix="xopt-") as folder:
        path = Path(folder) / "optimized.onnx"
        try:
            Session(model, replace(level, optimized=path), base_dir=read.base_dir)
            rewritten = onnx.load(path, load_external_data=False)
        except (LoadError, OSError, ProviderUnavailable):
            return []
    before = Counter(node.op_type for node in every_node(read.proto.graph.node))
    after = Counter(node.op_type for node in every_node(rewritten.graph.node))
    return sorted({*(after - before)} & operators_with(Trait.INTEGER_KERNEL, domain=None))


class _Worst(NamedTuple):
    """The largest difference, relative to the largest number of its output; infinite for other
    faults.
    """

    share: float = 0.0
    text: str = ""

    @property
    def is_wrong(self) -> bool:
        return self.share > _ROUNDING


def _worst(
    reference: Reference,
    run: ReferenceRun,
    model: ModelLike,
    located: Located,
    rules: ComparisonRules,
    disabled: tuple[str, ...] = (),
) -> _Worst:
    """The largest difference of a model under optimizations, some of them disabled."""
    settings = replace(reference.settings, level="all", disabled_optimizers=disabled)
    if not isinstance(model, onnx.ModelProto):
        settings = settings.safe_for(located.proto)
    return _worst_with(settings, reference, run, model, located.base_dir, rules)


def _worst_with(
    settings: SessionSettings,
    reference: Reference,
    run: ReferenceRun,
    model: ModelLike,
    base_dir: Path | None,
    rules: ComparisonRules,
) -> _Worst:
    """The largest difference of a model with some settings of its session."""
    try:
        session = Session(model, settings, base_dir=base_dir)
        results = session.run(run.feeds)
    except (LoadError, RunError) as error:
        return _Worst(math.inf, f"it does not run: {error}")
    except ProviderUnavailable:
        return _Worst()
    differences = [_share(c) for c in _compared(reference, run.results, results, rules)]
    return max(differences, default=_Worst())


def _compared(
    reference: Reference, expected: Sequence[Value], actual: Sequence[Value], rules: ComparisonRules
) -> list[Comparison]:
    triples = zip(reference.outputs, expected, actual, strict=True)
    return [c for port, e, a in triples for c in compare_values(port.name, e, a, rules)]


def _share(comparison: Comparison) -> _Worst:
    if comparison.ok:
        return _Worst()
    text = f"output {comparison.output!r}: {comparison.message}"
    is_number = (
        comparison.fault == "value"
        and comparison.tolerance is not None
        and np.isfinite(comparison.excess)
    )
    if not is_number or not comparison.top:
        return _Worst(math.inf, text)
    if comparison.max_abs <= _ABSOLUTE:
        return _Worst()  # close to a limit of a function, such as a Sigmoid that is almost 0
    return _Worst(comparison.max_abs / comparison.top, text)
