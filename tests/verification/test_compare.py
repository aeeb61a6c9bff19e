import ml_dtypes
import numpy as np
import pytest

from tests.support import values_in
from xoptim.facts.dtypes import Tolerance
from xoptim.verification import Comparison, ComparisonRules, Value, compare_values

ROUNDING = ComparisonRules()


def compare(expected: Value, actual: Value, rules: ComparisonRules = ROUNDING) -> Comparison:
    found = compare_values("y", expected, actual, rules)
    return next((c for c in found if not c.ok), found[0])


def single(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def normal(count: int = 1000, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(count).astype(dtype)


def test_equal_arrays() -> None:
    c = compare(normal(), normal())
    assert c.ok
    assert (c.max_abs, c.excess, c.mismatches, c.count, c.index) == (0, 0, 0, 1000, ())
    assert c.tolerance == Tolerance(1e-5, 1e-7)


def test_says_which_how_much_and_where() -> None:
    expected = normal(60).reshape(3, 4, 5)
    actual = expected.copy()
    actual[1, 2, 3] += 0.5
    actual[0, 0, 0] += 0.25
    c = compare(expected, actual)
    assert (c.fault, c.index, c.mismatches) == ("value", (1, 2, 3), 2)
    assert c.max_abs == pytest.approx(0.5, abs=1e-6)
    assert c.max_rel == pytest.approx(0.5 / float(np.abs(expected).max()), rel=1e-5)
    assert "[1, 2, 3]" in c.message
    assert "2 of 60" in c.message


@pytest.mark.parametrize("place", [0, 54_321, 99_999])
def test_one_wrong_element_in_a_hundred_thousand(place: int) -> None:
    expected = normal(100_000)
    actual = expected.copy()
    actual[place] += 1e-3
    c = compare(expected, actual)
    assert (c.fault, c.index, c.mismatches) == ("value", (place,), 1)


def test_a_tolerance_of_the_largest_number() -> None:
    """A number near 0 may differ by a part of the largest one, but for the infinity of a mask."""
    expected = np.append(normal(), [8, -1e38]).astype(np.float32)
    actual = expected.copy()
    actual[3] += 0.07
    assert not compare(expected, actual, ComparisonRules(rtol=0.01)).ok
    assert compare(expected, actual, ComparisonRules(rtol=0.01, of_largest=True)).ok
    assert not compare(expected, actual, ComparisonRules(rtol=0.008, of_largest=True)).ok


def test_a_wrong_element_in_a_later_chunk() -> None:
    expected = np.ones((3, 1 << 20), np.float32)
    actual = expected.copy()
    actual[2, 7] = 2
    assert compare(expected, actual).index == (2, 7)


def test_sums_in_another_order_are_equal() -> None:
    rng = np.random.default_rng(1)
    terms = rng.standard_normal((2000, 4096)).astype(np.float32)
    forward, backward = terms[:, 0].copy(), terms[:, -1].copy()
    for i in range(1, terms.shape[1]):
        forward += terms[:, i]
        backward += terms[:, -1 - i]
    relative = np.abs(forward - backward) / np.abs(forward)
    # sums that cancelled to almost nothing: relative error alone would cry wolf
    assert relative.max() > 1e-4
    assert compare(forward, backward).ok


def test_huge_elements_do_not_hide_errors() -> None:
    expected = normal(1000)
    expected[::10] = 1e8
    expected[5::10] = np.finfo(np.float32).min
    actual = expected.copy()
    actual[3] += 1e-3
    assert compare(expected, actual).index == (3,)


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
def test_every_float_type_by_its_own_rounding(dtype: type) -> None:
    expected = normal(1000, dtype)
    step = float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    near: np.ndarray = (expected.astype(np.float64) * (1 + step * 0.9)).astype(dtype)
    far: np.ndarray = (expected.astype(np.float64) * 1.7).astype(dtype)
    assert compare(expected, near).ok
    assert not compare(expected, far).ok


def test_exact_means_the_same_bits_but_for_zero() -> None:
    exact = ComparisonRules("exact")
    assert compare(single(0.0, 1.0), single(-0.0, 1.0), exact).ok
    assert not compare(single(1.0), np.nextafter(single(1.0), single(2.0)), exact).ok


def test_nan_and_infinity_go_by_place() -> None:
    a = single(np.nan, np.inf, -np.inf, 1.0)
    assert compare(a, a.copy()).ok
    for other in (
        [1, np.inf, -np.inf, 1],
        [np.nan, -np.inf, -np.inf, 1],
        [np.nan, np.inf, -3e38, 1],
        [np.nan, np.inf, -np.inf, np.nan],
    ):
        c = compare(a, single(*other))
        assert c.mismatches == 1
        assert c.excess == np.inf
    assert not compare(single(np.nan), single(np.nan)).finite
    assert compare(np.zeros((0,), np.float32), np.zeros((0,), np.float32)).finite


def test_dtype_and_shape() -> None:
    c = compare(single(1), np.array([1.0]))
    assert (c.fault, c.message.split()) == ("dtype", ["double", "instead", "of", "float"])
    c = compare(np.zeros((2, 1), np.float32), np.zeros((2,), np.float32))
    assert (c.fault, values_in(c.message)) == ("shape", ["2", "2", "1"])


def test_tolerances_of_the_user() -> None:
    a, b = single(1.0, 100.0), single(1.05, 100.0)
    assert not compare(a, b).ok
    assert compare(a, b, ComparisonRules(atol=0.1)).ok
    assert compare(a, b, ComparisonRules(rtol=0.1)).ok
    assert not compare(a, b, ComparisonRules(rtol=0.0, atol=0.01)).ok
    # Numbers that do not round stay as strict as they are.
    assert not compare(np.array([100]), np.array([101]), ComparisonRules(rtol=0.1, atol=5.0)).ok


def test_integers_must_be_equal() -> None:
    for dtype in (np.int64, np.uint8, np.uint64, np.int32, ml_dtypes.int4):
        a = np.array([1, 2, 3]).astype(dtype)
        b = np.array([1, 2, 5]).astype(dtype)
        assert compare(a, a.copy()).ok
        c = compare(a, b)
        assert (c.fault, c.index, c.max_abs) == ("value", (2,), 2)
        assert c.excess > 1
    low, high = np.array([np.iinfo(np.int64).min]), np.array([np.iinfo(np.int64).max])
    assert compare(low, high).max_abs == pytest.approx(2.0**64)


def test_integers_may_be_given_room() -> None:
    a, b = np.arange(10), np.arange(10)
    b[3] += 1
    assert compare(a, b, ComparisonRules(integer_atol=1)).ok
    assert compare(a, b, ComparisonRules(allow_flips=0.1)).ok
    b[4] += 2
    assert compare(a, b, ComparisonRules(integer_atol=1)).mismatches == 1
    assert not compare(a, b, ComparisonRules(allow_flips=0.1)).ok


def test_other_kinds_of_elements() -> None:
    assert compare(np.array([True, False]), np.array([True, True])).index == (1,)
    assert compare(np.array(["a", "b"], object), np.array(["a", "c"], object)).message.startswith(
        "c instead of b"
    )
    assert compare(np.array(["a"], object), np.array(["a"])).ok
    assert compare(np.array(["a"]), np.array(["b"])).fault == "value"
    assert not compare(np.array([True]), np.array([False]), ComparisonRules(integer_atol=1)).ok
    z = np.array([1 + 2j, 3 - 1j], np.complex64)
    assert compare(z, z * np.complex64(1 + 1e-6)).ok
    assert compare(z, z.conj()).mismatches == 2


def test_scalars_have_no_place() -> None:
    c = compare(np.array(1.0, np.float32), np.array(2.0, np.float32))
    assert (c.fault, c.index, c.mismatches) == ("value", (), 1)


def test_sequences_maps_and_nothing() -> None:
    a = normal(3)
    assert compare([a, a], [a, a]).ok
    assert compare([a, a], [a, a + 1]).output == "y[1]"
    assert values_in(compare([a, a], [a]).message) == ["1", "2"]
    assert compare(None, None).ok
    for expected, got in ((None, a), ([a], a)):
        assert compare(expected, got).fault == "structure"
    maps: list[Value] = [{3: 1.0, 4: 0.5}, {3: 0.25, 4: 0.125}]
    assert compare(maps, [{3: 1.0, 4: 0.5}, {3: 0.25, 4: 0.125}]).ok
    assert compare(maps, [{3: 1.0, 4: 0.5}, {3: 0.25, 4: 0.25}]).output == "y[1][4]"
    shorter = compare(maps, [{3: 1.0, 4: 0.5}, {3: 0.25}])
    assert (shorter.fault, values_in(shorter.message)) == ("structure", ["3", "3", "4"])
    third = float(np.float32(1) / np.float32(3))
    assert compare({"a": third}, {"a": float(np.nextafter(np.float32(third), np.float32(1)))}).ok


def test_an_approximation_may_be_0_where_the_function_saturates() -> None:
    """Results that are tiny throughout, on large values only."""
    tiny, zero = np.full(4, 6e-36, np.float32), np.zeros(4, np.float32)
    (strict,) = compare_values("y", tiny, zero, ComparisonRules("approximate", scales_atol=True))
    (saturated,) = compare_values(
        "y", tiny, zero, ComparisonRules("approximate", scales_atol=True, only_finite=True)
    )
    (rounded,) = compare_values(
        "y", tiny, zero, ComparisonRules("rounding", scales_atol=True, only_finite=True)
    )
    assert (strict.ok, saturated.ok, rounded.ok) == (False, True, False)
