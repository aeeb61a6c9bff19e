# mypy: disable-error-code="no-any-return"
"""Conditions of declarative patterns on attributes and operands."""

from typing import Any

import numpy as np
import pytest

from tests.match.matching import find
from tests.support import load
from xoptim.match import (
    ANY,
    Constant,
    EasyPatternOptimization,
    GraphBuilderPatternOptimization,
    Match,
    Optional,
    PatternBuilder,
    Scalar,
    Symbol,
)

# ------------------------------------------------------------------ attributes


def softmax(**attributes: Any) -> EasyPatternOptimization:
    class Softmax(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Softmax(x, **attributes)

    return Softmax()


CAPTURE = PatternBuilder(()).capture
ANY_OF = PatternBuilder(()).any_of


@pytest.mark.parametrize(
    ("attributes", "written", "expected"),
    [
        ({}, "", {}),
        ({}, "<axis = -1>", {}),
        ({}, "<axis = 1>", None),
        ({"axis": 1}, "<axis = 1>", {}),
        ({"axis": -1}, "", {}),
        ({"axis": 1}, "", None),
        ({"axis": ANY}, "<axis = 0>", {}),
        ({"attributes": ANY}, "<axis = 0>", {}),
        ({"axis": ANY_OF(0, 1)}, "<axis = 1>", {}),
        ({"axis": ANY_OF(0, 1)}, "", None),
        ({"axis": lambda a: a < 0}, "", {}),
        ({"axis": lambda a: a < 0}, "<axis = 1>", None),
        ({"axis": CAPTURE("a")}, "<axis = 0>", {"a": 0}),
        ({"axis": CAPTURE("a")}, "", {"a": -1}),
        ({"axis": CAPTURE("a", lambda a: a > 0)}, "<axis = 0>", None),
        ({"none": None}, "", {}),
        ({"axis": None}, "", None),
        ({"attributes": CAPTURE("all")}, "<axis = 0>", {"all": {"axis": 0}}),
        ({"attributes": CAPTURE("all")}, "", {"all": {}}),
        ({"axis": 0, "attributes": CAPTURE("all")}, "<axis = 0>", {"all": {}}),
    ],
)  # fmt: skip
def test_attributes(
    attributes: dict[str, Any], written: str, expected: dict[str, Any] | None
) -> None:
    found = find(softmax(**attributes), f"{{ y = Softmax {written} (x) }}")
    assert found == (None if expected is None else {"x": "x", **expected})


@pytest.mark.parametrize(("optional", "expected"), [(False, None), (True, {"x": "x", "a": None})])
def test_a_capture_of_an_attribute_that_is_absent(
    optional: bool, expected: dict[str, Any] | None
) -> None:
    class Pooled(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Upsample(x, height_scale=CAPTURE("a", optional=optional), domain="acme")

    assert find(Pooled(), "{ y = acme.Upsample(x) }", domains={"acme": 1}) == expected


def test_attributes_of_every_kind_are_compared() -> None:
    class Everything(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Thing(
                x, f=0.1, s="text", ints=(1, 2), floats=[0.5, 0.1], strings=["a"], domain="test"
            )

    def text(
        f: str = "0.1",
        s: str = "text",
        ints: str = "1, 2",
        floats: str = "0.5, 0.1",
        strings: str = '"a"',
    ) -> str:
        return (
            f'{{ y = test.Thing <f = {f}, s = "{s}", ints = [{ints}], floats = [{floats}], strings'
            f" = [{strings}]> (x) }}"
        )

    for given, matches in (
        ({}, True), ({"f": "0.2"}, False), ({"s": "other"}, False), ({"ints": "1"}, False),
        ({"ints": "2, 1"}, False), ({"floats": "0.5, 0.2"}, False),
        ({"strings": '"a", "b"'}, False),
    ):  # fmt: skip
        assert (find(Everything(), text(**given), domains={"test": 1}) is not None) == matches


def test_one_name_for_two_attributes_means_that_they_are_equal() -> None:
    class Twice(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Softmax(g.op.LogSoftmax(x, axis=g.capture("axis")), axis=g.capture("axis"))

    assert find(Twice(), "{ a = LogSoftmax <axis = 0> (x) y = Softmax <axis = 0> (a) }") == {
        "x": "x",
        "axis": 0,
    }
    assert find(Twice(), "{ a = LogSoftmax <axis = 0> (x) y = Softmax <axis = 1> (a) }") is None


def test_a_reference_to_an_attribute_of_the_function_fits_nothing() -> None:
    model = load(
        'agraph (float[N,3] x) => (y) { y = l.f <axis = 1> (x) } <domain: "l", opset_import: ["" :'
        " 18]> f <axis> (u) => (v) { v = Softmax <axis: int = @axis> (u) }",
        domains={"l": 1},
    )
    body = model.functions[0].body
    for attributes in (
        {},
        {"axis": 1},
        {"axis": CAPTURE("a")},
        {"attributes": CAPTURE("all")},
        {"axis": lambda a: a > 0},
    ):
        assert find(softmax(**attributes), body) is None
    assert find(softmax(attributes=ANY), body) == {"x": "u"}


class AnySum(EasyPatternOptimization):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.ReduceSum(x, axes=g.capture("axes"), keepdims=0)


class PlainSum(EasyPatternOptimization):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.ReduceSum(x)


@pytest.mark.parametrize(
    ("opset", "node", "axes"),
    [
        (11, "y = ReduceSum <axes = [1], keepdims = 0> (x)", [1]),
        (13, "k = Constant <value_ints = [1]> () y = ReduceSum <keepdims = 0> (x, k)", [1]),
        (11, "y = ReduceSum <keepdims = 0> (x)", None),
        (13, "y = ReduceSum <keepdims = 0> (x)", None),
        (13, "i = Cast <to = 7> (x) y = ReduceSum <keepdims = 0> (x, i)", None),
    ],
)
def test_axes_are_an_attribute_or_an_operand(opset: int, node: str, axes: list[int] | None) -> None:
    assert find(AnySum(), f"{{ {node} }}", opset) == (
        None if axes is None else {"x": "x", "axes": axes}
    )


def test_an_operand_that_was_an_attribute_must_be_absent_when_it_is_not_mentioned() -> None:
    assert find(PlainSum(), "{ y = ReduceSum(x) }", 13) == {"x": "x"}
    assert (
        find(PlainSum(), "{ k = Constant <value_ints = [1]> () y = ReduceSum(x, k) }", 13) is None
    )
    assert find(PlainSum(), "{ y = ReduceSum <axes = [1]> (x) }", 11) is None

    class Pad(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Pad(x, pads=g.capture("pads"))

    pads = "<int64[4] p = {0, 1, 0, 1}, float zero = {0}, float one = {1}>"
    head = f"agraph (float[N,3] x) => (y) {pads}"
    assert find(Pad(), f"{head} {{ y = Pad(x, p) }}") == {"x": "x", "pads": [0, 1, 0, 1]}
    assert find(Pad(), f"{head} {{ y = Pad(x, p, zero) }}") is not None, "written, but the default"
    assert find(Pad(), f"{head} {{ y = Pad(x, p, one) }}") is None


def test_bounds_of_clip_by_operator_set() -> None:
    class Clip(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Clip(x, min=0.0, max=6.0)

    assert find(Clip(), "{ y = Clip <min = 0.0, max = 6.0> (x) }", 6) == {"x": "x"}
    constants = "<float a = {0}, float b = {6}, float c = {5}>"
    assert find(Clip(), f"agraph (float[N] x) => (y) {constants} {{ y = Clip(x, a, b) }}") == {
        "x": "x"
    }
    assert find(Clip(), f"agraph (float[N] x) => (y) {constants} {{ y = Clip(x, a, c) }}") is None
    assert find(Clip(), f"agraph (float[N] x) => (y) {constants} {{ y = Clip(x, a) }}") is None


# ------------------------------------------------------------------ operands


class Gate(EasyPatternOptimization):
    """x · Sigmoid(x · a)."""

    def match_pattern(self, g: PatternBuilder, x: Symbol, a: Scalar) -> Symbol:
        return g.op.Mul(x, g.op.Sigmoid(g.op.Mul(x, a)))


@pytest.mark.parametrize(
    "nodes",
    [
        "m = Mul(x, k) s = Sigmoid(m) y = Mul(x, s)",
        "m = Mul(k, x) s = Sigmoid(m) y = Mul(x, s)",
        "m = Mul(x, k) s = Sigmoid(m) y = Mul(s, x)",
        "m = Mul(k, x) s = Sigmoid(m) y = Mul(s, x)",
    ],
)
def test_commutative_operators_in_both_orders(nodes: str) -> None:
    assert find(Gate(), f"agraph (float[N] x) => (y) <float k = {{1.5}}> {{ {nodes} }}") == {
        "x": "x",
        "a": "k",
    }


def test_other_operators_in_one_order_only() -> None:
    class Halved(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Sub(g.op.Neg(x), 2.0)

    text = "agraph (float[N] x) => (y) <float two = {{2}}> {{ n = Neg(x) y = Sub({}) }}"
    assert find(Halved(), text.format("n, two")) == {"x": "x"}
    assert find(Halved(), text.format("two, n")) is None


def test_the_search_goes_on_after_a_wrong_turn() -> None:
    class Deep(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
            return g.op.Add(g.op.Mul(g.op.Neg(x), z), g.op.Mul(g.op.Abs(x), z))

    text = "{{ n = Neg(x) b = Abs(x) p = Mul({}) q = Mul({}) y = Add({}) }}"
    for first in ("n, z", "z, n"):
        for second in ("b, z", "z, b"):
            for last in ("p, q", "q, p"):
                assert find(Deep(), text.format(first, second, last)) == {"x": "x", "z": "z"}, (
                    first,
                    second,
                    last,
                )
    assert find(Deep(), text.format("n, z", "b, x", "p, q")) is None


def test_what_a_validation_refuses_is_searched_further() -> None:
    class OnlyZ(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
            return g.op.Add(a, b)

        def validate_mapping(self, g: GraphBuilderPatternOptimization, m: Match) -> bool | None:
            return m.a == "z" or self.none(msg="a must be z")

    assert find(OnlyZ(), "{ y = Add(x, z) }") == {"a": "z", "b": "x"}


def test_an_operand_captured_twice_must_be_the_same() -> None:
    class Square(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Mul(x, x)

    assert find(Square(), "{ y = Mul(x, x) }") == {"x": "x"}
    assert find(Square(), "{ y = Mul(x, z) }") is None


def test_two_operands_may_be_the_same_result() -> None:
    class Sum(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
            return g.op.Add(a, b)

    assert find(Sum(), "{ y = Add(x, x) }") == {"a": "x", "b": "x"}


def test_one_node_plays_one_part() -> None:
    class TwoNegs(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
            return g.op.Add(g.op.Neg(x), g.op.Neg(z))

    found = find(TwoNegs(), "{ a = Neg(x) b = Neg(z) y = Add(a, b) }")
    assert sorted(found.values()) == ["x", "z"]
    assert find(TwoNegs(), "{ a = Neg(x) y = Add(a, a) }") is None


@pytest.mark.parametrize(
    ("constant", "matches"),
    [
        ("float k = {0.5}", True), ("float[1] k = {0.5}", True), ("float[1,1] k = {0.5}", True),
        ("double k = {0.5}", True), ("float16 k = {14336}", True), ("float k = {0.25}", False),
        ("float[2] k = {0.5, 0.25}", False), ("int64 k = {1}", False),
    ],
)  # fmt: skip
def test_numbers_in_every_form(constant: str, matches: bool) -> None:
    class Half(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Mul(x, 0.5)

    kind = constant.split(" ")[0].split("[")[0]
    head = f"agraph ({kind}[N,3] x) => (y)"
    assert (find(Half(), f"{head} <{constant}> {{ y = Mul(x, k) }}") is not None) == matches
    if kind in ("float", "double", "int64"):
        value = constant.replace(" k = ", " ")
        assert (
            find(Half(), f"{head} {{ k = Constant <value = {value}> () y = Mul(x, k) }}")
            is not None
        ) == matches


def test_numbers_that_are_computed_or_overridable() -> None:
    class Two(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Mul(x, np.float32(2))

    assert find(
        Two(), "agraph (float[N] x) => (y) <float k = {1}> { t = Add(k, k) y = Mul(x, t) }"
    ) == {"x": "x"}
    assert (
        find(Two(), "agraph (float[N] x, float k) => (y) <float k = {2}> { y = Mul(x, k) }") is None
    )
    assert find(Two(), "agraph (float[N] x, float k) => (y) { y = Mul(x, k) }") is None


def test_a_number_that_raises_the_rank_of_the_result_does_not_fit() -> None:
    class Zero(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Add(x, 0)

    for shape, kind, matches in (
        ("[N]", "float[1]", True), ("[N]", "float[1,1]", False), ("", "float[1]", False),
        ("[N,3]", "float[1]", True), ("[N,3]", "float", True), ("", "float", True),
    ):  # fmt: skip
        text = f"agraph (float{shape} x) => (y) <{kind} k = {{0}}> {{ y = Add(x, k) }}"
        assert (find(Zero(), text) is not None) == matches, (shape, kind)


def test_arrays() -> None:
    class Perm(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Reshape(x, [0, -1])

    def text(values: str, count: int = 2) -> str:
        return (
            f"agraph (float[N,2,3] x) => (y) <int64[{count}] s = {{{values}}}> {{ "
            "y = Reshape(x, s) }"
        )

    assert find(Perm(), text("0, -1")) == {"x": "x"}
    assert find(Perm(), text("0, 6")) is None
    assert find(Perm(), text("0, -1, 1", 3)) is None


def test_annotations() -> None:
    class Annotated(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol, c: Constant, low: Optional) -> Symbol:
            return g.op.Clip(g.op.Add(x, c), low)

    head = "agraph (float[N] x, float z) => (y) <float[3] w = {1, 2, 3}, float k = {1}>"
    assert find(Annotated(), f"{head} {{ a = Add(x, w) y = Clip(a, z) }}") == {
        "x": "x",
        "c": "w",
        "low": "z",
    }
    assert find(Annotated(), f"{head} {{ a = Add(x, w) y = Clip(a) }}") == {
        "x": "x",
        "c": "w",
        "low": "",
    }
    assert find(Annotated(), f"{head} {{ t = Neg(w) a = Add(x, t) y = Clip(a) }}") == {
        "x": "x",
        "c": "t",
        "low": "",
    }
    assert find(Annotated(), f"{head} {{ a = Add(x, z) y = Clip(a) }}") is None
    assert find(Annotated(), f"{head} {{ a = Add(x, w) y = Clip(a, k, z) }}") is None

    class WithScalar(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol, k: Scalar) -> Symbol:
            return g.op.Mul(x, k)

    assert find(WithScalar(), f"{head} {{ y = Mul(x, k) }}") == {"x": "x", "k": "k"}
    assert find(WithScalar(), f"{head} {{ y = Mul(x, w) }}") is None
    assert find(WithScalar(), f"{head} {{ y = Mul(x, z) }}") is None


def test_operands_that_must_be_absent() -> None:
    class Upper(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol, high: Symbol) -> Symbol:
            return g.op.Clip(x, None, high)

    assert find(Upper(), '{ y = Clip(x, "", z) }') == {"x": "x", "high": "z"}
    assert find(Upper(), "{ y = Clip(x, z, z) }") is None
    assert find(Upper(), "{ y = Clip(x) }") is None
