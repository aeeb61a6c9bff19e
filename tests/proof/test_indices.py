import pytest

from xoptim.facts.dims import Dim, SymbolicDim, evaluate, named
from xoptim.proof.indices import (
    BOUND,
    CaseFacts,
    IndexSplit,
    SignSplit,
    Unproved,
    linear_parts,
    multiple_of,
    symbols_of,
)

N = named("n", (1, 1000))
M = named("m", (1, 1000))


def _case() -> CaseFacts:
    return CaseFacts(is_exact=True)


def _ranges(case: CaseFacts, dims: list[Dim], sizes: dict[str, int]) -> list[dict[str, int]]:
    """All values of the indices in some expressions."""
    environments = [dict(sizes)]
    names = sorted({name for dim in dims for name in symbols_of(dim)} & case.extents.keys())
    for name in names:
        extent = evaluate(case.extents[name], sizes)
        environments = [{**e, name: value} for e in environments for value in range(extent)]
    return environments


def test_sign_of_an_index() -> None:
    case = _case()
    i, j = case.index(N), case.index(M)
    assert case.is_at_least_zero(i)
    assert case.is_at_least_zero(N - 1 - i)
    assert case.is_at_least_zero(i - N) is False
    assert case.is_at_least_zero(N * M - 1 - i * M - j)
    assert case.is_at_least_zero(i - j) is None
    assert case.is_at_least_zero(N - 2) is None
    assert case.is_at_least_zero(N * M - N)


def test_a_sign_that_differs_splits_the_case() -> None:
    case = _case()
    i = case.index(N)
    with pytest.raises(SignSplit) as raised:
        case.decide(i - 3)
    assert raised.value.condition is i - 3


def test_conditions_decide_signs() -> None:
    case = _case()
    i = case.index(N)
    case.conditions = [i - 3, N - 7]
    assert case.decide(i - 2)
    assert case.decide(N - 5)
    assert case.decide(i + N - 10)
    assert case.is_at_least_zero(i - 4) is None


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (5, 2)])
def test_quotient_and_remainder(n: int, m: int) -> None:
    case = _case()
    i, j, k = case.index(N), case.index(M), case.index(4)
    length = case.index(N + M)
    pairs: list[tuple[Dim, Dim]] = [
        (i * M + j, M),
        (i, N),
        ((i * M + j) * 4 + k, 4),
        ((i * M + j) * 4 + k, M * 4),
        (i * (N + M) + length, N + M),
        (7 * k + 5, 3),
        (i * j, N),
    ]
    for dividend, divisor in pairs:
        quotient, rest = case.divided(dividend, divisor)
        for values in _ranges(case, [dividend, divisor], {"n": n, "m": m}):
            expected = divmod(evaluate(dividend, values), evaluate(divisor, values))
            assert (evaluate(quotient, values), evaluate(rest, values)) == expected


def test_an_index_over_a_product_is_split() -> None:
    case = _case()
    with pytest.raises(IndexSplit) as raised:
        case.divided(case.index(N * 4), 4)
    assert (raised.value.outer, raised.value.inner) == (N, 4)


def test_an_index_that_stands_for_all_is_not_split() -> None:
    case = _case()
    place = case.place(0, N * 4)
    quotient, rest = case.divided(place, 4)
    assert (quotient, rest) == (place // 4, place % 4)
    assert case.place(0, N * 4) is place
    assert case.place(0, 1) == 0


def test_a_condition_cuts_the_range_of_an_index() -> None:
    case = _case()
    i = case.index(N + M, BOUND)
    (name,) = i.symbols
    assert isinstance(i - N, SymbolicDim)
    assert case.cut(i - N, name) is N
    assert case.cut(N - 1 - i, name) is N
    assert case.cut(i - N - M - 1, name) is None
    j = case.index(20, BOUND)
    assert case.cut(3 * j - 7, *j.symbols) == 3
    assert case.cut(7 - 3 * j, *j.symbols) == 3


def test_a_condition_on_two_sums_does_not_cut() -> None:
    case = _case()
    i, j = case.index(N, BOUND), case.index(N, BOUND)
    assert case.cut(i - j, *i.symbols) is None
    assert case.cut(i - case.place(0, N), *i.symbols) is None


def test_linear_parts() -> None:
    i = named("i")
    assert linear_parts(3 * i * N + M - 2, "i") == (3 * N, M - 2)
    assert linear_parts(i * i + 1, "i") is None
    assert linear_parts(i // 2 + i, "i") is None
    assert linear_parts(N * M, "i") == (0, N * M)


def test_a_multiple_is_at_least_one_step() -> None:
    (size,) = multiple_of("n", 8).values()
    assert size % 8 == 0
    assert not isinstance(size, int)
    assert size.low == 8


def test_a_large_expression_is_refused() -> None:
    large: Dim = 1
    for place in range(7):
        large = large * (named(f"a{place}") + named(f"b{place}") + 1)
    with pytest.raises(Unproved, match="too large"):
        symbols_of(large)
    with pytest.raises(Unproved):
        _case().decide(large)
