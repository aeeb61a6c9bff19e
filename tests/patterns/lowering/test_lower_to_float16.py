"""Arithmetic between whole numbers, truth values and numbers of 16 bits is computed in 16 bits."""

import numpy as np
import pytest

import xoptim
from tests.support import parse, run, types

WHOLE = "agraph (int64[n] m) => (float16[n] y)"
DECIDED = "agraph (int64[n] m) => (bool[n] y)"


def lowered(text: str) -> list[str]:
    model = parse(text, opset=18)
    return types(xoptim.optimize(model, patterns="LowerToFloat16", strict=True))


def test_decisions_are_the_same_for_all_whole_numbers() -> None:
    """1 - m is rounded, and infinite at last, but it is 0 for m = 1 alone."""
    body = "a = Cast <to = 1> (m) b = Sub(one, a) y = Cast <to = 9> (b)"
    model = parse(f"{DECIDED} <float one = {{1}}> {{ {body} }}", opset=18)
    found = xoptim.optimize(model, patterns="LowerToFloat16", strict=True)
    assert "Equal" in types(found)
    numbers = [0, 1, 2, -1, 2047, 2048, 2049, 65503, 65505, 10**6, -(10**9)]
    feeds = {"m": np.array(numbers, np.int64)}
    np.testing.assert_array_equal(run(found, feeds)[0], run(model, feeds)[0])


def test_all_of_a_chain() -> None:
    body = "a = Cast <to = 1> (m) b = Sub(one, a) c = Mul(b, k) y = Cast <to = 10> (c)"
    text = f"{WHOLE} <float one = {{1}}, float k = {{-16384}}> {{ {body} }}"
    assert lowered(text) == ["Cast", "Sub", "Mul"]


@pytest.mark.parametrize(("operator", "number"), [("Add", 0.1), ("Mul", -3e38), ("Mul", 0.0)])
def test_a_constant_that_16_bits_do_not_hold(operator: str, number: float) -> None:
    """An infinite number times 0 is NaN."""
    body = f"a = Cast <to = 1> (m) b = {operator}(k, a) y = Cast <to = 10> (b)"
    text = f"{WHOLE} <float k = {{{number}}}> {{ {body} }}"
    assert lowered(text) == types(parse(text, opset=18))


@pytest.mark.parametrize(
    "body",
    [
        "<float k = {0.001953125}> { a = Cast <to = 1> (m) b = Mul(k, a) y = Cast <to = 10> (b) }",
        "<float k = {-60000}> { a = Cast <to = 1> (m) b = Add(k, a) y = Cast <to = 10> (b) }",
        "{ a = Cast <to = 1> (m) b = Sub(a, a) y = Cast <to = 10> (b) }",
        (
            "<float k = {1}> { a = Cast <to = 1> (m) c = Cast <to = 9> (m) d = Cast <to = 1> (c) "
            "e = Sub(k, d) b = Mul(a, e) y = Cast <to = 10> (b) }"
        ),
    ],
    ids=["a small factor", "a large summand", "the same number", "a factor of 0"],
)
def test_finite_results_of_large_numbers(body: str) -> None:
    """Float16 has no number 70000."""
    text = f"{WHOLE} {body}"
    assert lowered(text) == types(parse(text, opset=18))


@pytest.mark.parametrize(("integer", "is_lowered"), [("int16", True), ("int32", False)])
def test_small_integers_may_be_scaled(integer: str, is_lowered: bool) -> None:
    body = "a = Cast <to = 1> (m) b = Mul(k, a) y = Cast <to = 10> (b)"
    operators = lowered(
        f"agraph ({integer}[n] m) => (float16[n] y) <float k = {{0.5}}> {{ {body} }}"
    )
    assert (operators == ["Cast", "Mul"]) == is_lowered


@pytest.mark.parametrize(
    "body",
    [
        "<float k = {3001}> { a = Cast <to = 1> (m) b = Sub(k, a) y = Cast <to = 9> (b) }",
        (
            "<float k = {2048}, float j = {953}> { a = Cast <to = 1> (m) b = Add(k, a) "
            "c = Sub(b, j) y = Cast <to = 9> (c) }"
        ),
    ],
    ids=["a large number", "two operations"],
)
def test_a_decision_that_rounding_would_change(body: str) -> None:
    text = f"{DECIDED} {body}"
    assert lowered(text) == types(parse(text, opset=18))


@pytest.mark.parametrize(
    "text",
    [
        (
            "agraph (int64[n] m, int64[n] l) => (float16[n] y) "
            "{ a = Cast <to = 1> (m) b = Cast <to = 1> (l) c = Sub(b, a) y = Cast <to = 10> (c) }"
        ),
        (
            "agraph (float[n] m) => (float16[n] y) <float k = {1}> { b = Sub(k, m) "
            "y = Cast <to = 10> (b) }"
        ),
        (
            "agraph (int64[n] m) => (float16[n] y, float[n] z) <float k = {1}> "
            "{ a = Cast <to = 1> (m) b = Sub(k, a) y = Cast <to = 10> (b) z = Sin(b) }"
        ),
        (
            "agraph (int64[n] m) => (float16[n] y, float[n] b) <float k = {1}> "
            "{ a = Cast <to = 1> (m) b = Sub(k, a) y = Cast <to = 10> (b) }"
        ),
    ],
    ids=["two whole numbers", "begins in 32 bits", "read in 32 bits", "an output"],
)
def test_near_misses(text: str) -> None:
    assert lowered(text) == types(parse(text, opset=18))


@pytest.mark.parametrize(
    "body",
    [
        "a = Cast <to = 1> (x) b = Cast <to = 1> (z) c = Mul(a, b) y = Cast <to = 9> (c)",
        "a = Cast <to = 1> (x) c = Mul(a, k) y = Cast <to = 9> (c)",
        "a = Cast <to = 1> (x) c = Mul(a, k) d = Mul(c, l) y = Cast <to = 10> (d)",
    ],
    ids=["a decision", "a decision by a constant", "a product of a product"],
)
def test_small_products(body: str) -> None:
    """0.0001 · 0.0001 is 0 in 16 bits."""
    ends = "bool" if "to = 9" in body else "float16"
    text = f"agraph (float16[n] x, float16[n] z) => ({ends}[n] y) <float k = {{0.0001220703125}}, "
    text += f"float l = {{8192}}> {{ {body} }}"
    assert lowered(text) == types(parse(text, opset=18))


def test_small_products_that_are_the_result() -> None:
    body = "a = Cast <to = 1> (x) c = Mul(a, k) y = Cast <to = 10> (c)"
    text = f"agraph (float16[n] x) => (float16[n] y) <float k = {{0.5}}> {{ {body} }}"
    assert lowered(text) == ["Mul"]
