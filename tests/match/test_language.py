# mypy: disable-error-code="no-any-return"
"""The language of patterns: alternatives, lists of operands, trees of sums, captured constants,
values read elsewhere.
"""

from typing import Any

import numpy as np
import pytest

from tests.match.matching import find, refusals, rewrite
from tests.support import parse, same_results, types, values_in
from xoptim.match import (
    ANY,
    Constant,
    EasyPatternOptimization,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternOptimization,
    PatternRewriter,
    Symbol,
    Variadic,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
FEEDS = {"x": X, "z": X[::-1].copy()}


def pattern(describe: Any, replace: Any = None, **members: Any) -> EasyPatternOptimization:
    """A pattern made of two functions ``(g, ...)``."""
    name = f"{describe.__name__.title()}Pattern"
    functions: dict[str, Any] = {"match_pattern": describe, "apply_pattern": replace}
    found: EasyPatternOptimization = type(
        name,
        (EasyPatternOptimization,),
        {**{k: staticmethod(f) for k, f in functions.items() if f is not None}, **members},
    )()
    return found


# ------------------------------------------------------------------ alternatives


def activation(g: PatternBuilder, x: Symbol) -> Symbol:
    return g.op.Neg(
        g.either(
            lambda: g.op.Relu(x),
            lambda: g.op.Clip(x, min=0.0),
            lambda: g.op.Max(x, g.constant("floor", lambda v: bool((v <= 0).all()))),
            name="form",
        )
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{ a = Relu(x) y = Neg(a) }", {"x": "x", "form": 0}),
        ("{ k = Constant<value_float = 0.0>() a = Clip(x, k) y = Neg(a) }", {"x": "x", "form": 1}),
        (
            "{ k = Constant<value = float[3] {-1, 0, -2}>() a = Max(k, x) y = Neg(a) }",
            {"x": "x", "floor": "k", "form": 2},
        ),
        ("{ k = Constant<value = float[3] {-1, 1, -2}>() a = Max(x, k) y = Neg(a) }", None),
        ("{ k = Constant<value_float = 1.0>() a = Clip(x, k) y = Neg(a) }", None),
        ("{ a = Max(x, z) y = Neg(a) }", None),
        ("{ a = Sigmoid(x) y = Neg(a) }", None),
    ],
)
def test_alternatives_bind_what_they_capture(text: str, expected: dict[str, Any] | None) -> None:
    assert find(pattern(activation), text) == expected


def test_what_another_alternative_captures_is_none() -> None:
    seen: list[Any] = []

    def replace(g: PatternRewriter, x: str, floor: Any, form: int) -> str:
        seen.append((floor, form))
        return g.op.Abs(x)

    chosen = pattern(activation, replace)
    assert types(
        rewrite(chosen, "agraph (float[N] x) => (float[N] y) { a = Relu(x) y = Neg(a) }")
    ) == ["Abs"]
    assert seen == [(None, 0)]


def test_a_parameter_that_nothing_captures_is_an_error_of_the_pattern() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Neg(g.op.Neg(x))

    def replace(g: PatternRewriter, x: str, wrong: str) -> str:
        return x

    with pytest.raises(Exception, match=r"apply_pattern .*'wrong'"):
        rewrite(
            pattern(describe, replace),
            "agraph (float[N] x) => (float[N] y) { a = Neg(x) y = Neg(a) }",
        )


def guarded(g: PatternBuilder, x: Symbol) -> Symbol:
    def large() -> Symbol:
        g.require(lambda view, m: view.get_rank(m.x) > 1, "a vector is not large")
        return g.op.Relu(x)

    return g.op.Neg(g.either(large, lambda: g.op.Abs(x)))


def test_conditions_inside_alternatives_are_always_asked() -> None:
    chosen = pattern(guarded)
    text = "agraph (float[%s] x) => (y) { a = %s(x) y = Neg(a) }"
    assert find(chosen, text % ("N, 3", "Relu")) is not None
    assert find(chosen, text % ("N", "Relu")) is None
    assert find(chosen, text % ("N", "Abs")) is not None, (
        "the condition belongs to the other alternative"
    )
    assert next(r.reason for r in refusals(chosen, text % ("N", "Relu"))) == "a vector is not large"


def test_choices_among_many_answers() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        inner = getattr(g.op, g.choice("inner", "Abs", "Relu", "Sign"))(x)
        return getattr(g.op, g.choice("outer", "Floor", "Ceil"))(inner)

    chosen = pattern(describe)
    assert find(chosen, "{ a = Sign(x) y = Ceil(a) }") == {
        "x": "x",
        "inner": "Sign",
        "outer": "Ceil",
    }
    assert find(chosen, "{ a = Abs(x) y = Floor(a) }") == {
        "x": "x",
        "inner": "Abs",
        "outer": "Floor",
    }
    assert find(chosen, "{ a = Neg(x) y = Floor(a) }") is None


