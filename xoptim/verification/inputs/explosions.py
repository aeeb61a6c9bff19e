"""Results that explode: so large, compared with the inputs, that rounding hides terms.

Such results are no evidence. A model whose usual values lead to them also runs on smaller values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import onnx

from xoptim.facts.dtypes import bits, element_type, is_float
from xoptim.facts.protos import every_node, is_external
from xoptim.graph.data_file import stored_tensors
from xoptim.verification.inputs.dims import Sizes
from xoptim.verification.inputs.feeding import Feeding, Planning, ReferenceRun, RunPlan
from xoptim.verification.inputs.magnitudes import GROWTH, largest_magnitude, median_magnitude
from xoptim.verification.runs.protos import tensor_array
from xoptim.verification.runs.session import Value

_SCALES: Final = tuple(4.0**-power for power in range(1, 9))
_PROPORTIONAL: Final = 2.0  # largest factor by which a proportional result may miss its scale
_SCALED: Final = ("free", "positive", "unit")  # kinds of floats that may have any scale
_MAX_ELEMENTS: Final = 1 << 16  # of a constant that is read

Probe: TypeAlias = Callable[[Sizes, int, Planning], ReferenceRun | None]
"""Runs the original on the values of a plan; ``None`` when it does not run on them."""


class _Trouble(NamedTuple):
    """The number of outputs that explode, and of elements that are infinite or NaN."""

    outputs: int
    elements: int

    def is_within(self, other: _Trouble) -> bool:
        return self.outputs <= other.outputs and self.elements <= other.elements

    def is_half_of(self, other: _Trouble) -> bool:
        """Whether at most half of the trouble is left: some infinities of masks may remain."""
        return 2 * self.outputs <= other.outputs and 2 * self.elements <= other.elements


class Explosions:
    """The explosions among the results of a model."""

    def __init__(self, feeding: Feeding) -> None:
        self._feeding = feeding
        self._constant: float | None = None
        self._is_linear = False

    def leveled(self, runs: Iterable[ReferenceRun]) -> list[ReferenceRun]:
        """The runs, with the magnitude that their results are compared with."""
        return [replace(run, level=self._level(run)) for run in runs]

    def _level(self, run: ReferenceRun) -> float:
        """At least 1: the largest magnitude of inputs, and of constants where results are large.

        Infinite where the results are proportional to the inputs.
        """
        if self._is_linear:
            return math.inf
        largest = max(map(largest_magnitude, _arrays(run.feeds.values())), default=0.0)
        level = max(1.0, largest)
        tops = map(largest_magnitude, _floats(run.results))
        if all(top <= GROWTH * level for top in tops):
            return level
        return max(level, self._largest_constant())

    def calm(self, runs: Iterable[ReferenceRun], probe: Probe) -> list[ReferenceRun]:
        """For runs whose results explode, runs on smaller values.

        Each run has the largest scale at which as few results explode as at the smallest scale. No
        run is added where smaller values do not help.
        """
        calm = [self._calmer(run, probe) for run in runs]
        return [replace(run, is_probe=False) for run in calm if run is not None]

    def _calmer(self, run: ReferenceRun, probe: Probe) -> ReferenceRun | None:
        trouble = self._trouble(run)
        if not any(trouble):
            return None
        first = self._scaled(run, _SCALES[0], probe)
        if first is None or not any(self._trouble(first)):
            return first
        if trouble.outputs and _is_proportional(run, first):
            self._is_linear = True
            return None
        smallest = self._scaled(run, _SCALES[-1], probe)
        calm = trouble if smallest is None else self._trouble(smallest)
        if not calm.is_half_of(trouble):
            return None
        tries = (self._scaled(run, scale, probe) for scale in _SCALES[1:-1])
        runs = (calmer for calmer in tries if calmer and self._trouble(calmer).is_within(calm))
        return next(runs, smallest)

    def _scaled(self, run: ReferenceRun, scale: float, probe: Probe) -> ReferenceRun | None:
        """The original on the values of a run, random floats multiplied by a scale."""
        feeding = self._feeding
        names = {
            spec.name
            for spec in feeding.random
            if is_float(spec.element_type) and feeding.uses[spec.name].kind in _SCALED
        }
        feeds = {
            name: _multiplied(value, scale) if name in names else value
            for name, value in run.feeds.items()
        }
        plan = RunPlan("small", run.sizes, run.seed, feeding.held(feeds))
        return probe(run.sizes, run.seed, lambda *_: plan) if names else None

    def _trouble(self, run: ReferenceRun) -> _Trouble:
        limit = GROWTH * self._level(run)
        arrays = _floats(run.results)
        return _Trouble(
            sum(median_magnitude(array) > limit for array in arrays),
            sum(array.size - int(np.count_nonzero(np.isfinite(array))) for array in arrays),
        )

    def _largest_constant(self) -> float:
        if self._constant is None:
            tensors = map(largest_magnitude, _small_tensors(self._feeding.model))
            self._constant = max((*tensors, *_attribute_numbers(self._feeding.model)), default=0.0)
        return self._constant


def _multiplied(value: Value, scale: float) -> Value:
    """A tensor of floats, or a sequence of such tensors, multiplied by a scale."""
    if isinstance(value, list):
        return [_multiplied(item, scale) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    return np.asarray((value.astype(np.float64) * scale).astype(value.dtype))


def _is_proportional(run: ReferenceRun, scaled: ReferenceRun) -> bool:
    """Whether all large results shrink about as much as the inputs: then the weights make them
    large, for the user's values as well.
    """
    pairs = zip(_floats(run.results), _floats(scaled.results), strict=False)
    medians = [(median_magnitude(first), median_magnitude(second)) for first, second in pairs]
    shares = [second / first / _SCALES[0] for first, second in medians if first > GROWTH]
    return all(1 / _PROPORTIONAL < share < _PROPORTIONAL for share in shares)


def _arrays(values: Iterable[Value]) -> Iterator[np.ndarray]:
    """The tensors of numbers among values, flat."""
    for value in values:
        if isinstance(value, np.ndarray) and value.dtype.kind not in "OSUbc":
            flat = value.reshape(-1)
            yield flat.astype(np.float64) if flat.dtype.kind in "iu" else flat


def _floats(values: Sequence[Value]) -> list[np.ndarray]:
    """The tensors of floats of 16 bits or more among results, flat."""
    arrays = (value for value in values if isinstance(value, np.ndarray))
    wide = (array for array in arrays if _is_wide(element_type(array.dtype)))
    return [array.reshape(-1) for array in wide]


def _is_wide(element: int) -> bool:
    return is_float(element) and bits(element) >= 16


def _small_tensors(model: onnx.ModelProto) -> Iterator[np.ndarray]:
    """The elements of the small float tensors that a model stores."""
    for tensor in stored_tensors(model):
        is_short = math.prod(tensor.dims) <= _MAX_ELEMENTS
        if is_short and _is_wide(tensor.data_type) and not is_external(tensor):
            yield tensor_array(tensor, None).reshape(-1)


def _attribute_numbers(model: onnx.ModelProto) -> Iterator[float]:
    bodies = (model.graph.node, *(function.node for function in model.functions))
    nodes = (node for body in bodies for node in every_node(body))
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        yield from map(abs, (attribute.f, *attribute.floats))
