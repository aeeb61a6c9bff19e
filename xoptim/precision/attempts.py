"""Choices of products, tried together: what counts is the error and the time of the model that comes out."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Final

import onnx

from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.match.rounding import RoundingPattern
from xoptim.precision.choosing import CERTAIN, cheapest, choose, expected_error
from xoptim.precision.measuring import Sensitivity, measure_errors, rounding_patterns
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.ports import fitting
from xoptim.precision.products import FASTER, Product, find_products, rewritten, round_products, with_followers, worthwhile
from xoptim.precision.samples import Samples
from xoptim.precision.times import best_times
from xoptim.system.machine import release_memory
from xoptim.validate.session import Session, SessionSettings

_ATTEMPTS: Final = 6
_SMALLER: Final = 0.9
"""Part of the square of the error that is aimed at next, where a whole does not keep the tolerance."""
_SLOWER: Final = (1.3, float("inf"))
"""Products that take so much of the time alone may save conversions between others."""
_WHOLE: Final = 0.98
"""A whole that takes more than this part of the time is not worth its error."""
_NOISE: Final = 0.03
"""Part of the time by which two attempts must differ, so that a second run chooses the same one."""
_SECONDS: Final = 0.5
_ENOUGH: Final = 0.95
"""Part of what products save that must be left when some are given back so that weights can be stored in fewer bits."""
_DRAWS: Final = 3
"""Choices that are tried in turn where weights that stay in floats cannot be stored in fewer bits."""
_UNSEEN: Final = 0.4
"""Part of the tolerance that is kept for values that are not among the samples, where there is one; less the more there are."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A model with some products rounded.

    Attributes:
        rounded: with rounded operands, computed in floats.
        patterns: results that were rounded, with the names of the patterns.
        model: computed with integers; the rounded one where only weights were stored after that was measured.
        error: of the model on all samples, or what counts of the one that is expected of its products, if that is larger.
        taken: the products, in the order in which they were chosen.
    """

    rounded: onnx.ModelProto
    patterns: dict[str, str]
    model: onnx.ModelProto
    error: float = 0.0
    taken: Sequence[Product] = ()


def best_attempt(
    found: Sensitivity, precision: PrecisionOptions, options: OptimizationOptions, settings: SessionSettings
) -> Attempt:
    """The fastest model that keeps the tolerance, or for the goal ``size`` the smallest one.

    Where tensors between operators are integers, a product that is not faster alone may save conversions, so that more than
    one choice is measured. Where none is faster than floats, no product is rounded. Weights that stay in floats are stored in
    8 or 16 bits.

    Args:
        found: the products.
        precision: the error allowed.
        options: by which integers are computed with.
        settings: of the sessions that are measured.
    """
    limits = (FASTER, *_SLOWER) if found.observed.ranges else (FASTER,)
    sets = [found.products] if found.goal == "size" else [worthwhile(found.products, limit) for limit in limits]
    attempts = [_attempt(found, each, precision, options) for place, each in enumerate(sets) if each not in sets[:place]]
    found.trial.finish()
    if found.goal == "size":
        return attempts[0]
    best = fastest(found, attempts, settings) or _made(found, [], options)
    return _smaller(found, best, allowance(precision, found.samples), options)


def fastest(found: Sensitivity, attempts: Iterable[Attempt], settings: SessionSettings) -> Attempt | None:
    """The fastest attempt, ``None`` when none is faster than the model; of those that are as fast, the first one."""
    rounding = [each for each in attempts if each.patterns]
    settings = replace(settings, tf32=True)  # as CUDA computes floats unless it is asked not to
    sessions = [Session(each, settings, base_dir=found.folder) for each in (found.model, *(each.model for each in rounding))]
    feeds = found.samples.to_time
    plain, *times = best_times([each.runner(fitting(feeds, each.inputs)) for each in sessions], settings, _SECONDS)
    limit = min(min(times, default=plain) * (1 + _NOISE), _WHOLE * plain)
    return next((each for each, time in zip(rounding, times, strict=True) if time <= limit), None)


def allowance(precision: PrecisionOptions, samples: Samples) -> float:
    """The error to aim at: less than the tolerance, as values that are not among the samples may err more."""
    return precision.tolerance * (1 - _UNSEEN / len(samples.feeds))


def _attempt(
    found: Sensitivity, candidates: Sequence[Product], precision: PrecisionOptions, options: OptimizationOptions
) -> Attempt:
    """The cheapest candidates rounded, fewer of them until the result keeps the tolerance.

    A choice is tried product by product; neighbours that are integers round at other places, so that the error of the result
    differs. Squares of errors add up, so that as many are kept as have the part of the square that is allowed.
    """
    aim = allowance(precision, found.samples)
    taken = choose(found.trial, candidates, found.samples, aim, found.goal)
    for _ in range(_ATTEMPTS):
        made = _made(found, taken, options)
        if found.goal == "size":  # half of the bytes that are left may count for more than a product
            made = next(_stored(found, made, aim, options), made)
        if made.error <= aim:
            return made
        if not taken:
            break
        taken = cheapest(taken, _SMALLER * (aim / made.error) ** 2)
    return _made(found, [], options)


def _smaller(found: Sensitivity, best: Attempt, aim: float, options: OptimizationOptions) -> Attempt:
    """The attempt with the weights that stay in floats stored in fewer bits, with fewer products where that errs too much."""
    limit = max(aim, best.error)
    for attempt in islice(_giving_back(found, best, options), _DRAWS):
        for each in _stored(found, attempt, limit, options):
            if each.error <= limit:
                return each
            del each  # two may not fit into the memory
            release_memory()
    return best


def _giving_back(found: Sensitivity, best: Attempt, options: OptimizationOptions) -> Iterator[Attempt]:
    """The attempt, then with ever fewer products, as long as these save nearly as much."""
    yield best
    taken = cheapest(best.taken, _SMALLER)
    while taken and _work(taken) >= _ENOUGH * _work(best.taken):
        yield _made(found, taken, options)
        taken = cheapest(taken, _SMALLER)


def _work(products: Iterable[Product]) -> float:
    """The multiplications that products save; of several forms of one the last counts."""
    return sum({each.result: each.saved("speed") for each in products}.values())


def _stored(found: Sensitivity, attempt: Attempt, limit: float, options: OptimizationOptions) -> Iterator[Attempt]:
    """The attempt with the weights that stay in floats stored in 8 or 16 bits; then all but one of the smallest.

    Weights are chosen for 8 bits as products are, for what the attempt leaves of the error; then all are stored in 16. What
    they add is measured in floats. Among integers it differs: numbers that are hardly moved round to others there. A scheme of
    16 bits has no such attempts: the weights that it leaves in floats err too much.
    """
    _, left = round_products(attempt.rounded, found.folder, rounding_patterns("float16"), None, options.provider)
    if not left:
        yield attempt
    if not left or attempt.error > limit or all(cls.time == 1 for cls in found.patterns):
        return
    products, parts = find_products(found.model, found.folder, _storing_patterns(), options.provider, only=left.keys())
    halves = sorted((each for each in products if each.is_choice and each.bits == 16), key=lambda each: math.prod(each.shape))
    trial = found.trial.unfolded(found.model, parts, found.folder)
    del parts  # half of the memory: the session has its own
    measure_errors(trial, products, found.samples)
    mixed = choose(trial, products, found.samples, math.sqrt(limit**2 - attempt.error**2), "size")
    trial.finish()
    for choice, out in product(([*halves, *mixed], halves), (None, *halves[:_DRAWS])):
        only = [each for each in choice if out is None or each.result != out.result]
        yield _further(found, attempt, only, with_followers(only, products), options)


def _storing_patterns() -> list[type[RoundingPattern]]:
    """The patterns that store weights of products that stay in floats."""
    return [*rounding_patterns("float16"), *(cls for cls in rounding_patterns("int8") if cls.time == 1)]


def _further(
    found: Sensitivity, attempt: Attempt, only: Iterable[Product], forms: Mapping[str, str], options: OptimizationOptions
) -> Attempt:
    """The attempt with some more weights stored. What computes with integers is measured and not kept, as it is as large."""
    rounded, stored = round_products(attempt.rounded, found.folder, _storing_patterns(), forms, options.provider)
    every = replace(attempt, rounded=rounded, patterns={**attempt.patterns, **stored}, taken=[*attempt.taken, *only])
    return replace(_computed(found, every, options), model=rounded)


def _made(found: Sensitivity, taken: Sequence[Product], options: OptimizationOptions) -> Attempt:
    """The attempt that rounds some products."""
    forms = with_followers(taken, found.products)
    rounded, applied = round_products(found.model, found.folder, found.patterns, forms, options.provider, found.observed)
    return _computed(found, Attempt(rounded, applied, rounded, taken=taken), options)


def _computed(found: Sensitivity, attempt: Attempt, options: OptimizationOptions) -> Attempt:
    """The attempt that computes with the integers of a rounded model."""
    model = rewritten(Source(attempt.rounded, found.folder), replace(options, on_application=None))
    error = max(found.trial.error_of(model, found.folder), CERTAIN * expected_error(attempt.taken))
    return replace(attempt, model=model, error=error)
