"""Attempts: models with several candidates quantized at once, and their errors and times."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import onnx

from xoptim.bench.rounds import best_times
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source, size_of
from xoptim.precision.activation_quantizer import ActivationQuantizer
from xoptim.precision.candidates import with_dependents
from xoptim.precision.choices import (
    CERTAIN,
    cheapest,
    choices_of,
    choose,
    expected_errors,
    parts_within,
)
from xoptim.precision.fake_quantization import fake_quantized, rewritten
from xoptim.precision.float16_io import with_float16_feeds
from xoptim.precision.large_constants import large_constants
from xoptim.precision.measured import FASTER, Measured, worthwhile
from xoptim.precision.options import Goal, PrecisionOptions
from xoptim.precision.plan import QuantizationPlan
from xoptim.precision.reference import Errors
from xoptim.precision.sensitivity import Sensitivity
from xoptim.system.machine import release_memory
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.runs.session_settings import SessionSettings

_ATTEMPTS: Final = 6
_KEPT_SQUARE: Final = 0.9
"""Part of their squared errors that operators keep in the next attempt; constants get the rest."""
_SLOWER: Final = (1.3, float("inf"))
"""Further limits of an operator's time, relative to float32. A quantized operator that is slower
may still save conversions around it.
"""
_FASTER_MODEL: Final = 0.98
"""A model that takes more than this part of the float32 time is not worth its error."""
_NOISE: Final = 0.03
"""Relative difference of times that counts as noise, so that a second run chooses the same one."""
_SECONDS: Final = 0.5
_FLOAT16: Final = "Float16Weights"
"""The pattern by which ``--precision float16`` stores constants."""
_FLOAT32_BETWEEN: Final = ("openvino",)
"""Targets that are slower when operators between quantized MatMuls also read and write integers:
1.13 to 1.30 of the time was measured (BERT, ViT, GPT-2, Whisper).
"""


@dataclass(frozen=True, slots=True)
class PrecisionAttempt:
    """A model with some operators quantized, and some constants stored in lower precision.

    Attributes:
        fake_quantized: with quantized operands, computed in float32.
        applied: results that were quantized, and constants that were stored, with the names of the
            patterns.
        model: the model with integer operators. Where constants were stored, it is the
            fake-quantized model, because the time of such an attempt is not measured.
        errors: for each slice, the bound by `FloatReference.unseen` from all samples, or the
            expected error times `CERTAIN` if that is larger.
        chosen: the operators and the constants, in the order in which they were chosen.
        size: bytes of the file.
        activations: activations between operators that get QDQ.
    """

    fake_quantized: onnx.ModelProto
    applied: dict[str, str]
    model: onnx.ModelProto
    errors: Errors = ()
    chosen: Sequence[Measured] = ()
    size: int = 0
    activations: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The largest error."""
        return max(self.errors, default=0.0)


def best_plan(
    sensitivity: Sensitivity,
    precision: PrecisionOptions,
    options: OptimizationOptions,
    settings: SessionSettings,
) -> QuantizationPlan:
    """The fastest model within the tolerance, or for the goal ``size`` the smallest one.

    Static quantization instead takes the model with the most operators quantized. Otherwise:

    With ranges from samples, tensors between operators are integers. An operator that is not faster
    alone may then save conversions, so several choices are measured. If no choice is faster than
    float32, no operator is quantized. Constants of other operators are stored in lower precision,
    which costs no time. The file is at most as large as with all constants in float16.

    Args:
        sensitivity: the operators and the constants.
        precision: the error allowed.
        options: of the rewriting to operators that compute with integers.
        settings: of the sessions that are measured.
    """
    ready, session, goal = sensitivity.preprocessed, sensitivity.session, sensitivity.goal
    activations = ActivationQuantizer(ready, session.reference, precision, session.budget)
    attempts = _AttemptSearch(sensitivity, precision.tolerance, options, activations)
    if precision.static:
        best = attempts.most_quantized()
    else:
        best = attempts.smallest() if goal == "size" else attempts.fastest(settings)
    session.close()
    is_timed = goal == "speed" and precision.is_timed
    return QuantizationPlan(
        best.fake_quantized,
        ready.folder,
        best.applied,
        choices_of(sensitivity.measured, best.applied, is_timed=is_timed),
        goal,
        session.reference,
        ready.verified_models,
        activations=best.activations,
    )


