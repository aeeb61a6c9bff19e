"""All that may take long asks the clock, and nothing takes the end of the time for an answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tests.support import parse
from xoptim.facts.dims import named
from xoptim.proof.elements import function
from xoptim.proof.folded import Closeness
from xoptim.proof.indices import CLOCK, DEADLINE, CaseFacts, OutOfTime
from xoptim.proof.kinds import CONSTANT, Stored
from xoptim.proof.pieces import are_equal_in_pieces
from xoptim.proof.proving import prove_models

FOLDED = (
    "(float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}, float[4] v = {1, 2, 3, 5}>",
    "a = Mul(x, w) b = Exp(a) c = Relu(b) y = Tanh(c)",
    "a = Mul(x, v) b = Exp(a) c = Relu(b) y = Tanh(c)",
)


@contextmanager
def late() -> Iterator[None]:
    """A time after the deadline."""
    clock, deadline = CLOCK.set(lambda: 1.0), DEADLINE.set(0.0)
    try:
        yield
    finally:
        CLOCK.reset(clock)
        DEADLINE.reset(deadline)


@pytest.mark.parametrize("seconds", range(0, 400, 7))
def test_the_first_answer_after_the_deadline_ends_a_proof(seconds: int) -> None:
    signature, *sides = FOLDED
    before, after = (parse(f"g {signature} {{ {nodes} }}") for nodes in sides)
    ticks = itertools.count()
    token = CLOCK.set(lambda: float(next(ticks)))
    try:
        proof = prove_models(before, after, seconds=seconds)
    finally:
        CLOCK.reset(token)
    asked = next(ticks)
    assert not proof.is_proved
    # the start of both functions, the duration, and the question that came too late
    assert proof.reason == "the time limit is reached" if asked > seconds + 2 else proof.reason
    assert asked <= seconds + 4


def test_new_elements_ask() -> None:
    x, z = (function("input", name, 1, args=[0]) for name in "xz")
    with late(), pytest.raises(OutOfTime):
        x.scaled(17) + z.scaled(19)


def test_comparisons_of_constants_ask() -> None:
    pairs = []
    for numbers in ([1, 2], [1, 2.000001]):
        stored = Stored(np.array(numbers, np.float32))
        pairs.append(function(CONSTANT, stored, args=[named("#i", (0, 1))]))
    closeness = Closeness({"#i": 2}, 1)
    assert closeness.are_close(*pairs)
    with late(), pytest.raises(OutOfTime):
        closeness.are_close(*pairs)


def test_cases_ask() -> None:
    x, z = (function("input", name, 1, args=[0]) for name in "xz")
    with late(), pytest.raises(OutOfTime):
        are_equal_in_pieces(x, z, lambda a, b: a is b, of_integers=False)


def test_signs_ask() -> None:
    case = CaseFacts(is_exact=True)
    size, other = named("N"), named("M")
    with late(), pytest.raises(OutOfTime):
        case.is_at_least_zero(size - other)
