"""Choices of products, tried together: what counts is the error and the time of the model that comes out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import onnx

from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.optimizing.builder import GraphBuilder
from xoptim.precision.choosing import choose
from xoptim.precision.measuring import Sensitivity, schemes_that_save_time
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.ports import fitting
from xoptim.precision.products import FASTER, Product, round_products, with_followers, worthwhile
from xoptim.precision.samples import Samples
from xoptim.precision.times import best_times
from xoptim.validate.session import Session, SessionSettings

_ATTEMPTS: Final = 6
_SMALLER: Final = 0.9
"""Part of the next error that is aimed at, where a whole does not keep the tolerance."""
_SLOWER: Final = (1.3, float("inf"))
"""Products that take so much of the time alone may save conversions between others."""
_WHOLE: Final = 0.98
"""A whole that takes more than this part of the time is not worth its error."""
_SECONDS: Final = 0.5
_UNSEEN: Final = 0.4
"""Part of the tolerance that is kept for values that are not among the samples, where there is one; less the more there are."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A model with some products rounded.

    Attributes:
        rounded: with rounded operands, computed in floats.
        patterns: results that were rounded, with the names of the patterns.
        model: computed with integers.
    """

    rounded: onnx.ModelProto
    patterns: dict[str, str]
    model: onnx.ModelProto


def best_attempt(
    found: Sensitivity, precision: PrecisionOptions, options: OptimizationOptions, settings: SessionSettings
) -> Attempt:
    """The fastest model that keeps the tolerance, or for the goal ``size`` the one with most products rounded.

    Where tensors between operators are integers, a product that is not faster alone may save conversions, so that more than
    one choice is measured. Where none is faster than floats, nothing is rounded.

    Args:
        found: the products.
        precision: the error allowed.
        options: by which integers are computed with.
        settings: of the sessions that are measured.
    """
    if precision.goal == "size" or precision.scheme not in schemes_that_save_time():
        return _attempt(found, found.products, precision, options)
    sets = [worthwhile(found.products, limit) for limit in ((FASTER, *_SLOWER) if found.observed.ranges else (FASTER,))]
    different = [each for place, each in enumerate(sets) if each not in sets[:place]]
    attempts = [_attempt(found, each, precision, options) for each in different]
    return fastest(found, attempts, settings) or _attempt(found, [], precision, options)


def fastest(found: Sensitivity, attempts: Iterable[Attempt], settings: SessionSettings) -> Attempt | None:
    """The fastest attempt, ``None`` when none is faster than the model."""
    rounding = [each for each in attempts if each.patterns]
    sessions = [Session(each, settings, base_dir=found.folder) for each in (found.model, *(each.model for each in rounding))]
    feeds = found.samples.to_time
    plain, *times = best_times([each.runner(fitting(feeds, each.inputs)) for each in sessions], settings, _SECONDS)
    best = min(range(len(times)), key=times.__getitem__, default=None)
    return None if best is None or times[best] > _WHOLE * plain else rounding[best]


def allowance(precision: PrecisionOptions, samples: Samples) -> float:
    """The error to aim at: less than the tolerance, as values that are not among the samples may err more."""
    return precision.tolerance * (1 - _UNSEEN / len(samples.feeds))


def _attempt(
    found: Sensitivity, candidates: Sequence[Product], precision: PrecisionOptions, options: OptimizationOptions
) -> Attempt:
    """The cheapest candidates rounded, fewer of them until the result keeps the tolerance.

    A choice is tried product by product; neighbours that are integers round at other places, so that the error of the result
    differs. The next choice is made for an error that is smaller in the same ratio.
    """
    limit = aim = allowance(precision, found.samples)
    for _ in range(_ATTEMPTS):
        taken = choose(found.trial, candidates, found.samples, limit)
        forms = with_followers(taken, found.products)
        rounded, applied = round_products(found.model, found.folder, found.patterns, forms, options.provider, found.observed)
        builder = GraphBuilder(Source(rounded, found.folder), optimization_options=replace(options, on_application=None))
        model = builder.to_onnx()
        error = found.trial.error_of(model, found.folder)
        if not taken or error <= aim:
            return Attempt(rounded, applied, model)
        limit *= _SMALLER * aim / error
    return _attempt(found, [], precision, options)
