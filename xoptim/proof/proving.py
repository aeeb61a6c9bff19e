"""Prove that both sides of a rewrite compute the same, for all sizes from 1 or from 0."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import onnx

from xoptim.facts.assumptions import USUAL, Assumptions
from xoptim.facts.dims import Dim, is_anonymous, substitute
from xoptim.facts.dtypes import is_float
from xoptim.graph.propagate import quietly
from xoptim.proof.branches import ALL, Branch, by_index, by_sign, by_size, by_value, with_indices
from xoptim.proof.coefficients import Array, Condition, tolerance_of
from xoptim.proof.denotations.casts import without_last_rounding
from xoptim.proof.elements import LAWS, Element
from xoptim.proof.failures import fallible
from xoptim.proof.folded import Closeness
from xoptim.proof.grades import Grade
from xoptim.proof.indices import (
    CLOCK,
    DEADLINE,
    CaseFacts,
    Impossible,
    IndexSplit,
    OutOfTime,
    SignSplit,
    SizeSplit,
    Unproved,
)
from xoptim.proof.meaning import Side
from xoptim.proof.models import Models
from xoptim.proof.pieces import are_equal_in_pieces, rounded_by_floors
from xoptim.proof.tensors import Tensor, Unranked

_MAX_CASES: Final = 300
_MAX_SECONDS: Final = 2.0
SIZES_FROM: Final = ("sizes from 0", "sizes from 1")
"""The first premise of a proof, by the smallest size that it covers."""
_MAX_ZEROS: Final = 4
"""Maximal number of named sizes for which all combinations of zeros are compared."""


class _Differ(Unproved):
    """The outputs of a case have different normal forms, or different shapes."""

    def __init__(self, reason: str = "the normal forms differ", *, has_cases: bool = True) -> None:
        super().__init__(reason)
        self.has_cases = has_cases  # whether they may be equal for each value of an index


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of a proof of a rewrite.

    Attributes:
        grade: how equal the two sides are.
        reason: why it is not proved; empty for a proof.
        premises: what is assumed, such as ``sizes from 1``.
        smallest_size: the sizes for which it is proved: from 0, or from 1.
        cases: number of cases that were compared.
        seconds: CPU time.
        elements: elements of the first output in normal form: of the last case, or of the case in
            which they differ.
    """

    grade: Grade
    reason: str = ""
    premises: tuple[str, ...] = ()
    smallest_size: Literal[0, 1] = 1
    cases: int = 0
    seconds: float = 0.0
    elements: tuple[Element, Element] | None = field(default=None, repr=False)

    @property
    def sides(self) -> tuple[str, str]:
        """The elements of both sides as text."""
        first, second = self.elements or ("", "")
        return str(first), str(second)

    @property
    def is_proved(self) -> bool:
        """Whether the two sides are equal in some sense for all inputs."""
        return self.grade != "only run"

    @property
    def text(self) -> str:
        """The grade, and the reason where it is only run."""
        return f"{self.grade}: {self.reason}" if self.reason else self.grade


def prove(
    rewrite: tuple[onnx.ModelProto, onnx.ModelProto],
    assumptions: Assumptions = USUAL,
    *,
    seconds: float = _MAX_SECONDS,
) -> Proof:
    """Prove that both sides of a rewrite compute the same outputs.

    Args:
        rewrite: the models of `xoptim.graph.fragment.side_by_side`, with equal inputs and outputs.
        assumptions: about the model of the rewrite.
        seconds: the CPU time after which it counts as only run.
    """
    return prove_models(*rewrite, assumptions, seconds=seconds)


def prove_models(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    assumptions: Assumptions = USUAL,
    *,
    seconds: float = _MAX_SECONDS,
) -> Proof:
    """Prove that two models with the same inputs compute the same outputs; as `prove`."""
    proof = _best(Models(before, after, assumptions), seconds).for_arrays()
    assert proof is not None  # there are no conditions
    return proof


def prove_for_constants(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    constants: Sequence[str],
    assumptions: Assumptions = USUAL,
    *,
    seconds: float = _MAX_SECONDS,
) -> ConditionalProof:
    """Prove that two models compute the same outputs where some inputs are finite constants.

    Args:
        before: the original.
        after: the result, with the same inputs.
        constants: the names of these inputs.
        assumptions: see `prove`.
        seconds: see `prove`.
    """
    return _best(Models(before, after, assumptions, constants), seconds)


