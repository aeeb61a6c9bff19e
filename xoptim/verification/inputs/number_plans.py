"""Plans of runs on numbers of other kinds, where they may matter for the operators."""

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from xoptim.facts.dtypes import is_float
from xoptim.operators.registry import Trait, operators_with
from xoptim.verification.inputs.feed_style import Style
from xoptim.verification.inputs.feeding import Feeding, Planning
from xoptim.verification.inputs.sized import SizedModel
from xoptim.verification.runs.session import Value

_SPREADING: Final = frozenset(
    ("Conv", "ConvTranspose", "FusedConv", "QuantizeLinear", "DynamicQuantizeLinear")
)
"""Operators that may spread NaN to any result on a GPU: convolutions mix all numbers of a tile."""
_COMPARING: Final = operators_with(Trait.COMPARES, Trait.ARG_REDUCES) | {"TopK"}
"""Operators for which the order of numbers matters."""
_SPLITTING: Final = operators_with(Trait.TREES, domain="ai.onnx.ml")
"""Tree ensembles, in which a NaN takes another branch depending on the feature."""
_MIXING: Final = (
    operators_with(Trait.SUMS_PRODUCTS, Trait.RECURRENT, Trait.WINDOWS, Trait.OWNS_GRAPHS)
    | _SPREADING
)
"""Operators that add up products of their operands, in any order."""
_RANGES: Final = 12  # runs on very large and very small numbers
_TIMES: Final = 4  # runs of one kind where a run takes almost no time
_MAX_LEVELS: Final = 3
_FEW_LEVELS: Final = 2  # of a model whose runs take longer
_USUAL_LEVELS: Final = (0.0, 1.0, -1.0)
_ODD: Final = 3  # numbers that are not finite: NaN and two infinities


class NumberPlans:
    """The plans for a model, chosen by the operators in it and in the model compared with it.

    ``models`` are these two; ``is_tiny``: whether a run takes almost no time.
    """

    def __init__(
        self, feeding: Feeding, models: Collection[SizedModel], *, is_tiny: bool, is_on_gpu: bool
    ) -> None:
        self._feeding = feeding
        self._models = models
        self._is_tiny = is_tiny
        self._is_on_gpu = is_on_gpu

    def plans(self, usual: Mapping[str, Value]) -> list[Planning]:
        """All plans, where ``usual`` are the values of the first run."""
        plans = [*self._magnitudes(), *self._ties()]
        if self._is_tiny:
            plans += self._repeated()
        return [*plans, *self.levels(), *self._odd(usual), *self._ranges()]

    def few(self, usual: Mapping[str, Value]) -> list[Planning]:
        """At most one plan of each kind, and two levels next to a number that only one model has.

        ``usual`` are the values of the first run.
        """
        levels = self.levels()[:_FEW_LEVELS]
        return [*self._magnitudes()[:1], *self._odd(usual)[:1], *self._ties()[:1], *levels]

    def _ranges(self) -> list[Planning]:
        """Very large and very small numbers, where a run takes almost no time.

        Only for the exactness ``rounding`` on the CPU. Not where an operator adds products: a sum
        may overflow in one order only.
        """
        feeding = self._feeding
        options = feeding.options
        is_judged = options.exactness == "rounding" and options.providers == ("cpu",)
        if not self._is_tiny or not is_judged or not feeding.may_be_odd or self._has_any(_MIXING):
            return []
        return [feeding.styled("range", Style(numbers="range"))] * _RANGES

    def levels(self) -> list[Planning]:
        """One number everywhere."""
        levels = self._levels()
        return [self._feeding.styled("level", Style(level=level)) for level in levels]

    def _magnitudes(self) -> list[Planning]:
        """Numbers of many magnitudes, and zeros with large numbers where a run is tiny.

        Of a longer run, only where operators compare numbers, or treat 0 or large ones in another
        way.
        """
        feeding = self._feeding
        if not feeding.may_be_wide:
            return []
        far = feeding.styled("far", Style(numbers="far"))
        if self._is_tiny:
            wide = feeding.styled("wide", Style(numbers="wide"))
            return [wide] * _TIMES + [far] * _TIMES
        return (
            [far]
            if self._has_any(operators_with(Trait.COMPARES, Trait.UNEVEN, domain=None))
            else []
        )

    def _ties(self) -> list[Planning]:
        """Numbers that are often equal, where that matters."""
        feeding = self._feeding
        ties = feeding.styled("ties", Style(numbers="ties"))
        if self._is_tiny:
            may_tie = feeding.may_be_wide or bool(feeding.random)
            return [*([ties] * _TIMES), *self._arranged()] if may_tie else []
        may_tie = feeding.may_be_wide and self._has_any(operators_with(Trait.TIES, domain=None))
        return [ties] if may_tie else []

    def _arranged(self) -> list[Planning]:
        """Rows that ascend, and unit matrices, where numbers are compared."""
        if not self._has_any(_COMPARING):
            return []
        ascending = self._feeding.styled("sorted", Style(numbers="sorted"))
        return [ascending, self._feeding.styled("single", Style(numbers="single"))]

    def _repeated(self) -> list[Planning]:
        """More runs on usual numbers, numbers close to 0, and numbers close to each other."""
        feeding = self._feeding
        plans: list[Planning] = []
        if feeding.random:
            plans += [feeding.plan] * _TIMES
            plans += [feeding.styled("free", Style())] * _TIMES
        if feeding.may_be_odd:
            plans.append(feeding.styled("tiny", Style(numbers="tiny")))
            plans.append(feeding.styled("offset", Style(numbers="offset")))
        return plans

    def _levels(self) -> list[float]:
        """Numbers for all elements: numbers that only one model has and, where an input is one
        number or a run takes almost no time, all numbers of both models.
        """
        feeding = self._feeding
        levels: list[float] = []
        for spec in feeding.random:
            own_numbers = (
                feeding.landmarks.floats
                if is_float(spec.element_type)
                else feeding.landmarks.integers
            )
            if feeding.uses[spec.name].kind in ("free", "positive", "unit"):
                levels += own_numbers
            if spec.shape == () or self._is_tiny:
                levels += feeding.landmarks.all
        limit = _MAX_LEVELS * (_TIMES if self._is_tiny else 1)
        bounds = list(dict.fromkeys(levels))[:limit]
        usual = _USUAL_LEVELS if self._is_tiny and feeding.random else ()
        near = (number for bound in bounds for number in beyond(bound))
        return list(dict.fromkeys((*usual, *near)))

    def _odd(self, usual: Mapping[str, Value]) -> list[Planning]:
        """Infinities and NaN, if the models must agree on the results to which they lead."""
        feeding = self._feeding
        is_strict = feeding.options.exactness in ("exact", "rounding")
        if not feeding.may_be_odd or not is_strict:
            return []
        if self._is_on_gpu and self._has_any(_SPREADING):
            return []
        times = 2 if _has_few_elements(usual) else 1
        if self._is_tiny and self._has_any(_SPLITTING):
            times = _TIMES
        return [feeding.odd_plan()] * times

    def _has_any(self, op_types: Collection[str]) -> bool:
        return any(model.has_any(op_types) for model in self._models)


def beyond(bound: float) -> tuple[float, ...]:
    """A bound, and numbers on both sides of it."""
    step = 1.0 if float(bound).is_integer() else abs(bound) / 2
    return bound, bound + step, bound - step, -bound - step


def _has_few_elements(feeds: Mapping[str, Value]) -> bool:
    """Whether an input has no room for NaN and both infinities."""
    arrays = (value for value in feeds.values() if isinstance(value, np.ndarray))
    return any(0 < array.size < _ODD for array in arrays)
