"""The options of a benchmark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from xoptim.validate.options import ValidationOptions
from xoptim.validate.session import Level, SessionSettings, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """Options of `bench` and `profile`.

    Attributes:
        provider: execution provider, by short or full name.
        threads: threads within an operator; 0 leaves the choice to onnxruntime.
        level: onnxruntime's own graph optimizations; all of them by default, as in production.
        seconds: of measured runs for each model.
        passes: number of times that all sessions are made anew. Two sessions of one model may differ by a few percent for as
            long as they live; the interval of a ratio covers this only when there are several passes.
        dims: sizes of open dimensions, by name (or ``input:axis``); others are chosen, and are small.
        feeds: values of inputs by name; inputs without one get random values.
        test_data: folder with ``test_data_set_*/input_*.pb``; the first set is used.
        seed: of random values and of the order of the runs.
        base_dirs: folders of the external data of models that are protobufs, by label.
        compare: whether to compare the results of each model with the first one's.
        loading: whether to measure time and memory of loading too.
        custom_op_libs: libraries of operators to load, by file, or ``onnxruntime-extensions``.
    """

    provider: str = "cpu"
    threads: int = 0
    level: Level = "all"
    seconds: float = 10.0
    passes: int = 3
    dims: Mapping[str, int] = field(default_factory=dict)
    feeds: Mapping[str, Value] = field(default_factory=dict)
    test_data: Path | None = None
    seed: int = 0
    base_dirs: Mapping[str, Path] = field(default_factory=dict)
    compare: bool = True
    loading: bool = True
    custom_op_libs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.seconds <= 0 or self.passes < 1:
            raise ValueError("seconds must be positive, and passes at least 1")

    @property
    def settings(self) -> SessionSettings:
        """The settings of the sessions: onnxruntime's defaults but for the level and the threads."""
        libraries = self.custom_op_libs
        return SessionSettings((self.provider,), self.level, self.threads, tf32=True, reuse=True, custom_op_libs=libraries)

    @property
    def checks(self) -> ValidationOptions:
        """The options for the search of values that the first model runs on."""
        return ValidationOptions(
            providers=(self.provider,),
            threads=self.threads,
            dims=self.dims,
            feeds=self.feeds,
            test_data=self.test_data,
            custom_op_libs=self.custom_op_libs,
            assignments=1,
            extremes=False,
            seed=self.seed,
            run_limit=None,
        )


class BenchChanges(TypedDict, total=False):
    """The fields of `BenchOptions` as keyword arguments."""

    provider: str
    threads: int
    level: Level
    seconds: float
    passes: int
    dims: Mapping[str, int]
    feeds: Mapping[str, Value]
    test_data: Path | None
    seed: int
    base_dirs: Mapping[str, Path]
    compare: bool
    loading: bool
    custom_op_libs: tuple[str, ...]