@dataclass(frozen=True, slots=True)
class ConditionalProof:
    """A proof for all constants that satisfy some conditions.

    Attributes:
        proof: the proof where all conditions hold, without the premises about tolerances.
        conditions: the conditions.
        dtypes: the types of constants that were folded.
        relative_tolerance: the largest relative tolerance of constants outside the conditions.
    """

    proof: Proof
    conditions: tuple[Condition, ...] = ()
    dtypes: frozenset[int] = frozenset()
    relative_tolerance: float = 0.0

    def for_arrays(self, arrays: Sequence[Array] = ()) -> Proof | None:
        """The proof for the elements of all constants, ``None`` where a condition does not hold."""
        largest = self.relative_tolerance
        for condition in self.conditions:
            try:
                relative_tolerance = condition.relative_tolerance(arrays)
            except Unproved:
                relative_tolerance = None
            if relative_tolerance is None:
                return None
            largest = max(largest, relative_tolerance)
        texts = tolerance_of(self.dtypes).texts(largest) if self.dtypes else ()
        return replace(self.proof, premises=(*self.proof.premises, *texts))


def _best(models: Models, seconds: float) -> ConditionalProof:
    """The proof of the strongest grade."""
    token = DEADLINE.set(CLOCK.get()() + seconds)
    try:
        return _first_proof(models)
    finally:
        DEADLINE.reset(token)


def _first_proof(models: Models) -> ConditionalProof:
    start = CLOCK.get()()
    if models.have_subgraphs and models.have_same_values():
        return _same_values(start)
    reason = ""
    for is_exact, unrolls in ((True, False), (False, False), (False, True)):
        attempt = _Attempt(models, is_exact, unrolls=unrolls)
        try:
            with quietly():
                attempt.run()
        except OutOfTime as error:
            reason = str(error)
            break
        except Unproved as error:
            reason = str(error)
        except Exception as error:  # a denotation may raise anything for an invalid node
            reason = f"{type(error).__name__}: {error}"[:200]
        else:
            try:
                return _proof_of(attempt, start)
            except _Differ as error:
                reason = f"for sizes of 0, {error}"
                break
    elapsed = CLOCK.get()() - start
    proof = Proof("only run", reason, (), 1, attempt.compared, elapsed, attempt.elements)
    return ConditionalProof(proof)


def _same_values(start: float) -> ConditionalProof:
    """The proof by equal operators on equal operands, for all shapes."""
    elapsed = CLOCK.get()() - start
    return ConditionalProof(Proof("same bits", "", SIZES_FROM[:1], 0, 1, elapsed))


def _proof_of(attempt: _Attempt, start: float) -> ConditionalProof:
    """The proof that an attempt found, for sizes from 0 if they are covered.

    Raises `_Differ` where the outputs are found to differ for sizes of 0.
    """
    elements, compared = attempt.elements, attempt.compared
    smallest: Literal[0, 1] = 0 if attempt.covers_zero() else 1
    premises = (
        SIZES_FROM[smallest],
        *attempt.models.assumptions.texts,
        *attempt.before.premises,
    )
    elapsed = CLOCK.get()() - start
    proof = Proof(attempt.grade, "", premises, smallest, compared, elapsed, elements)
    dtypes = frozenset(attempt.dtypes)
    return ConditionalProof(proof, tuple(attempt.conditions), dtypes, attempt.relative_tolerance)


