"""Runs of a model: the values to run it on, and what it computes."""

import tempfile
import time
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from xoptim.validate.dims import Sizes
from xoptim.validate.session import Session, Value

FeedSource: TypeAlias = Literal["random", "given", "test data", "overridden", "wide", "odd"]
"""``overridden``: random values, and others than the stored ones for initializers that a caller may override; ``wide``: random
ones, zeros and large numbers among them; ``odd``: NaN and infinities among them."""

_IN_MEMORY: Final = 1 << 28  # bytes of feeds and results of all runs that are kept in memory


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Values to run the original on, by their source, and the known sizes of open dimensions."""

    source: FeedSource
    sizes: Sizes
    seed: int
    feeds: dict[str, Value]


@dataclass(frozen=True, slots=True)
class ReferenceRun(RunPlan):
    """One run of the original on the values of a plan.

    A failure is not an error of a probe, a run with extreme sizes.
    """

    results: list[Value]
    seconds: float
    is_probe: bool = False
    refused: Sizes = field(default_factory=dict)  # sizes that were preferred, with which the model does not run


class ResultStore:
    """Keeps runs while another model is loaded: small arrays in memory, further ones in temporary files, mapped."""

    def __init__(self) -> None:
        self._left = _IN_MEMORY

    def keep(self, run: ReferenceRun) -> ReferenceRun:
        """The run, its arrays in memory or on disk."""
        feeds = {name: self._kept(value) for name, value in run.feeds.items()}
        return replace(run, feeds=feeds, results=list(map(self._kept, run.results)))

    def _kept(self, value: Value) -> Value:
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            return value
        self._left -= value.nbytes
        return value if self._left >= 0 or not value.nbytes else on_disk(value)


def on_disk(array: np.ndarray) -> np.ndarray:
    """The same numbers, mapped from a temporary file, which exists as long as the array does."""
    with tempfile.TemporaryFile(prefix="xopt-") as stream:
        np.asarray(array, order="C").tofile(stream)
        return np.memmap(stream, array.dtype, "r", shape=array.shape)


def run_plan(session: Session, plan: RunPlan, limit: float | None = None) -> ReferenceRun:
    """Run a model on the values of a plan, for ``limit`` seconds at most if that is less than the limit of the session.

    Raises `RunError` when the model cannot run on these values, or not within the limit.
    """
    start = time.perf_counter()
    results = session.run(plan.feeds) if limit is None else session.run(plan.feeds, limit)
    return ReferenceRun(plan.source, plan.sizes, plan.seed, plan.feeds, results, time.perf_counter() - start)
