# mypy: disable-error-code="no-any-return"
"""Results of declarative patterns, and their replacements."""

from typing import Any

import numpy as np
import pytest

from tests.match.matching import find, first_match, rewrite
from tests.support import load, node_of, parse, same_results, types
from xoptim.facts.errors import XoptimError
from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    GraphBuilderPatternOptimization,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

FEEDS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "z": np.ones((2, 3), np.float32)}


class NegAbs(EasyPatternOptimization):
    """Neg(Abs(x)) → Exp(x), which is easy to see."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Neg(g.op.Abs(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Exp(x)


class KeepingNegAbs(NegAbs):
    interior = "keep"


def test_a_chain() -> None:
    assert find(NegAbs(), "{ a = Abs(x) y = Neg(a) }") == {"x": "x"}
    assert find(NegAbs(), "{ a = Neg(x) y = Abs(a) }") is None
    after = rewrite(
        NegAbs(), "agraph (float[N] x) => (float[N] y) { a = Abs(x) n = Neg(a) y = Relu(n) }"
    )
    assert types(after) == ["Exp", "Relu"]
    assert after.graph.node[0].output == ["n"], "the result keeps its name"


def test_the_domain_counts() -> None:
    assert find(NegAbs(), "{ a = Abs(x) y = test.Neg(a) }", domains={"test": 1}) is None
    assert find(NegAbs(), "{ a = test.Abs(x) y = Neg(a) }", domains={"test": 1}) is None

    class Foreign(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Neg(g.op.Abs(x, domain="test"))

    assert find(Foreign(), "{ a = test.Abs(x) y = Neg(a) }", domains={"test": 1}) == {"x": "x"}
    assert find(Foreign(), "{ a = Abs(x) y = Neg(a) }") is None
    assert Foreign().anchor_keys() <= {("", "Neg"), ("test", "Abs")}


# ------------------------------------------------------------------ results


class Pair(EasyPatternOptimization):
    """Neg and Abs of the same thing."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> tuple[Symbol, Symbol]:
        t = g.op.Relu(x)
        return g.op.Neg(t), g.op.Abs(t)

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Pair(x, domain="test", outputs=2)


def test_several_results_are_found_forward() -> None:
    text = "agraph (float[N] x) => (float[N] p, float[N] q) { t = Relu(x) q = Abs(t) p = Neg(t) }"
    assert find(Pair(), text) == {"x": "x"}
    after = rewrite(Pair(), text)
    assert types(after) == ["Pair"]
    assert after.graph.node[0].output == ["p", "q"]
    assert {o.domain: o.version for o in after.opset_import} == {"": 18, "test": 1}


