"""The report of tuning."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xoptim.bench.rounds import Ratio
from xoptim.diagnose.report import OptimizationReport
from xoptim.tuning.options import TuneOptions
from xoptim.tuning.search import Trial
from xoptim.tuning.settings import settings_values
from xoptim.validate.session import SessionSettings


@dataclass(frozen=True, slots=True)
class TuningReport:
    """The report of tuning.

    Attributes:
        trials: the variations that were tried, in order; the first one is the preset ``default``.
        changes: the changes that led from the preset ``default`` to the chosen model and session.
        label: the chosen one in words.
        is_original: whether the model that was chosen is the original.
        ratio: its time divided by the time of the original.
        is_faster: whether it is measurably faster than the original.
        settings: the settings of its session.
        optimization: the optimization of the chosen model, and its comparison with the original.
        left: number of variations that there was no time for.
        seconds: duration of everything.
        sizes: sizes of the open dimensions in the measurements.
        options: the options.
        refuted: choices that would have been preferred, but were not found equal, with the reasons.
    """

    trials: tuple[Trial, ...]
    changes: tuple[str, ...]
    label: str
    is_original: bool
    ratio: Ratio
    is_faster: bool
    settings: SessionSettings
    optimization: OptimizationReport
    left: int
    seconds: float
    sizes: Mapping[str, int]
    options: TuneOptions
    refuted: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
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
                {"label": each.label, "verdict": each.verdict, **ratio_json(each.ratio), "reason": each.reason}
                for each in self.trials
            ],
            "not_tried": self.left,
            "seconds": self.seconds,
            "budget": self.options.budget,
            "provider": self.options.provider,
            "sizes": dict(self.sizes),
            "validation": [each.to_json() for each in self.optimization.validation],
            "refuted": [{"label": label, "reason": reason} for label, reason in self.refuted],
        }


def ratio_json(ratio: Ratio | None) -> dict[str, Any]:
    """A ratio and its interval as JSON values."""
    return {"ratio": None if ratio is None else ratio.value, "interval": None if ratio is None else list(ratio.interval)}