def test_too_many_variants_are_an_error() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        for number in range(12):
            x = g.op.Neg(x) if g.option(str(number)) else g.op.Abs(x)
        return x

    with pytest.raises(TypeError, match="512"):
        find(pattern(describe), "{ y = Neg(x) }")


# ------------------------------------------------------------------ lists of operands and results


def joined(g: PatternBuilder, x: Symbol, rest: Variadic) -> Symbol:
    return g.op.Neg(g.op.Concat(x, rest, axis=g.capture("axis")))


def test_a_list_of_operands() -> None:
    def replace(g: PatternRewriter, x: str, rest: tuple[str, ...], axis: int) -> str:
        return g.op.Concat(*(g.op.Neg(name) for name in (x, *rest)), axis=axis)

    chosen = pattern(joined, replace)
    assert find(chosen, "{ a = Concat<axis = 1>(z, x, z) y = Neg(a) }") == {
        "x": "z",
        "rest": ("x", "z"),
        "axis": 1,
    }
    assert find(chosen, "{ a = Concat<axis = 1>(z) y = Neg(a) }") == {
        "x": "z",
        "rest": (),
        "axis": 1,
    }
    text = (
        "agraph (float[N,3] x, float[N,3] z) => (float[M,3] y) { a = Concat<axis = 0>(x, z, x) "
        "y = Neg(a) }"
    )
    after = rewrite(chosen, text)
    assert types(after) == ["Neg", "Neg", "Neg", "Concat"]
    same_results(parse(text), after, FEEDS)


def test_a_list_in_the_middle_and_its_least_length() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Concat(x, g.variadic("middle", least=1), x, axis=0)

    chosen = pattern(describe)
    assert find(chosen, "{ y = Concat<axis = 0>(x, z, z, x) }") == {"x": "x", "middle": ("z", "z")}
    assert find(chosen, "{ y = Concat<axis = 0>(x, z, z) }") is None
    assert find(chosen, "{ y = Concat<axis = 0>(x, x) }") is None


def test_a_list_of_constants() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Sum(x, g.variadic("offsets", constant=True))

    chosen = pattern(describe)
    body = "{ k = Constant<value_float = 1.0>() l = Constant<value_float = 2.0>() y = Sum(%s) }"
    assert find(chosen, body % "k, x, l") == {"x": "x", "offsets": ("k", "l")}, "Sum is commutative"
    assert find(chosen, body % "k, x, z") is None


def test_all_results_of_a_node() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        parts = g.op.Split(x, outputs=g.variadic("parts"), axis=g.capture("axis"), attributes=ANY)
        return g.op.Concat(parts, axis=g.capture("axis"))

    def replace(g: PatternRewriter, x: str) -> str:
        return x

    chosen = pattern(describe, replace)
    body = "{ a, b, c = Split<axis = 1, num_outputs = 3>(x) y = Concat<axis = %d>(%s) }"
    assert find(chosen, body % (1, "a, b, c")) == {"x": "x", "parts": ("a", "b", "c"), "axis": 1}
    assert find(chosen, body % (1, "a, c, b")) is None
    assert find(chosen, body % (1, "a, b")) is None
    assert find(chosen, body % (0, "a, b, c")) is None
    text = "agraph (float[N,3] x) => (float[N,3] y) " + body % (1, "a, b, c")
    assert types(rewrite(chosen, text)) == ["Identity"]


def test_the_number_of_results_decides_what_they_are() -> None:
    """Two results are not two of three, even if nothing reads the third.

    A result that may be left out does not count.
    """

    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        a, b = g.op.Split(x, outputs=2, axis=1)
        return g.op.Sub(a, b)

    body = "{ %s = Split<axis = 1>(x) y = Sub(a, b) }"
    assert find(pattern(describe), body % "a, b", opset=13) == {"x": "x"}
    assert find(pattern(describe), body % "a, b, c", opset=13) is None
    (refusal,) = refusals(pattern(describe), body % "a, b, c", opset=13)
    assert values_in(refusal.reason) == ["2", "3"]
    dropping = pattern(lambda g, x: g.op.Neg(g.op.Dropout(x)))
    assert find(dropping, "{ d, mask = Dropout(x) y = Neg(d) }") == {"x": "x"}


