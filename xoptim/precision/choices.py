"""Third stage: which candidates are quantized, in which form, and why others are not.

Those are chosen that give most for their error, as long as the model keeps the tolerance. The stage
before is `xoptim.precision.measured`, the next one `xoptim.precision.quantized`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import sqrt
from typing import Final, Literal, Protocol, TypeAlias

from xoptim.precision.candidates import with_dependents
from xoptim.precision.measured import Measured, worthwhile
from xoptim.precision.options import Goal
from xoptim.precision.samples import Samples

CERTAIN: Final = 0.8
"""Part of an expected error that counts where time is saved: it needs no allowance for other
samples, as one of two does.
"""
Decision: TypeAlias = Literal[
    "quantized", "another form", "an input in float32", "not faster", "error or bytes"
]


class ErrorSession(Protocol):
    """A session in which choices are measured."""

    def error(self, forms: Mapping[str, str], indices: Iterable[int]) -> float:
        """The error when some candidates are quantized, the largest of some samples, as a fraction.

        Args:
            forms: their results, each with the name of the pattern.
            indices: of the samples.
        """


@dataclass(frozen=True, slots=True)
class QuantizationChoice:
    """What was decided for a candidate.

    Attributes:
        measured: the candidate, its cost and its error.
        decision: ``quantized``, or why it is not: ``another form`` of it is, an operator that is
            quantized with its inputs has ``an input in float32``, it is ``not faster`` here, or its
            ``error or bytes`` are too large.
    """

    measured: Measured
    decision: Decision

    @property
    def is_quantized(self) -> bool:
        """Whether it is quantized in this form."""
        return self.decision == "quantized"


def choices_of(
    measured: Sequence[Measured], applied: Mapping[str, str], *, is_timed: bool
) -> list[QuantizationChoice]:
    """What was decided for each candidate.

    Args:
        measured: all candidates.
        applied: the results that were quantized, with the names of the patterns.
        is_timed: whether what is not faster stays in float32.
    """
    operators = [each for each in measured if not each.candidate.is_weight_only]
    forms = {each.form for each in operators}
    computed = {form[0] for form in applied.items() if form in forms}
    fast = _faster(operators) if is_timed else {each.result for each in operators}

    def decision(each: Measured) -> Decision:
        candidate = each.candidate
        if applied.get(each.result) == candidate.pattern:
            return "quantized"
        if each.result in (applied if candidate.is_weight_only else computed):
            return "another form"
        if candidate.reads:
            return "an input in float32"
        if not candidate.is_weight_only and each.result not in fast:
            return "not faster"
        return "error or bytes"

    return [QuantizationChoice(each, decision(each)) for each in measured]


def _faster(operators: Sequence[Measured]) -> Collection[str]:
    """The results of operators that are faster when quantized."""
    faster = (each.candidate for each in worthwhile(operators))
    independent = [each for each in faster if each.is_independent]
    return with_dependents(independent, [each.candidate for each in operators]).keys()


def choose(
    session: ErrorSession,
    measured: Sequence[Measured],
    samples: Samples,
    tolerance: float,
    goal: Goal,
    base: Sequence[Measured] = (),
    along: Sequence[Measured] | None = None,
) -> list[Measured]:
    """The candidates to quantize, in the order in which they were chosen; of several forms of an
    operator, the last one counts.

    Errors of different operators are nearly independent, so that their squares add up; the square
    of an error for each multiplication, or bit, that is saved is the price of a candidate. The
    cheapest that together keep the tolerance are chosen, then each further one that does. The last
    ones are dropped until all samples keep it. A choice must be expected to keep it too: one of
    many has errors that cancel each other by chance on a few samples, and on no other.

    Args:
        session: measures errors of choices.
        measured: what may be quantized, with the error that each adds alone.
        samples: the values; the first half serves to choose.
        tolerance: the largest error allowed, as a fraction.
        goal: what is to be saved.
        base: what is quantized already, which is not among the result.
        along: what may be quantized as well; by default the candidates.
    """
    every = [each.candidate for each in (measured if along is None else along)]
    part = CERTAIN if goal == "speed" else 1.0
    independent = (each for each in measured if each.candidate.is_independent)
    ranked = _in_order((each for each in independent if each.saved(goal) > 0), goal)

    def error(chosen: Sequence[Measured], indices: range) -> float:
        both = [*base, *chosen]
        forms = with_dependents((each.candidate for each in both), every)
        return max(session.error(forms, indices), part * expected_error(both))

    on_first = partial(error, indices=samples.to_choose)
    chosen, reached = _cheapest(ranked, on_first, tolerance, on_first([]) if base else 0.0)
    for each in ranked[len(chosen) :]:
        if reached**2 + each.error**2 > tolerance**2:
            continue
        found = on_first([*chosen, each])
        if found <= tolerance:
            chosen, reached = [*chosen, each], found
    everywhere = range(len(samples.feeds))
    while chosen and error(chosen, everywhere) > tolerance:
        chosen.pop()
    return chosen


def _cheapest(
    ranked: Sequence[Measured],
    error: Callable[[Sequence[Measured]], float],
    tolerance: float,
    least: float,
) -> tuple[list[Measured], float]:
    """As many of the first as keep the tolerance, by bisection, and their error.

    ``least`` is the error of none.
    """
    low, high, reached = 0, len(ranked), least
    while low < high:
        middle = (low + high + 1) // 2
        found = error(ranked[:middle])
        if found <= tolerance:
            low, reached = middle, found
        else:
            high = middle - 1
    return list(ranked[:low]), reached


def expected_error(chosen: Iterable[Measured]) -> float:
    """The error of a choice whose errors are independent; of several forms of an operator, the last
    one counts.
    """
    return sqrt(sum(error**2 for error in {each.result: each.error for each in chosen}.values()))


def cheapest(chosen: Sequence[Measured], part: float) -> list[Measured]:
    """The first ones of a choice, fewer than all, that have at most a part of the sum of the
    squares of their errors.
    """
    squares, sums = dict[str, float](), list[float]()
    for each in chosen:
        squares[each.result] = each.error**2  # as in `expected_error`
        sums.append(sum(squares.values()))
    return [
        each for each, total in zip(chosen[:-1], sums, strict=False) if total <= part * sums[-1]
    ]


def _in_order(measured: Iterable[Measured], goal: Goal) -> list[Measured]:
    """The forms that are worth their error, those first that save most for it.

    A form that saves more than another one of its operator follows it, for the price of the
    difference: the cheapest first are the best choice for their error, as in a fractional knapsack.
    """
    steps = []
    by_result = sorted(measured, key=lambda each: each.result)
    for _, forms in groupby(by_result, key=lambda each: each.result):
        hull: list[Measured] = []
        for each in sorted(forms, key=lambda each: (each.saved(goal), -each.error)):
            while hull and _is_dominated(hull, each, goal):
                hull.pop()
            hull.append(each)
        steps += [
            (each.price(goal, *hull[max(index - 1, 0) : index]), each)
            for index, each in enumerate(hull)
        ]
    return [each for _, each in sorted(steps, key=lambda step: step[0])]


def _is_dominated(hull: Sequence[Measured], each: Measured, goal: Goal) -> bool:
    """Whether the last form of a hull is not worth it next to one that saves more."""
    last = hull[-1]
    if each.error <= last.error:
        return True
    return each.price(goal, last) < last.price(goal, *hull[-2:-1])
