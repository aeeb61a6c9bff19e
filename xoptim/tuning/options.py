"""The options of tuning."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from xoptim.bench.options import BenchOptions
from xoptim.validate.options import ValidationOptions
from xoptim.validate.session import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """Options of `xoptim.tune`.

    Attributes:
        provider: execution provider, by short or full name.
        threads: threads within an operator; 0 lets the search choose.
        budget: seconds after which the search ends, with the proof if its time can be foreseen. The original and
            the result of the default patterns are measured in any case.
        include: words of further patterns that may be used, such as ``finite`` or ``approximate``.
        dims: sizes of open dimensions, by name (or ``input:axis``); others are chosen, and are small.
        feeds: values of inputs by name; inputs without one get random values.
        test_data: folder with ``test_data_set_*/input_*.pb``; the first set is measured.
        custom_op_libs: libraries of operators to load, by file, or ``onnxruntime-extensions``.
        seed: of random values and of the order of the runs.
    """

    provider: str = "cpu"
    threads: int = 0
    budget: float = 120.0
    include: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    feeds: Mapping[str, Value] = field(default_factory=dict)
    test_data: Path | None = None
    custom_op_libs: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.budget <= 0:
            raise ValueError("the budget must be positive")

    @property
    def bench(self) -> BenchOptions:
        """The options of the measurements."""
        return BenchOptions(provider=self.provider, threads=self.threads, **self._shared)

    @property
    def checks(self) -> ValidationOptions:
        """The options of the proof."""
        return ValidationOptions(providers=(self.provider,), **self._shared)

    @property
    def _shared(self) -> dict[str, Any]:
        names = ("dims", "feeds", "test_data", "custom_op_libs", "seed")
        return {name: getattr(self, name) for name in names}


class TuneChanges(TypedDict, total=False):
    """The fields of `TuneOptions` as keyword arguments."""

    provider: str
    threads: int
    budget: float
    include: tuple[str, ...]
    dims: Mapping[str, int]
    feeds: Mapping[str, Value]
    test_data: Path | None
    custom_op_libs: tuple[str, ...]
    seed: int
