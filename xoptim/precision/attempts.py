"""Choices of products, tried together: what counts is the error and the time of the model that
comes out.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import onnx

from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source, size_of
from xoptim.precision.choosing import CERTAIN, cheapest, choose, expected_error
from xoptim.precision.measuring import Sensitivity, measure_errors
from xoptim.precision.options import Goal, PrecisionOptions
from xoptim.precision.ports import fitting
from xoptim.precision.products import (
    FASTER,
    QuantizableOp,
    rewritten,
    round_products,
    with_followers,
    worthwhile,
)
from xoptim.precision.samples import Samples
from xoptim.precision.storing import large_constants
from xoptim.precision.times import best_times
from xoptim.system.machine import release_memory
from xoptim.verification.session import Session
from xoptim.verification.session_settings import SessionSettings

_ATTEMPTS: Final = 6
_SMALLER: Final = 0.9
"""Part of the square of the error that is aimed at next, where a whole does not keep the
tolerance.
"""
_SLOWER: Final = (1.3, float("inf"))
"""Products that take so much of the time alone may save conversions between others."""
_WHOLE: Final = 0.98
"""A whole that takes more than this part of the time is not worth its error."""
_NOISE: Final = 0.03
"""Part of the time by which two attempts must differ, so that a second run chooses the same one."""
_SECONDS: Final = 0.5
_HALF: Final = "Float16Weights"
"""The pattern by which ``--precision float16`` stores constants."""
_UNSEEN: Final = 0.4
"""Part of the tolerance that is kept for values that are not among the samples, where there is one;
less the more there are.
"""


@dataclass(frozen=True, slots=True)
class PrecisionAttempt:
    """A model with some products rounded, and some constants stored in fewer bits.

    Attributes:
        rounded: with rounded operands, computed in floats.
        patterns: results that were rounded, and constants that were stored, with the names of the
            patterns.
        model: computed with integers; the rounded one where constants were stored, as its time does
            not count then.
        error: of the model on all samples, or what counts of the one that is expected of its
            products, if that is larger.
        taken: the products and the constants, in the order in which they were chosen.
        size: bytes of the file.
    """

    rounded: onnx.ModelProto
    patterns: dict[str, str]
    model: onnx.ModelProto
    error: float = 0.0
    taken: Sequence[QuantizableOp] = ()
    size: int = 0


def best_attempt(
    found: Sensitivity,
    precision: PrecisionOptions,
    options: OptimizationOptions,
    settings: SessionSettings,
) -> PrecisionAttempt:
    """The fastest model that keeps the tolerance, or for the goal ``size`` the smallest one.

    Where tensors between operators are integers, a product that is not faster alone may save
    conversions, so that more than one choice is measured. Where none is faster than floats, no
    product is rounded. Constants that stay in floats are stored in fewer bits, which costs no time.
    No file is larger than the one with constants in 16 bits alone.

    Args:
        found: the products, and the constants.
        precision: the error allowed.
        options: by which integers are computed with.
        settings: of the sessions that are measured.
    """
    attempts = _Attempts(found, allowance(precision, found.samples), options)
    best = attempts.smallest() if found.goal == "size" else attempts.fastest(settings)
    found.trial.finish()
    return best


def fastest(
    found: Sensitivity, attempts: Iterable[PrecisionAttempt], settings: SessionSettings
) -> PrecisionAttempt | None:
    """The fastest attempt, ``None`` when none is faster than the model; of those that are as fast,
    the first one.
    """
    rounding = [each for each in attempts if each.patterns]
    # As CUDA computes floats unless it is asked not to; pipes to another process would be measured
    # too.
    settings = replace(settings, tf32=True, isolated=False)
    sessions = [
        Session(each, settings, base_dir=found.folder)
        for each in (found.model, *(each.model for each in rounding))
    ]
    feeds = found.samples.to_time
    plain, *times = best_times(
        [each.runner(fitting(feeds, each.inputs)) for each in sessions], settings, _SECONDS
    )
    limit = min(min(times, default=plain) * (1 + _NOISE), _WHOLE * plain)
    return next((each for each, time in zip(rounding, times, strict=True) if time <= limit), None)


def allowance(precision: PrecisionOptions, samples: Samples) -> float:
    """The error to aim at: less than the tolerance, as values that are not among the samples may
    err more.
    """
    return precision.tolerance * (1 - _UNSEEN / len(samples.feeds))


class _Attempts:
    """Attempts that keep an error.

    Args:
        found: the products, and the constants.
        aim: the error.
        options: by which integers are computed with.
    """

    def __init__(self, found: Sensitivity, aim: float, options: OptimizationOptions) -> None:
        self._found, self._aim, self._options = found, aim, options
        if found.goal == "speed":
            measure_errors(found.trial, found.stored, found.samples)
        self._every = [*found.products, *found.stored]

    def smallest(self) -> PrecisionAttempt:
        """The attempt with the smallest file."""
        best = self._within(self._every, "size")
        others: list[Callable[[], PrecisionAttempt]] = [
            partial(self._within, self._found.stored, "size"),
            self._in_halves,
        ]
        others += [partial(self._saving_time, each) for each in self._faster()]
        for other in others:
            attempt = other()
            best = min(best, attempt, key=lambda each: each.size)
            del attempt  # two may not fit into the memory
            release_memory()
        return best

    def fastest(self, settings: SessionSettings) -> PrecisionAttempt:
        """The fastest attempt, with the constants that stay in floats stored in fewer bits."""
        attempts = (self._within(each, "speed") for each in self._faster())
        best = fastest(self._found, attempts, settings) or self._made([])
        release_memory()
        found, halves = self._with_stored(best), self._in_halves()
        while best.taken and (best.error > self._aim or found.size > halves.size):
            # it left too little of the error to the others
            best = self._made(cheapest(best.taken, _SMALLER))
            found = self._with_stored(best)
        return min(found, halves, key=lambda each: each.size)

    def _faster(self) -> list[list[QuantizableOp]]:
        """The products that may make the model faster, and further ones with which they may."""
        limits = (FASTER, *_SLOWER) if self._found.observed.ranges else (FASTER,)
        found = [worthwhile(self._found.products, limit) for limit in limits]
        return [each for place, each in enumerate(found) if each and each not in found[:place]]

    def _saving_time(self, candidates: Sequence[QuantizableOp]) -> PrecisionAttempt:
        """The attempt that the goal ``speed`` makes of some products."""
        return self._with_stored(self._within(candidates, "speed"))

    def _in_halves(self) -> PrecisionAttempt:
        """The attempt that ``--precision float16`` makes."""
        return self._within([each for each in self._found.stored if each.pattern == _HALF], "size")

    def _with_stored(self, attempt: PrecisionAttempt) -> PrecisionAttempt:
        """The attempt with constants stored in fewer bits, for what it leaves of the error."""
        left = large_constants(attempt.rounded)
        some = [each for each in self._found.stored if each.weights in left]
        return self._within(some, "size", attempt)

    def _within(
        self, candidates: Sequence[QuantizableOp], goal: Goal, base: PrecisionAttempt | None = None
    ) -> PrecisionAttempt:
        """The cheapest candidates, fewer of them until the result keeps the error.

        A choice is tried product by product; neighbours that are integers round at other places, so
        that the error of the result differs. Squares of errors add up, so that as many are kept as
        have the part of the square that is allowed.

        Args:
            candidates: products, and constants.
            goal: what is to be saved.
            base: what is rounded already, and stays so.
        """
        found, aim, given = self._found, self._aim, [] if base is None else [*base.taken]
        along = candidates if base is None else self._every
        taken = choose(found.trial, candidates, found.samples, aim, goal, given, along)
        for _ in range(_ATTEMPTS):
            if not taken:
                break
            made = self._made([*given, *taken])
            if made.error <= aim:
                return made
            taken = cheapest(taken, _SMALLER * (aim / made.error) ** 2)
        return base or self._made([])

    def _made(self, taken: Sequence[QuantizableOp]) -> PrecisionAttempt:
        """The attempt that rounds some products, and stores some constants."""
        found = self._found
        forms, stored = (
            with_followers(taken, self._every),
            {each.form: each.weights for each in taken if each.is_stored},
        )
        operators = {
            result: pattern for result, pattern in forms.items() if (result, pattern) not in stored
        }
        rounded, applied = round_products(
            found.model,
            found.folder,
            found.patterns,
            operators,
            self._options.provider,
            found.observed,
        )
        constants = {stored[form]: form[1] for form in forms.items() if form in stored}
        rounded, done = found.weights.store(rounded, constants)
        results = {(name, form[1]): form[0] for form, name in stored.items()}
        applied |= {results[form]: form[1] for form in done.items()}
        model = rewritten(
            Source(rounded, found.folder), replace(self._options, on_application=None)
        )
        error = max(found.trial.error_of(model, found.folder), CERTAIN * expected_error(taken))
        return PrecisionAttempt(
            rounded, applied, rounded if done else model, error, taken, size_of(model)
        )
