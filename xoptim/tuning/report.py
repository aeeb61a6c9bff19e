"""The report of tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from xoptim.bench.rounds import Ratio
from xoptim.diagnose.report import OptimizationReport
from xoptim.facts.json_results import JsonForm, JsonResult, member, within
from xoptim.precision.quantized import Quantized
from xoptim.tuning.options import TuneOptions
from xoptim.tuning.search import Trial
from xoptim.tuning.settings import stored_settings
from xoptim.verification.runs.session_settings import SessionSettings


class Refuted(NamedTuple):
    """A variation that was preferred, but not found equal.

    Attributes:
        label: the changes in words.
        reason: the reason.
    """

    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class TuningReport(JsonResult):
    """The variations that were tried, the chosen one, and the measurements.

    Attributes:
        trials: the variations that were tried, in order.
        changes: the changes that led from the preset ``default`` to the chosen model and session.
        label: the chosen variation in words.
        is_original: whether the original was chosen.
        ratio: the time of the chosen model divided by the time of the original.
        is_faster: whether the chosen model is measurably faster than the original.
        settings: the settings of the session of the chosen model.
        optimization: the optimization of the chosen model, and its comparison with the original.
        not_tried: number of variations for which there was no time.
        seconds: duration, in seconds.
        sizes: sizes of the symbolic dimensions that are equal in all settings.
        refused: sizes that were preferred, with which the original does not run.
        options: the options of the search.
        refuted: variations that were not found equal.
        quantized: the quantization; ``None`` without one.
    """

    __json__ = JsonForm(
        "is_faster is_original",
        *within("ratio", Ratio),
        "chosen=label",
        member("changes", description="the changes that led to it."),
        member("settings", stored_settings, "the settings of its session."),
        member(
            "patterns=optimization.applied",
            description="number of applications of each pattern.",
        ),
        member(
            "nodes_before=optimization.nodes_before",
            description="number of nodes of the original.",
        ),
        member(
            "nodes_after=optimization.nodes_after",
            description="number of nodes of the chosen model.",
        ),
        "tried=trials not_tried seconds",
        member("budget=options.budget", description="time that was allowed, in seconds."),
        member("provider=options.provider", description="the execution provider."),
        "sizes assumptions",
        member(
            "verification=optimization.verification",
            description="comparisons of the chosen model with the original.",
        ),
        "precision=quantized refuted",
    )
    # The first one is the preset ``default``, or the original if the preset cannot be used
    trials: tuple[Trial, ...]
    changes: tuple[str, ...]
    label: str
    is_original: bool
    ratio: Ratio
    is_faster: bool
    settings: SessionSettings
    optimization: OptimizationReport
    not_tried: int
    seconds: float
    sizes: Mapping[str, int]
    refused: Mapping[str, int]
    options: TuneOptions
    refuted: tuple[Refuted, ...] = ()
    quantized: Quantized | None = None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions in force, in addition to the default set."""
        reports = self.optimization.verification
        return next((report.assumptions for report in reports), tuple(self.options.assume))
