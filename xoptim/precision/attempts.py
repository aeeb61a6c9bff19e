"""Choices of candidates, tried together: what counts is the error and the time of the model that
comes out.
"""

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
from xoptim.precision.samples import Samples
from xoptim.precision.sensitivity import Sensitivity
from xoptim.system.machine import release_memory
from xoptim.verification.session import Session, Value
from xoptim.verification.session_settings import SessionSettings

_ATTEMPTS: Final = 6
_SMALLER: Final = 0.9
"""Part of the squares of the errors that is aimed at next, where constants need a part."""
_SLOWER: Final = (1.3, float("inf"))
"""Operators that take so much of the time alone may save conversions between others."""
_FASTER_MODEL: Final = 0.98
"""A model that takes more than this part of the time is not worth its error."""
_NOISE: Final = 0.03
"""Part of the time by which two attempts must differ, so that a second run chooses the same one."""
_SECONDS: Final = 0.5
_FLOAT16: Final = "Float16Weights"
"""The pattern by which ``--precision float16`` stores constants."""
_FLOAT32_BETWEEN: Final = ("openvino",)
"""Targets that were measured to take 1.13 to 1.30 of the time (BERT, ViT, GPT-2, Whisper) where
operators between quantized MatMuls read and write integers too.
"""
_UNSEEN: Final = 0.4
"""Part of the tolerance that is kept for values that are not among the samples, where there is one;
with the square root of their number, it becomes smaller. Measured on 50 models at 2 %: with ten
samples, and a twenty-fifth kept, three models erred by more than 2.5 % on ten others.
"""


