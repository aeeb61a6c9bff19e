"""A meter without a clock: true times and the width of intervals are given."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from xoptim.bench import Interval, Ratio
from xoptim.tuning.choices import Choice

Seconds = Callable[[Choice], float]

MODEL = """
agraph (float[n,4] x) => (float[n,4] y)
{
    t = Transpose<perm=[1,0]>(x)
    u = Transpose<perm=[1,0]>(t)
    shape = Shape(u)
    r = Reshape(u, shape)
    s = Sigmoid(r)
    m = Mul(r, s)
    y = Relu(m)
}"""
"""Among the groups that apply: movement (two transpositions), shapes (a computed one), activations
for onnxruntime.
"""


def by_groups(**costs: float) -> Seconds:
    """The original takes 1; each group of patterns that runs multiplies the time of a model by its
    cost.
    """

    def seconds(choice: Choice) -> float:
        result = 1.0
        for name, cost in costs.items() if choice.recipe.rewrites else ():
            result *= 1.0 if name in choice.recipe.without else cost
        return result

    return seconds


def ratio(value: float, width: float = 0.004) -> Ratio:
    """A ratio with an interval of this width around it."""
    return Ratio(value, Interval(value - width / 2, value + width / 2))


class FakeMeter:
    """Computes ratios from true times; intervals become narrower with each pass.

    Attributes:
        passes: the choices of each pass, in order.

    Args:
        seconds: the true time of a choice.
        noise: width of the interval after one pass.
        most: number of runs of a choice, one for each pass, that fit.
        failing: the reasons of choices that cannot be run.
    """

    def __init__(
        self,
        seconds: Callable[[Choice], float],
        *,
        noise: float = 0.01,
        most: int = 10_000,
        failing: Mapping[Choice, str] | None = None,
    ) -> None:
        self.passes: list[list[Choice]] = []
        self._seconds = seconds
        self._noise = noise
        self._left = most
        self._failing = failing or {}
        self._counts: Counter[Choice] = Counter()

    def measure(self, choices: Sequence[Choice]) -> dict[Choice, str]:
        assert len(set(choices)) == len(choices)
        self.passes.append(list(choices))
        self._left -= len(choices)
        failed = {choice: self._failing[choice] for choice in choices if choice in self._failing}
        self._counts.update(choice for choice in choices if choice not in failed)
        return failed

    def ratio(self, choice: Choice, base: Choice) -> Ratio:
        passes = self.count(choice, base)
        assert passes, "not measured"
        return ratio(
            self._seconds(choice) / self._seconds(base),
            0.0 if choice == base else self._noise / passes,
        )

    def count(self, choice: Choice, base: Choice) -> int:
        return min(self._counts[choice], self._counts[base])

    def fits(self, runs: int) -> bool:
        return runs <= self._left


Timed = Callable[..., list[FakeMeter]]
"""Replaces the clock by given times (`seconds` and the options of a `FakeMeter`).

Returns the meters made from then on.
"""