def test_the_right_one_of_several_consumers_is_found() -> None:
    class Branches(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> tuple[Symbol, Symbol]:
            t = g.op.Erf(x)
            return g.op.Neg(t), g.op.Add(g.op.Abs(t), z)

    text = (
        "agraph (float[N] x, float[N] z) => (p, q, r, s) "
        "{ t = Erf(x) a = Abs(t) s = Mul(a, z) b = Abs(t) q = Add(b, z) p = Neg(t) r = Exp(t) }"
    )
    match = first_match(KeepingBranches(), text)
    assert match is not None
    assert [n.output[0] for n in match.nodes if n is not None] == ["t", "p", "b", "q"]
    assert find(Branches(), text) is None, "Erf is read elsewhere"


class KeepingBranches(EasyPatternOptimization):
    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> tuple[Symbol, Symbol]:
        t = g.op.Erf(x)
        return g.op.Neg(t), g.op.Add(g.op.Abs(t), z)


def test_a_node_with_several_results() -> None:
    class SplitAdd(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            a, b = g.op.Split(x, outputs=2, attributes=ANY)
            return g.op.Sub(a, b)

        def apply_pattern(self, g: PatternRewriter, x: str) -> str:
            return g.op.Neg(x)

    text = (
        "agraph (float[4] x) => (y) {{ a, b = Split <axis = 0, num_outputs = 2> (x) y = Sub({}) }}"
    )
    assert find(SplitAdd(), text.format("a, b")) == {"x": "x"}
    assert find(SplitAdd(), text.format("b, a")) is None
    more = (
        "agraph (float[6] x) => (y, c) { a, b, c = Split <axis = 0, num_outputs = 3> (x) "
        "y = Sub(a, b) }"
    )
    assert find(SplitAdd(), more) is None, "a third result is an output"


def test_options() -> None:
    class Linear(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol, b: Symbol) -> Symbol:
            y = g.op.MatMul(x, w)
            if g.option("bias"):
                y = g.op.Add(y, b)
            return g.op.Relu(y) if g.option("relu") else g.op.Tanh(y)

    head = "agraph (float[N,3] x, float[3,3] w, float[3] b) => (y)"
    for nodes, expected in (
        ("m = MatMul(x, w) a = Add(m, b) y = Relu(a)", {"bias": True, "relu": True, "b": "b"}),
        ("m = MatMul(x, w) a = Add(b, m) y = Tanh(a)", {"bias": True, "relu": False, "b": "b"}),
        ("m = MatMul(x, w) y = Relu(m)", {"bias": False, "relu": True, "b": ""}),
        ("m = MatMul(x, w) y = Tanh(m)", {"bias": False, "relu": False, "b": ""}),
        ("m = MatMul(x, w) y = Neg(m)", None),
    ):
        found = find(Linear(), f"{head} {{ {nodes} }}")
        assert found == (None if expected is None else {"x": "x", "w": "w", **expected})


# ------------------------------------------------------------------ results in between


def test_results_in_between_that_something_else_reads() -> None:
    used = {
        "another node": (
            "agraph (float[N] x) => (float[N] y, float[N] o) { a = Abs(x) y = Neg(a) o = Relu(a) }"
        ),
        "an output": "agraph (float[N] x) => (float[N] y, float[N] a) { a = Abs(x) y = Neg(a) }",
        "a subgraph": (
            "agraph (bool c, float[N] x) => (float[N] y, float[N] o) { a = Abs(x) y = Neg(a) "
            "o = If (c) <then_branch = t () => (float[N] q) { q = Relu(a) }, else_branch = e () "
            "=> (float[N] q) { q = Exp(x) }> }"
        ),
        "the output of a subgraph": (
            "agraph (bool c, float[N] x) => (float[N] y, float[N] o) { a = Abs(x) y = Neg(a) "
            "o = If (c) <then_branch = t () => (a) { }, else_branch = e () "
            "=> (float[N] q) { q = Exp(x) }> }"
        ),
    }
    for who, text in used.items():
        assert find(NegAbs(), text) is None, who
        assert find(KeepingNegAbs(), text) == {"x": "x"}, who
        assert types(rewrite(KeepingNegAbs(), text))[:2] in (["Abs", "Exp"], ["Exp", "Abs"]), who


def test_what_is_kept_keeps_what_it_needs() -> None:
    class Three(EasyPatternOptimization):
        interior = "keep"

        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Neg(g.op.Abs(g.op.Erf(x)))

        def apply_pattern(self, g: PatternRewriter, x: str) -> str:
            return g.op.Exp(x)

    kept = rewrite(
        Three(),
        "agraph (float[N] x) => (float[N] y, float[N] b) { a = Erf(x) b = Abs(a) y = Neg(b) }",
    )
    assert sorted(types(kept)) == ["Abs", "Erf", "Exp"]
    partly = rewrite(
        Three(),
        "agraph (float[N] x) => (float[N] y, float[N] a) { a = Erf(x) b = Abs(a) y = Neg(b) }",
    )
    assert sorted(types(partly)) == ["Erf", "Exp"]


def test_an_operand_that_is_a_result_in_between() -> None:
    class Sum(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
            return g.op.Add(g.op.Neg(x), z)

        def apply_pattern(self, g: PatternRewriter, x: str, z: str) -> str:
            return g.op.Sub(z, x)

    class KeepingSum(Sum):
        interior = "keep"

    text = "agraph (float[N] x) => (float[N] y) { a = Neg(x) y = Add(a, a) }"
    assert find(Sum(), text) is None
    after = rewrite(KeepingSum(), text)
    assert types(after) == ["Neg", "Sub"]
    same_results(parse(text), after, {"x": np.array([1, 2], np.float32)})


def test_an_operand_that_is_another_result() -> None:
    class Both(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> tuple[Symbol, Symbol]:
            t = g.op.Erf(x)
            return g.op.Neg(t), g.op.Add(t, z)

    text = (
        "agraph (float[N] x) => (float[N] p, float[N] q) {{ t = Erf(x) p = Neg(t) q = Add(t, {}) }}"
    )
    assert find(Both(), text.format("x")) == {"x": "x", "z": "x"}
    assert find(Both(), text.format("p")) is None


# ------------------------------------------------------------------ replacements


def test_a_replacement_may_be_an_operand() -> None:
    class Nothing(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Neg(g.op.Neg(x))

        def apply_pattern(self, g: PatternRewriter, x: str) -> str:
            return x

    text = "agraph (float[N,3] x) => (float[N,3] y) { a = Neg(x) b = Neg(a) y = Relu(b) }"
    assert types(rewrite(Nothing(), text)) == ["Relu"]
    assert types(rewrite(Nothing(), text, remove_identity=False)) == ["Identity", "Relu"]
    whole = rewrite(Nothing(), "agraph (float[N,3] x) => (float[N,3] y) { a = Neg(x) y = Neg(a) }")
    assert types(whole) == ["Identity"], "an output cannot be an input"


def test_one_new_result_for_two_old_ones() -> None:
    class Same(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> tuple[Symbol, Symbol]:
            t = g.op.Relu(x)
            return g.op.Abs(t), g.op.Identity(t)

        def apply_pattern(self, g: PatternRewriter, x: str) -> tuple[str, str]:
            r = g.op.Relu(x)
            return r, r

    text = (
        "agraph (float[N,3] x) => (float[N,3] y, float[N,3] q) { t = Relu(x) y = Abs(t) "
        "q = Identity(t) }"
    )
    after = rewrite(Same(), text, remove_identity=False)
    assert types(after) == ["Relu", "Identity"]
    same_results(parse(text), after, {"x": FEEDS["x"]})


def test_options_attributes_and_derived_values_are_handed_over_by_name() -> None:
    class Handing(EasyPatternOptimization):
        derives = ("gamma",)

        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            t = g.op.Elu(x, alpha=g.capture("alpha"))
            return g.op.Relu(t) if g.option("outer") else g.op.Neg(t)

        def validate_attribute_mapping(
            self, g: GraphBuilderPatternOptimization, m: Match
        ) -> bool | None:
            return m.alpha > 0.4

        def validate_mapping(self, g: GraphBuilderPatternOptimization, m: Match) -> bool | None:
            assert (len(m), sorted(m), m["x"], m.x) == (3, ["alpha", "outer", "x"], "x", "x")
            assert [n.op_type for n in m.nodes] == ["Elu", "Relu"]
            assert m.outputs == ["y"]
            with pytest.raises(AttributeError, match="'nothing'"):
                _ = m.nothing
            return m.derive(gamma=m.alpha * 2)

        def apply_pattern(self, g: PatternRewriter, gamma: float, outer: bool, x: str) -> str:
            assert outer is True
            return g.op.Selu(x, gamma=gamma)

    text = "agraph (float[N] x) => (float[N] y) {{ t = Elu <alpha = {}> (x) y = Relu(t) }}"
    after = rewrite(Handing(), text.format(0.5))
    assert [a.f for a in after.graph.node[0].attribute] == [1.0]
    assert types(rewrite(Handing(), text.format(0.25))) == ["Elu", "Relu"]


def test_a_replacement_with_the_wrong_number_of_results() -> None:
    class Wrong(NegAbs):
        def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
            return g.op.Exp(x), x

    with pytest.raises(XoptimError, match=r"apply_pattern .* 2 results, 1 "):
        rewrite(Wrong(), "{ a = Abs(x) y = Neg(a) }")


def test_the_two_methods_must_be_there() -> None:
    class Empty(EasyPatternOptimization):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty .*match_pattern"):
        Empty().match_pattern()
    with pytest.raises(NotImplementedError, match=r"Empty .*apply_pattern"):
        Empty().apply_pattern()


def test_matching_in_subgraphs() -> None:
    model = load(
        "agraph (bool c, float[N] x) => (float[N] y) { a = Abs(x) "
        "y = If (c) <then_branch = t () => (float[N] q) { q = Neg(a) }, else_branch = e () "
        "=> (float[N] q) { b = Abs(x) q = Neg(b) }> }"
    )
    bodies = node_of(model, "If").bodies
    assert find(NegAbs(), bodies["then_branch"]) is None, "a match lies in one graph"
    assert find(NegAbs(), bodies["else_branch"]) == {"x": "x"}