def test_two_lists_in_one_node_are_an_error() -> None:
    def describe(g: PatternBuilder) -> Symbol:
        return g.op.Concat(g.variadic("a"), g.variadic("b"), axis=0)

    with pytest.raises(TypeError, match="one operand"):
        find(pattern(describe), "{ y = Concat<axis = 0>(x, z) }")


# ---------------------------------------------------------------- order and arrangement of operands


def test_commutative_operators_of_many_operands() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Max(x, 0.0, g.op.Neg(x))

    chosen = pattern(describe)
    body = "{ zero = Constant<value_float = 0.0>() n = Neg(x) y = Max(%s) }"
    for order in ("x, zero, n", "n, x, zero", "zero, n, x"):
        assert find(chosen, body % order) == {"x": "x"}
    assert find(chosen, body % "x, zero, z") is None
    assert find(chosen, body % "x, zero, n, z") is None


def test_operands_in_any_order_on_request() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Sub(g.op.Abs(x), g.variadic("others"), any_order=True)

    chosen = pattern(describe)
    assert find(chosen, "{ a = Abs(x) y = Sub(a, z) }") == {"x": "x", "others": ("z",)}
    assert find(chosen, "{ a = Abs(x) y = Sub(z, a) }") == {"x": "x", "others": ("z",)}


