"""Assumptions that let patterns apply."""

import re

import pytest

from tests.diagnose.test_hints_options import MASKED
from tests.support import parse
from xoptim import explain, optimize
from xoptim.diagnose.hints import candidates, needed
from xoptim.facts.advice import Advice, on_command_line
from xoptim.facts.assumptions import Assumptions


def test_explanations_name_the_assumption_that_a_refusal_wants() -> None:
    model = parse(MASKED, 23)
    (refused,) = explain(model, "Attention")
    assert refused.advice.startswith('assume=["t >= 1"] ')
    (refused,) = explain(model, "Attention", assume=["t >= 1"])
    assert (refused.status, refused.advice.split()[0]) == ("refused", 'assume=["finite(mask)"]')
    assert [
        each.status for each in explain(model, "Attention", assume=["t >= 1", "finite(mask)"])
    ] == ["matches"]


@pytest.mark.parametrize(
    ("pattern", "word", "body"),
    [
        (
            "SortedReduce",
            "sorted",
            "(int64[n,4] x) => (int64[n,1] y) <int64[1] a = {1}> { y = ReduceMax(x, a) }",
        ),
        (
            "SortedTopK",
            "sorted",
            "(int64[n,4] x) => (int64[n,2] y) <int64[1] k = {2}> { y, i = TopK(x, k) }",
        ),
        (
            "IdentityL2Normalization",
            "unit",
            "(float[n,4] x) => (float[n,4] y) { y = LpNormalization(x) }",
        ),
    ],
)
def test_refusals_name_the_property_that_is_wanted(pattern: str, word: str, body: str) -> None:
    model = parse(f"agraph {body}")
    (found,) = explain(model, pattern)
    assert found.status == "refused"
    assert f'assume=["{word}(x)"]' in found.reason
    assert [each.status for each in explain(model, pattern, assume=[f"{word}(x)"])] == ["matches"]
    small = optimize(model, patterns=f"default+{pattern}", assume=[f"{word}(x)"], verify=True)
    assert small.graph.node[0].op_type in ("Gather", "Slice", "Identity")


def test_nothing_is_advised_where_nothing_helps() -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { t = Transpose(x) y = Neg(t) }")
    found = explain(model, "TransposeTranspose")
    assert found
    assert not any("assume" in each.advice for each in found)


@pytest.mark.parametrize("after", [None, "default"])
def test_tensors_that_are_not_known_to_be_finite(after: str | None) -> None:
    model = parse(
        "agraph (float[n] x, float[n] z) => (float[n] y) <float h = {0.5}> { t = Mul(x, z) "
        "y = Pow(t, h) }"
    )
    (found,) = explain(model, "PowHalf", assume=["finite(x)"], after=after)
    assert found.status == "refused"
    assert re.match(r't .*finite \(assume=\["finite"\]\)', found.reason)
    assert [each.status for each in explain(model, "PowHalf")] == ["matches"]


def test_guards_hide_nothing_from_explanations() -> None:
    guarded = optimize(
        parse(MASKED, 23), patterns=None, assume=["t >= 1", "finite(mask)"], guard=True
    )
    assert [each.status for each in explain(guarded, "Attention", assume_from_model=True)] == [
        "matches"
    ]


def test_candidates() -> None:
    model = parse(MASKED, 23)
    assert candidates(model, Assumptions.of(["b >= 2", "s <= 5"])) == [
        "s >= 1",
        "t >= 1",
        "finite(mask)",
    ]
    assert candidates(model, Assumptions.of(["b >= 1", "s >= 1", "t >= 1", "finite"])) == []
    assert needed(["a", "b", "c"], lambda chosen: "b" in chosen) == ["b"]
    many = [f"n{number} >= 1" for number in range(9)]
    assert needed(many, lambda chosen: True) == many
    with on_command_line():
        assert str(Advice("assume", ("a >= 1", "finite"))) == "--assume 'a >= 1' --assume 'finite'"
