"""Tuning: the search for the fastest model and session, the proof, and the files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Unpack

import onnx

from xoptim.bench.profile import profile
from xoptim.bench.ratio import Ratio
from xoptim.builder import GraphBuilder
from xoptim.facts.errors import ModelError
from xoptim.graph.save import save_proto
from xoptim.graph.sources import Source
from xoptim.optimize.options import OptimizationOptions
from xoptim.proof import Proof, ProofOptions, located, prove
from xoptim.tune.candidates import EVERYTHING, SELECTION, UNTOUCHED, Choice, Facts, Recipe, default_recipe, variations
from xoptim.tune.meter import Budget, SideBySide
from xoptim.tune.options import TuneChanges, TuneOptions
from xoptim.tune.report import TuningReport
from xoptim.tune.search import Found, Rules, Search, Trial, confirm, is_faster, ranking
from xoptim.tune.settings import settings_path, settings_text
from xoptim.tune.workshop import Workshop
from xoptim.validate.errors import LoadError, RunError
from xoptim.validate.memory import COPIES, available_memory, weight_bytes
from xoptim.validate.reference import ReferenceRun, run_reference
from xoptim.validate.session import SessionSettings

Listener = Callable[[str], object]
_PROFILED: float = 0.3
"""Seconds of the runs of one model in the profiler."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The fastest model that was found and proved equal, and the settings of its session.

    Attributes:
        model: the model.
        report: the measurements, and the settings.
        base_dir: folder of the external data of the model.
    """

    model: onnx.ModelProto
    report: TuningReport
    base_dir: Path | None

    @property
    def settings(self) -> SessionSettings:
        """The settings of the session."""
        return self.report.settings

    def save(self, target: str | Path, *, external: bool | None = None) -> list[Path]:
        """Write the model, and the settings to ``TARGET.session.json``: both, or none.

        Args:
            target: the file of the model.
            external: see `xoptim.save_proto`.

        Returns:
            The files written.

        Raises:
            ModelError: a file cannot be written; nothing has changed then.
        """
        path = Path(target)
        settings = settings_path(path)
        if settings.is_dir():
            raise ModelError(f"cannot write {str(settings)!r}: it is a folder")
        return save_proto(
            self.model, path, self.base_dir, external=external, along={settings: settings_text(self.settings).encode()}
        )


def tune(
    model: Any,
    options: TuneOptions | None = None,
    *,
    on_step: Listener = lambda _: None,
    on_loaded: Callable[[GraphBuilder], object] = lambda _: None,
    **changes: Unpack[TuneChanges],
) -> Tuned:
    """Find by measuring which patterns and which settings of the session let a model run fastest on this machine.

    The search begins with the preset ``default`` and onnxruntime's default settings; only what is measurably faster replaces
    them. The model that is returned was proved equal to the original, and is not measurably slower.

    Args:
        model: a model of any kind that `xoptim.optimize` takes.
        options: the options.
        on_step: called with a description of each step.
        on_loaded: called when the model is loaded, before any rewrite.
        **changes: fields of `TuneOptions` that differ from ``options``.

    Raises:
        ModelError: the model cannot be read.
        LoadError: onnxruntime refuses the model.
        FeedError: an input cannot be fed.
        RunError: the model cannot run on the values.
        ProviderUnavailable: onnxruntime lacks the execution provider.
    """
    return Tuner(Source(model), replace(options or TuneOptions(), **changes), on_step, on_loaded).run()


class Tuner:
    """One run of `tune`.

    Args:
        source: the original.
        options: the options.
        on_step: called with a description of each step.
        on_loaded: called when the model is loaded, before any rewrite.
    """

    def __init__(
        self, source: Source, options: TuneOptions, on_step: Listener, on_loaded: Callable[[GraphBuilder], object]
    ) -> None:
        self._began = perf_counter()
        self._options = options
        self._on_step = on_step
        self._on_loaded = on_loaded
        self._budget = Budget(options.budget)
        self._shop = Workshop(source, OptimizationOptions(patterns=SELECTION, provider=options.provider))
        self._refuted: list[tuple[str, str]] = []
        self._proofs: dict[Recipe, Proof] = {}
        settings = options.bench.settings
        self._original = Choice(UNTOUCHED, settings)
        self._start = Choice(default_recipe(), settings)

    def run(self) -> Tuned:
        """Measure, choose and prove."""
        rules = Rules(at_once=self._at_once())
        self._on_step("choosing values")
        reference = self._reference()
        seconds = -perf_counter()
        failure = self._prove(self._start.recipe).failure
        if failure is not None:
            self._refuted.append(("default", failure.summary()))
            self._start = self._original
        seconds += perf_counter()
        self._budget.keep(seconds, passes=3 * rules.enough)
        facts = self._facts(reference)
        meter = self._meter(reference)
        found = self._search(facts, meter, rules)
        self._on_step("measuring the result")
        final = confirm(self._original, [self._start, found.best, self._original], self._meter(reference), rules)
        others = [(each.choice, each.ratio) for each in found.trials if each.ratio is not None]
        others += final.items()
        others.sort(key=lambda each: self._size(each[0].recipe))
        ranked = ranking(found, self._start, final, others)
        return self._settle(ranked, found, final, reference)

    def _at_once(self) -> int:
        """Most challengers of a race for which there is memory, beside the original and the best choice so far."""
        free = available_memory()
        size = COPIES * max(1, weight_bytes(self._shop.source.proto))
        most = Rules().at_once
        return most if free is None else max(1, min(most, free // (2 * size) - 2))

    def _reference(self) -> ReferenceRun:
        original, checks = located(self._shop.source, self._options.bench.checks)
        return run_reference(original, checks).runs[0]

    def _meter(self, reference: ReferenceRun) -> SideBySide:
        return SideBySide(self._shop.make, reference.feeds, self._budget, self._options.seed)

    def _size(self, recipe: Recipe) -> tuple[int, int]:
        made = self._shop.describe(recipe)
        return made.nodes, made.size

    def _facts(self, reference: ReferenceRun) -> Facts:
        """The groups that apply, and the operators that take the time."""
        self._on_step("profiling")
        recipes = dict.fromkeys((self._start.recipe, Recipe()))
        shares: dict[str, float] = {}
        for recipe in recipes:
            with suppress(LoadError, RunError):  # the race finds that too, and says so
                times = self._profile(recipe, reference)
                total = sum(times.values()) or 1.0
                shares |= {name: max(seconds / total, shares.get(name, 0.0)) for name, seconds in times.items()}
        facts = Facts(shares=shares)
        groups: dict[str, float] = {}
        for recipe in recipes:
            for name, written in self._shop.describe(recipe).written.items():
                groups[name] = max(groups.get(name, 0.0), facts.share(written))
        return replace(facts, groups=groups, threads=self._threads())

    def _profile(self, recipe: Recipe, reference: ReferenceRun) -> dict[str, float]:
        """Seconds of each operator in a run."""
        model, base_dir = self._shop.make(recipe)
        options = replace(self._options.bench, feeds=reference.feeds, dims={}, test_data=None, seconds=_PROFILED)
        found = profile({"": model}, options, base_dirs={} if base_dir is None else {"": base_dir})
        return {name: each.seconds for name, each in found[""].items()}

    def _threads(self) -> tuple[int, ...]:
        cores = os.cpu_count() or 1
        return () if self._options.threads else tuple(sorted({1, max(1, cores // 2), cores}))

    def _search(self, facts: Facts, meter: SideBySide, rules: Rules) -> Found:
        def changes_anything(choice: Choice, best: Choice) -> bool:
            if choice.recipe == best.recipe:
                return True
            return self._shop.describe(choice.recipe).digest != self._shop.describe(best.recipe).digest

        search = Search(self._original, lambda best: variations(best, facts, EVERYTHING), meter, rules, changes_anything)
        return search.run(self._start, on_step=self._on_step)

    def _prove(self, recipe: Recipe) -> Proof:
        if recipe not in self._proofs:
            how = ProofOptions(checks=self._options.checks, bisect=False, on_loaded=self._on_loaded, on_step=self._on_step)
            self._proofs[recipe] = prove(self._shop.source, self._shop.options(recipe), how)
        return self._proofs[recipe]

    def _settle(self, ranked: list[Choice], found: Found, final: Mapping[Choice, Ratio], reference: ReferenceRun) -> Tuned:
        """The first choice that is proved equal; the original in the end."""
        labels = {trial.choice: trial.label for trial in found.trials} | {self._start: "default", self._original: "original"}
        for choice in (*ranked, self._original):
            proof = self._prove(choice.recipe)
            if proof.failure is None or choice == self._original:
                break
            self._refuted.append((labels[choice], proof.failure.summary()))
        ratio, optimized = final.get(choice), proof.report
        report = TuningReport(
            trials=(Trial(labels[self._start], self._start, "start", final[self._start]), *found.trials),
            changes=found.changes if choice == found.best else (),
            label=labels[choice],
            is_original=not choice.recipe.rewrites,
            ratio=ratio,
            is_faster=ratio is not None and is_faster(ratio),
            settings=choice.settings,
            optimization=optimized,
            left=found.left,
            seconds=perf_counter() - self._began,
            sizes=reference.sizes,
            options=self._options,
            refuted=tuple(self._refuted),
        )
        return Tuned(proof.proto, report, proof.builder.model.base_dir)
