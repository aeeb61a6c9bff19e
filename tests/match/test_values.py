"""Tensors that are known to be finite."""

import pytest

from tests.support import load, parse, types
from xoptim import optimize
from xoptim.facts.assumptions import Assumptions
from xoptim.match.values import is_assumed, is_finite

MODEL = (
    "agraph (float[n] x, float[n] y, int64[n] i, bool[n] c) "
    "=> (float[n] r) <float[1] two = {2}, float[1] low = {-inf}> { a = Relu(x) b = Where(c, a, x) "
    "d = Cast <to = 1> (i) e = Max(b, d, two) f = Where(c, low, x) g = Mul(x, x) "
    "h = Cast <to = 10> (i) k = Concat <axis = 0> (x, y) s = Add(e, f) t = Add(s, g) "
    "u = Cast <to = 1> (h) v = ReduceSum <keepdims = 0> (k) w = Add(t, v) r = Add(w, u) }"
)


def test_what_follows_from_finite_inputs() -> None:
    model = load(MODEL)
    model.assumptions = Assumptions.of(["finite(x)"])
    names = ["x", "y", "i", "c", "two", "low", *"abdefghk"]
    assert [name for name in names if is_finite(model.graph, name)] == [
        "x",
        "i",
        "c",
        "two",
        *"abde",
    ]
    assert not is_finite(load(MODEL).graph, "x")
    model.assumptions = Assumptions.of(["finite"])
    assert is_finite(model.graph, "g")


def test_filled_tensors_are_finite_if_their_number_is() -> None:
    model = load(
        "agraph (int64[1] n) => (float[k] y) { a = ConstantOfShape(n) "
        "b = ConstantOfShape <value = float[1] {-inf}> (n) y = Add(a, b) }"
    )
    assert [name for name in "ab" if is_finite(model.graph, name)] == ["a"]


def test_numbers_in_texts_and_of_unknown_types_may_be_infinite() -> None:
    model = load(
        "agraph (string[n] s, bool[n] c) => (float[n] y) { u = custom.Op(c) a = Cast <to = 1> (s) "
        "b = Cast <to = 1> (u) d = Cast <to = 1> (c) e = Add(a, b) y = Add(e, d) }",
        domains={"custom": 1},
    )
    assert [name for name in "abd" if is_finite(model.graph, name)] == ["d"]


def test_names_in_functions_are_not_inputs() -> None:
    model = load(
        'agraph (float[n] x) => (float[n] y) { y = local.f(x) } <domain: "local", opset_import: [""'
        " : 18]> f (x) => (q) { q = Abs(x) }",
        domains={"local": 1},
    )
    model.assumptions = Assumptions.of(["bool(x)"])
    assert is_assumed(model.graph, "bool", "x")
    assert not is_assumed(model.functions[0].body, "bool", "x")
    assert not is_assumed(model.graph, "bool", "y")


ROOTS = (
    "agraph (float[n] x, float[n] y) => (float[n] a, float[n] b) <float h = {0.5}> { a = Pow(x, h) "
    "b = Pow(y, h) }"
)


@pytest.mark.parametrize(
    ("assumed", "patterns", "expected"),
    [
        ((), "default", ["Pow", "Pow"]),
        (("finite(x)",), "default", ["Sqrt", "Pow"]),
        (("finite",), "default", ["Sqrt", "Sqrt"]),
        (("finite",), "default-PowHalf", ["Pow", "Pow"]),
        (("finite",), "fast_run", ["Sqrt", "Sqrt"]),
        (("finite",), ["IdentityPad"], ["Pow", "Pow"]),
        ((), "finite", ["Sqrt", "Sqrt"]),
    ],
)
def test_patterns_that_need_finite_numbers(
    assumed: tuple[str, ...], patterns: str, expected: list[str]
) -> None:
    found = optimize(parse(ROOTS), patterns=patterns, assume=assumed)
    assert types(found) == expected
    assert optimize(found, patterns=patterns).SerializeToString() == found.SerializeToString()