class _Reading:
    """The outputs of both models in one branch, read when they are asked for."""

    def __init__(self, before: Side, after: Side, case: CaseFacts, branch: Branch) -> None:
        self.case = case
        self.case.extents.update(branch.extents)
        # no size is negative
        sizes = [substitute(size, branch.sizes) for size in before.formulas]
        self.case.conditions = [*branch.conditions, *sizes]
        self._sides = before, after
        self._sizes = branch.sizes
        self._outputs: dict[int, list[Tensor]] = {}
        self._failures: dict[int, Counter[str]] = {}

    def before(self, place: int) -> Tensor:
        """An output of the original."""
        return self._output(0, place)

    def after(self, place: int) -> Tensor:
        """An output of the result."""
        return self._output(1, place)

    def _output(self, side: int, place: int) -> Tensor:
        if side not in self._outputs:
            self.case.fragile.clear()
            self.case.is_original = side == 0
            self._outputs[side] = self._sides[side].outputs(self.case, self._sizes)
            # counted now, because the next case replaces the facts of the graph
            self._failures[side] = fallible(self._sides[side].graph)
            self._failures[side].update({k: len(v) for k, v in self.case.fragile.items()})
            if side == 1:
                self._require_no_new_failure()
        return self._outputs[side][place]

    def _require_no_new_failure(self) -> None:
        """Raise where the result has more nodes that fail for some values than the original."""
        for kind, count in self._failures[1].items():
            if count > self._failures[0][kind]:
                raise Unproved(f"{kind} may fail in the result only")


