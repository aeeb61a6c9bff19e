"""Prove that both sides of a rewrite compute the same, for all sizes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

import onnx

from xoptim.facts.assumptions import USUAL, Assumptions
from xoptim.facts.dims import Dim, SymbolicDim, substitute
from xoptim.facts.errors import XoptimError
from xoptim.graph.propagate import quietly
from xoptim.proof.elements import Element
from xoptim.proof.indices import (
    Case,
    Impossible,
    IndexSplit,
    SignSplit,
    SizeSplit,
    Unproved,
    index_symbol,
    linear_parts,
    symbols_of,
)
from xoptim.proof.meaning import Side
from xoptim.proof.tensors import Tensor

Grade: TypeAlias = Literal[
    "same bits", "over real numbers", "over real numbers, constants folded", "only run"
]
GRADES: Final[tuple[Grade, ...]] = get_args(Grade)
"""From the strongest to the weakest."""

_MAX_CASES: Final = 48
_MAX_SECONDS: Final = 2.0
_ERRORS: Final = (
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    RecursionError,
    NotImplementedError,
    XoptimError,
)
"""What an operator outside of the standard raises in a denotation."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What is proved of a rewrite.

    Attributes:
        grade: how equal the two sides are.
        reason: why it is not proved; empty for a proof.
        premises: what is assumed, such as ``sizes are at least 1``.
        cases: number of cases that were compared.
        seconds: duration.
        sides: elements of the first output in normal form: of the last case, or of the case in
            which they differ.
    """

    grade: Grade
    reason: str = ""
    premises: tuple[str, ...] = ()
    cases: int = 0
    seconds: float = 0.0
    sides: tuple[str, str] = ("", "")

    @property
    def is_proved(self) -> bool:
        """Whether the two sides are equal in some sense for all inputs."""
        return self.grade != "only run"


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
        seconds: the time after which it counts as only run.
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
    start = time.monotonic()
    deadline = start + seconds
    reason = ""
    for grade in GRADES[:2]:
        attempt = _Attempt(before, after, assumptions, grade == "same bits", deadline)
        try:
            with quietly():
                attempt.run()
        except Unproved as error:
            reason = str(error)
        except _ERRORS as error:
            reason = f"{type(error).__name__}: {error}"[:200]
        else:
            premises = ("sizes are at least 1", *assumptions.texts)
            taken = time.monotonic() - start
            return Proof(grade, "", premises, attempt.compared, taken, attempt.sides)
        if reason == "time":
            break
    taken = time.monotonic() - start
    return Proof("only run", reason, (), attempt.compared, taken, attempt.sides)


@dataclass(frozen=True, slots=True)
class _CaseOf:
    """One case: sizes that are replaced, indices of an output, and facts about both.

    ``indices`` is empty until the sizes are known.
    """

    sizes: Mapping[str, Dim] = field(default_factory=dict)
    indices: tuple[Dim, ...] = ()
    extents: Mapping[str, Dim] = field(default_factory=dict)
    facts: tuple[Dim, ...] = ()


class _Attempt:
    """The comparison of two models, case by case, in one reading of floating-point numbers."""

    def __init__(
        self,
        before: onnx.ModelProto,
        after: onnx.ModelProto,
        assumptions: Assumptions,
        is_exact: bool,
        deadline: float,
    ) -> None:
        self.protos = before, after
        self.assumptions = assumptions
        self.is_exact = is_exact
        self.deadline = deadline
        self.compared = 0
        self.sides = ("", "")

    def run(self) -> None:
        """Compare all outputs; raises `Unproved` where they may differ."""
        self.before, self.after = (Side(proto, self.assumptions) for proto in self.protos)
        if self.before.inputs.keys() != self.after.inputs.keys():
            raise Unproved("the inputs differ")
        if self.before.graph.outputs != self.after.graph.outputs:
            raise Unproved("the outputs differ")
        for place in range(len(self.before.graph.outputs)):
            self._compare_output(place)

    def _compare_output(self, place: int) -> None:
        pending = [_CaseOf()]
        count = compared = 0
        while pending:
            case = pending.pop()
            count += 1
            if count > _MAX_CASES:
                raise Unproved("more cases than are tried")
            new = self._compare_case(place, case)
            compared += new is None
            pending += new or ()
        if not compared:
            raise Unproved("no case in which the original runs")
        self.compared += compared

    def _compare_case(self, place: int, given: _CaseOf) -> Sequence[_CaseOf] | None:
        """Compare an output in one case; returns the cases to compare instead, ``None`` for none.

        The original may require sizes. The result must not: it has to run wherever the original
        does.
        """
        case = Case(is_exact=self.is_exact, deadline=self.deadline)
        case.extents.update(given.extents)
        case.facts = list(given.facts)
        is_original = True
        try:
            first = self.before.outputs(case, given.sizes)[place]
            is_original = False
            second = self.after.outputs(case, given.sizes)[place]
            _require_same_shape(first, second)
            if not given.indices and first.shape:
                return [_with_indices(given, first)]
            is_original = True
            left = first.at(given.indices)
            is_original = False
            right = second.at(given.indices)
            self._compare(given, left, right)
        except (Impossible, SizeSplit) as error:
            if not is_original:
                raise Unproved("the result requires sizes that the original does not") from None
            return _by_size(given, error.cases) if isinstance(error, SizeSplit) else []
        except SignSplit as split:
            return _by_sign(case, given, split.condition)
        except IndexSplit as split:
            return [_by_index(given, split)]
        return None

    def _compare(self, _given: _CaseOf, left: Element, right: Element) -> None:
        """Compare the elements of both sides; raises `Unproved` where they may differ."""
        self.sides = str(left), str(right)
        if left is not right:
            raise Unproved("the normal forms differ")


def _require_same_shape(first: Tensor, second: Tensor) -> None:
    if first.dtype != second.dtype:
        raise Unproved("the element types differ")
    if first.shape != second.shape:
        texts = (f"[{', '.join(map(str, x.shape))}]" for x in (first, second))
        raise Unproved(f"the shapes differ: {' and '.join(texts)}"[:200])


def _with_indices(given: _CaseOf, tensor: Tensor) -> _CaseOf:
    names = [f"#{axis}" for axis in range(tensor.rank)]
    extents = dict(zip(names, tensor.shape, strict=True))
    indices = tuple(index_symbol(name, extent) for name, extent in extents.items())
    return _CaseOf(given.sizes, indices, extents, given.facts)


def _by_size(given: _CaseOf, cases: Sequence[Mapping[str, Dim]]) -> list[_CaseOf]:
    """The case with sizes replaced; its indices are those of other shapes."""
    new = []
    for values in cases:
        sizes = {name: substitute(dim, values) for name, dim in given.sizes.items()}
        sizes |= {name: substitute(dim, sizes) for name, dim in values.items()}
        facts = tuple(substitute(fact, values) for fact in given.facts if not _is_indexed(fact))
        if not any(isinstance(fact, int) and fact < 0 for fact in facts):
            new.append(_CaseOf(sizes, (), {}, facts))
    return new


def _is_indexed(dim: Dim) -> bool:
    return any(name.startswith("#") for name in symbols_of(dim))


def _by_index(given: _CaseOf, split: IndexSplit) -> _CaseOf:
    """The case with an index written as ``outer * inner_extent + inner``."""
    outer, inner = f"{split.name}o", f"{split.name}i"
    if split.name not in given.extents:
        raise Unproved("an index that is not split")
    new = index_symbol(outer, split.outer) * split.inner + index_symbol(inner, split.inner)
    return _with_index(given, split.name, new, {outer: split.outer, inner: split.inner})


def _with_index(given: _CaseOf, name: str, new: Dim, extents: Mapping[str, Dim]) -> _CaseOf:
    rest = {key: extent for key, extent in given.extents.items() if key != name}
    indices = tuple(substitute(index, {name: new}) for index in given.indices)
    facts = tuple(substitute(fact, {name: new}) for fact in given.facts)
    return _CaseOf(given.sizes, indices, {**rest, **extents}, facts)


def _by_sign(case: Case, given: _CaseOf, condition: SymbolicDim) -> list[_CaseOf]:
    """The cases in which an expression is at least 0, and below 0.

    An index is cut in two ranges where that answers the question.
    """
    symbols = symbols_of(condition)
    indices = sorted(symbols & given.extents.keys())
    if any(name[0] in "@&$" for name in symbols):
        raise Unproved("a condition on the index of a sum or of a whole operand")
    if len(indices) == 1 and linear_parts(condition, indices[0]) is not None:
        (name,) = indices
        try:
            first = case.cut(condition, name)
        except SignSplit as split:  # it depends on sizes whether there are two ranges
            return _by_sign(case, given, split.condition)
        if first is not None:
            rest = given.extents[name] - first
            low, high = f"{name}l", f"{name}h"
            return [
                _with_index(given, name, index_symbol(low, first), {low: first}),
                _with_index(given, name, index_symbol(high, rest) + first, {high: rest}),
            ]
    return [
        _CaseOf(given.sizes, given.indices, given.extents, (*given.facts, fact))
        for fact in (condition, -condition - 1)
    ]