def total(g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
    return g.op.Neg(g.op.Add(g.op.Abs(x), z, g.op.Relu(x), associative=True))


SUMS = [
    "{ a = Abs(x) r = Relu(x) s = Add(a, z) t = Add(s, r) y = Neg(t) }",
    "{ a = Abs(x) r = Relu(x) s = Add(z, r) t = Add(a, s) y = Neg(t) }",
    "{ a = Abs(x) r = Relu(x) s = Add(r, a) t = Add(z, s) y = Neg(t) }",
]


@pytest.mark.parametrize("text", SUMS)
def test_sums_of_sums(text: str) -> None:
    def replace(g: PatternRewriter, x: str, z: str) -> str:
        return g.op.Sub(g.op.Neg(g.op.Add(g.op.Relu(x), g.op.Abs(x))), z)

    chosen = pattern(total, replace, exactness="rounding")
    assert find(chosen, text) == {"x": "x", "z": "z"}
    whole = f"agraph (float[N,3] x, float[N,3] z) => (float[N,3] y) {text}"
    after = rewrite(chosen, whole)
    assert sorted(types(after)) == ["Abs", "Add", "Neg", "Relu", "Sub"], "the tree is gone"
    same_results(parse(whole), after, FEEDS)


@pytest.mark.parametrize(
    "text",
    [
        "{ a = Abs(x) r = Relu(x) s = Add(a, r) y = Neg(s) }",
        "{ a = Abs(x) r = Relu(x) s = Add(a, z) t = Sub(s, r) y = Neg(t) }",
        "{ a = Abs(x) r = Relu(z) s = Add(a, z) t = Add(s, r) y = Neg(t) }",
        (
            "{ a = Abs(x) r = Relu(x) s = Add(a, z) t = Add(s, r) y = Neg(t) w = Exp(s) "
            "v = Add(w, y) }"
        ),
    ],
)
def test_what_is_no_such_sum(text: str) -> None:
    assert find(pattern(total), text) is None


def test_a_sum_may_be_found_from_one_of_its_terms() -> None:
    chosen = pattern(total, anchors=("Relu",))
    assert chosen.anchor_keys() == {("", "Relu")}
    for text in SUMS:
        assert find(chosen, text) == {"x": "x", "z": "z"}


def test_products_of_four() -> None:
    def describe(g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
        return g.op.Mul(x, 0.5, z, g.op.Exp(x), associative=True)

    chosen = pattern(describe)
    body = "{ h = Constant<value_float = 0.5>() e = Exp(x) %s }"
    for text in (
        "a = Mul(x, z) b = Mul(e, h) y = Mul(a, b)",
        "a = Mul(h, e) b = Mul(a, z) y = Mul(x, b)",
    ):
        assert find(chosen, body % text) == {"x": "x", "z": "z"}
    assert find(chosen, body % "a = Mul(h, e) b = Mul(a, a) y = Mul(x, b)") is None


def test_differences_are_not_associative() -> None:
    def describe(g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
        return g.op.Sub(x, z, x, associative=True)  # type: ignore[call-overload]

    with pytest.raises(TypeError, match=r"Sub .*associative"):
        find(pattern(describe), "{ y = Sub(x, z) }")


# ------------------------------------------------------------------ constants


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("float {0.25}", True),
        ("float[1] {0.25}", True),
        ("float {3.0}", False),
        ("float[2] {0.25, 0.25}", False),
    ],
)
def test_a_number_that_satisfies_a_condition(value: str, expected: bool) -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.LeakyRelu(g.op.Mul(x, g.constant("scale", lambda v: v < 1, scalar=True)))

    nodes = f"k = Constant<value = {value}>() a = Mul(x, k) y = LeakyRelu(a)"
    text = f"agraph (float[N,2] x) => (y) {{ {nodes} }}"
    assert (find(pattern(describe), text) == {"x": "x", "scale": "k"}) is expected


def test_capturing_a_name_twice_is_an_error() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Mul(g.op.Add(x, g.constant("k")), g.constant("k"))

    with pytest.raises(TypeError, match="captures 'k' twice"):
        find(pattern(describe), "{ y = Mul(x, z) }")


def test_constants_computed_from_captured_ones() -> None:
    def describe(g: PatternBuilder, x: Symbol, a: Constant, b: Constant) -> Symbol:
        return g.op.Mul(g.op.Mul(x, a), b)

    def replace(g: PatternRewriter, x: str, a: str, b: str) -> str:
        first, second = g.get_computed_constant(a), g.get_computed_constant(b)
        assert first is not None
        assert second is not None
        return g.op.Mul(x, first * second)

    chosen = pattern(describe, replace, exactness="rounding")
    text = """agraph (float[N,3] x) => (float[N,3] y)
        { a = Constant<value = float[3] {1, 2, 3}>() b = Constant<value_float = 2.0>() t = Mul(x, a)
          y = Mul(b, t) }"""
    after = rewrite(chosen, text)
    assert types(after) == ["Mul"]
    same_results(parse(text), after, {"x": X})


# ------------------------------------------------------------------ values in between, results


def two_readers(policy: str) -> EasyPatternOptimization:
    def describe(g: PatternBuilder, x: Symbol) -> Any:
        mark: Any = {"keep": g.keep, "refuse": g.exclusive}.get(policy, lambda value: value)
        return g.op.Neg(mark(g.op.Abs(g.op.Relu(x))))

    return pattern(
        describe, lambda g, x: g.op.Exp(x), interior="keep" if policy == "refuse" else "refuse"
    )


@pytest.mark.parametrize(
    ("policy", "reader", "expected"),
    [
        ("keep", "a", ["Relu", "Abs", "Exp", "Floor"]),
        ("keep", "r", None),
        ("refuse", "a", None),
        ("refuse", "r", ["Relu", "Exp", "Floor"]),
        ("", "a", None),
    ],
)
def test_who_may_read_a_value_in_between(
    policy: str, reader: str, expected: list[str] | None
) -> None:
    text = (
        "agraph (float[N] x) => (float[N] y, float[N] w) { r = Relu(x) a = Abs(r) y = Neg(a) "
        f"w = Floor({reader}) }}"
    )
    chosen = two_readers(policy)
    assert (find(chosen, text) is None) is (expected is None)
    if expected is not None:
        assert sorted(types(rewrite(chosen, text))) == sorted(expected)


@pytest.mark.parametrize("reader", ["a", "r"])
def test_outputs_and_subgraphs_count_as_readers(reader: str) -> None:
    declared = "agraph (float[N] x, bool c) => (float[N] y, float[N] %s)" % reader  # noqa: UP031
    for text in (
        f"{declared} {{ r = Relu(x) a = Abs(r) y = Neg(a) }}",
        f"""agraph (float[N] x, bool c) => (float[N] y,
          float[N] w) {{ r = Relu(x) a = Abs(r) y = Neg(a)
            w = If(c) <then_branch = t () => (float[N] p) {{ p = Floor({reader}) }},
                       else_branch = e () => (float[N] q) {{ q = Ceil({reader}) }}> }}""",
    ):
        assert (find(two_readers("keep"), text) is not None) is (reader == "a")
        assert (find(two_readers("refuse"), text) is not None) is (reader == "r")


def named(g: PatternBuilder, x: Symbol) -> dict[str, Symbol]:
    a = g.op.Abs(x)
    return {"low": g.op.Floor(a), "high": g.op.Ceil(a)}


def test_results_by_name_in_another_order() -> None:
    def replace(g: PatternRewriter, x: str) -> dict[str, str]:
        a = g.op.Relu(x)
        return {"high": g.op.Exp(a), "low": a}

    text = "agraph (float[N] x) => (float[N] p, float[N] q) { a = Abs(x) p = Floor(a) q = Ceil(a) }"
    after = rewrite(pattern(named, replace), text)
    assert {node.op_type: list(node.output) for node in after.graph.node} == {
        "Relu": ["p"],
        "Exp": ["q"],
    }


def test_a_result_that_nothing_reads_need_not_be_given() -> None:
    class Quiet(EasyPatternOptimization):
        derives = ("wanted",)

        def match_pattern(self, g: PatternBuilder, x: Symbol) -> dict[str, Symbol]:
            return named(g, x)

        def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
            unread = [
                name
                for name, result in zip(m.output_names, m.outputs, strict=True)
                if not g.is_used(result)
            ]
            return m.derive(wanted=[name for name in m.output_names if name not in unread])

        def apply_pattern(self, g: PatternRewriter, x: str, wanted: list[str]) -> dict[str, str]:
            return {name: g.op.Relu(x) for name in wanted}

    text = "agraph (float[N] x) => (float[N] p) { a = Abs(x) p = Floor(a) q = Ceil(a) }"
    assert types(rewrite(Quiet(), text, remove_unused=False)) == ["Relu"]
    text = "agraph (float[N] x) => (float[N] p, float[N] q) { a = Abs(x) p = Floor(a) q = Ceil(a) }"
    assert types(rewrite(Quiet(), text)) == ["Relu", "Relu"]


def test_a_name_that_is_no_result_is_an_error() -> None:
    with pytest.raises(Exception, match=r"apply_pattern .*'middle', .*match_pattern"):
        rewrite(
            pattern(named, lambda g, x: {"middle": x}),
            "agraph (float[N] x) => (float[N] p, float[N] q) { a = Abs(x) p = Floor(a) "
            "q = Ceil(a) }",
        )


# ------------------------------------------------------------------ anchors


def test_an_anchor_that_the_pattern_has_not_is_an_error() -> None:
    with pytest.raises(TypeError, match="anchors"):
        find(pattern(total, anchors=("Gemm",)), "{ y = Neg(x) }")


def test_anchors_of_patterns_by_hand_stay_as_they_are() -> None:
    class ByHand(PatternOptimization):
        anchors = ("acme::Thing", "Add")

    assert ByHand().anchor_keys() == {("acme", "Thing"), ("", "Add")}


def test_an_absent_operand_is_not_an_absent_result() -> None:
    def describe(g: PatternBuilder, x: Symbol, ratio: Any, mode: Any) -> tuple[Symbol, ...]:
        y, mask = g.op.Foo(x, ratio, mode, outputs=2, domain="acme")
        return g.op.Neg(y), mask

    class WithGaps(EasyPatternOptimization):
        def match_pattern(
            self, g: PatternBuilder, x: Symbol, ratio: Optional, mode: Optional
        ) -> tuple[Symbol, ...]:
            return describe(g, x, ratio, mode)

    assert (
        find(WithGaps(), '{ t, "" = acme.Foo(x, "", z) y = Neg(t) }', domains={"acme": 1})
        is not None
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("float[2] {1, 2}", True),
        ("float[1,2] {1, 2}", False),
        ("float[3] {1, 2, 3}", False),
        ("float[2] {1, 3}", False),
        ("float[1] {1}", False),
    ],
)
def test_an_array_has_a_shape_too(value: str, expected: bool) -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.MatMul(x, np.array([1, 2], np.float32))

    text = f"agraph (float[N,2] x) => (y) {{ k = Constant<value = {value}>() y = MatMul(x, k) }}"
    assert (find(pattern(describe), text) is not None) is expected