@dataclass(frozen=True, slots=True)
class PrecisionAttempt:
    """A model with some operators quantized, and some constants stored in lower precision.

    Attributes:
        fake_quantized: with quantized operands, computed in float32.
        applied: results that were quantized, and constants that were stored, with the names of the
            patterns.
        model: computed with integers; the fake-quantized one where constants were stored, as its
            time does not count then.
        errors: of the model on all samples, or what counts of those that are expected of its
            operators, where these are larger.
        chosen: the operators and the constants, in the order in which they were chosen.
        size: bytes of the file.
        activations: those between operators that have QDQ.
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
    found: Sensitivity,
    precision: PrecisionOptions,
    options: OptimizationOptions,
    settings: SessionSettings,
) -> QuantizationPlan:
    """The fastest model that keeps the tolerance, or for the goal ``size`` the smallest one.

    Where tensors between operators are integers, an operator that is not faster alone may save
    conversions, so that more than one choice is measured. Where none is faster than float32, no
    operator is quantized. Constants that stay in float32 are stored in lower precision, which costs
    no time. No file is larger than the one with constants in 16 bits alone.

    Args:
        found: the operators and the constants.
        precision: the error allowed.
        options: by which operators compute with integers.
        settings: of the sessions that are measured.
    """
    aim = allowance(precision, found.samples)
    given = found.preprocessed, found.session.reference, precision, aim, found.session.budget
    attempts = _AttemptSearch(found, aim, options, ActivationQuantizer(*given))
    if precision.static:
        best = attempts.most()
    else:
        best = attempts.smallest() if found.goal == "size" else attempts.fastest(settings)
    found.session.close()
    return QuantizationPlan(
        best.fake_quantized,
        found.preprocessed.folder,
        best.applied,
        choices_of(
            found.measured, best.applied, is_timed=found.goal == "speed" and precision.is_timed
        ),
        found.goal,
        found.session.reference,
        found.preprocessed.verified_models,
        activations=best.activations,
    )


def fastest(
    original: Source,
    attempts: Iterable[PrecisionAttempt],
    feeds: Mapping[str, Value],
    settings: SessionSettings,
) -> PrecisionAttempt | None:
    """The fastest attempt, ``None`` when none is faster than the model; of those that are as fast,
    the first one.

    Args:
        original: the float32 model.
        attempts: the quantized models.
        feeds: values of the inputs.
        settings: of the sessions.
    """
    quantized = [each for each in attempts if each.applied]
    # As CUDA computes floats unless it is asked not to; pipes to another process would be measured
    # too.
    settings = replace(settings, tf32=True, isolated=False)
    models = [original.proto, *(each.model for each in quantized)]
    sessions = [Session(each, settings, base_dir=original.base_dir) for each in models]
    runs = [each.runner(with_float16_feeds(feeds, each.inputs)) for each in sessions]
    plain, *times = best_times(runs, settings, _SECONDS)
    limit = min(min(times, default=plain) * (1 + _NOISE), _FASTER_MODEL * plain)
    return next((each for each, time in zip(quantized, times, strict=True) if time <= limit), None)


def allowance(precision: PrecisionOptions, samples: Samples) -> float:
    """The error to aim at: less than the tolerance, as values that are not among the samples may
    err more.
    """
    return precision.tolerance * (1 - _UNSEEN / math.sqrt(len(samples.feeds)))


class _AttemptSearch:
    """Makes attempts that keep an error.

    Args:
        found: the operators and the constants.
        aim: the error.
        options: by which operators compute with integers.
        between: quantizes the activations between operators.
    """

    def __init__(
        self,
        found: Sensitivity,
        aim: float,
        options: OptimizationOptions,
        between: ActivationQuantizer,
    ) -> None:
        self._found, self._aim, self._options = found, aim, options
        self._between = between

    def most(self) -> PrecisionAttempt:
        """The attempt with most operators quantized, by multiplications, whatever times they
        take, and then those between them, unless these are slower on the target.
        """
        if self._options.target in _FLOAT32_BETWEEN:
            return self._saving_time(self._found.operators)
        best = self._within(self._found.operators, "speed")
        names = self._between.choose(best.fake_quantized, best.chosen, best.applied.keys())
        return self._with_constants(self._made(best.chosen, names) if names else best)

    def smallest(self) -> PrecisionAttempt:
        """The attempt with the smallest file."""
        constants = self._found.constants(self._found.storable)
        best = self._within(self._found.measured, "size")
        others: list[Callable[[], PrecisionAttempt]] = [
            partial(self._within, constants, "size"),
            lambda: self._in_float16,
        ]
        others += [partial(self._saving_time, each) for each in self._faster()]
        for other in others:
            if self._found.session.budget.is_over():
                break
            attempt = other()
            best = min(best, attempt, key=lambda each: each.size)
            del attempt  # two may not fit into the memory
            release_memory()
        return best

    def fastest(self, settings: SessionSettings) -> PrecisionAttempt:
        """The fastest attempt, with the remaining constants stored in lower precision."""
        given = self._found.preprocessed
        original = Source(given.model, given.folder)
        budget = self._found.session.budget
        attempts = (
            self._within(each, "speed")
            for index, each in enumerate(self._faster())
            if not index or not budget.is_over()
        )
        feeds = self._found.samples.to_time
        best = fastest(original, attempts, feeds, settings) or self._made([])
        release_memory()
        found = self._with_constants(best)
        while best.chosen and (best.error > self._aim or self._is_beaten(found)):
            # it left too little of the error to the constants
            best = self._made(cheapest(best.chosen, [_SMALLER] * len(best.errors)))
            found = self._with_constants(best)
        return self._in_float16 if self._is_beaten(found) else found

    def _is_beaten(self, attempt: PrecisionAttempt) -> bool:
        """Whether the file is smaller with constants in 16 bits alone, which is not made where it
        cannot be.
        """
        given = self._found.preprocessed
        float16 = [each for each in self._found.storable if each.pattern == _FLOAT16]
        bits = sum(
            math.prod(each.shape) * (each.original_bits - each.element_bits) for each in float16
        )
        least = size_of(given.model) - bits / 8
        return attempt.size > least and attempt.size > self._in_float16.size

    def _faster(self) -> list[list[Measured]]:
        """The operators that may make the model faster, and further ones with which they may."""
        limits = (FASTER, *_SLOWER) if self._found.preprocessed.observed.ranges else (FASTER,)
        found = [worthwhile(self._found.operators, limit) for limit in limits]
        return [each for index, each in enumerate(found) if each and each not in found[:index]]

    def _saving_time(self, candidates: Sequence[Measured]) -> PrecisionAttempt:
        """The attempt that the goal ``speed`` makes of some operators."""
        return self._with_constants(self._within(candidates, "speed"))

    @cached_property
    def _in_float16(self) -> PrecisionAttempt:
        """The attempt that ``--precision float16`` makes."""
        float16 = [each for each in self._found.storable if each.pattern == _FLOAT16]
        return self._within(self._found.constants(float16), "size")

    def _with_constants(self, attempt: PrecisionAttempt) -> PrecisionAttempt:
        """The attempt with constants stored in lower precision, for what it leaves of the error."""
        left = large_constants(attempt.fake_quantized)
        some = [each for each in self._found.storable if each.weights in left]
        return self._within(self._found.constants(some), "size", attempt)

    def _within(
        self, candidates: Sequence[Measured], goal: Goal, base: PrecisionAttempt | None = None
    ) -> PrecisionAttempt:
        """The cheapest candidates, fewer of them until the result keeps the error.

        A choice is tried operator by operator; neighbours that compute with integers round
        elsewhere, so that the error of the result differs. Squares of errors add up, so that as
        many are kept as have the part of the square that is allowed.

        Args:
            candidates: operators and constants.
            goal: what is to be saved.
            base: what is quantized already, and stays so.
        """
        found, aim = self._found, self._aim
        given = [] if base is None else [*base.chosen]
        along = candidates if base is None else found.measured
        search = found.session, candidates, found.samples, aim, goal, given, along
        chosen = choose(*search, on_step=found.on_step)
        for _ in range(_ATTEMPTS):
            if not chosen:
                break
            made = self._made([*given, *chosen], () if base is None else base.activations)
            if made.error <= aim:
                return made
            chosen = cheapest(chosen, parts_within(made.errors, aim))
        return base or self._made([])

    def _made(
        self, chosen: Sequence[Measured], activations: tuple[str, ...] = ()
    ) -> PrecisionAttempt:
        """The attempt that quantizes some operators and activations, and stores some constants."""
        found, given = self._found, self._found.preprocessed
        every = [each.candidate for each in found.measured]
        forms = with_dependents((each.candidate for each in chosen), every)
        stored = [each.candidate for each in chosen if each.candidate.is_weight_only]
        names = {each.form: each.weights for each in stored}
        operators = dict(form for form in forms.items() if form not in names)
        fake, applied = fake_quantized(
            given.model,
            given.folder,
            found.patterns,
            operators,
            self._options.provider,
            given.observed,
            self._options.cpu,
        )
        constants = {names[form]: form[1] for form in forms.items() if form in names}
        fake, done = found.weight_only.store(fake, constants)
        results = {(name, form[1]): form[0] for form, name in names.items()}
        applied |= {results[form]: form[1] for form in done.items()}
        if activations:
            fake = self._between.written(fake, activations)
        computing = replace(self._options, on_application=None)
        model = rewritten(Source(fake, given.folder), computing)
        measured = found.session.reference.errors_of(model, given.folder)
        expected = expected_errors(chosen) or measured
        errors = tuple(
            max(error, CERTAIN * other) for error, other in zip(measured, expected, strict=True)
        )
        timed = fake if done else model
        return PrecisionAttempt(fake, applied, timed, errors, chosen, size_of(model), activations)
