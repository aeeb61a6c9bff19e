"""Values like those of an example, at its sizes and at others."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import onnx

from xoptim.verification.assumed import hold
from xoptim.verification.dims import (
    InputSpec,
    Sizes,
    bind_sizes,
    distinct,
    open_dimensions,
    size_of,
)
from xoptim.verification.errors import ChoiceError, FeedError
from xoptim.verification.options import ValidationOptions
from xoptim.verification.runs import Feeding, RunPlan, given_feeds
from xoptim.verification.session import Value

_FLOATS: Final = "fV"  # kinds of numpy; the second is that of the types of ml_dtypes
_LARGEST_GROWN: Final = 4096  # of a size: longer axes of an example do not grow


class VariedExample:
    """Values for the inputs of a model that are drawn from an example.

    Integers and Booleans are elements of the example, in random order, so that indices stay in
    range. So are floats, unless all are equal, as placeholders are: then they are drawn from the
    standard normal distribution.

    Raises `ChoiceError` when the example does not fit the model or breaks an assumption.
    """

    def __init__(
        self, model: onnx.ModelProto, example: Mapping[str, np.ndarray], options: ValidationOptions
    ) -> None:
        feeding = Feeding(model, options)
        specs = {spec.name: spec for spec in feeding.specs}
        given_feeds(example, specs, specs)  # raises where they do not fit
        missing = specs.keys() - example.keys()
        if missing:
            raise ChoiceError(f"the example has no value for {', '.join(sorted(missing))}")
        self._feeding, self._specs, self._example = feeding, specs, example
        self._seed = options.seed
        self.sizes = self._sizes_of_example()

    def _sizes_of_example(self) -> Sizes:
        known = open_dimensions(self._feeding.specs)
        found: Sizes = {}
        for name, spec in self._specs.items():
            found |= bind_sizes(spec, self._example[name].shape)
        return {name: size for name, size in found.items() if name in known}

    def plans(self) -> Iterator[RunPlan]:
        """The example, values like it, random values, then values at other sizes, the strongest
        test first.

        Sizes are 1 and larger ones, of all open dimensions at once and of each alone.
        """
        yield RunPlan("given", self.sizes, self._seed, dict(self._example))
        wanted = [self.sizes, *map(self._fitted, self._other_sizes())]
        for number, sizes in enumerate(distinct(wanted)):
            yield self._drawn(sizes, self._seed + number)
            if number == 0:
                yield from self._random()

    def _fitted(self, sizes: Sizes) -> Sizes:
        return self._feeding.assumptions.fitted(sizes)

    def _other_sizes(self) -> Iterator[Sizes]:
        names = list(self.sizes)
        grown = {
            name: size + 1 + place if size < _LARGEST_GROWN else size
            for place, (name, size) in enumerate(self.sizes.items())
        }
        if not names:
            return
        yield grown
        yield dict.fromkeys(names, 1)
        for name, size in self.sizes.items():
            yield self.sizes | {name: 1}
            yield self.sizes | {name: 2 * size + 1 if size < _LARGEST_GROWN else size}

    def _random(self) -> Iterator[RunPlan]:
        """Values by what the model reads them for, such as any row of an embedding."""
        try:
            yield self._feeding.plan(self.sizes, 0, False)
        except FeedError:
            return

    def _drawn(self, sizes: Sizes, seed: int) -> RunPlan:
        rng = np.random.default_rng(seed)
        feeds: dict[str, Value] = {
            name: _resampled(self._example[name], self._shape(spec, sizes), rng)
            for name, spec in self._specs.items()
        }
        return RunPlan("drawn", sizes, seed, hold(self._feeding.assumptions, feeds))

    def _shape(self, spec: InputSpec, sizes: Sizes) -> tuple[int, ...]:
        """The shape of an input; an axis that no size determines is as long as in the example."""
        example = self._example[spec.name].shape
        if spec.shape is None:
            return example
        found = (size_of(entry, sizes) for entry in spec.shape)
        return tuple(
            old if size is None else size for size, old in zip(found, example, strict=True)
        )


def _resampled(array: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """An array of a shape, of elements of another one, which are drawn with replacement."""
    flat = array.reshape(-1)
    is_constant = flat.size < 2 or bool((flat == flat[0]).all())
    if array.dtype.kind in _FLOATS and is_constant:
        return np.asarray(rng.standard_normal(shape)).astype(array.dtype)
    if not flat.size:
        return np.zeros(shape, array.dtype)
    return np.asarray(flat[rng.integers(0, flat.size, shape)])
