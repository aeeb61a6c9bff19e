"""The options of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from xoptim.bench.options import BenchOptions
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import VerifiedModel
from xoptim.precision.options import PrecisionOptions
from xoptim.preparation.preparation import Preparation
from xoptim.verification.options import VerificationOptions
from xoptim.workflow.fitting_options import FittingOptions
from xoptim.workflow.outcome import SpeedReport

if TYPE_CHECKING:
    from xoptim.workflow.page import Page

AnySource: TypeAlias = Source | str | Path


class KeepIfFaster(Protocol):
    """A step that drops patterns that make a result slower than the original."""

    def __call__(
        self, source: Source, verified: VerifiedModel, options: OptimizationOptions, plan: Plan
    ) -> tuple[VerifiedModel, SpeedReport]:
        """The result to keep, and the measurements.

        Raises XoptimError when it cannot be measured.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of a job, in the order of the stages. A stage without options is skipped."""

    preparation: Preparation = field(default_factory=Preparation)
    # whether assumptions that do not fit the model are dropped, with a warning for each
    leaves_unfit_assumptions: bool = False
    optimization: OptimizationOptions = field(default_factory=OptimizationOptions)
    plan: Plan = field(default_factory=Plan)
    # whether the optimized model is verified before it is quantized
    verifies_floats: bool = True
    precision: PrecisionOptions | None = None
    # options for fitting to the target that ``optimization`` names
    fitting: FittingOptions = field(default_factory=FittingOptions)
    keep_if_faster: KeepIfFaster | None = None
    benchmark: BenchOptions | None = None
    # options for the runs that look for hints
    hints: VerificationOptions | None = None
    page: Page | None = None
    # writes the result, and returns the files written
    write: Callable[[VerifiedModel], Sequence[Path]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.precision, PrecisionOptions | None):
            example = "PrecisionOptions(scheme='int8')"
            raise TypeError(
                f"precision must be an instance of PrecisionOptions, such as {example}, not "
                f"{self.precision!r}"
            )
        if self.precision is not None and self.keep_if_faster is not None:
            raise ValueError("precision measures each operator already; remove only_if_faster")
