"""Sizes that an export took from its example input: the model is wrong or fails for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xoptim.diagnose.dimensions import DimensionTrial, try_dimensions
from xoptim.diagnose.frozen import frozen_sizes
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.graph.load import load_model
from xoptim.graph.sources import Source
from xoptim.verification.errors import FeedError, LoadError, RunError
from xoptim.verification.options import VerificationOptions


@dataclass(frozen=True, slots=True)
class ExportDiagnosis(JsonResult):
    """Sizes that an export took from its example input.

    Attributes:
        frozen: a warning for each node whose constant sizes should depend on the data.
        trials: the sizes with which the model was run.
        error: the reason why the model does not run at all; empty when it does.
    """

    __json__ = JsonForm("frozen dimensions=trials error")
    frozen: Sequence[str]
    trials: Sequence[DimensionTrial]
    error: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether the model runs, and no size was found that comes from the example input."""
        return not self.frozen and not self.error and not any(t.is_frozen for t in self.trials)


def diagnose_export(source: Source, options: VerificationOptions) -> ExportDiagnosis:
    """Look for sizes of the example input in a model, and run it at several sizes of its inputs."""
    frozen = frozen_sizes(load_model(source.proto, source.base_dir).graph)
    try:
        trials = try_dimensions(source.proto, source.base_dir, options)
    except (FeedError, LoadError, RunError) as error:
        return ExportDiagnosis(frozen, (), str(error))
    return ExportDiagnosis(frozen, trials)
