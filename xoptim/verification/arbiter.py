"""Both models in 64-bit floats, where rounding in 32 or 16 bits cannot hide a difference, nor make
one.

An element is different when the models disagree on it in double, by more than explained by the
constants that only one of them has (a folded constant was rounded once), and not only in the last
bits in their own type. A difference in their own type is rounding when they agree in double, and
the result is about as far from the value in double as the original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import ml_dtypes
import numpy as np
import onnx
import onnx.inliner
from onnx import TensorProto

from xoptim.facts.dtypes import element_type
from xoptim.verification.compare import ComparisonRules, excesses
from xoptim.verification.double import NARROW, DoubleModel, in_doubles, narrow_type, own_constants
from xoptim.verification.errors import LoadError
from xoptim.verification.noise import move_one_ulp, noisy_graph
from xoptim.verification.protos import Located
from xoptim.verification.runs import ReferenceRun
from xoptim.verification.session import Port, Session, Value
from xoptim.verification.session_settings import SessionSettings
from xoptim.verification.work import weight_bytes

_RELATIVE: Final = 1e-9
_OF_LARGEST: Final = 1e-13  # of the largest element: rounding in double of terms that cancel
_LAST_BITS: Final = 4.0  # units in the last place that may be rounding
_DRAWS: Final = 6  # most times that the effect of the constants is measured
_MULTIPLE: Final = 4.0
_STEP: Final = 1e-3  # of an element: the least change that may be a step
_FEWEST: Final = 3  # draws that tell whether an element moves by a step
_MOST_BYTES: Final = 1 << 28  # of weights of a model in double
_FLOAT32: Final = 1e-5  # relative difference in float32, of models of 16 bits
_HALVES: Final = {TensorProto.FLOAT16, TensorProto.BFLOAT16}
_HALF_UNIT: Final = 1e-4  # types with larger units have 16 bits
_FEWEST_LEANING: Final = 8  # elements that show a bias
_ONE_SIDED: Final = 0.5  # part of the mean magnitude of differences that their mean has
_EXPLAINED: Final = 0.75
"""A bias beyond this multiple of what both models change by when their own constants move by one
unit in the last place.
"""
_MODERATE: Final = 1e33
"""Results beyond are next to the limits of float32, where a sum in another order may overflow."""
_IN_RANGE: Final = 1e-3  # relative error of a number that keeps its digits


class Finding(NamedTuple):
    """The result for an output: a difference in words, or that all differences are rounding."""

    difference: str = ""
    is_rounding: bool = False


class Arbiter:
    """Two models in double; those of 16 bits in float32 where an operator has no kernel for double.

    Raises `LoadError` when one of them cannot run so, or would take too much memory.
    """

    def __init__(self, original: Located, other: Located, settings: SessionSettings) -> None:
        original, other = _prepared(original), _prepared(other)
        self._own = [own_constants(original, other), own_constants(other, original)]
        self._settings = settings
        self._noisy_sessions: dict[int, tuple[Session, dict[str, np.ndarray]]] = {}
        self._wide: type = np.float64
        try:
            self._open(original, other, TensorProto.DOUBLE)
        except LoadError:
            if {narrow_type(model.proto) for model in (original, other)} - _HALVES:
                raise
            self._wide = np.float32
            self._open(original, other, TensorProto.FLOAT)

    def _open(self, original: Located, other: Located, wide: int) -> None:
        pairs = zip((original, other), self._own, strict=True)
        self._models = [_in_doubles(model, own, wide) for model, own in pairs]
        self._sessions = [
            Session(model.proto, self._settings, weights=model.weights) for model in self._models
        ]

    @np.errstate(all="ignore")  # results in double may be next to the limits of the type
    def findings(
        self,
        run: ReferenceRun,
        results: Sequence[Value],
        outputs: Sequence[Port],
        rules: ComparisonRules,
    ) -> dict[str, Finding]:
        """The findings about the outputs of a run: ``results`` are those of the other model.

        Raises `RunError`.
        """
        feeds = {name: _widened(value, self._wide) for name, value in run.feeds.items()}
        wide = [session.run(feeds) for session in self._sessions]
        found: dict[str, Finding] = {}
        for at, port in enumerate(outputs):
            narrow = (run.results[at], results[at])
            if _is_comparable(narrow) and _is_comparable((wide[0][at], wide[1][at]), self._wide):
                arrays = [
                    np.asarray(value).reshape(-1) for value in (*narrow, wide[0][at], wide[1][at])
                ]
                output = _Output(arrays, rules)
                if run.source == "range":
                    found[port.name] = output.in_range()
                else:
                    found[port.name] = self._finding(output, at, feeds, wide)
        return found

    def _finding(
        self, output: _Output, at: int, feeds: Mapping[str, Value], wide: Sequence[Sequence[Value]]
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
        return Finding(is_rounding=output.is_as_accurate(~suspects))

    def _is_biased(
        self,
        output: _Output,
        at: int,
        feeds: Mapping[str, Value],
        wide: Sequence[Sequence[Value]],
    ) -> bool:
        """Whether results of 16 bits lean to one side by more than the rounding of constants
        explains.
        """
        rng = np.random.default_rng(0)
        draws = range(_DRAWS if any(self._own) else 0)
        changes = [self._drawn(False, at, feeds, wide, rng) for _ in draws]
        level = np.max(changes, axis=0) if changes else np.zeros(output.gap.shape)
        return float(output.gap.mean()) > _EXPLAINED * float(level.mean())

    def _repeats(
        self, at: int, feeds: Mapping[str, Value], wide: Sequence[Sequence[Value]]
    ) -> bool:
        """Whether the original gives an output once more: otherwise any change looks like
        rounding.
        """
        again = np.asarray(self._sessions[0].run(feeds)[at])
        return np.array_equal(again, np.asarray(wide[0][at]), equal_nan=True)

    def _unexplained(
        self,
        output: _Output,
        suspects: np.ndarray,
        is_noisy: bool,
        at: int,
        feeds: Mapping[str, Value],
        wide: Sequence[Sequence[Value]],
    ) -> np.ndarray:
        """The suspects whose differences are larger than what small changes of the models make.

        The constants move that only one model has, and, with ``is_noisy``, all results by one unit
        in the last place.
        """
        changes: list[np.ndarray] = []
        left = suspects
        rng = np.random.default_rng(0)
        has_changes = is_noisy or any(self._own)
        fewest = _FEWEST if is_noisy else 0
        for _ in range(_DRAWS if has_changes else 0):
            is_explained = not left.any()
            if is_explained and len(changes) >= fewest:
                break
            changes.append(self._drawn(is_noisy, at, feeds, wide, rng))
            largest = np.max(changes, axis=0)
            left = suspects & output.exceeds(largest)
        if not is_noisy:
            return left
        # At a step of a function that is reached exactly, no number is rounded, although a small
        # change would matter.
        steps = suspects & output.jumps(changes)
        found: np.ndarray = left | steps
        return found

    def _drawn(
        self,
        is_noisy: bool,
        at: int,
        feeds: Mapping[str, Value],
        wide: Sequence[Sequence[Value]],
        rng: np.random.Generator,
    ) -> np.ndarray:
        """The change of an output in both models together."""
        total: np.ndarray | float = 0.0
        for place, (own, usual) in enumerate(zip(self._own, wide, strict=True)):
            if not own and not is_noisy:
                continue
            session, factors = self._noisy(place) if is_noisy else (self._sessions[place], {})
            moved: dict[str, Value] = {
                name: move_one_ulp(array, rng).astype(self._wide) for name, array in own.items()
            }
            ones = {name: move_one_ulp(array, rng) for name, array in factors.items()}
            results = np.asarray(session.run({**feeds, **moved, **ones})[at]).reshape(-1)
            change = np.abs(results - np.asarray(usual[at]).reshape(-1))
            total = total + np.where(np.isfinite(change), change, 0.0)
        return np.asarray(total)

    def _noisy(self, place: int) -> tuple[Session, dict[str, np.ndarray]]:
        """A model in double whose results are multiplied by factors, and these, all 1."""
        if place not in self._noisy_sessions:
            proto, factors = noisy_graph(self._models[place].proto)
            session = Session(proto, self._settings, weights=self._models[place].weights)
            self._noisy_sessions[place] = session, factors
        return self._noisy_sessions[place]


class _Output:
    """An output of both models in their own type and in double, flat."""

    def __init__(self, arrays: Sequence[np.ndarray], rules: ComparisonRules) -> None:
        expected, actual, wide, other = arrays
        self._expected, self._actual = expected.astype(np.float64), actual.astype(np.float64)
        self._wide, self._other = wide.astype(np.float64), other.astype(np.float64)
        self._is_double = wide.dtype == np.float64
        self._unit = float(ml_dtypes.finfo(expected.dtype).eps)  # type: ignore[no-untyped-call]
        self._atol = rules.tolerance(element_type(expected.dtype)).atol
        self._broken = excesses(expected, actual, rules) > 1.0
        self._known = np.logical_and.reduce(
            [np.isfinite(each) for each in (self._expected, self._actual, wide, other)]
        )
        self.gap = np.where(self._known, np.abs(self._other - self._wide), 0.0)

    def disagrees(self) -> np.ndarray:
        """The elements on which the models disagree in double."""
        magnitude = np.where(self._known, np.abs(self._wide), 0.0)
        largest = float(np.max(magnitude, initial=0.0))
        relative, share = (_RELATIVE, _OF_LARGEST) if self._is_double else (_FLOAT32, _FLOAT32)
        found: np.ndarray = self.gap > relative * magnitude + share * largest
        return found

    def leans(self) -> bool:
        """Whether results of 16 bits are larger, or smaller, than the original's throughout: by
        more in the mean than rounding, which goes either way.
        """
        chosen = self._known & (np.abs(self._wide) > self._atol) & (self._expected != 0)
        if self._unit < _HALF_UNIT or int(chosen.sum()) < _FEWEST_LEANING:
            return False
        in_wide = (self._other - self._wide)[chosen] / self._wide[chosen]
        in_narrow = (self._actual - self._expected)[chosen] / self._expected[chosen]
        signs = np.sign(self._wide[chosen])
        # towards 0 or away from it, or up or down
        return self._is_one_sided(in_wide, in_narrow) or self._is_one_sided(
            in_wide * signs, in_narrow * signs
        )

    def _is_one_sided(self, in_wide: np.ndarray, in_narrow: np.ndarray) -> bool:
        leaning = (float(in_wide.mean()), float(np.clip(in_narrow, -1, 1).mean()))
        least = self._unit / 4
        is_alike = min(leaning) > least or max(leaning) < -least
        return is_alike and abs(leaning[0]) > _ONE_SIDED * float(np.abs(in_wide).mean())

    def in_range(self) -> Finding:
        """The finding about numbers next to the limits of the type: only where the original keeps
        its digits must the result do so.
        """
        size = np.abs(self._wide)
        is_normal = (size > 1 / _MODERATE) & (size < _MODERATE)
        kept = np.abs(self._expected - self._wide) <= _IN_RANGE * size
        agrees = np.abs(self._other - self._wide) <= _IN_RANGE * size
        lost = ~(np.abs(self._actual - self._wide) <= 10 * _IN_RANGE * size)
        different = is_normal & kept & agrees & lost
        if not different.any():
            return Finding(is_rounding=True)
        place = int(np.argmax(different))
        return Finding(
            f"{self._actual[place]:.8g} instead of {self._expected[place]:.8g} at element {place}; "
            f"{int(different.sum())} of {different.size} elements differ"
        )

    def differs_visibly(self) -> np.ndarray:
        """The elements that differ by more than the last bits in their own type."""
        found: np.ndarray = np.abs(
            self._actual - self._expected
        ) > _LAST_BITS * self._unit * np.abs(self._expected)
        return found

    def exceeds(self, level: np.ndarray) -> np.ndarray:
        """The elements that differ by more than they move, or than most elements move in proportion
        to their size.
        """
        magnitude = np.where(self._known, np.abs(self._wide), 0.0)
        moved = (level > 0) & (magnitude > 0)
        usual = float(np.median(level[moved] / magnitude[moved])) if moved.any() else 0.0
        found: np.ndarray = self.gap > _MULTIPLE * np.maximum(level, usual * magnitude)
        return found

    def jumps(self, changes: Sequence[np.ndarray]) -> np.ndarray:
        """The elements that move by one large step, or not at all."""
        if len(changes) < _FEWEST:
            return np.zeros(self.gap.shape, bool)
        stacked = np.array(changes)
        largest = stacked.max(axis=0)
        same = (stacked == 0) | (np.abs(stacked - largest) <= _RELATIVE * largest)
        several = (stacked > 0).sum(axis=0) > 1
        large = (largest >= _STEP * np.abs(self._wide)) & (self.gap >= largest / 2)
        found: np.ndarray = same.all(axis=0) & several & large & (largest > 0)
        return found

    def is_as_accurate(self, agrees: np.ndarray) -> bool:
        """Whether each element that breaks the rule is about as close to the value in double as in
        the original.
        """
        mine = np.where(self._known, np.abs(self._expected - self._wide), 0.0)
        its = np.abs(self._actual - self._other)
        typical = float(np.median(mine[self._known])) if self._known.any() else 0.0
        allowed = (
            _MULTIPLE * np.maximum(mine, typical)
            + 2 * _LAST_BITS * self._unit * np.abs(self._wide)
            + self._atol
        )
        excused = self._known & agrees & (its <= allowed)
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
    """A model of moderate size, its local functions inlined: the constants within count."""
    if 2 * weight_bytes(model.proto) > _MOST_BYTES:
        raise LoadError("the weights are too large in float64")
    if not model.proto.functions:
        return model
    return Located(onnx.inliner.inline_local_functions(model.proto), model.base_dir)


def _in_doubles(model: Located, own: Mapping[str, np.ndarray], wide: int) -> DoubleModel:
    found = in_doubles(model.proto, model.base_dir, own.keys(), wide)
    if found is None:
        raise LoadError("it computes in several types")
    return found


def _widened(value: Value, wide: type) -> Value:
    if isinstance(value, list):
        return [_widened(each, wide) for each in value]
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
