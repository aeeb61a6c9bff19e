"""Initializers that a caller may override: a rewrite that takes one for a constant is found."""

import pytest

from tests.support import parse
from xoptim.verification import VerificationOptions, verify_models
from xoptim.verification.inputs.further import overriding

WEIGHTS = "agraph (float[n,2] x, float[2] w = {0, 3}) => (float[n,2] y) { y = Add(x, w) }"
TARGET = "agraph (float[2,4] x, int64[2] t = {4, 2}) => (float[a,b] y) { y = Reshape(x, t) }"
AXIS = "agraph (float[2,3] x, int64[1] k = {1}) => (float[a,b] y) { y = ReduceSum(x, k) }"
SCALES = (
    "agraph (float[1,2,2,3] x, float[4] s = {1, 1, 1, 1}) => (float[a,b,c,d] y) { "
    "y = Upsample(x, s) }"
)
CONDITION = "agraph (float[2] x, bool c = {1}) => (float[2] y) { z = Neg(x) y = Where(c, x, z) }"


def as_constant(text: str, name: str) -> str:
    """The same with the default of an initializer instead of what the caller gives."""
    return (
        text.replace(f"({name})", f"({name}_)")
        .replace(f", {name})", f", {name}_)")
        .replace(f"({name},", f"({name}_,")
    )


@pytest.mark.parametrize(
    ("text", "name", "stored"),
    [
        (WEIGHTS, "w", "float[2] w_ = {0, 3}"),
        (TARGET, "t", "int64[2] t_ = {4, 2}"),
        (AXIS, "k", "int64[1] k_ = {1}"),
        (CONDITION, "c", "bool c_ = {1}"),
    ],
    ids=["weights", "shape", "axis", "condition"],
)
def test_a_rewrite_that_takes_the_default_for_a_constant(text: str, name: str, stored: str) -> None:
    constant = as_constant(text, name).replace(" { ", f" <{stored}> {{ ")
    report = verify_models(parse(text), parse(constant))
    assert report.status == "different"
    assert "initializers overridden" in report.reason
    assert verify_models(parse(text), parse(text)).ok
    assert verify_models(parse(text), parse(constant), VerificationOptions(extremes=False)).ok


def test_scales_of_an_image() -> None:
    """They are tried as whole numbers: with other ones the original does not run."""
    constant = as_constant(SCALES, "s").replace(" { y", " <float[4] s_ = {1, 1, 1, 1}> { y")
    model = parse(SCALES, 9)
    assert verify_models(model, parse(constant, 9)).status == "different"
    assert verify_models(model, model).ok


def test_constants_stay() -> None:
    """Before version 4 of the file format, an initializer that is an input is a constant.

    So is one that is not an input.
    """
    assert not list(overriding(parse(WEIGHTS, ir_version=3), 0))
    assert not list(
        overriding(
            parse("agraph (float[n] x) => (float[n] y) <float w = {2}> { y = Mul(x, w) }"), 0
        )
    )
    assert len(list(overriding(parse(WEIGHTS), 0))) == 1


def test_values_that_the_original_refuses_are_no_evidence() -> None:
    head = "agraph (float[2,3] x, int64[2] t = {3, 2}, int64[2] z = {0, 0}) => (float[a,b] y)"
    text = f"{head} {{ r = Reshape(x, t) y = Expand(r, t) }}"
    report = verify_models(parse(text), parse(text))
    assert report.ok
    assert [run.source for run in report.runs].count("overridden") == 1
