"""Models that compute in 16-bit floats, which sessions are careful with, and others."""

import pytest

from tests.support import parse
from xoptim.verification import SessionSettings
from xoptim.verification.runs.fatal import AT_HALF, fatal_optimizers

WEIGHTS = "<float16[2,2] w = {15360, 14336, 49152, 16896}>"
PRODUCT = f"""g (float16[t,b,2] x) => (float16[b,t,2] y) {WEIGHTS}
{{ z = Transpose <perm = [1, 0, 2]> (x) y = MatMul(z, w) }}"""
STORED = f"""g (float[n,2] x) => (float[n,2] y) {WEIGHTS}
{{ v = Cast <to = 1> (w) y = MatMul(x, v) }}"""
CONSTANT = """g (float[n,2] x) => (float[n,2] y)
{ c = Constant <value = float16[1] {15360}> () d = Cast <to = 1> (c) y = Add(x, d) }"""
COMPUTING = {
    "inputs": PRODUCT,
    "a cast": (
        f"""g (float[n,2] x) => (float[n,2] y) {WEIGHTS}
        {{ h = Cast <to = 10> (x) p = MatMul(h, w) y = Cast <to = 1> (p) }}"""
    ),
    "a sum of weights": (
        f"""g (float[n,2] x) => (float[n,2] y) {WEIGHTS}
        {{ s = Add(w, w) v = Cast <to = 1> (s) y = MatMul(x, v) }}"""
    ),
    "a branch": (
        """g (float[n] x, bool c) => (float[n] y) { y = If (c)
        <then_branch = t () => (float[n] u)
         { h = Cast <to = 10> (x) i = Neg(h) u = Cast <to = 1> (i) },
         else_branch = e () => (float[n] v) { v = Neg(x) }> }"""
    ),
    "a filled tensor": (
        """g (int64[1] n, float[k] x) => (float[k] y)
        { h = ConstantOfShape <value = float16[1] {15360}> (n) f = Cast <to = 1> (h)
          y = Add(x, f) }"""
    ),
    "a sequence": "g (seq(float16[2]) s) => (int64 y) { y = SequenceLength(s) }",
}


@pytest.mark.parametrize("text", COMPUTING.values(), ids=COMPUTING)
def test_models_that_compute_in_16_bits(text: str) -> None:
    assert fatal_optimizers(parse(text)) == AT_HALF


@pytest.mark.parametrize(
    "text",
    [
        STORED,
        CONSTANT,
        "g (float[n] x) => (float[n] y) { y = Neg(x) }",
        "g (bfloat16[n] x) => (bfloat16[n] y) { y = Neg(x) }",
    ],
)
def test_models_that_compute_in_other_types(text: str) -> None:
    assert fatal_optimizers(parse(text)) == ()


def test_settings_without_what_is_fatal() -> None:
    half, plain = parse(PRODUCT), parse(STORED)
    everything = SessionSettings(level="all", disabled_optimizers=("GeluFusionL2",))
    assert everything.safe_for(plain) == everything
    assert everything.safe_for(half).disabled_optimizers == ("GeluFusionL2", *AT_HALF)
    assert everything.safe_for(half).safe_for(half) == everything.safe_for(half)
    assert SessionSettings(level="extended").safe_for(half).disabled_optimizers == ()