@pytest.mark.parametrize(
    ("size", "expected"), [("n,3", False), ("2,3", False), ("3", False), ("1", True)]
)
def test_a_number_stands_for_a_constant_that_keeps_the_shape(size: str, expected: bool) -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Mul(x, 2.0)

    count = {"n,3": 6, "2,3": 6, "3": 3, "1": 1}[size]
    stored = f"float[{size.replace('n', '2')}] {{{', '.join(['2'] * count)}}}"
    text = f"agraph (float[1] x) => (y) {{ k = Constant<value = {stored}>() y = Mul(x, k) }}"
    assert (find(pattern(describe), text) is not None) is expected


@pytest.mark.parametrize(
    ("attributes", "expected"), [("", True), ("<axis = 1, broadcast = 1>", False)]
)
def test_every_node_of_a_sum_of_sums_is_an_ordinary_one(attributes: str, expected: bool) -> None:
    """Before operator set 7, Add could say where its second operand lies.

    Such sums cannot be arranged at will.
    """

    def describe(g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
        return g.op.Neg(g.op.Add(x, x, z, associative=True))

    text = (
        f"agraph (float[2,3] x, float[2,3] z) => (y) {{ s = Add{attributes}(x, z) t = Add(x, s) "
        "y = Neg(t) }"
    )
    assert (find(pattern(describe), text, opset=6) is not None) is expected
