import warnings

import numpy as np
import onnxruntime
import pytest

from tests.support import parse
from xoptim.verification import VerificationOptions, VerificationReport, verify_models
from xoptim.verification.judging.double import in_doubles


def judged(
    before: str,
    after: str,
    head: str = "agraph (float[n,4] x) => (float[n,4] y)",
    **options: object,
) -> VerificationReport:
    first, second = (parse(f"{head} {body}") for body in (before, after))
    return verify_models(first, second, VerificationOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{ y = Relu(x) }", "<float c = {1.00001}> { r = Relu(x) y = Mul(r, c) }"),
        ("<float c = {1e-20}> { y = Mul(x, c) }", "<float c = {1.001e-20}> { y = Mul(x, c) }"),
        (
            "<float c = {1e7}> { a = Mul(x, c) y = Concat <axis = 1> (a, x) }",
            (
                "<float c = {1e7}, float d = {1.01}> { a = Mul(x, c) b = Mul(x, d) "
                "y = Concat <axis = 1> (a, b) }"
            ),
        ),
        ("{ y = Round(x) }", "<float h = {0.5}> { a = Add(x, h) y = Floor(a) }"),
    ],
    ids=["fifth digit", "small results", "a large neighbour", "halves"],
)
def test_differences_that_32_bits_would_hide(before: str, after: str) -> None:
    head = "agraph (float[n,4] x) => (float[n,k] y)"
    assert judged(before, after, head).status == "different"
    assert judged(before, before, head).ok


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "<float a = {0.1}, float b = {0.3}> { m = Mul(x, a) y = Mul(m, b) }",
            "<float c = {0.03}> { y = Mul(x, c) }",
        ),
        ("<float r = {1.7320508}> { y = Div(x, r) }", "<float r = {0.57735026}> { y = Mul(x, r) }"),
        (
            "<float one = {1}> { n = Neg(x) e = Exp(n) a = Add(e, one) y = Div(one, a) }",
            "{ y = Sigmoid(x) }",
        ),
        (
            "{ s = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, s) }",
            "{ y = HardSwish(x) }",
        ),
    ],
    ids=["folded", "a reciprocal", "saturated", "a sixth"],
)
def test_rounded_constants_are_no_difference(before: str, after: str) -> None:
    report = judged(before, after)
    assert report.ok, report.reason


def test_a_result_next_to_zero_counts_as_equal_if_both_agree_in_64_bits() -> None:
    """A Conv before a saturated Sigmoid: in 32 bits each result is off by a large part of
    itself.
    """
    rng = np.random.default_rng(0)
    weight = ", ".join(str(round(float(each), 4)) for each in rng.standard_normal(27))
    head = (
        f"agraph (float[1,3,h,w] x) => (float[1,1,h,w] y) <float[1,3,3,3] k = {{{weight}}}, "
        "float b = {-16}"
    )
    conv = "c = Conv <pads = [1, 1, 1, 1]> (x, k)"
    before = parse(f"{head}> {{ {conv} a = Add(c, b) y = Sigmoid(a) }}")
    after = parse(
        f"{head}, float[1] d = {{-16}}> {{ a = Conv <pads = [1, 1, 1, 1]> (x, k, d) "
        "y = Sigmoid(a) }"
    )
    report = verify_models(before, after)
    assert report.ok, report.reason


def test_a_worse_algorithm_is_not_excused() -> None:
    """Both formulas agree in 64 bits, but one cancels in 32 bits where the mean is large."""
    head = "agraph (float[n,64] x) => (float[n,1] y) <int64[1] last = {-1}>"
    centred = parse(
        f"{head} {{ m = ReduceMean(x, last) d = Sub(x, m) s = Mul(d, d) y = ReduceMean(s, last) }}"
    )
    naive = parse(
        f"{head} {{ m = ReduceMean(x, last) s = Mul(x, x) a = ReduceMean(s, last) b = Mul(m, m) "
        "y = Sub(a, b) }"
    )
    assert verify_models(centred, naive).status == "different"


@pytest.mark.parametrize(
    ("scores", "status"),
    [
        ("d = Add(h, u) a = Add(s, d)", "equal"),
        ("d = Add(h, u) a = Add(h, d)", "different"),
        ("d = Add(h, u) e = Add(s, d) g = Mul(e, half) a = Add(g, g)", "equal"),
    ],
)
def test_an_element_of_the_original_may_be_exact_by_chance(scores: str, status: str) -> None:
    """A mask that adds -80000 leaves a score two digits after the point, in both models."""
    before, after = (
        parse(
            "agraph (float[B,S,4] x, int64[B,1,S] mask) => (float[B,S,4] y) "
            "<float low = {-10000}, float half = {0.5}> "
            "{ f = Cast <to = 1> (mask) u = Mul(f, low) t = Transpose <perm = [0, 2, 1]> (x) "
            f"s = MatMul(x, t) h = Mul(s, half) {sum_of_scores} p = Softmax(a) y = MatMul(p, x) }}"
        )
        for sum_of_scores in ("d = Add(s, h) a = Add(d, u)", scores)
    )
    report = verify_models(before, after)
    assert report.status == status, report.reason


def test_without_kernels_for_double_the_usual_rule_decides() -> None:
    quantized = (
        "<float s = {0.1}, uint8 z = {128}> { q = QuantizeLinear(x, s, z) "
        "d = DequantizeLinear(q, s, z) y = Relu(d) }"
    )
    assert judged(quantized, quantized).ok


def test_results_next_to_the_limits_of_double_do_not_overflow() -> None:
    """In float32 the divisor is 0, in double about 1e-308; the other output differs by rounding."""
    steps = " ".join(f"m{i + 1} = Mul(m{i}, c)" for i in range(8))
    text = f"""g (float[N] x) => (float[N] y) <float c = {{1e-38}}, float d = {{1e-4}}, float
      zero = {{0}}, float one = {{1}},
    float two = {{1.5}}, float
      far = {{100}}> {{ m0 = Clip(x, one, two) {steps} m = Mul(m8, d) e = Equal(m, zero)
    r = Div(one, m) {{}} y = Where(e, s, r) }}"""
    before, after = (
        text.replace("{}", line)
        for line in ("a = Add(m0, far) s = Sub(a, far)", "s = Identity(m0)")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verify_models(parse(before), parse(after)).ok


def test_a_hardmax_has_a_form_in_double() -> None:
    model = parse("g (float[N,3,4] x) => (float[N,3,4] y) { y = Hardmax <axis = 1> (x) }")
    found = in_doubles(model, None)
    assert found is not None
    x = np.random.default_rng(0).integers(0, 3, (2, 3, 4))
    got, expected = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"x": x.astype(dtype)})[0]
        for each, dtype in ((found.proto, np.float64), (model, np.float32))
    )
    assert got.dtype == np.float64
    assert np.array_equal(got, expected)


def test_a_slope_of_a_sixth_may_have_seven_digits() -> None:
    """At the numbers where x + 3 cancels, the slope as written would differ."""
    before = (
        "g (float[a,b] x) => (float[a,b] y) { h = HardSigmoid <alpha = 0.1666667, beta = 0.5> (x) "
        "y = Mul(x, h) }"
    )
    after = "g (float[a,b] x) => (float[a,b] y) { y = HardSwish(x) }"
    assert verify_models(parse(before), parse(after)).ok
