"""The stand on which the choices for one model are measured: its values, its clock, and the facts that order the search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from xoptim.bench.options import BenchOptions
from xoptim.bench.profile import profile
from xoptim.proof import located
from xoptim.tuning.candidates import UNTOUCHED, Choice, Dimension, Facts, Recipe, variations
from xoptim.tuning.meter import Budget, SideBySide
from xoptim.tuning.search import Found, Meter, Rules, Search
from xoptim.tuning.workshop import Workshop
from xoptim.validate.errors import LoadError, RunError
from xoptim.validate.memory import COPIES, available_memory, weight_bytes
from xoptim.validate.reference import run_reference
from xoptim.validate.runs import ReferenceRun

PROFILED: Final = 0.3
"""Seconds of the runs of one model in the profiler."""


class Stand:
    """A model with everything that measuring its choices needs.

    Attributes:
        shop: makes the models.
        reference: a run of the original on the values of all measurements.
        original: the original with the settings of the benchmark.
        budget: the time.
        rules: of the races, with as many challengers at once as there is memory for.

    Args:
        shop: makes the models.
        bench: the options of the measurements.
        budget: the time.

    Raises:
        LoadError: onnxruntime refuses the original.
        FeedError: an input cannot be fed.
        RunError: the original cannot run.
        ProviderUnavailable: onnxruntime lacks the execution provider.
    """

    def __init__(self, shop: Workshop, bench: BenchOptions, budget: Budget) -> None:
        self.shop = shop
        self.budget = budget
        self._bench = bench
        self.original = Choice(UNTOUCHED, bench.settings)
        original, checks = located(shop.source, bench.checks)
        self.reference: ReferenceRun = run_reference(original, checks).runs[0]
        self.rules = Rules(at_once=self._at_once())

    def _at_once(self) -> int:
        """Most challengers of a race for which there is memory, beside the original and the best choice so far."""
        free = available_memory()
        size = COPIES * max(1, weight_bytes(self.shop.source.proto))
        most = Rules().at_once
        return most if free is None else max(1, min(most, free // (2 * size) - 2))

    def meter(self) -> Meter:
        """A meter without measurements."""
        return SideBySide(self.shop.make, self.reference.feeds, self.budget, self._bench.seed)

    def study(self, recipes: Iterable[Recipe]) -> Facts:
        """The groups of patterns that apply in the models of some recipes, and the operators that take the time."""
        recipes = list(dict.fromkeys(recipes))
        shares: dict[str, float] = {}
        for recipe in recipes:
            with suppress(LoadError, RunError):  # the race finds that too, and says so
                times = self._profile(recipe)
                total = sum(times.values()) or 1.0
                shares |= {name: max(seconds / total, shares.get(name, 0.0)) for name, seconds in times.items()}
        facts = Facts(shares=shares)
        groups: dict[str, float] = {}
        for recipe in recipes:
            for name, written in self.shop.describe(recipe).written.items():
                groups[name] = max(groups.get(name, 0.0), facts.share(written))
        return replace(facts, groups=groups)

    def _profile(self, recipe: Recipe) -> dict[str, float]:
        """Seconds of each operator in a run."""
        model, base_dir = self.shop.make(recipe)
        options = replace(self._bench, feeds=self.reference.feeds, dims={}, test_data=None, seconds=PROFILED)
        found = profile({"": model}, options, base_dirs={} if base_dir is None else {"": base_dir})
        return {name: each.seconds for name, each in found[""].items()}

    def search(
        self,
        start: Choice,
        facts: Facts,
        dimensions: tuple[Dimension, ...],
        meter: Meter,
        *,
        is_enough: Callable[[Choice], bool] = lambda _: False,
        on_step: Callable[[str], object] = lambda _: None,
    ) -> Found:
        """Search from a choice in some dimensions; see `Search.run`."""
        search = Search(
            self.original, lambda best: variations(best, facts, dimensions), meter, self.rules, self._changes_anything
        )
        return search.run(start, is_enough=is_enough, on_step=on_step)

    def _changes_anything(self, choice: Choice, best: Choice) -> bool:
        """Whether two choices with other recipes have other models."""
        if choice.recipe == best.recipe:
            return True
        return self.shop.describe(choice.recipe).digest != self.shop.describe(best.recipe).digest
