"""Plans of runs on strings that the models tell apart."""

import math
from typing import Final

from onnx import TensorProto

from xoptim.verification.errors import FeedError
from xoptim.verification.inputs.dims import Sizes, concrete_shape, first_open
from xoptim.verification.inputs.feed_style import Style
from xoptim.verification.inputs.feeding import Feeding, Planning
from xoptim.verification.inputs.model_strings import model_strings

LONG: Final = 64
"""The length of the first open axis of strings, where a run takes almost no time."""


class StringPlans:
    """The plans for a model with inputs of strings; none for other models."""

    def __init__(self, feeding: Feeding) -> None:
        self._feeding = feeding
        self._specs = [s for s in feeding.random if s.element_type == TensorProto.STRING]
        self._strings = model_strings(feeding.models) if self._specs else model_strings(())

    def grown(self, sizes: Sizes) -> Sizes:
        """The sizes, with room for many strings where an input of strings has an open axis."""
        names = map(first_open, self._specs)
        longer = {name: LONG for name in names if name in sizes.keys() - self._feeding.fixed.keys()}
        return self._feeding.assumptions.fitted(sizes | longer)

    def all(self, sizes: Sizes) -> list[Planning]:
        """Plans that together feed every string, at some sizes."""
        texts = self._strings.texts
        count = self._elements(sizes)
        starts = range(0, len(texts), count) if count else ()
        return [self._of(texts[start : start + count]) for start in starts]

    def stop_words(self) -> list[Planning]:
        """A plan with only words that are dropped."""
        return [self._of(self._strings.stop_words)] if self._strings.stop_words else []

    def _of(self, texts: tuple[str, ...]) -> Planning:
        return self._feeding.styled("strings", Style(texts=texts))

    def _elements(self, sizes: Sizes) -> int:
        """The number of elements of the smallest string input that is not empty; 0 if all are."""
        counts = []
        for spec in self._specs:
            try:
                shape = concrete_shape(spec, sizes)
            except (FeedError, KeyError):
                continue
            counts.append(math.prod(shape))
        return min(filter(None, counts), default=0)
