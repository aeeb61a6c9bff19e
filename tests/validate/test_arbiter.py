import warnings

import numpy as np
import onnxruntime

from tests.support import parse
from xoptim.validate import validate
from xoptim.validate.double import in_doubles


def test_results_next_to_the_limits_of_double_do_not_overflow() -> None:
    """In float32 the divisor is 0, in double about 1e-308; the other output differs by rounding."""
    steps = " ".join(f"m{i + 1} = Mul(m{i}, c)" for i in range(8))
    text = f"""g (float[N] x) => (float[N] y) <float c = {{1e-38}}, float d = {{1e-4}}, float zero = {{0}}, float one = {{1}},
    float two = {{1.5}}, float far = {{100}}> {{ m0 = Clip(x, one, two) {steps} m = Mul(m8, d) e = Equal(m, zero)
    r = Div(one, m) {{}} y = Where(e, s, r) }}"""
    before, after = (text.replace("{}", line) for line in ("a = Add(m0, far) s = Sub(a, far)", "s = Identity(m0)"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert validate(parse(before), parse(after)).ok


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
    before = "g (float[a,b] x) => (float[a,b] y) { h = HardSigmoid <alpha = 0.1666667, beta = 0.5> (x) y = Mul(x, h) }"
    after = "g (float[a,b] x) => (float[a,b] y) { y = HardSwish(x) }"
    assert validate(parse(before), parse(after)).ok
