"""Runs both models in float64, where rounding to 32 or 16 bits can neither hide nor make a
difference.

An element differs if the models disagree on it twice: in float64 by more than their own constants
explain (a folded constant was rounded once), and in their own type by more than the last bits.
Other differences are rounding if the result is about as close to its value in float64 as the result
of the original is. In models of several types, float64 excuses no difference: a cast that was
dropped makes none there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import ml_dtypes
import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import element_type
from xoptim.facts.errors import ModelError
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.inputs.work import weight_bytes
from xoptim.verification.judging.compare import excesses
from xoptim.verification.judging.double import (
    NARROW,
    DoubleModel,
    in_doubles,
    narrow_types,
    own_constants,
)
from xoptim.verification.judging.noise import HOPELESS, move_one_ulp, noisy_graph
from xoptim.verification.options import ComparisonRules
from xoptim.verification.runs.protos import Located, without_functions
from xoptim.verification.runs.session import Port, Session, Value
from xoptim.verification.runs.session_settings import SessionSettings

_RELATIVE: Final = 1e-9
_LARGEST_SHARE: Final = 1e-13  # of the largest element: rounding in double of terms that cancel
_LAST_BITS: Final = 4.0  # units in the last place that may be rounding
_MAX_DRAWS: Final = 6  # random changes whose effect is measured
_MULTIPLE: Final = 4.0  # up to this multiple of a measured change or error may be rounding
_NEARBY: Final = 0.01  # largest relative difference of inputs that are close to those of a run
_STEP: Final = 1e-3  # smallest relative change that may be a step
_MIN_DRAWS: Final = 3  # needed to see whether an element moves by a step
_MAX_BYTES: Final = 1 << 28  # of weights of a model in double
_FLOAT32: Final = 1e-5  # relative difference of 16-bit models that run in float32
_HALVES: Final = {TensorProto.FLOAT16, TensorProto.BFLOAT16}
_HALF_UNIT: Final = 1e-4  # types with a larger epsilon have 16 bits
_MIN_LEANING: Final = 8  # elements needed to see a bias
_ONE_SIDED: Final = 0.5
"""Smallest ratio of the mean difference to the mean magnitude of differences that is a bias."""
_EXPLAINED: Final = 0.75
"""Largest bias that constants explain, relative to the change when they move by one ULP."""
_MODERATE: Final = 1e33
"""Larger results are close to the limits of float32: a sum in another order may overflow."""
_IN_RANGE: Final = 1e-3  # relative error of a number that keeps its digits


class Finding(NamedTuple):
    """The result for an output: a difference in words, or that all differences are rounding."""

    difference: str = ""
    is_rounding: bool = False


class Arbiter:
    """Two models in double; 16-bit models in float32 where an operator has no kernel for double.

    Raises `LoadError` when one of them cannot run in this type, or would take too much memory.
    """

    def __init__(self, original: Located, other: Located, settings: SessionSettings) -> None:
        original, other = _prepared(original), _prepared(other)
        self._constants = [own_constants(original, other), own_constants(other, original)]
        self._settings = settings
        self._narrow = original
        self._original: Session | None = None  # in its own type, loaded when it is needed
        self._noisy_sessions: dict[int, tuple[Session, dict[str, np.ndarray]]] = {}
        self._wide: type = np.float64
        types = [narrow_types(model.proto) for model in (original, other)]
        self._is_mixed = len(types[0] | types[1]) > 1
        try:
            self._open(original, other, TensorProto.DOUBLE)
        except LoadError:
            if self._is_mixed or types[0] - _HALVES:
                raise
            self._wide = np.float32
            self._open(original, other, TensorProto.FLOAT)

    def _open(self, original: Located, other: Located, wide: int) -> None:
        pairs = zip((original, other), self._constants, strict=True)
        self._models = [_in_doubles(model, constants, wide) for model, constants in pairs]
        self._sessions = [
            Session(model.proto, self._settings, weights=model.weights) for model in self._models
        ]

    @np.errstate(all="ignore")  # results in double may be close to the limits of the type
    def findings(
        self,
        run: ReferenceRun,
        results: Sequence[Value],
        outputs: Sequence[Port],
        rules: ComparisonRules,
    ) -> dict[str, Finding]:
        """The findings about the outputs of a run; ``results`` come from the other model.

        Raises `RunError`.
        """
        feeds = {name: _widened(value, self._wide) for name, value in run.feeds.items()}
        wide = [session.run(feeds) for session in self._sessions]
        findings: dict[str, Finding] = {}
        for at, port in enumerate(outputs):
            narrow = (run.results[at], results[at])
            if _is_comparable(narrow) and _is_comparable((wide[0][at], wide[1][at]), self._wide):
                arrays = [
                    np.asarray(value).reshape(-1) for value in (*narrow, wide[0][at], wide[1][at])
                ]
                output = _Output(arrays, rules)
                if run.source == "range":
                    findings[port.name] = Finding() if self._is_mixed else output.in_range()
                elif self._is_mixed:
                    difference = self._finding(output, at, run, feeds, wide).difference
                    findings[port.name] = Finding(difference)
                else:
                    findings[port.name] = self._finding(output, at, run, feeds, wide)
        return findings

    def _finding(
        self,
        output: _Output,
        at: int,
        run: ReferenceRun,
        feeds: Mapping[str, Value],
        wide: Sequence[Sequence[Value]],
    ) -> Finding:
        suspects = output.disagrees()
        for is_noisy in (False, True):
            if is_noisy and not (suspects & output.differs_visibly()).any():
                break
            if is_noisy and not self._repeats(at, feeds, wide):
                return Finding()
            suspects = self._unexplained(output, suspects, is_noisy, at, feeds, wide)
        different = suspects & output.differs_visibly()
        if different.any():
            is_sure = self._repeats(at, feeds, wide)
            return Finding(output.described(different)) if is_sure else Finding()
        if output.leans() and self._is_biased(output, at, feeds, wide):
            is_sure = self._repeats(at, feeds, wide)
            return Finding(output.described(output.gap > 0)) if is_sure else Finding()
        if output.is_as_accurate(~suspects):
            return Finding(is_rounding=True)
        nearby = self._error_nearby(run, at)
        return Finding(is_rounding=output.is_as_accurate(~suspects, nearby))

    def _error_nearby(self, run: ReferenceRun, at: int) -> np.ndarray:
        """The largest error of each element of an output of the original, on several inputs close
        to those of a run.

        One element may be exact by chance. For example, a mask of -80000 leaves a score two digits
        after the point, and the score may happen to have no more.
        """
        level = np.zeros(np.asarray(run.results[at]).size)
        rng = np.random.default_rng(0)
        try:
            self._original = self._original or Session(
                self._narrow.proto, self._settings, base_dir=self._narrow.base_dir
            )
            for _ in range(_MAX_DRAWS):
                feeds = {name: _moved(value, rng) for name, value in run.feeds.items()}
                in_wide = {name: _widened(value, self._wide) for name, value in feeds.items()}
                results = self._original.run(feeds)[at], self._sessions[0].run(in_wide)[at]
                narrow, wide = (np.asarray(value, np.float64).reshape(-1) for value in results)
                if narrow.size != level.size or wide.size != level.size:
                    break  # not covered: the inputs decide the shape of few results that differ
                error = np.abs(narrow - wide)
                level = np.maximum(level, np.where(np.isfinite(error), error, 0.0))
        except (LoadError, RunError):  # not covered: the original has run on almost these inputs
            return level
        return level

    def _is_biased(
        self,
        output: _Output,
        at: int,
        feeds: Mapping[str, Value],
        wide: Sequence[Sequence[Value]],
    ) -> bool:
        """Whether 16-bit results lean to one side by more than rounded constants explain."""
        rng = np.random.default_rng(0)
        draws = range(_MAX_DRAWS if any(self._constants) else 0)
        changes = [self._drawn(False, at, feeds, wide, rng) for _ in draws]
        level = np.max(changes, axis=0) if changes else np.zeros(output.gap.shape)
        return float(output.gap.mean()) > _EXPLAINED * float(level.mean())

    def _repeats(
        self, at: int, feeds: Mapping[str, Value], wide: Sequence[Sequence[Value]]
    ) -> bool:
        """Whether the original repeats an output: random results change as if by rounding."""
        result = np.asarray(self._sessions[0].run(feeds)[at])
        return np.array_equal(result, np.asarray(wide[0][at]), equal_nan=True)

    def _unexplained(
        self,
        output: _Output,
        suspects: np.ndarray,
        is_noisy: bool,
        at: int,
        feeds: Mapping[str, Value],
        wide: Sequence[Sequence[Value]],
    ) -> np.ndarray:
        """The suspects that differ by more than small changes to the models explain.

        Constants that only one model has change by one unit in the last place, and, with
        ``is_noisy``, so do all results.
        """
        changes: list[np.ndarray] = []
        unexplained = suspects
        rng = np.random.default_rng(0)
        has_changes = is_noisy or any(self._constants)
        fewest = _MIN_DRAWS if is_noisy else 0
        for _ in range(_MAX_DRAWS if has_changes else 0):
            is_explained = not unexplained.any()
            if is_explained and len(changes) >= fewest:
                break
            changes.append(self._drawn(is_noisy, at, feeds, wide, rng))
            largest = np.max(changes, axis=0)
            unexplained = suspects & output.exceeds(largest)
        if not is_noisy:
            return unexplained
        # An element exactly at a step of a function has no rounding error. So a change that moves
        # it over the step does not explain a difference.
        steps = suspects & output.jumps(changes)
        with_steps: np.ndarray = unexplained | steps
        return with_steps

    def _drawn(
        self,
        is_noisy: bool,
        at: int,
        feeds: Mapping[str, Value],
        wide: Sequence[Sequence[Value]],
        rng: np.random.Generator,
    ) -> np.ndarray:
        """The sum of the changes of an output in both models, for one random draw."""
        total: np.ndarray | float = 0.0
        for index, (constants, unchanged) in enumerate(zip(self._constants, wide, strict=True)):
            if not constants and not is_noisy:
                continue
            session, factors = self._noisy(index) if is_noisy else (self._sessions[index], {})
            moved: dict[str, Value] = {
                name: move_one_ulp(array, rng).astype(self._wide)
                for name, array in constants.items()
            }
            ones = {name: move_one_ulp(array, rng) for name, array in factors.items()}
            results = np.asarray(session.run({**feeds, **moved, **ones})[at]).reshape(-1)
            change = np.abs(results - np.asarray(unchanged[at]).reshape(-1))
            total = total + np.where(np.isfinite(change), change, 0.0)
        return np.asarray(total)

    def _noisy(self, index: int) -> tuple[Session, dict[str, np.ndarray]]:
        """A session in double that multiplies each result by a factor, and the factors, all 1."""
        if index not in self._noisy_sessions:
            proto, factors = noisy_graph(self._models[index].proto)
            session = Session(proto, self._settings, weights=self._models[index].weights)
            self._noisy_sessions[index] = session, factors
        return self._noisy_sessions[index]


class _Output:
    """An output of both models in their own type and in double, flat."""

    def __init__(self, arrays: Sequence[np.ndarray], rules: ComparisonRules) -> None:
        expected, actual, wide, other_wide = arrays
        self._expected, self._actual = expected.astype(np.float64), actual.astype(np.float64)
        self._wide, self._other = wide.astype(np.float64), other_wide.astype(np.float64)
        self._is_double = wide.dtype == np.float64
        self._unit = float(ml_dtypes.finfo(expected.dtype).eps)  # type: ignore[no-untyped-call]
        self._atol = rules.tolerance(element_type(expected.dtype)).atol
        self._broken = excesses(expected, actual, rules) > 1.0
        self._finite = np.logical_and.reduce(
            [np.isfinite(array) for array in (self._expected, self._actual, wide, other_wide)]
        )
        self.gap = np.where(self._finite, np.abs(self._other - self._wide), 0.0)

    def disagrees(self) -> np.ndarray:
        """The elements on which the models disagree in double."""
        magnitude = np.where(self._finite, np.abs(self._wide), 0.0)
        largest = float(np.max(magnitude, initial=0.0))
        relative, share = (_RELATIVE, _LARGEST_SHARE) if self._is_double else (_FLOAT32, _FLOAT32)
        disagreeing: np.ndarray = self.gap > relative * magnitude + share * largest
        return disagreeing

    def leans(self) -> bool:
        """Whether 16-bit results are biased: larger, or smaller, than the original's on average,
        whereas rounding goes either way.
        """
        counts = self._finite & (np.abs(self._wide) > self._atol) & (self._expected != 0)
        if self._unit < _HALF_UNIT or int(counts.sum()) < _MIN_LEANING:
            return False
        in_wide = (self._other - self._wide)[counts] / self._wide[counts]
        in_narrow = (self._actual - self._expected)[counts] / self._expected[counts]
        signs = np.sign(self._wide[counts])
        # a bias goes towards 0 or away from 0, or else up or down
        return self._is_one_sided(in_wide, in_narrow) or self._is_one_sided(
            in_wide * signs, in_narrow * signs
        )

    def _is_one_sided(self, in_wide: np.ndarray, in_narrow: np.ndarray) -> bool:
        leaning = (float(in_wide.mean()), float(np.clip(in_narrow, -1, 1).mean()))
        threshold = self._unit / 4
        is_alike = min(leaning) > threshold or max(leaning) < -threshold
        return is_alike and abs(leaning[0]) > _ONE_SIDED * float(np.abs(in_wide).mean())

    def in_range(self) -> Finding:
        """The finding about numbers close to the type's limits: the result must keep its digits
        only where the original does.
        """
        size = np.abs(self._wide)
        is_normal = (size > 1 / _MODERATE) & (size < _MODERATE)
        is_kept = np.abs(self._expected - self._wide) <= _IN_RANGE * size
        agrees = np.abs(self._other - self._wide) <= _IN_RANGE * size
        is_lost = ~(np.abs(self._actual - self._wide) <= 10 * _IN_RANGE * size)
        different = is_normal & is_kept & agrees & is_lost
        if not different.any():
            return Finding(is_rounding=True)
        place = int(np.argmax(different))
        return Finding(
            f"{self._actual[place]:.8g} instead of {self._expected[place]:.8g} at element {place}; "
            f"{int(different.sum())} of {different.size} elements differ"
        )

    def differs_visibly(self) -> np.ndarray:
        """The elements that differ by more than the last bits in their own type."""
        difference = np.abs(self._actual - self._expected)
        visible: np.ndarray = difference > _LAST_BITS * self._unit * np.abs(self._expected)
        return visible

    def exceeds(self, level: np.ndarray) -> np.ndarray:
        """The elements whose difference is several times as large as their own change, and as the
        median change at their magnitude.
        """
        magnitude = np.where(self._finite, np.abs(self._wide), 0.0)
        moved = (level > 0) & (magnitude > 0)
        usual = float(np.median(level[moved] / magnitude[moved])) if moved.any() else 0.0
        exceeding: np.ndarray = self.gap > _MULTIPLE * np.maximum(level, usual * magnitude)
        return exceeding

    def jumps(self, changes: Sequence[np.ndarray]) -> np.ndarray:
        """The elements that each draw moves by the same large step, or not at all."""
        if len(changes) < _MIN_DRAWS:
            return np.zeros(self.gap.shape, bool)
        stacked = np.array(changes)
        largest = stacked.max(axis=0)
        is_same = (stacked == 0) | (np.abs(stacked - largest) <= _RELATIVE * largest)
        several = (stacked > 0).sum(axis=0) > 1
        large = (largest >= _STEP * np.abs(self._wide)) & (self.gap >= largest / 2)
        jumping: np.ndarray = is_same.all(axis=0) & several & large & (largest > 0)
        return jumping

    def is_as_accurate(self, agrees: np.ndarray, nearby: np.ndarray | float = 0.0) -> bool:
        """Whether each element that breaks the rule is about as close to its value in double as the
        original's.

        ``nearby`` is the error of the original on inputs close to those of the run. It counts where
        it is small compared with the largest element.
        """
        largest = np.max(np.where(self._finite, np.abs(self._wide), 0.0), initial=0.0)
        nearby = np.where(_MULTIPLE * nearby <= HOPELESS * largest, nearby, 0.0)
        original_error = np.where(self._finite, np.abs(self._expected - self._wide), 0.0)
        error = np.abs(self._actual - self._other)
        typical = float(np.median(original_error[self._finite])) if self._finite.any() else 0.0
        limit = (
            _MULTIPLE * np.maximum(np.maximum(original_error, nearby), typical)
            + 2 * _LAST_BITS * self._unit * np.abs(self._wide)
            + self._atol
        )
        excused = self._finite & agrees & (error <= limit)
        return bool((excused | ~self._broken).all())

    def described(self, different: np.ndarray) -> str:
        """The largest difference, relative to its element."""
        share = np.where(different, self.gap / np.abs(self._wide), -1.0)
        place = int(np.argmax(share))
        count = int(np.count_nonzero(different))
        return (
            f"{self._other[place]:.10g} instead of {self._wide[place]:.10g} in float64 at element "
            f"{place}; {count} of {different.size} elements differ"
        )


def _prepared(model: Located) -> Located:
    """The model with its local functions inlined, so that their constants count."""
    if 2 * weight_bytes(model.proto) > _MAX_BYTES:
        raise LoadError("the weights are too large in float64")
    try:
        return Located(without_functions(model.proto), model.base_dir)
    except ModelError as error:
        raise LoadError(str(error)) from error


def _in_doubles(model: Located, constants: Mapping[str, np.ndarray], wide: int) -> DoubleModel:
    double = in_doubles(model.proto, model.base_dir, constants.keys(), wide)
    if double is None:
        raise LoadError("it computes in double, or its operator set is too old")
    return double


def _moved(value: Value, rng: np.random.Generator) -> Value:
    """Floating-point numbers close to those of a tensor; integers, such as masks, stay."""
    is_numeric = isinstance(value, np.ndarray) and not value.dtype.hasobject
    array = np.asarray(value) if is_numeric else np.zeros(0)
    wide = array.astype(np.float64) if element_type(array.dtype) in NARROW else np.zeros(0)
    if np.array_equal(wide, np.rint(wide), equal_nan=True):
        return value
    moved: np.ndarray = (wide * (1 + _NEARBY * rng.uniform(-1, 1, wide.shape))).astype(array.dtype)
    return moved


def _widened(value: Value, wide: type) -> Value:
    if isinstance(value, list):
        return [_widened(item, wide) for item in value]
    if (
        isinstance(value, np.ndarray)
        and not value.dtype.hasobject
        and element_type(value.dtype) in NARROW
    ):
        return value.astype(wide)
    return value


def _is_comparable(pair: tuple[Value, Value], dtype: type | None = None) -> bool:
    """Whether two results are arrays of one shape, of a narrow type or of ``dtype``."""
    if not all(isinstance(value, np.ndarray) and not value.dtype.hasobject for value in pair):
        return False
    first, second = (np.asarray(value) for value in pair)
    is_typed = first.dtype == dtype if dtype is not None else element_type(first.dtype) in NARROW
    return is_typed and first.dtype == second.dtype and first.shape == second.shape
