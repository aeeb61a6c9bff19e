"""Values like those of an example, at its sizes and at other sizes."""

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Final

import numpy as np
import onnx

from xoptim.verification.errors import ChoiceError, FeedError
from xoptim.verification.inputs.assumed import hold
from xoptim.verification.inputs.dims import (
    InputSpec,
    Sizes,
    bind_sizes,
    distinct,
    open_dimensions,
    size_of,
)
from xoptim.verification.inputs.feeding import Feeding, RunPlan, given_feeds
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session import Value

_FLOATS: Final = "fV"  # numpy kinds of floats; V are types of ml_dtypes
_LARGEST_GROWN: Final = 4096  # longer axes of an example do not grow


class VariedExample:
    """Values for the inputs of a model that are drawn from an example.

    Integers and Booleans are elements of the example, in random order, so that indices stay in
    range. Floats are also elements of the example, unless all of them are equal, as in a
    placeholder: these are replaced by numbers from the standard normal distribution.

    Raises `ChoiceError` when the example does not fit the model or breaks an assumption.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        example: Mapping[str, np.ndarray],
        options: VerificationOptions,
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
        dims = open_dimensions(self._feeding.specs)
        sizes: Sizes = {}
        for name, spec in self._specs.items():
            sizes |= bind_sizes(spec, self._example[name].shape)
        return {name: size for name, size in sizes.items() if name in dims}

    def plans(self) -> Iterator[RunPlan]:
        """The example, values like it, random values, then values at other sizes, the strongest
        test first.

        Sizes become 1 and larger, for all dynamic dimensions at once and for each alone. Equal
        sizes of the example change together, and a size that is the sum of two others stays their
        sum.
        """
        yield RunPlan("given", self.sizes, self._seed, dict(self._example))
        candidates = [self.sizes, *map(self._fitted, self._other_sizes())]
        for number, sizes in enumerate(distinct(candidates)):
            yield self._drawn(sizes, self._seed + number)
            if number == 0:
                yield from self._random()

    def _fitted(self, sizes: Sizes) -> Sizes:
        return self._feeding.assumptions.fitted(sizes)

    def _other_sizes(self) -> Iterator[Sizes]:
        fixed = {name: size for name, size in self.sizes.items() if name.isdecimal()}
        free, sums = _relations([self.sizes[name] for name in self.sizes.keys() - fixed.keys()])
        unchanged = {size: size for size in free}
        grown = {size: _grown(size, place + 1) for place, size in enumerate(free)}
        changes = [grown, dict.fromkeys(free, 1)]
        for size in free:
            changes += [unchanged | {size: 1}, unchanged | {size: _grown(size, size + 1)}]
        for change in changes if free else ():
            new_sizes = dict(change)
            for total, (a, b) in sums.items():
                new_sizes[total] = new_sizes[a] + new_sizes[b]
            yield {name: new_sizes.get(size, size) for name, size in self.sizes.items()} | fixed

    def _random(self) -> Iterator[RunPlan]:
        """Values that suit the use of each input, such as any row of an embedding."""
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
        lengths = (size_of(entry, sizes) for entry in spec.shape)
        return tuple(
            example_size if size is None else size
            for size, example_size in zip(lengths, example, strict=True)
        )


def _relations(sizes: Collection[int]) -> tuple[list[int], dict[int, tuple[int, int]]]:
    """The different sizes of an example in ascending order, without sums; and each size that is the
    sum of two others, such as the length of a mask over past and new positions.

    An exporter gives related sizes names of their own, and the exported module may accept sizes
    that break the relation. So equal sizes change together, and sums stay sums.
    """
    different = sorted({*sizes})
    sums: dict[int, tuple[int, int]] = {}
    for total in different:  # the terms of a sum are smaller, unless one is 0
        pairs = combinations(filter(None, different), 2)
        terms = next((pair for pair in pairs if sum(pair) == total), None)
        if terms is not None:
            sums[total] = terms
    return [size for size in different if size not in sums], sums


def _grown(size: int, step: int) -> int:
    return size + step if size < _LARGEST_GROWN else size


def _resampled(array: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """An array of this shape with elements of another array, drawn with replacement."""
    flat = array.reshape(-1)
    is_constant = flat.size < 2 or bool((flat == flat[0]).all())
    if array.dtype.kind in _FLOATS and is_constant:
        return np.asarray(rng.standard_normal(shape)).astype(array.dtype)
    if not flat.size:
        return np.zeros(shape, array.dtype)
    return np.asarray(flat[rng.integers(0, flat.size, shape)])
