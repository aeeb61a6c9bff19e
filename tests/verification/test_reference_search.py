"""Sizes and values on which both models run: a rewrite that holds for some of them only is
found.
"""

import numpy as np
import pytest

from tests.support import parse
from tests.verification.reasons import named_source
from xoptim.verification import VerificationOptions, run_reference, verify_models

PAIRS = {
    "a bound": ("<float a = {0}, float b = {6}> { y = Clip(x, a, b) }", "{ y = Relu(x) }"),
    "a comparison": (
        "<float a = {5}> { c = Greater(x, a) z = Neg(x) y = Where(c, z, x) }",
        "{ y = Identity(x) }",
    ),
    "zero": ("{ y = Sign(x) }", "{ a = Abs(x) y = Div(x, a) }"),
    "large numbers times 1.03": (
        "{ a = Abs(x) y = Mul(a, a) }",
        (
            "<float m = {4}, float f = {1.03}> { a = Abs(x) g = Greater(a, m) q = Mul(a, a) "
            "r = Mul(q, f) y = Where(g, r, q) }"
        ),
    ),
    "saturation": (
        "{ y = HardSigmoid(x) }",
        "<float a = {0.2}, float b = {0.5}> { t = Mul(x, a) y = Add(t, b) }",
    ),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_rewrite_that_holds_for_moderate_numbers_only(pair: tuple[str, str]) -> None:
    before, after = (parse(f"agraph (float[n,4] x) => (float[n,4] y) {body}") for body in pair)
    report = verify_models(before, after, VerificationOptions(dims={"n": 3}))
    assert (report.status, named_source(report)) == ("different", "wide")
    assert verify_models(before, before).ok
    assert verify_models(before, after, VerificationOptions(extremes=False)).ok


def test_a_rewrite_that_holds_for_finite_numbers_only() -> None:
    """A NaN that is replaced, and -0 where rewrites are exact."""
    head = "agraph (float[n,4] x) => (float[n,4] y) <float z = {0}>"
    kept = parse(f"{head} {{ y = Identity(x) }}")
    report = verify_models(parse(f"{head} {{ e = Equal(x, x) y = Where(e, x, z) }}"), kept)
    assert (report.status, named_source(report)) == ("different", "odd")
    assert verify_models(
        parse(f"{head} {{ e = Equal(x, x) y = Where(e, x, z) }}"),
        kept,
        VerificationOptions(exactness="approximate"),
    ).ok
    positive = parse(f"{head} {{ y = Add(x, z) }}")
    assert verify_models(positive, kept).ok
    assert (
        verify_models(positive, kept, VerificationOptions(exactness="exact")).status == "different"
    )


def test_integers_beyond_a_bound() -> None:
    before = parse("agraph (int64[n,4] x) => (int64[n,4] y) <int64 a = {100}> { y = Min(x, a) }")
    assert (
        verify_models(
            before, parse("agraph (int64[n,4] x) => (int64[n,4] y) { y = Identity(x) }")
        ).status
        == "different"
    )


@pytest.mark.parametrize(
    ("limit", "status"),
    [("3e38", "equal"), ("1000", "different")],
    ids=["where it overflows", "elsewhere"],
)
def test_results_that_overflow_are_not_compared(limit: str, status: str) -> None:
    """Where numbers are large, overflow depends on the order of operations.

    What does not overflow counts.
    """
    head = "agraph (float[n,4] x) => (float[n,4] y)"
    before = parse(f"{head} {{ e = Exp(x) y = Exp(e) }}")
    after = parse(f"{head} <float a = {{{limit}}}> {{ e = Exp(x) f = Exp(e) y = Min(f, a) }}")
    assert verify_models(before, after, VerificationOptions(exactness="finite")).status == status


def test_rounding_of_large_numbers_is_no_difference() -> None:
    """The sum in another order differs by more than usual where large numbers cancel, and by little
    next to the largest.
    """
    rng = np.random.default_rng(0)
    weights = ", ".join(str(round(float(number), 3)) for number in rng.standard_normal(64))
    head = (
        f"agraph (float[n,64] x) => (float[n,1] y) <float[64,1] w = {{{weights}}}, "
        "float b = {50}, int64[1] k = {1}>"
    )
    before = parse(f"{head} {{ a = Abs(x) p = MatMul(a, w) y = Sub(p, b) }}")
    after = parse(
        f"{head} {{ a = Abs(x) t = Transpose(w) m = Mul(a, t) p = ReduceSum(m, k) y = Sub(p, b) }}"
    )
    assert verify_models(before, after).ok


@pytest.mark.parametrize(
    "names", [("batch", "seq"), ("N", "T"), ("b", "sequence_length"), ("batch_size", "s1")]
)
def test_batch_and_length_differ_and_are_above_one(names: tuple[str, str]) -> None:
    """A rewrite that takes one for the other, or holds for a single one, shows in each of the first
    runs.
    """
    batch, length = names
    model = parse(
        f"agraph (float[{batch},{length},4] x) => (float[{batch},{length},4] y) {{ y = Neg(x) }}"
    )
    runs = [run for run in verify_models(model, model).runs if run.source == "random"]
    assert [dict(run.dims) for run in runs[2:5]] == [
        {batch: 1, length: 1},
        {batch: 1, length: 6},
        {batch: 2, length: 1},
    ]
    runs = runs[:2]
    assert all(1 < run.dims[batch] != run.dims[length] > 1 for run in runs)
    assert runs[0].dims[batch] != runs[1].dims[batch]
    assert runs[0].dims[length] != runs[1].dims[length]


def test_names_of_dimensions_that_are_numbers_are_sizes() -> None:
    """The exporter of transformers writes sizes so that are fixed."""
    text = (
        "agraph (float[n,4] x) => (float[n,2] y)"
        " <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { y = MatMul(x, w) }"
    )
    model = parse(text)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "4"
    first = next(iter(run_reference(model, VerificationOptions()).runs))
    assert "4" not in first.sizes
    assert np.asarray(first.feeds["x"]).shape[1] == 4
    assert not first.refused