class _Attempt:
    """The comparison of two models, case by case, in one reading of floating-point numbers."""

    def __init__(self, models: Models, is_exact: bool, *, unrolls: bool = False) -> None:
        self.models = models
        self.is_exact = is_exact
        self.unrolls = unrolls
        self.compared = 0
        self.elements: tuple[Element, Element] | None = None
        self.grade: Grade = "same bits" if is_exact else "over real numbers"
        self.dtypes: set[int] = set()  # of constants that were folded
        self.conditions: dict[Condition, None] = {}  # on each `AnyArray`
        self.relative_tolerance = 0.0  # the largest one of a constant
        self._readings: dict[object, _Reading] = {}

    def run(self) -> None:
        """Compare all outputs; raises `Unproved` where they may differ."""
        self.before, self.after = self.models.sides(is_exact=self.is_exact)
        if self.before.inputs != self.after.inputs:
            raise Unproved("the inputs differ")
        if self.before.graph.outputs != self.after.graph.outputs:
            raise Unproved("the outputs differ")
        for place in range(len(self.before.graph.outputs)):
            self._compare_output(place)

    def covers_zero(self) -> bool:
        """Whether the outputs are also equal where sizes are 0, one or several.

        Call `run` before. Each combination of zeros is compared, with all other sizes at least 1.
        Raises `_Differ` where both models run and their outputs differ.
        """
        names = self.before.sizes
        counts = range(1, len(names) + 1) if len(names) <= _MAX_ZEROS else ()
        choices = (chosen for n in counts for chosen in itertools.combinations(names, n))
        try:
            with quietly():
                for chosen in choices:
                    self._compare_at_zero(dict.fromkeys(chosen, 0))
        except _Differ:
            raise
        except Exception:  # as in `run`: it is not proved for 0
            return False
        return len(names) <= _MAX_ZEROS and not self.before.may_vanish

    def _compare_at_zero(self, sizes: Mapping[str, Dim]) -> None:
        for place in range(len(self.before.graph.outputs)):
            self._compare_output(place, Branch(sizes), may_fail=True)

    def _compare_output(self, place: int, start: Branch = ALL, *, may_fail: bool = False) -> None:
        """Compare an output in all cases.

        ``may_fail``: accept that the original fails in every case. Otherwise, `Unproved` is raised.
        """
        pending = [start]
        count = compared = 0
        while pending:
            branch = pending.pop()
            count += 1
            if count > _MAX_CASES:
                raise Unproved("more cases than are tried")
            branches = self._compare_case(place, branch)
            compared += branches is None
            pending += branches or ()
        if not compared and not may_fail:
            raise Unproved("no case in which the original runs")
        self.compared += compared

    def _compare_case(self, place: int, branch: Branch) -> Sequence[Branch] | None:
        """Compare an output in one case.

        Returns ``None`` where the case was compared, else the cases that it is split into: none
        where the original fails.

        The original may require sizes. The result must not: it has to run wherever the original
        does.
        """
        is_original = True
        reading = self._reading(branch)
        try:
            first = reading.before(place)
            is_original = False
            second = reading.after(place)
            if isinstance(first, Unranked) or isinstance(second, Unranked):
                self._compare_unranked(branch, first, second)
                return None
            _require_same_shape(reading.case, first, second)
            if 0 in first.shape:
                return None  # there are no elements
            if not branch.indices and first.shape:
                return [with_indices(branch, place, first)]
            is_original = True
            left = first.at(branch.indices)
            is_original = False
            right = second.at(branch.indices)
            self._compare(branch, left, right, first.dtype)
        except (Impossible, SizeSplit) as error:
            if not is_original:
                raise Unproved("the result requires sizes that the original does not") from None
            return by_size(branch, error.cases) if isinstance(error, SizeSplit) else []
        except SignSplit as split:
            return by_sign(reading.case, branch, split.condition)
        except IndexSplit as split:
            return [by_index(reading.case, branch, split)]
        except _Differ as error:
            cases = by_value(branch) if error.has_cases else []
            if not cases:
                raise
            return cases
        return None

    def _compare_unranked(self, branch: Branch, first: Tensor, second: Tensor) -> None:
        """Compare all elements of two outputs, which have the shape of an input."""
        if not isinstance(first, Unranked) or not isinstance(second, Unranked):
            raise Unproved("an output of unknown rank")
        if (first.name, first.dtype) != (second.name, second.dtype):
            raise Unproved("outputs of unknown ranks")
        self._compare(branch, first.element, second.element, first.dtype)

    def _reading(self, branch: Branch) -> _Reading:
        """The outputs in a branch, shared by all branches with the same sizes and conditions."""
        key = frozenset(branch.sizes.items()), branch.conditions
        if key not in self._readings:
            has_zeros = self.before.has_zeros or 0 in branch.sizes.values()
            case = CaseFacts(is_exact=self.is_exact, unrolls=self.unrolls, has_zeros=has_zeros)
            self._readings[key] = _Reading(self.before, self.after, case, branch)
        reading = self._readings[key]
        reading.case.extents.update(branch.extents)
        return reading

    def _compare(self, branch: Branch, left: Element, right: Element, dtype: int) -> None:
        """Compare the elements of both sides, which are of a type; raises `Unproved` where they may
        differ.

        Over real numbers, constants may differ by the rounding of constant folding.
        """
        self.elements = left, right
        if left is right:
            return
        is_rounded = not self.is_exact and is_float(dtype)
        if is_rounded:
            left, right = (without_last_rounding(side, dtype) for side in (left, right))

        def are_equal(first: Element, second: Element) -> bool:
            if first is second or not is_rounded:
                return first is second
            closeness = Closeness(branch.extents, dtype)
            are_close = closeness.are_close(first, second)
            if are_close:
                self.conditions |= closeness.conditions
                self.dtypes |= closeness.dtypes
                self.relative_tolerance = max(self.relative_tolerance, closeness.relative_tolerance)
            return are_close

        def are_equal_in_cases(first: Element, second: Element) -> bool:
            return are_equal_in_pieces(first, second, are_equal, of_integers=self.is_exact)

        if not are_equal_in_cases(left, right):
            floors = [rounded_by_floors(side, dtype) for side in (left, right)]
            if not is_rounded or floors == [left, right] or not are_equal_in_cases(*floors):
                raise _Differ(has_cases=not _are_unlike(left, right))
        if self.dtypes:
            self.grade = "over real numbers, constants folded"


def _are_unlike(first: Element, second: Element) -> bool:
    """Whether elements are different uninterpreted functions, so unequal at all indices."""
    pair = first.single, second.single
    if pair[0] is None or pair[1] is None:
        return False
    return pair[0].key != pair[1].key and not {pair[0].key[0], pair[1].key[0]} & LAWS.keys()


def _require_same_shape(case: CaseFacts, first: Tensor, second: Tensor) -> None:
    if first.dtype != second.dtype:
        raise Unproved("the element types differ")
    pairs = zip(first.shape, second.shape, strict=False)
    if first.rank != second.rank or not all(_are_same(case, *pair) for pair in pairs):
        texts = (f"[{', '.join(map(str, x.shape))}]" for x in (first, second))
        reason = f"the shapes differ: {' and '.join(texts)}"[:200]
        is_open = any(is_anonymous(size) for size in (*first.shape, *second.shape))
        raise Unproved(reason) if is_open else _Differ(reason)


def _are_same(case: CaseFacts, first: Dim, second: Dim) -> bool:
    """Whether two sizes are equal under the conditions of a case."""
    return first == second or bool(
        case.conditions
        and case.is_at_least_zero(first - second)
        and case.is_at_least_zero(second - first)
    )
