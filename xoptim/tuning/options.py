"""The options of tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xoptim.bench.options import BenchOptions
from xoptim.precision.options import PrecisionOptions
from xoptim.verification.options import RunChanges, RunValues, VerificationOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions(RunValues):
    """Options of `xoptim.tune`.

    `RunValues` has the other fields.

    Attributes:
        provider: execution provider, by short or full name.
        threads: threads within an operator; 0 lets the search choose.
        budget: seconds after which the search ends, including the verification if its time can be
            foreseen. The original and the result of the default patterns are measured in any case.
        at: further sizes, in place of or in addition to ``dims``: the geometric mean of the ratios
            at these settings counts.
        include: tags of further patterns that may be used, such as ``finite`` or ``approximate``.
        precision: the error that quantization may add, and the samples; all schemes that can be
            faster are tried. ``None`` for float32 only.
    """

    provider: str = "cpu"
    threads: int = 0
    budget: float = 120.0
    at: Sequence[Mapping[str, int]] = ()
    include: tuple[str, ...] = ()
    precision: PrecisionOptions | None = None

    def __post_init__(self) -> None:
        if self.budget <= 0:
            raise ValueError("the budget must be positive")

    @property
    def bench(self) -> BenchOptions:
        """The options of the measurements."""
        return BenchOptions(
            provider=self.provider, threads=self.threads, at=self.at, **self.run_values()
        )

    @property
    def checks(self) -> VerificationOptions:
        """The options of the verification, and of the measurements of quantization errors."""
        return VerificationOptions(
            providers=(self.provider,), threads=self.threads, **self.run_values()
        )


class TuneChanges(RunChanges, total=False):
    """The fields of `TuneOptions` as keyword arguments."""

    provider: str
    threads: int
    budget: float
    at: Sequence[Mapping[str, int]]
    include: tuple[str, ...]
    precision: PrecisionOptions | None
