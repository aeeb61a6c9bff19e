"""Integers of 32 and 64 bits: a number that wraps around is never replaced by the exact one."""

import pytest
from hypothesis import assume, given, settings, strategies as st

from tests.facts.test_dims import POINTS, POLYNOMIALS, Tree, _dim, _number
from xoptim.facts.dims import (
    LARGEST_SIZE,
    SymbolicDim,
    as_integer,
    before_wrapping,
    bounds,
    broadcast,
    evaluate,
    fresh,
    lower_bound,
    named,
    substitute,
)

N, M = named("n"), named("m")


def _wrapped(value: int, bits: int) -> int:
    half = 1 << bits - 1
    return (value + half) % (half * 2) - half


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    POLYNOMIALS,
    POLYNOMIALS,
    st.sampled_from((1, 3, 2**20, 2**31, 2**33 + 1)),
    st.sampled_from((32, 64)),
)
def test_arithmetic_of_integers_is_what_a_processor_computes(
    left: Tree, right: Tree, scale: int, bits: int
) -> None:
    first = as_integer(_dim(left) * scale, bits)
    whole = as_integer(first * _dim(right) + first, bits)
    low, high = bounds(whole)
    assert low is not None
    assert high is not None
    assert -(2 ** (bits - 1)) <= low <= high < 2 ** (bits - 1)
    for point in POINTS[::7]:
        point = {name: size * 1009 for name, size in point.items()}
        a, b = _wrapped(_number(left, point) * scale, bits), _number(right, point)
        if isinstance(whole, SymbolicDim) and whole.is_anonymous:
            continue
        assert evaluate(whole, point) == _wrapped(a * b + a, bits)
        assert low <= evaluate(whole, point) <= high


@settings(max_examples=100, deadline=None)
@given(POLYNOMIALS, POLYNOMIALS, st.sampled_from((32, 64)))
def test_wrapping_early_or_late_is_the_same(left: Tree, right: Tree, bits: int) -> None:
    a, b = _dim(left) * 2**40, _dim(right) * (2**29 + 1)
    product = a * b
    assume(not isinstance(product, SymbolicDim) or not product.is_anonymous)
    assert as_integer(as_integer(a, bits) + as_integer(b, bits), bits) == as_integer(a + b, bits)
    assert as_integer(as_integer(a, bits) * b, bits) == as_integer(a * as_integer(b, bits), bits)


def test_only_what_is_in_range_stands_for_itself() -> None:
    assert as_integer(64 * N + 5, 64) is 64 * N + 5
    assert str(as_integer(N, 32)) == "int32(n)"
    assert str(as_integer(N * M, 64)) == "int64(m*n)"
    assert as_integer(N // 2**20, 32) is N // 2**20
    assert as_integer(N * 2**32, 32) == 0
    assert as_integer(N * (2**64 - 1), 64) is -N
    assert as_integer(as_integer(N * M, 64), 32) is as_integer(N * M, 32)
    assert as_integer(as_integer(N, 32), 64) is as_integer(N, 32)
    assert as_integer(2**31, 32) == -(2**31)
    assert substitute(as_integer(N, 32), {"n": M % 7}) is M % 7
    assert evaluate(as_integer(N, 32), {"n": 2**31 + 1}) == 1 - 2**31


def test_what_a_cut_integer_tells() -> None:
    cut = as_integer(N, 32)
    assert bounds(cut) == (-(2**31), 2**31 - 1)
    assert lower_bound(N - cut) == 0
    assert lower_bound(cut + N) == -(2**31)
    assert (
        lower_bound(fresh(nonnegative=False) - as_integer(fresh(nonnegative=False), 32))
        == -(2**63) - 2**31 + 1
    )
    assert before_wrapping(cut) is N
    assert before_wrapping(cut, 64) is cut
    assert before_wrapping(as_integer(N * M, 64), 64) is N * M
    assert before_wrapping(5) == 5


def test_a_size_meets_itself_cut_to_fewer_bits_only_where_nothing_is_cut() -> None:
    assert broadcast(N, as_integer(N, 32)) is N
    assert broadcast(as_integer(N * M, 64), N * M) is N * M
    signed = fresh(nonnegative=False)
    assert broadcast(signed, as_integer(signed, 32)) is not signed


@pytest.mark.parametrize("size", [0, 1, LARGEST_SIZE])
def test_named_sizes_reach_from_none_to_what_memory_holds(size: int) -> None:
    low, high = bounds(N)
    assert low is not None
    assert high is not None
    assert low <= size <= high
