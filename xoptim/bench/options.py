"""The options of a benchmark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from xoptim.verification.options import RunChanges, RunValues, VerificationOptions
from xoptim.verification.runs.session import Value
from xoptim.verification.runs.session_settings import Level, SessionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions(RunValues):
    """Options of `bench` and `profile`; `RunValues` has the other fields.

    Attributes:
        provider: execution provider, by short or full name.
        threads: threads within an operator; 0 leaves the choice to onnxruntime.
        level: level of ORT graph optimizations; all of them by default, as in production.
        seconds: seconds of measured runs for each model, at each setting.
        passes: number of times that all sessions are created. Two sessions of one model may differ
            by a few percent for as long as they live; the interval of a ratio covers this only with
            several passes.
        base_dirs: folders of the external data of models that are protobufs, by label.
        at: settings at which the models are measured: sizes that replace or complete ``dims``.
        compare: whether to compare the results of each model with the first one's.
        rtol: relative tolerance of this comparison, ``None`` for that of `verify`.
        atol: absolute tolerance of this comparison, ``None`` for that of `verify`.
        loading: whether to measure time and memory of loading as well.
        samples: further values on which models are compared; times are measured on ``feeds``.
    """

    provider: str = "cpu"
    threads: int = 0
    level: Level = "all"
    seconds: float = 10.0
    passes: int = 3
    base_dirs: Mapping[str, Path] = field(default_factory=dict)
    at: Sequence[Mapping[str, int]] = ()
    compare: bool = True
    rtol: float | None = None
    atol: float | None = None
    loading: bool = True
    samples: Sequence[Mapping[str, Value]] = ()

    def __post_init__(self) -> None:
        if self.seconds <= 0 or self.passes < 1:
            raise ValueError("seconds must be positive, and passes at least 1")

    @property
    def settings(self) -> SessionSettings:
        """The settings of the sessions: onnxruntime's defaults, except the level and threads."""
        return SessionSettings(
            (self.provider,),
            self.level,
            self.threads,
            tf32=True,
            reuse=True,
            custom_op_libs=self.custom_op_libs,
            software_device=self.software_device,
        )

    @property
    def checks(self) -> VerificationOptions:
        """The options for the search of values that the first model runs on."""
        base = VerificationOptions(assignments=1, typical=True, extremes=False, run_limit=None)
        return replace(base, providers=(self.provider,), threads=self.threads, **self.run_values())

    def each(self) -> "list[BenchOptions]":
        """The options of each setting."""
        return [replace(self, dims={**self.dims, **sizes}, at=()) for sizes in self.at] or [self]


class BenchChanges(RunChanges, total=False):
    """The fields of `BenchOptions` as keyword arguments."""

    provider: str
    threads: int
    level: Level
    seconds: float
    passes: int
    base_dirs: Mapping[str, Path]
    at: Sequence[Mapping[str, int]]
    compare: bool
    rtol: float | None
    atol: float | None
    loading: bool
    samples: Sequence[Mapping[str, Value]]
