"""Which products to round, in which form: those that give most for their error, as long as the
whole keeps the tolerance.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from math import sqrt
from typing import Final

from xoptim.precision.options import Goal
from xoptim.precision.products import QuantizableOp, with_followers
from xoptim.precision.samples import Samples
from xoptim.precision.trial import Trial

CERTAIN: Final = 0.8
"""Part of an expected error that counts where time is saved: it needs no allowance for other
samples, as one of two does.
"""


def choose(
    trial: Trial,
    products: Sequence[QuantizableOp],
    samples: Samples,
    tolerance: float,
    goal: Goal,
    base: Sequence[QuantizableOp] = (),
    along: Sequence[QuantizableOp] | None = None,
) -> list[QuantizableOp]:
    """The products to round, in the order in which they were chosen; of several forms of a product,
    the last one counts.

    Errors of different products are nearly independent, so that their squares add up; the square of
    an error for each multiplication, or bit, that is saved is the price of a product. The cheapest
    that together keep the tolerance are taken, then each further one that does. The last ones are
    given back until all samples keep it. A choice must be expected to keep it too: one of many has
    errors that cancel each other by chance on a few samples, and on no other.

    Args:
        trial: measures errors of choices.
        products: what may be rounded, with the error that each adds alone.
        samples: the values; the first half serves to choose.
        tolerance: the largest error allowed, as a fraction.
        goal: what is to be saved.
        base: what is rounded already, which is not among the result.
        along: what may go along with what is rounded; by default the products.
    """
    every = products if along is None else along
    part = CERTAIN if goal == "speed" else 1.0
    saving = (each for each in products if each.is_choice and each.saved(goal) > 0)
    ranked = _in_order(saving, goal)

    def error(chosen: Sequence[QuantizableOp], places: range) -> float:
        both = [*base, *chosen]
        return max(trial.error(with_followers(both, every), places), part * expected_error(both))

    on_first = partial(error, places=samples.to_choose)
    chosen, reached = _cheapest(ranked, on_first, tolerance, on_first([]) if base else 0.0)
    for each in ranked[len(chosen) :]:
        if reached**2 + each.alone**2 > tolerance**2:
            continue
        found = on_first([*chosen, each])
        if found <= tolerance:
            chosen, reached = [*chosen, each], found
    everywhere = range(len(samples.feeds))
    while chosen and error(chosen, everywhere) > tolerance:
        chosen.pop()
    return chosen


def _cheapest(
    ranked: Sequence[QuantizableOp],
    error: Callable[[Sequence[QuantizableOp]], float],
    tolerance: float,
    least: float,
) -> tuple[list[QuantizableOp], float]:
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


def expected_error(chosen: Iterable[QuantizableOp]) -> float:
    """The error of a choice whose errors are independent; of several forms of a product, the last
    one counts.
    """
    return sqrt(sum(error**2 for error in {each.result: each.alone for each in chosen}.values()))


def cheapest(chosen: Sequence[QuantizableOp], part: float) -> list[QuantizableOp]:
    """The first ones of a choice, fewer than all, that have at most a part of the sum of the
    squares of their errors.
    """
    squares, sums = dict[str, float](), list[float]()
    for each in chosen:
        squares[each.result] = each.alone**2  # as in `expected_error`
        sums.append(sum(squares.values()))
    return [
        each for each, total in zip(chosen[:-1], sums, strict=False) if total <= part * sums[-1]
    ]


def _in_order(products: Iterable[QuantizableOp], goal: Goal) -> list[QuantizableOp]:
    """The forms that are worth their error, those first that save most for it.

    A form that saves more than another one of its product follows it, for the price of the
    difference: the cheapest first are the best choice for their error, as in a fractional knapsack.
    """
    steps = []
    for _, forms in groupby(
        sorted(products, key=lambda each: each.result), key=lambda each: each.result
    ):
        hull: list[QuantizableOp] = []
        for each in sorted(forms, key=lambda each: (each.saved(goal), -each.alone)):
            while hull and (
                each.alone <= hull[-1].alone
                or each.price(goal, hull[-1]) < hull[-1].price(goal, *hull[-2:-1])
            ):
                hull.pop()
            hull.append(each)
        steps += [
            (each.price(goal, *hull[max(place - 1, 0) : place]), each)
            for place, each in enumerate(hull)
        ]
    return [each for _, each in sorted(steps, key=lambda step: step[0])]
