"""An optimization that is kept where it is not measurably slower: ``xopt MODEL
--only-if-faster``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from xoptim.bench.options import BenchOptions
from xoptim.bench.rounds import Ratio
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.json_results import JsonForm, JsonResult, within
from xoptim.graph.sources import Source
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import VerifiedModel, optimize_verified
from xoptim.tuning.candidates import Candidates
from xoptim.tuning.choices import PATTERNS, Choice, Recipe
from xoptim.tuning.measurement import Budget, Measurement
from xoptim.tuning.search import Meter, confirm, is_faster, is_slower

SECONDS: Final = 120.0
"""Time for the search for the patterns that make a model slower."""


@dataclass(frozen=True, slots=True)
class SpeedCheck(JsonResult):
    """The measurements of ``--only-if-faster``.

    In JSON, ``ratio`` and ``interval`` are about the model that is kept.

    Attributes:
        before: the ratio with all patterns.
        after: the ratio of the result that is kept; ``None`` for the original.
        dropped: groups of patterns that were skipped because they made the model slower.
        is_original: whether the original is kept.
    """

    __json__ = JsonForm(
        *within("after", Ratio), "is_faster is_original dropped with_all=before", name="Speed"
    )
    before: Ratio
    after: Ratio | None
    dropped: tuple[str, ...] = ()  # see `groups_of`
    is_original: bool = False  # because every result was slower

    @property
    def is_faster(self) -> bool:
        """Whether the model that is kept is measurably faster than the original."""
        return self.after is not None and is_faster(self.after)

    def summary(self) -> str:
        """The outcome in one line."""
        if self.is_original:
            return (
                f"time / original {self.before}: slower, whichever patterns are dropped; the "
                "original is kept"
            )
        if not self.dropped:
            return f"time / original {self.after}"
        return (
            f"time / original {self.before}: slower; without {', '.join(self.dropped)}: "
            f"{self.after}"
        )


def keep_if_not_slower(
    model: Source | str | Path,
    verified: VerifiedModel,
    options: OptimizationOptions,
    plan: Plan,
    bench: BenchOptions,
    *,
    on_step: Callable[[str], object] = lambda _: None,
) -> tuple[VerifiedModel, SpeedCheck]:
    """Measure an optimized model, and drop the patterns that make it slower than the original.

    Groups of patterns are dropped one by one, first the one without which the model is fastest. If
    the model is still slower, no pattern is applied: constants are folded, equal nodes merged and
    unused ones removed. If this model is slower as well, the original stays as it is. Returns the
    model to keep, and the measurements. Raises `XoptimError` when the original or the result cannot
    be measured.

    ``verified`` was made with ``options`` and ``plan``; another result is verified in the same way.
    """
    source = model if isinstance(model, Source) else Source(model)
    for culprit in verified.dropped:
        options = culprit.avoided_by(options)
    on_step("measuring")
    bench = replace(
        bench,
        assume=(*bench.assume, *options.assume),
        assume_from_model=bench.assume_from_model or options.assume_from_model,
    )
    # All models that are measured keep their inputs, so that they get the same feeds.
    candidates = Candidates(
        source, replace(options, drop_unused_inputs=False), inline=plan.load.inline
    )
    measurement = Measurement(candidates, bench, Budget(SECONDS))
    result = replace(measurement.original, recipe=Recipe())
    meter = measurement.meter()
    before = confirm(measurement.original, [result], meter, measurement.rules)[result]
    if not is_slower(before):
        return verified, SpeedCheck(before, before)
    choice, ratio = _without_slower(measurement, result, meter, on_step)
    final_options = replace(
        candidates.options(choice.recipe), drop_unused_inputs=options.drop_unused_inputs
    )
    final_model = optimize_verified(source, final_options, plan)
    final_model.dropped = verified.dropped + final_model.dropped
    return final_model, SpeedCheck(
        before, ratio, tuple(sorted(choice.recipe.without)), not choice.recipe.rewrites
    )


def _without_slower(
    measurement: Measurement, result: Choice, meter: Meter, on_step: Callable[[str], object]
) -> tuple[Choice, Ratio | None]:
    """A choice that is not slower than the original, and its ratio.

    It is the result of the search, or else the choice with no group of patterns. If both are
    slower, the original is returned, without a ratio.
    """
    on_step("the result is slower: looking for the reason")
    facts = measurement.study([result.recipe])

    def is_enough(choice: Choice) -> bool:
        return choice != result and not is_slower(meter.ratio(choice, measurement.original))

    search_result = measurement.search(
        result, facts, PATTERNS, meter, is_enough=is_enough, on_step=on_step
    )
    for choice in dict.fromkeys(
        (search_result.best, replace(result, recipe=Recipe(frozenset(facts.groups))))
    ):
        if choice != result:
            on_step("measuring the result")
            ratio = confirm(measurement.original, [choice], meter, measurement.rules)[choice]
            if not is_slower(ratio):
                return choice, ratio
    return measurement.original, None


@dataclass(frozen=True, slots=True)
class NotSlower:
    """The step of a job that drops the patterns that make a result slower."""

    bench: BenchOptions

    def __call__(
        self, source: Source, verified: VerifiedModel, options: OptimizationOptions, plan: Plan
    ) -> tuple[VerifiedModel, SpeedCheck]:
        """The result to keep, and the measurements.

        Raises XoptimError when one of the models cannot be measured.
        """
        return keep_if_not_slower(
            source, verified, options, plan, self.bench, on_step=plan.sink.on_step
        )
