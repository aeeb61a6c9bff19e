"""The sizes of dynamic dimensions with which a model runs, and those with which it fails."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx

from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.verification.errors import FeedError, RunError, RunStoppedError, shortened
from xoptim.verification.inputs.dims import Sizes, open_dimensions
from xoptim.verification.inputs.feeding import Feeding, run_plan
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.inputs.relations import derived_sizes, with_derived
from xoptim.verification.inputs.sized import SizedModel
from xoptim.verification.inputs.work import MemoryNeed
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session import Session

_SIZES: Final = (1, 2, 3, 16, 17, 24, 64, 128, 512)
_MAX_SECONDS: Final = 30.0  # after which no further size is tried
_MAX_SMALL_ASSIGNMENTS: Final = 64  # that give small sizes to the other dimensions
_RUN_SECONDS: Final = 10.0  # after which a run is stopped, and no larger size is tried


@dataclass(slots=True)
class DimensionTrial(JsonResult):
    """The sizes of a dynamic dimension with which a model was run.

    Attributes:
        name: name of the dimension, or input:axis.
        works: sizes with which the model runs.
        fails: sizes with which it does not run.
        error: the first error; empty without one.
    """

    __json__ = JsonForm(name="Dimension")
    name: str
    works: list[int]
    fails: list[int]
    # The error at the smallest size that fails; the node comes first, if onnxruntime names one
    error: str = ""

    @property
    def is_frozen(self) -> bool:
        """Whether the inputs allow sizes with which the model does not run."""
        return bool(self.fails)

    def __str__(self) -> str:
        works = ", ".join(map(str, self.works))
        if not self.fails:
            return f"the model runs with {self.name} = {works}"
        fails = ", ".join(map(str, self.fails))
        return (
            f"the inputs leave {self.name} open, but the model runs with {works} and fails with "
            f"{fails}: {self.error}"
        )


def try_dimensions(
    model: onnx.ModelProto, base_dir: Path | None, options: VerificationOptions
) -> list[DimensionTrial]:
    """Run a model at several sizes of each dynamic dimension of its inputs.

    Raises:
        LoadError: onnxruntime refuses the model.
        FeedError: an input cannot be fed.
        RunError: the model fails at all sizes that were tried.
    """
    trials = _Trials(model, base_dir, options)
    return [trials.of(name) for name in trials.names]


class _Trials:
    """Runs a model at sizes near an assignment with which it runs."""

    def __init__(
        self, model: onnx.ModelProto, base_dir: Path | None, options: VerificationOptions
    ) -> None:
        reference = run_reference(model, options)
        self._base = reference.runs[0].sizes
        self._session = Session(model, reference.settings, base_dir=base_dir)
        self._feeding = Feeding(model, options)
        self._need = MemoryNeed(SizedModel(model, base_dir), options.memory_limit)
        self._derived = derived_sizes(model)
        self._deadline = time.perf_counter() + _MAX_SECONDS
        self._purposes = open_dimensions(self._feeding.specs)
        self.names = [name for name in self._purposes if name in self._base]

    def of(self, name: str) -> DimensionTrial:
        """The trial of one dimension; dimensions that depend on it change as well.

        A size that takes too much memory or time here ends the trial, and counts as not tried.
        """
        trial = DimensionTrial(name, [], [])
        for size in sorted({*_SIZES, self._base[name]}):
            start = time.perf_counter()
            try:
                error = "" if size == self._base[name] else self._error(name, size)
            except RunStoppedError:
                break
            seconds = time.perf_counter() - start
            (trial.fails if error else trial.works).append(size)
            trial.error = trial.error or error
            if seconds > _RUN_SECONDS or start > self._deadline:
                break
        return trial

    def _error(self, name: str, size: int) -> str:
        """The reason why the model does not run with a size, empty when it does."""
        first_error = ""
        assignments = _assignments(self._base, name, size)
        unique = {tuple(sizes.items()): sizes for sizes in assignments}
        for sizes in filter(self._is_usual, unique.values()):
            error = self._error_at({**with_derived(self._derived, sizes), name: size})
            if not error:
                return ""
            first_error = first_error or error
        return first_error

    def _is_usual(self, sizes: Sizes) -> bool:
        """Whether no dimension has size 0, except the past length of a KV cache."""
        return all(
            size > 0 or (size == 0 and self._purposes[name] == "past")
            for name, size in sizes.items()
        )

    def _error_at(self, sizes: Sizes) -> str:
        error = ""
        # Gentle values: masks that hide nothing, and integers that are small and not negative.
        for is_gentle in self._feeding.gentle_flags:
            try:
                self._need.check(sizes)
            except RunError as failure:
                raise RunStoppedError(str(failure)) from failure
            try:
                run_plan(self._session, self._feeding.plan(sizes, 0, is_gentle), _RUN_SECONDS)
            except RunStoppedError:
                raise
            except (FeedError, RunError) as failure:
                error = error or shortened(str(failure))
            else:
                return ""
        return error


def _assignments(base: Mapping[str, int], name: str, size: int) -> Iterator[Sizes]:
    """Assignments that change one dimension: alone, or with all that have its size in ``base``.

    After each of these two, further assignments also add the difference to all dimensions of one
    other size, because a total length grows with a new length. If ``size`` is below the size in
    ``base``, assignments follow in which the other dimensions are small as well.
    """
    step = size - base[name]
    other_sizes = sorted(set(base.values()) - {base[name]})
    peers = [dim for dim, value in base.items() if value == base[name]]
    for names in ([name], peers):
        sizes = {**base, **dict.fromkeys(names, size)}
        yield sizes
        for value in other_sizes:
            grown = {dim: value + step for dim in base if base[dim] == value}
            yield {**sizes, **grown}
    small_sizes = [sorted({value, size, size - 1, 1}) for value in other_sizes] if step < 0 else []
    for values in itertools.islice(itertools.product(*small_sizes), _MAX_SMALL_ASSIGNMENTS):
        new_sizes = dict(zip(other_sizes, values, strict=False)) | {base[name]: size}
        yield {dim: new_sizes.get(value, value) for dim, value in base.items()}
