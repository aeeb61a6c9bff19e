import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.proof.numbers import Numbers
from xoptim.facts.dims import Dim, SymbolicDim, named
from xoptim.proof.constants import constant
from xoptim.proof.elements import ONE, ZERO, Element, function, inverse, number, of_dim
from xoptim.proof.indices import CaseFacts, Unproved
from xoptim.proof.kinds import Stored
from xoptim.proof.laws import dim_of, exponential, root, within
from xoptim.proof.tensors import total

N = named("n", (1, 1000))
M = named("m", (1, 1000))
X = np.random.default_rng(0).uniform(0.5, 2, (3, 4))
SIZES = {"n": 3, "m": 4}


def _x(*place: Dim) -> Element:
    return function("input", "x", args=place)


def _value(element: Element, sizes: Mapping[str, int] = SIZES) -> float:
    return Numbers({"x": X}).element(element, sizes)


def _row_sum(case: CaseFacts, i: Dim) -> Element:
    return total(case, M, lambda j: _x(i, j))


def test_sums_and_products() -> None:
    a, b = _x(0, 1), _x(1, 2)
    assert (a + b) * (a - b) is a * a - b * b
    assert a - a is ZERO
    assert a * number(Fraction(1, 3)) * number(3) is a
    assert _value((a + b).power(3)) == pytest.approx((X[0, 1] + X[1, 2]) ** 3)


def test_names_of_summed_indices_do_not_matter() -> None:
    case = CaseFacts(is_exact=False)
    first = total(case, N, lambda i: total(case, M, lambda j: _x(i, j)))
    second = total(case, M, lambda j: total(case, N, lambda i: _x(i, j)))
    assert first is second
    assert _value(first) == pytest.approx(X.sum())


def test_products_of_sums_keep_their_indices_apart() -> None:
    case = CaseFacts(is_exact=False)
    square = _row_sum(case, 0) * _row_sum(case, 0)
    assert _value(square) == pytest.approx(X[0].sum() ** 2)
    assert square is not total(case, M, lambda j: _x(0, j) * _x(0, j))
    nested = total(case, N, lambda i: _row_sum(case, i) * _row_sum(case, i) * _x(i, 0))
    assert _value(nested) == pytest.approx((X.sum(1) ** 2 * X[:, 0]).sum())


def test_a_sum_of_equal_terms_is_a_product() -> None:
    case = CaseFacts(is_exact=False)
    assert total(case, N, lambda _: _x(0, 0)) is of_dim(N) * _x(0, 0)


def test_a_sum_of_two_ranges() -> None:
    case = CaseFacts(is_exact=False)

    def read(j: Dim) -> Element:
        return _x(0, j) if case.decide(1 - j) else _x(1, j - 2)

    assert _value(total(case, 4, read)) == pytest.approx(X[0, :2].sum() + X[1, :2].sum())


def test_a_sum_over_an_index_that_is_split() -> None:
    case = CaseFacts(is_exact=False)
    flat = total(case, N * 4, lambda k: _x(*case.divided(k, 4)))
    assert flat is total(case, N, lambda i: total(case, 4, lambda j: _x(i, j)))
    assert _value(flat) == pytest.approx(X.sum())


def test_inverses() -> None:
    a, b = _x(0, 1), _x(1, 2)
    assert a * inverse(a) is ONE
    assert inverse((a + b).scaled(3)) is inverse(a + b).scaled(Fraction(1, 3))
    assert inverse(a * a + a * b) * a is inverse(a + b)
    assert _value(inverse(a + b * b)) == pytest.approx(1 / (X[0, 1] + X[1, 2] ** 2))
    with pytest.raises(Unproved):
        inverse(a - a)


def test_a_root_times_itself_under_a_sum() -> None:
    case = CaseFacts(is_exact=False)
    norm = total(case, M, lambda j: root(_x(0, j)) * root(_x(0, j)) * _x(1, j))
    assert norm is total(case, M, lambda j: _x(0, j) * _x(1, j))
    assert _value(norm) == pytest.approx((X[0] * X[1]).sum())
    assert root(_x(0, 0)).power(-3) * _x(0, 0) is inverse(root(_x(0, 0)))


def test_exponentials() -> None:
    a, b = _x(0, 1), _x(1, 2)
    assert exponential(a + b) is exponential(a) * exponential(b)
    assert exponential(a - a) is ONE
    assert exponential(a) * exponential(-a) is ONE
    assert _value(exponential(a.scaled(-2) + b)) == pytest.approx(math.exp(X[1, 2] - 2 * X[0, 1]))


def test_softmax_is_invariant_under_shifts_and_sums_to_one() -> None:
    case = CaseFacts(is_exact=False)
    i, j = case.index(N), case.index(M)

    def softmax(shift: Element) -> Element:
        powers = total(case, M, lambda k: exponential(_x(i, k) - shift))
        return exponential(_x(i, j) - shift) * inverse(powers)

    plain, shifted = softmax(ZERO), softmax(function("max", args=[_row_sum(case, i)]))
    assert plain is shifted
    (name,) = j.symbols
    assert plain.summed(name, M) is ONE
    scaled = plain * _x(i, 0)
    assert scaled.summed(name, M) is _x(i, 0)
    weighted = plain * _x(i, j)
    assert weighted.summed(name, M) is not ONE


def test_substitution_reaches_sums_functions_and_constants() -> None:
    case = CaseFacts(is_exact=False)
    i = case.index(N)
    (name,) = i.symbols
    table = Stored(np.arange(12.0).reshape(3, 4))
    value = (
        total(case, M, lambda j: _x(i, j) * constant(table, [i, j]))
        + function("f", args=[of_dim(i) + _x(i, 0)])
        + constant(table, [i, 0]) * of_dim(i)
        + within(i - 2)
    )
    f: Any = lambda _key, args: 10 * args[0]  # noqa: E731
    numbers = Numbers({"x": X}, f)
    for row in range(3):
        expected = numbers.element(value, {**SIZES, name: row})
        assert numbers.element(value.substituted({name: row}), SIZES) == pytest.approx(expected)
        assert numbers.element(value.substituted({name: i}), {**SIZES, name: row}) == expected


def test_a_whole_operand_has_no_indices() -> None:
    case = CaseFacts(is_exact=False)
    place, i = case.place(0, N), case.index(N)
    assert isinstance(place, SymbolicDim)
    value = function("whole", "f", args=[_x(place, 0), i])
    (name,) = place.symbols
    assert value.substituted({name: 0}) is value
    assert value.substituted({next(iter(i.symbols)): 0}) is not value


def test_integers_as_elements() -> None:
    i = CaseFacts(is_exact=False).index(N)
    assert dim_of(of_dim(i * N + 3)) is i * N + 3
    assert dim_of(of_dim(i) * of_dim(N)) is i * N
    assert dim_of(_x(0, 0)) is None
    assert dim_of(number(Fraction(1, 2))) is None


def test_a_large_expression_is_refused() -> None:
    many = ZERO
    for place in range(30):
        many = many + _x(place, 0)
    with pytest.raises(Unproved, match="large"):
        many * many