def fastest(
    original: Source,
    attempts: Iterable[PrecisionAttempt],
    feeds: Mapping[str, Value],
    settings: SessionSettings,
) -> PrecisionAttempt | None:
    """The first attempt within `_NOISE` of the fastest; ``None`` when no attempt is faster than
    the original.

    Args:
        original: the float32 model.
        attempts: the quantized models.
        feeds: values of the inputs.
        settings: of the sessions.
    """
    quantized = [attempt for attempt in attempts if attempt.applied]
    # CUDA computes in TF32 by default; the pipes of an isolated session would take time
    settings = replace(settings, tf32=True, isolated=False)
    models = [original.proto, *(attempt.model for attempt in quantized)]
    sessions = [Session(model, settings, base_dir=original.base_dir) for model in models]
    runs = [session.runner(with_float16_feeds(feeds, session.inputs)) for session in sessions]
    plain, *times = best_times(runs, settings, _SECONDS)
    limit = min(min(times, default=plain) * (1 + _NOISE), _FASTER_MODEL * plain)
    return next(
        (attempt for attempt, time in zip(quantized, times, strict=True) if time <= limit), None
    )


class _AttemptSearch:
    """Makes attempts within a tolerance; see `best_plan`."""

    def __init__(
        self,
        sensitivity: Sensitivity,
        tolerance: float,
        options: OptimizationOptions,
        activation_quantizer: ActivationQuantizer,
    ) -> None:
        self._context, self._tolerance, self._options = sensitivity, tolerance, options
        self._activation_quantizer = activation_quantizer

    def most_quantized(self) -> PrecisionAttempt:
        """The attempt that quantizes the most multiplications, whether that is faster or not.

        Activations get QDQ as well, unless models on the target are slower with it.
        """
        operators = self._context.operators
        if self._options.target in _FLOAT32_BETWEEN:
            return self._saving_time(operators)
        best = self._within(operators, "speed")
        names = self._activation_quantizer.choose(
            best.fake_quantized, best.chosen, best.applied.keys()
        )
        return self._with_constants(self._attempt(best.chosen, names) if names else best)

    def smallest(self) -> PrecisionAttempt:
        constants = self._context.constants(self._context.storable)
        best = self._within(self._context.measured, "size")
        makers: list[Callable[[], PrecisionAttempt]] = [
            partial(self._within, constants, "size"),
            lambda: self._in_float16,
        ]
        makers += [partial(self._saving_time, operators) for operators in self._faster()]
        for make in makers:
            if self._context.session.budget.is_over():
                break
            attempt = make()
            best = min(best, attempt, key=lambda attempt: attempt.size)
            del attempt  # two models may not fit into the memory
            release_memory()
        return best

    def fastest(self, settings: SessionSettings) -> PrecisionAttempt:
        """The fastest attempt, with the remaining constants stored in lower precision."""
        ready = self._context.preprocessed
        original = Source(ready.model, ready.folder)
        budget = self._context.session.budget
        attempts = (
            self._within(operators, "speed")
            for index, operators in enumerate(self._faster())
            if not index or not budget.is_over()
        )
        feeds = self._context.samples.to_time
        best = fastest(original, attempts, feeds, settings) or self._attempt([])
        release_memory()
        complete = self._with_constants(best)
        while best.chosen and (best.error > self._tolerance or self._is_beaten(complete)):
            # the operators left too little of the tolerance to the constants
            best = self._attempt(cheapest(best.chosen, [_KEPT_SQUARE] * len(best.errors)))
            complete = self._with_constants(best)
        return self._in_float16 if self._is_beaten(complete) else complete

    def _is_beaten(self, attempt: PrecisionAttempt) -> bool:
        """Whether a file with all constants in float16 is smaller.

        That file is made only if a lower bound of its size is smaller.
        """
        model = self._context.preprocessed.model
        float16 = [constant for constant in self._context.storable if constant.pattern == _FLOAT16]
        bits = sum(
            math.prod(constant.shape) * (constant.original_bits - constant.element_bits)
            for constant in float16
        )
        least_size = size_of(model) - bits / 8
        return attempt.size > least_size and attempt.size > self._in_float16.size

    def _faster(self) -> list[list[Measured]]:
        """The operators that are faster alone, and longer lists that may be faster together."""
        context = self._context
        limits = (FASTER, *_SLOWER) if context.preprocessed.observed.ranges else (FASTER,)
        lists = [worthwhile(context.operators, limit) for limit in limits]
        return [
            operators
            for index, operators in enumerate(lists)
            if operators and operators not in lists[:index]
        ]

    def _saving_time(self, candidates: Sequence[Measured]) -> PrecisionAttempt:
        """The attempt for the goal ``speed``, with some operators as candidates."""
        return self._with_constants(self._within(candidates, "speed"))

    @cached_property
    def _in_float16(self) -> PrecisionAttempt:
        """The attempt that ``--precision float16`` makes."""
        float16 = [constant for constant in self._context.storable if constant.pattern == _FLOAT16]
        return self._within(self._context.constants(float16), "size")

    def _with_constants(self, attempt: PrecisionAttempt) -> PrecisionAttempt:
        """The attempt with constants stored in lower precision, within the remaining error."""
        remaining = large_constants(attempt.fake_quantized)
        storable = [
            constant for constant in self._context.storable if constant.weights in remaining
        ]
        return self._within(self._context.constants(storable), "size", attempt)

    def _within(
        self, candidates: Sequence[Measured], goal: Goal, base: PrecisionAttempt | None = None
    ) -> PrecisionAttempt:
        """The attempt with the cheapest candidates; the last ones are dropped until it keeps the
        tolerance.

        The search measures fake quantization. Integer operators round at other places, so the
        error of the attempt differs and may exceed the tolerance. Squared errors add up, so the
        excess tells how many candidates to keep.

        Args:
            candidates: operators and constants.
            goal: whether to save time or bytes.
            base: an attempt whose candidates stay quantized.
        """
        context, tolerance = self._context, self._tolerance
        previous = [] if base is None else [*base.chosen]
        dependents = candidates if base is None else context.measured
        search = context.session, candidates, context.samples, tolerance, goal, previous, dependents
        chosen = choose(*search, on_step=context.on_step)
        for _ in range(_ATTEMPTS):
            if not chosen:
                break
            attempt = self._attempt([*previous, *chosen], () if base is None else base.activations)
            if attempt.error <= tolerance:
                return attempt
            chosen = cheapest(chosen, parts_within(attempt.errors, tolerance))
        return base or self._attempt([])

    def _attempt(
        self, chosen: Sequence[Measured], activations: tuple[str, ...] = ()
    ) -> PrecisionAttempt:
        """The attempt that quantizes some operators and activations, and stores some constants."""
        context, ready = self._context, self._context.preprocessed
        candidates = [measured.candidate for measured in context.measured]
        forms = with_dependents((measured.candidate for measured in chosen), candidates)
        weight_only = [
            measured.candidate for measured in chosen if measured.candidate.is_weight_only
        ]
        names = {candidate.form: candidate.weights for candidate in weight_only}
        operators = dict(form for form in forms.items() if form not in names)
        fake, applied = fake_quantized(
            ready.model,
            ready.folder,
            context.patterns,
            operators,
            self._options.provider,
            ready.observed,
            self._options.cpu,
        )
        constants = {names[form]: form[1] for form in forms.items() if form in names}
        fake, stored = context.weight_only.store(fake, constants)
        results = {(name, form[1]): form[0] for form, name in names.items()}
        applied |= {results[form]: form[1] for form in stored.items()}
        if activations:
            fake = self._activation_quantizer.written(fake, activations)
        computing = replace(self._options, on_application=None)
        model = rewritten(Source(fake, ready.folder), computing)
        sample_errors = context.session.reference.unseen_errors_of(model, ready.folder)
        expected = expected_errors(chosen) or sample_errors
        errors = tuple(
            max(error, CERTAIN * estimate)
            for error, estimate in zip(sample_errors, expected, strict=True)
        )
        timed = fake if stored else model
        return PrecisionAttempt(fake, applied, timed, errors, chosen, size_of(model), activations)
