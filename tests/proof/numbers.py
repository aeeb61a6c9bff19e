"""The numbers that elements stand for, given sizes, indices and the values of inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from xoptim.facts.dims import Dim, evaluate
from xoptim.proof.elements import Element, Factor
from xoptim.proof.indices import ElementName
from xoptim.proof.kinds import (
    CONSTANT,
    ERF,
    EXP,
    FLOOR,
    LOG,
    ROOT,
    ROUND,
    SIZE,
    SUM,
    TANH,
    WITHIN,
    Stored,
)

Functions = Callable[[tuple[Any, ...], list[float]], float]
"""The value of a function without laws: takes its key and the values of its arguments."""


def _no_function(key: tuple[Any, ...], _args: list[float]) -> float:
    raise AssertionError(f"no value of {key}")


_REDUCTIONS: Mapping[tuple[Any, ...], Callable[[list[float]], float]] = {
    ("ReduceMax",): max,
    ("ReduceMin",): min,
    ("ReduceProd",): math.prod,
}

_REAL_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    EXP: lambda x: math.exp(x) if x < 700 else math.inf,
    LOG: math.log,
    TANH: math.tanh,
    ERF: math.erf,
    FLOOR: math.floor,
    ROUND: round,
}


class Numbers:
    """Evaluates elements: sums are computed term by term, without any law."""

    def __init__(
        self,
        inputs: Mapping[str, np.ndarray[Any, Any]],
        functions: Functions = _no_function,
    ) -> None:
        self.inputs = inputs
        self.functions = functions

    def element(self, value: Element, sizes: Mapping[str, int]) -> float:
        total = 0.0
        for (bounds, powers), coefficient in value.terms.items():
            extents = [range(evaluate(extent, sizes)) for _, extent in bounds]
            for place in itertools.product(*extents):
                inner = {**sizes, **dict(zip((name for name, _ in bounds), place, strict=True))}
                total += self._product(powers, coefficient, inner)
        return total

    def _product(
        self, powers: tuple[tuple[Factor, int], ...], coefficient: int | Fraction, sizes: Any
    ) -> float:
        result = float(coefficient)
        # Outside of its range, an operand is not read.
        ordered = sorted(powers, key=lambda power: power[0].key[0] != WITHIN)
        for base, power in ordered:
            if not result:
                return 0.0
            result *= self.factor(base, sizes) ** power
        return result

    def factor(self, base: Factor, sizes: Mapping[str, int]) -> float:
        kind = base.key[0]
        if kind in ("input", CONSTANT, "bits"):
            place = tuple(self.index(arg, sizes) for arg in base.args)
            source = base.key[1]
            array = source.array if isinstance(source, Stored) else self.inputs[str(source)]
            assert all(0 <= i < n for i, n in zip(place, array.shape, strict=True))
            return float(array[place])
        if kind in (SIZE, WITHIN):
            number = self.index(base.args[0], sizes)
            return float(number) if kind == SIZE else float(number >= 0)
        if base.key in _REDUCTIONS:
            (listed,) = base.args
            assert isinstance(listed, Element)
            return float(_REDUCTIONS[base.key](self._members(listed, sizes)))
        if kind in ("ArgMax", "ArgMin"):
            return float(self._place(base, sizes))
        args = [
            self.element(arg, sizes) if isinstance(arg, Element) else float(self.index(arg, sizes))
            for arg in base.args
        ]
        if kind == SUM:
            return args[0]
        if kind == ROOT:
            return math.sqrt(args[0])
        if kind in _REAL_FUNCTIONS:
            return _REAL_FUNCTIONS[str(kind)](args[0])
        if kind == "position":
            return args[0] if args[0] >= 0 else args[0] + args[1]
        return self.functions(base.key, args)

    def _place(self, base: Factor, sizes: Mapping[str, int]) -> int:
        """The index of the greatest or the least element that a formal sum lists."""
        (listed,) = base.args
        assert isinstance(listed, Element)
        pairs: list[tuple[float, int]] = []
        for bounds, powers in listed.terms:
            ((mark, _),) = powers
            value, index = mark.args
            assert isinstance(value, Element)
            extents = [range(evaluate(extent, sizes)) for _, extent in bounds]
            for place in itertools.product(*extents):
                inner = {**sizes, **dict(zip((name for name, _ in bounds), place, strict=True))}
                pairs.append((self.element(value, inner), self.index(index, inner)))
        best = (max if base.key[0] == "ArgMax" else min)(value for value, _ in pairs)
        places = [place for value, place in pairs if value == best]
        return max(places) if base.key[1] else min(places)

    def _members(self, listed: Element, sizes: Mapping[str, int]) -> list[float]:
        """The elements that a formal sum lists."""
        members: list[float] = []
        for (bounds, powers), coefficient in listed.terms.items():
            *conditions, (base, power) = sorted(powers, key=lambda p: p[0].key[0] != WITHIN)
            assert power == 1
            (member,) = base.args
            assert isinstance(member, Element)
            extents = [range(evaluate(extent, sizes)) for _, extent in bounds]
            for place in itertools.product(*extents):
                inner = {**sizes, **dict(zip((name for name, _ in bounds), place, strict=True))}
                if not all(self.factor(condition, inner) for condition, _ in conditions):
                    continue
                members += [self.element(member, inner)] * int(coefficient)
        return members

    def index(self, arg: Dim | Element, sizes: Mapping[str, int]) -> int:
        assert not isinstance(arg, Element)
        names = () if isinstance(arg, int) else arg.symbols
        read: dict[str, int] = {
            name: round(self.element(content, sizes))
            for name in names
            if isinstance(name, ElementName) and isinstance(content := name.content, Element)
        }
        return evaluate(arg, {**sizes, **read})
