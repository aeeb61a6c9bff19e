"""Sizes of dimensions that give a computed size a certain value."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from xoptim.facts.dims import SymbolicDim
from xoptim.facts.shapes import Info
from xoptim.verification.inputs.dims import Sizes
from xoptim.verification.inputs.sized import SizedModel

MAX_SIZE: Final = 4096
"""Largest size of a dimension, and length of a sequence, that is tried."""
_MAX_PAIRS: Final = 4  # solutions that change two dimensions
_SMALL: Final = 64  # the largest size of two dimensions that are changed together


class SizeGoals:
    """Solves equations about sizes.

    Args:
        model: with the shapes of its results.
        base: sizes on which the original runs.
        fixed: dimensions whose sizes the caller determined.
    """

    def __init__(self, model: SizedModel, base: Sizes, fixed: Mapping[str, int]) -> None:
        self._model = model
        self._base = base
        self._fixed = fixed
        graphs = model.graph.model.graphs() if model.graph is not None else ()
        self._graphs = list(graphs)

    def is_size(self, name: str) -> bool:
        """Whether a value is a number that follows from sizes."""
        return self._dim(name) is not None

    def solutions(self, name: str, value: Any) -> Iterator[Sizes]:
        """Sizes that give a computed size a value, changes of one dimension first."""
        dim = self._dim(name)
        if dim is None or not float(value).is_integer():
            return
        names = sorted(self._names(dim) - self._fixed.keys())
        for symbol in names:
            yield from self._single(dim, symbol, int(value))
        if len(names) > 1:
            pairs = (
                {first: a, second: b}
                for first, second in itertools.combinations(names, 2)
                for a, b in _size_pairs()
            )
            fitting = (sizes for sizes in pairs if self._at(dim, sizes) == value)
            yield from itertools.islice(fitting, _MAX_PAIRS)

    def products(self, name: str, value: Any) -> Iterator[Sizes]:
        """Sizes of one dimension with which a tensor has this number of elements."""
        info = self._info(name)
        if info is None or info.shape is None or not float(value).is_integer():
            return
        total = math.prod(info.shape, start=1)
        if isinstance(total, SymbolicDim):
            for symbol in sorted(self._names(total) - self._fixed.keys()):
                yield from self._single(total, symbol, int(value))

    def at_least(self, name: str, size: int) -> Sizes:
        """Sizes of at least ``size`` for the dimensions of an input."""
        info = self._info(name)
        dims = info.shape if info is not None and info.shape is not None else ()
        names = {n for dim in dims if isinstance(dim, SymbolicDim) for n in self._names(dim)}
        return {dim: max(size, self._base.get(dim, 0)) for dim in sorted(names)}

    def _single(self, dim: SymbolicDim, name: str, value: int) -> Iterator[Sizes]:
        """The first size of one dimension that gives a value."""
        low = self._at(dim, {name: 1})
        high = self._at(dim, {name: MAX_SIZE})
        if low is None or high is None or not min(low, high) <= value <= max(low, high):
            return
        start, end = 1, MAX_SIZE  # sizes grow with their dimensions
        while start < end:
            middle = (start + end) // 2
            reached = self._at(dim, {name: middle})
            if reached is None:
                return
            is_enough = reached >= value if high >= low else reached <= value
            start, end = (start, middle) if is_enough else (middle + 1, end)
        if self._at(dim, {name: start}) == value:
            yield {name: start}

    def _at(self, dim: SymbolicDim, changes: Mapping[str, int]) -> int | None:
        return self._model.at({**self._base, **changes}).exact(dim)

    def _names(self, dim: SymbolicDim) -> frozenset[str]:
        return self._model.dims(dim.symbols) or frozenset()

    def _dim(self, name: str) -> SymbolicDim | None:
        info = self._info(name)
        data = info.data if info is not None else None
        if data is None or len(data) != 1 or not isinstance(data[0], SymbolicDim):
            return None
        return data[0]

    def _info(self, name: str) -> Info | None:
        infos = (graph.info_of(name) for graph in self._graphs)
        return next((info for info in infos if info.shape is not None or info.data), None)


def _size_pairs() -> Iterator[tuple[int, int]]:
    """Sizes of two dimensions, small ones first."""
    pairs = itertools.product(range(1, _SMALL + 1), repeat=2)
    return iter(sorted(((a, b) for a, b in pairs), key=lambda pair: (math.prod(pair), pair)))
