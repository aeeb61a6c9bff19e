"""Third stage of quantization: which candidates are quantized, and why the others are not.

The candidates that save most for their error are chosen, as long as the model keeps the tolerance.
The preceding stage is `xoptim.precision.measured`, the next one `xoptim.precision.quantized`.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final, Literal, Protocol, TypeAlias

from xoptim.facts.json_results import JsonForm, JsonResult, member, within
from xoptim.facts.progress import silent, with_progress
from xoptim.precision.candidates import with_dependents
from xoptim.precision.measured import Measured, worthwhile
from xoptim.precision.options import Goal
from xoptim.precision.reference import Errors
from xoptim.precision.samples import Samples

CERTAIN: Final = 0.8
"""Factor by which expected errors count where time is saved. Unlike an error measured on a few
samples, an expected error needs no reserve for other data.
"""
_MAX_SHRINKS: Final = 12
_SHRINK: Final = 0.95
"""Factor of a budget that is made smaller because the measured error was too large. Without it, the
next error could exceed the tolerance again by a little.
"""
_SQUARE_SHRINK: Final = 0.9
"""The same factor for the squared error of a model."""
_ROUNDING: Final = 1 + 1e-9
Decision: TypeAlias = Literal[
    "quantized", "another form", "an input in float32", "not faster", "error or bytes"
]


class ErrorSession(Protocol):
    """A session in which choices are measured."""

    def errors(self, forms: Mapping[str, str], indices: Iterable[int]) -> Errors:
        """The errors when some candidates are quantized; see `ErrorCache.errors`.

        Args:
            forms: the results of the candidates, each with the name of the pattern.
            indices: of the samples.
        """


@dataclass(frozen=True, slots=True)
class QuantizationChoice(JsonResult):
    """An operator or constant that can be quantized, and whether it was.

    Attributes:
        measured: the candidate, its cost and its error.
        decision: ``quantized``, or why it was not. ``another form``: it was quantized in another
            form. ``an input in float32``: it could be quantized only with all of its inputs.
            ``not faster``: it is not faster than in float32 on this machine. ``error or bytes``:
            its error, or its size in the file, is too large.
    """

    __json__ = JsonForm(
        *within("measured", Measured),
        "is_quantized",
        member("decision", description="`quantized`, or why it was not."),
    )
    measured: Measured
    decision: Decision

    @property
    def is_quantized(self) -> bool:
        """Whether it was quantized in this form."""
        return self.decision == "quantized"


def choices_of(
    measured: Sequence[Measured], applied: Mapping[str, str], *, is_timed: bool
) -> list[QuantizationChoice]:
    """The decision for each candidate.

    Args:
        measured: all candidates.
        applied: the results that were quantized, with the names of the patterns.
        is_timed: whether operators that are not faster stay in float32.
    """
    operators = [form for form in measured if not form.candidate.is_weight_only]
    forms = {operator.form for operator in operators}
    computed = {form[0] for form in applied.items() if form in forms}
    fast = _faster(operators) if is_timed else {operator.result for operator in operators}

    def decision(form: Measured) -> Decision:
        candidate = form.candidate
        if applied.get(form.result) == candidate.pattern:
            return "quantized"
        if form.result in (applied if candidate.is_weight_only else computed):
            return "another form"
        if candidate.reads:
            return "an input in float32"
        if not candidate.is_weight_only and form.result not in fast:
            return "not faster"
        return "error or bytes"

    return [QuantizationChoice(form, decision(form)) for form in measured]


def _faster(operators: Sequence[Measured]) -> Collection[str]:
    faster = (operator.candidate for operator in worthwhile(operators))
    independent = [candidate for candidate in faster if candidate.is_independent]
    return with_dependents(independent, [operator.candidate for operator in operators]).keys()


def choose(
    session: ErrorSession,
    measured: Sequence[Measured],
    samples: Samples,
    tolerance: float,
    goal: Goal,
    base: Sequence[Measured] = (),
    dependents: Sequence[Measured] | None = None,
    on_step: Callable[[str], object] = silent,
) -> list[Measured]:
    """The candidates to quantize, in the order in which they were chosen; of several forms of an
    operator, the last one counts.

    The price of a candidate is its squared error divided by the multiplications or bits saved. (1)
    Choose the cheapest candidates that the budgets of all slices allow. (2) Add each further one
    with which the measured error keeps the tolerance. (3) Drop the last ones until the error on all
    samples keeps the tolerance, and try others. The expected error must keep the tolerance as well:
    on a few samples, errors may cancel by chance.

    Args:
        session: measures errors of choices.
        measured: the candidates, each with the error that it adds alone.
        samples: the values; the first half serves to choose.
        tolerance: the largest error allowed, as a fraction.
        goal: whether to save time or bytes.
        base: candidates that are quantized already; not in the result.
        dependents: candidates that may be quantized because of others; ``None`` for ``measured``.
        on_step: called before each attempt.
    """
    candidates = [form.candidate for form in (measured if dependents is None else dependents)]
    ranked = _in_order(filter(partial(_is_worthwhile, goal), measured), goal)
    if not ranked:
        return []

    def errors_on(indices: range, chosen: Sequence[Measured]) -> Errors:
        forms = with_dependents((form.candidate for form in (*base, *chosen)), candidates)
        return session.errors(forms, indices)

    choosing_errors = partial(errors_on, samples.to_choose)
    all_errors = partial(errors_on, range(len(samples.feeds)))
    budget = _budget(tolerance, goal)
    chosen, reached = _affordable(ranked, base, choosing_errors, tolerance, budget)
    fill = partial(_filled, base=base, tolerance=tolerance, goal=goal)
    further = with_progress(ranked, "choosing operators", on_step)
    complete = fill(chosen, reached, [choosing_errors], further)
    kept = _kept(complete, all_errors, tolerance)
    if len(kept) < len(complete):  # what was dropped may leave room for others
        further = with_progress(ranked, "choosing operators again", on_step)
        return fill(kept, all_errors(kept), [choosing_errors, all_errors], further)
    return kept


def _filled(
    chosen: Sequence[Measured],
    reached: Errors,
    measures: Sequence[Callable[[Sequence[Measured]], Errors]],
    candidates: Iterable[Measured],
    *,
    base: Sequence[Measured],
    tolerance: float,
    goal: Goal,
) -> list[Measured]:
    """A choice with all further candidates that are measured to keep the tolerance.

    Args:
        chosen: the choice.
        reached: the errors of the choice.
        measures: measure a choice, the quickest first: most candidates fail there already.
        candidates: further candidates, the cheapest first.
        base: candidates that are quantized already.
        tolerance: of the errors.
        goal: whether to save time or bytes.
    """
    forms, spent = [*chosen], _Spent([*base, *chosen])
    budgets = [_budget(tolerance, goal)] * len(reached)
    for candidate in candidates:
        if _is_covered(candidate, forms, goal) or not spent.allows(candidate, budgets):
            continue
        if not _allows(reached, candidate.errors, tolerance):
            continue
        errors = _first_excess(measures, [*forms, candidate], tolerance)
        if max(errors) <= tolerance:
            forms, reached = [*forms, candidate], errors
            spent.add(candidate)
    return forms


def _budget(tolerance: float, goal: Goal) -> float:
    """The largest expected error that a choice may have.

    For the goal ``speed``, it exceeds the tolerance; see `CERTAIN`.
    """
    return tolerance / (CERTAIN if goal == "speed" else 1.0)


def _first_excess(
    measures: Iterable[Callable[[Sequence[Measured]], Errors]],
    chosen: Sequence[Measured],
    tolerance: float,
) -> Errors:
    """The first errors of a choice that exceed the tolerance, or the last ones where none do."""
    errors: Errors = ()
    for measure in measures:
        errors = measure(chosen)
        if max(errors) > tolerance:
            break
    return errors


def _is_worthwhile(goal: Goal, measured: Measured) -> bool:
    return measured.candidate.is_independent and measured.saved(goal) > 0


def _kept(
    chosen: Sequence[Measured], errors_of: Callable[[Sequence[Measured]], Errors], tolerance: float
) -> list[Measured]:
    """A choice whose last candidates are dropped one by one until it keeps the tolerance."""
    forms = [*chosen]
    while forms and max(errors := errors_of(forms)) > tolerance:
        forms.remove(_last_in(forms, errors, tolerance))
    return forms


class _Spent:
    """The squared errors that a choice adds to each slice.

    If the choice has several forms of an operator, the last one counts.
    """

    def __init__(self, chosen: Iterable[Measured] = ()) -> None:
        self._errors: dict[str, Errors] = {}
        self.squares: list[float] = []
        for candidate in chosen:
            self.add(candidate)

    def add(self, candidate: Measured) -> None:
        """Add the squared errors of a candidate, in place of another form of its operator."""
        self.squares = self._with(candidate)
        self._errors[candidate.result] = candidate.errors

    def allows(self, candidate: Measured, budgets: Sequence[float]) -> bool:
        """Whether the candidate still fits, in the slices to whose errors it adds."""
        triples = zip(self._with(candidate), budgets, candidate.errors, strict=True)
        return all(square <= budget**2 or not error for square, budget, error in triples)

    def _with(self, candidate: Measured) -> list[float]:
        before = self._errors.get(candidate.result, (0.0,) * len(candidate.errors))
        squares = self.squares or [0.0] * len(candidate.errors)
        return [
            max(square - old**2 + new**2, 0.0)
            for square, old, new in zip(squares, before, candidate.errors, strict=True)
        ]


def _affordable(
    ranked: Sequence[Measured],
    base: Sequence[Measured],
    errors_of: Callable[[Sequence[Measured]], Errors],
    tolerance: float,
    budget: float,
) -> tuple[list[Measured], Errors]:
    """Candidates that keep the tolerance together, and their errors.

    Errors of different operators are nearly independent, so that their squares add up. Each slice
    of the outputs has a budget of its own, which shrinks where the measured error is too large.

    Args:
        ranked: the candidates, the cheapest first.
        base: candidates that are quantized already.
        errors_of: measures a choice.
        tolerance: of the measured errors.
        budget: for the root of the sum of the squares of each slice.
    """
    budgets = [budget] * len(ranked[0].errors)
    # a budget never shrinks below the error of the cheapest candidate, which saves most for it
    least = ranked[0].errors if ranked[0].error <= tolerance else (0.0,) * len(budgets)
    for _ in range(_MAX_SHRINKS):
        spent, chosen = _Spent(base), list[Measured]()
        for candidate in ranked:
            if spent.allows(candidate, budgets):
                spent.add(candidate)
                chosen.append(candidate)
        if not chosen:
            break
        errors = errors_of(chosen)
        if max(errors) <= tolerance:
            return chosen, errors
        sums = [math.sqrt(square) for square in spent.squares]
        shrunk = (
            limit if error <= tolerance else min(limit, total) * _SHRINK * tolerance / error
            for limit, total, error in zip(budgets, sums, errors, strict=True)
        )
        budgets = [*map(max, shrunk, least)]
    return [], errors_of([]) if base else (0.0,) * len(budgets)


def _is_covered(candidate: Measured, chosen: Iterable[Measured], goal: Goal) -> bool:
    """Whether a choice has a candidate, or a form of its operator that saves as much."""
    forms = (form for form in chosen if form.result == candidate.result)
    return any(form.saved(goal) >= candidate.saved(goal) for form in forms)


def _allows(reached: Errors, errors: Errors, tolerance: float) -> bool:
    """Whether the tolerance still holds with further errors, if squared errors add up."""
    pairs = zip(reached, errors, strict=True)
    return all(old**2 + new**2 <= tolerance**2 or not new for old, new in pairs)


def _last_in(chosen: Sequence[Measured], errors: Errors, tolerance: float) -> Measured:
    """The last candidate that adds to an error that is too large."""
    broken = [index for index, error in enumerate(errors) if error > tolerance]
    contributors = (
        form for form in reversed(chosen) if any(form.errors[index] for index in broken)
    )
    return next(contributors, chosen[-1])


def expected_errors(chosen: Iterable[Measured]) -> Errors:
    """The errors of a choice, if the errors of its candidates are independent.

    If the choice has several forms of an operator, the last one counts.
    """
    return tuple(map(math.sqrt, _Spent(chosen).squares))


def parts_within(errors: Errors, aim: float) -> tuple[float, ...]:
    """For each slice, the part of the squared expected error to keep, so that the error falls to
    ``aim``; 1 for slices whose error is at most ``aim``.
    """
    return tuple(1.0 if error <= aim else _SQUARE_SHRINK * (aim / error) ** 2 for error in errors)


def cheapest(chosen: Sequence[Measured], parts: Sequence[float]) -> list[Measured]:
    """A choice without its last candidates, so that its sum of squared errors falls to a part.

    At least one candidate is dropped. Candidates stay that add nothing to a slice whose error has
    to fall.

    Args:
        chosen: the candidates, in the order in which they were chosen.
        parts: the part of the sum to keep, by slice; 1 where the error may stay.
    """
    forms = [*chosen]
    limits = [part * square for part, square in zip(parts, _Spent(chosen).squares, strict=False)]
    broken = [index for index, part in enumerate(parts) if part < 1]
    while forms:
        contributors = (
            form for form in reversed(forms) if any(form.errors[index] for index in broken)
        )
        forms.remove(next(contributors, forms[-1]))
        squares = zip(_Spent(forms).squares, limits, strict=False)
        broken = [index for index, pair in enumerate(squares) if pair[0] > pair[1] * _ROUNDING]
        if not broken:
            break
    return forms


def _in_order(measured: Iterable[Measured], goal: Goal) -> list[Measured]:
    """The forms that are worth their error, the cheapest first.

    If an operator has several forms, a form that saves more comes after one that saves less, and
    its price is that of the difference between both. As in a fractional knapsack, the first forms
    are the best choice for their total error.
    """
    steps = []
    by_result = sorted(measured, key=lambda form: form.result)
    for _, forms in groupby(by_result, key=lambda form: form.result):
        hull: list[Measured] = []
        for form in sorted(forms, key=lambda form: (form.saved(goal), -form.error)):
            while hull and _is_dominated(hull, form, goal):
                hull.pop()
            hull.append(form)
        steps += [
            (form.price(goal, *hull[max(index - 1, 0) : index]), form)
            for index, form in enumerate(hull)
        ]
    return [form for _, form in sorted(steps, key=lambda step: step[0])]


def _is_dominated(hull: Sequence[Measured], form: Measured, goal: Goal) -> bool:
    """Whether the last form of a hull is not worth its error, compared with one that saves more."""
    last = hull[-1]
    if form.error <= last.error:
        return True
    return form.price(goal, last) < last.price(goal, *hull[-2:-1])
