"""Tuning: the search for the fastest model and session, the verification, and the files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Unpack

import onnx

from xoptim.bench.rounds import Ratio, common_sizes
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.changes import with_changes
from xoptim.graph.save import save_proto
from xoptim.graph.sources import Source
from xoptim.optimizing.plans import LoadPlan, OnLoaded, Plan, Sink, VerifyPlan
from xoptim.optimizing.verified import VerifiedModel
from xoptim.precision.quantize import joined
from xoptim.precision.schemes import schemes_that_save_time
from xoptim.system.machine import cores
from xoptim.tuning.candidates import Candidates
from xoptim.tuning.choices import EVERYTHING, Choice, Recipe, default_recipe, selection
from xoptim.tuning.measurement import Budget, Measurement
from xoptim.tuning.options import TuneChanges, TuneOptions
from xoptim.tuning.report import Refuted, TuningReport
from xoptim.tuning.search import Meter, SearchResult, Trial, confirm, finalists, is_faster, ranking
from xoptim.tuning.settings import settings_path, settings_text
from xoptim.verification.runs.session_settings import SessionSettings
from xoptim.workflow.job import Job, JobOptions

Listener = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Tuned:
    """The fastest model that was found and verified equal, and the settings of its session."""

    model: onnx.ModelProto
    report: TuningReport  # the measurements, and the settings
    base_dir: Path | None  # folder of the external data of the model

    @property
    def settings(self) -> SessionSettings:
        """The settings of the session."""
        return self.report.settings

    def save(
        self, target: str | Path, *, external: bool | None = None, in_place: bool = False
    ) -> list[Path]:
        """Write the model, and the settings to ``TARGET.session.json``: both, or none.

        Returns the files written. Raises `ModelError` when a file cannot be written; nothing has
        changed then.

        Args:
            target: the file of the model.
            external: see `xoptim.save`.
            in_place: whether the target is the file of the original. The file of external data that
                the original used is then removed, unless another model in the folder uses it.
        """
        path = Path(target)
        files = {settings_path(path): settings_text(self.settings).encode()}
        return save_proto(
            self.model, path, self.base_dir, external=external, in_place=in_place, along=files
        )


def tune(
    model: Any,
    options: TuneOptions | None = None,
    *,
    on_step: Listener = lambda _: None,
    on_loaded: OnLoaded = lambda _: None,
    **changes: Unpack[TuneChanges],
) -> Tuned:
    """Find by measuring which patterns and which settings of the session let a model run fastest on
    this machine.

    The search begins with the preset ``default`` and onnxruntime's default settings; only patterns
    and settings that are measurably faster replace them. The model that is returned was verified
    equal to the original, and is not measurably slower.

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
        AssumptionError: an assumption cannot be read, or does not fit the model.
        ProviderUnavailable: onnxruntime lacks the execution provider.
    """
    return Tuner(
        Source(model), with_changes(TuneOptions, options, changes), on_step, on_loaded
    ).run()


class Tuner:
    """One run of `tune`; ``on_loaded`` is called when the model is loaded, before any rewrite."""

    def __init__(
        self, source: Source, options: TuneOptions, on_step: Listener, on_loaded: OnLoaded
    ) -> None:
        self._began = perf_counter()
        self._options = options
        self._on_step = on_step
        self._on_loaded = on_loaded
        self._refuted: list[Refuted] = []
        self._verified: dict[Recipe, VerifiedModel] = {}
        self._selection = selection(options.include)
        rewriting = OptimizationOptions(
            patterns=self._selection,
            provider=options.provider,
            assume=options.assume,
            assume_from_model=options.assume_from_model,
        )
        budget = Budget(options.budget)
        candidates = Candidates(
            source,
            rewriting,
            precision=options.precision,
            checks=options.checks,
            seconds_left=lambda: budget.left,
        )
        on_step("choosing values")
        self._measurement = Measurement(candidates, options.bench, budget)

    def run(self) -> Tuned:
        """Measure, choose and verify."""
        measurement, meter = self._measurement, self._measurement.meter()
        start = self._first(meter)
        self._on_step("profiling")
        studied = measurement.study((start.recipe, Recipe(), Recipe(newest_opset=True)))
        schemes = () if self._options.precision is None else schemes_that_save_time()
        threads = () if self._options.threads else tuple(sorted({1, max(1, cores() // 2), cores()}))
        facts = replace(studied, threads=threads, selection=self._selection, schemes=schemes)
        result = measurement.search(start, facts, EVERYTHING, meter, on_step=self._on_step)
        self._on_step("measuring the result")
        contenders = finalists(result, start, lambda choice: self._size(choice.recipe)[0])
        final = confirm(
            measurement.original, [*contenders, measurement.original], meter, measurement.rules
        )
        ratios = {
            trial.choice: trial.ratio for trial in result.trials if trial.ratio is not None
        } | final
        smallest_first = sorted(ratios.items(), key=lambda item: self._size(item[0].recipe))
        return self._settle(
            ranking(contenders, final, smallest_first, meter.ratio), start, result, ratios
        )

    def _first(self, meter: Meter) -> Choice:
        """The preset ``default``, or the original when that result is not verified equal, or cannot
        be run.

        The preset is measured once, so that the budget knows from then on how long a pass takes.
        """
        original = self._measurement.original
        start = replace(original, recipe=default_recipe(self._options.include))
        seconds = -perf_counter()
        failure = self._optimize_verified(start.recipe).failure
        seconds += perf_counter()
        # For the original and the finalists in the end, and one more verification, which may take a
        # little longer.
        self._measurement.budget.keep(1.5 * seconds, runs=4 * self._measurement.rules.min_passes)
        reason = "" if failure is None else failure.summary()
        self._on_step("measuring")
        reason = reason or meter.measure([original, start]).get(start, "")
        if reason:
            self._refuted.append(Refuted("default", reason))
        return original if reason else start

    def _size(self, recipe: Recipe) -> tuple[int, int]:
        facts = self._measurement.candidates.describe(recipe)
        return facts.nodes, facts.size

    def _optimize_verified(self, recipe: Recipe) -> VerifiedModel:
        if recipe not in self._verified and recipe.scheme is not None:
            float_model = self._optimize_verified(replace(recipe, scheme=None))
            quantized = self._measurement.candidates.quantized
            self._verified[recipe] = (
                float_model
                if float_model.failure
                else joined(float_model, quantized(recipe).verified)
            )
        if recipe not in self._verified:
            plan = Plan(
                load=LoadPlan(on_loaded=self._on_loaded),
                verify=VerifyPlan(checks=self._options.checks, bisect=False),
                sink=Sink(on_step=self._on_step),
            )
            candidates = self._measurement.candidates
            job = JobOptions(optimization=candidates.options(recipe), plan=plan)
            self._verified[recipe] = Job(candidates.source, job).run().verified
        return self._verified[recipe]

    def _settle(
        self,
        ranked: list[Choice],
        start: Choice,
        result: SearchResult,
        ratios: Mapping[Choice, Ratio],
    ) -> Tuned:
        """The first choice that is verified equal; the original in the end."""
        original = self._measurement.original
        base_trials = (Trial((), start, "start", ratios[start]), Trial((), original, "start"))
        trials = {trial.choice: trial for trial in (*result.trials, *base_trials)}
        for choice in (*ranked, original):
            verified = self._optimize_verified(choice.recipe)
            if verified.failure is None or choice == original:
                break
            self._refuted.append(Refuted(trials[choice].label, verified.failure.summary()))
        float_recipe = replace(choice.recipe, scheme=None)
        quantized = (
            None
            if float_recipe == choice.recipe
            else self._measurement.candidates.quantized(choice.recipe)
        )
        tried = [replace(trial, ratio=ratios.get(trial.choice)) for trial in result.trials]
        report = TuningReport(
            trials=(base_trials[0], *tried),
            changes=(
                trials[choice].changes if choice == result.best or is_faster(ratios[choice]) else ()
            ),
            label=trials[choice].label,
            is_original=not choice.recipe.rewrites,
            ratio=ratios[choice],
            is_faster=is_faster(ratios[choice]),
            settings=choice.settings.safe_for(verified.proto),
            optimization=(
                verified.report
                if quantized is None
                else quantized.report(self._optimize_verified(float_recipe).report)
            ),
            quantized=quantized,
            not_tried=result.not_tried,
            seconds=perf_counter() - self._began,
            sizes=common_sizes(run.sizes for run in self._measurement.runs),
            refused=self._measurement.runs[0].refused,
            options=self._options,
            refuted=tuple(self._refuted),
        )
        return Tuned(verified.proto, report, verified.base_dir)
