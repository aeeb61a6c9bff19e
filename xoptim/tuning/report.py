"""The report of tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xoptim.bench.rounds import Ratio, ratio_json
from xoptim.diagnose.report import OptimizationReport
from xoptim.precision.quantized import Quantized
from xoptim.tuning.options import TuneOptions
from xoptim.tuning.search import Trial
from xoptim.tuning.settings import settings_values
from xoptim.verification.session_settings import SessionSettings

if TYPE_CHECKING:
    from xoptim.tuning.json_types import TuningJson


@dataclass(frozen=True, slots=True)
class TuningReport:
    """What was tried and chosen, with the measurements."""

    # the variations that were tried, in order; the first one is the preset ``default``
    trials: tuple[Trial, ...]
    # the changes that led from the preset ``default`` to the chosen model and session
    changes: tuple[str, ...]
    label: str  # the choice in words
    is_original: bool  # whether the original was chosen
    ratio: Ratio  # the time of the chosen model divided by the time of the original
    is_faster: bool  # whether the chosen model is measurably faster than the original
    settings: SessionSettings  # of its session
    # the optimization of the chosen model, and its comparison with the original
    optimization: OptimizationReport
    left: int  # number of variations that were not tried for lack of time
    seconds: float  # total duration
    # sizes of the dynamic dimensions in the measurements, those that all settings have
    sizes: Mapping[str, int]
    refused: Mapping[str, int]  # sizes that were preferred, with which the original does not run
    options: TuneOptions
    # Choices that would have been preferred, but were not found equal, with the reasons
    refuted: tuple[tuple[str, str], ...] = ()
    quantized: Quantized | None = None  # the quantized model, if one was chosen

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions in force in addition to the default set."""
        reports = self.optimization.verification
        return next((report.assumptions for report in reports), tuple(self.options.assume))

    def to_json(self) -> TuningJson:
        """All fields as JSON values."""
        return {
            "is_faster": self.is_faster,
            "is_original": self.is_original,
            **ratio_json(self.ratio),
            "chosen": self.label,
            "changes": list(self.changes),
            "settings": settings_values(self.settings),
            "patterns": self.optimization.applied,
            "nodes_before": self.optimization.nodes_before,
            "nodes_after": self.optimization.nodes_after,
            "tried": [
                {
                    "label": trial.label,
                    "verdict": trial.verdict,
                    **ratio_json(trial.ratio),
                    "reason": trial.reason,
                }
                for trial in self.trials
            ],
            "not_tried": self.left,
            "seconds": self.seconds,
            "budget": self.options.budget,
            "provider": self.options.provider,
            "sizes": dict(self.sizes),
            "assumptions": list(self.assumptions),
            "verification": [report.to_json() for report in self.optimization.verification],
            "precision": None if self.quantized is None else self.quantized.to_json(),
            "refuted": [{"label": label, "reason": reason} for label, reason in self.refuted],
        }
