"""The time of a search, and a cache of the errors that the search measures."""

import math
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from xoptim.precision.reference import Errors, FloatReference


class SearchBudget:
    """The time that a search may take.

    Args:
        seconds: from now; ``None`` for as long as it takes.
        clock: the time in seconds.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._end = math.inf if seconds is None else clock() + seconds
        self._is_used = False

    def is_over(self) -> bool:
        """Whether the time is over. The caller then skips a measurement."""
        self._is_used = self._is_used or self._clock() >= self._end
        return self._is_used

    @property
    def ended_search(self) -> bool:
        """Whether anything was skipped."""
        return self._is_used


class ErrorCache:
    """Measures the errors of choices, each choice once on each sample.

    After the end of the budget, no new choice is measured.

    Args:
        measure: returns the errors of a choice on the sample with an index.
        reference: has the samples; a choice is tried on the first half of them.
        budget: the time of the search.
    """

    def __init__(
        self,
        measure: Callable[[int, Mapping[str, str]], Errors],
        reference: FloatReference,
        budget: SearchBudget,
    ) -> None:
        self._measure, self._reference, self._budget = measure, reference, budget
        self._errors: dict[tuple[frozenset[tuple[str, str]], int], Errors] = {}

    def errors(self, forms: Mapping[str, str], indices: Iterable[int]) -> Errors:
        """Upper bounds of a choice's errors on unseen values like the samples; rarely exceeded.

        Infinite for a new choice after the end of the budget. A choice that was tried before is
        still measured on the held-out samples.
        """
        key, numbers = frozenset(forms.items()), [*indices]
        missing = [index for index in numbers if (key, index) not in self._errors]
        is_attempt = numbers == [*self._reference.samples.to_choose]
        if missing and is_attempt and self._budget.is_over():
            return (math.inf,) * self._reference.count
        self._errors |= {(key, index): self._measure(index, forms) for index in missing}
        return self._reference.unseen(self._errors[key, index] for index in numbers)
