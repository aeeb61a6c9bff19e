"""Numbers next to the limits of float32, and a bias in 16 bits."""

import pytest

from tests.support import parse
from tests.verification.reasons import named_source
from xoptim.verification import VerificationOptions, verify_models

THREE = "agraph (float[N,8] a, float[N,8] b, float[N,8] c) => (float[N,8] y) "
HALF = "agraph (float16[N,32] x) => (float16[N,32] y) <float16 c = {{{bits}}}> {{ y = Mul(x, c) }}"


def test_what_overflows_in_the_result_alone_is_a_difference() -> None:
    before = parse(f"{THREE} {{ m = Mul(a, c) y = Mul(m, b) }}", 21)
    after = parse(f"{THREE} {{ m = Mul(a, b) y = Mul(m, c) }}", 21)
    report = verify_models(before, after)
    assert (report.status, named_source(report)) == ("different", "range")


def test_a_result_that_keeps_more_digits_is_right() -> None:
    before = parse("agraph (float[N,8] x) => (float[N,8] y) { m = Mul(x, x) y = Sqrt(m) }", 21)
    after = parse("agraph (float[N,8] x) => (float[N,8] y) { y = Abs(x) }", 21)
    assert verify_models(before, after).status == "equal"
    assert verify_models(after, before).status == "different"


def test_sums_near_the_limit_may_be_reordered() -> None:
    before = parse(f"{THREE} {{ m = Add(a, b) y = Add(m, c) }}", 21)
    after = parse(f"{THREE} {{ m = Add(b, c) y = Add(a, m) }}", 21)
    assert verify_models(before, after).status == "equal"


@pytest.mark.parametrize(
    ("bits", "other", "status"),
    [
        # 0.69336 and one unit in the last place less; seven less is 0.68994
        (14732, 14731, "equal"),
        (14732, 14725, "different"),
        (7172, 7168, "different"),  # 1 / 255 and 1 / 256
    ],
)
def test_a_constant_of_16_bits_is_rounded_once(bits: int, other: int, status: str) -> None:
    before, after = (parse(HALF.format(bits=each), 21) for each in (bits, other))
    assert verify_models(before, after).status == status


def test_a_bias_is_found_where_an_operator_has_no_kernel_for_double() -> None:
    text = (
        "agraph (float16[N,1,128] x) => (float16[N,1,1] y) {{ y = AveragePool <kernel_shape = "
        "[129], pads = [0, 1], count_include_pad = {count}> (x) }}"
    )
    before, after = (parse(text.format(count=each), 21) for each in (0, 1))
    assert verify_models(before, before).status == "equal"
    assert verify_models(before, after).status == "different"


def test_runs_near_the_limits_need_rewrites_that_round() -> None:
    proto = parse(f"{THREE} {{ m = Mul(a, c) y = Mul(m, b) }}", 21)
    for exactness, expected in (("rounding", True), ("exact", False), ("approximate", False)):
        options = VerificationOptions(exactness=exactness)  # type: ignore[arg-type]
        report = verify_models(proto, proto, options)
        assert ("range" in {run.source for run in report.runs}) is expected
