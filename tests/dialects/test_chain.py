# mypy: disable-error-code="no-any-return"
"""Chains: their matches, the values that rules receive, and the registries of rules."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.dialects.chains import becomes, chained
from tests.match.matching import find, first_match, refusals, rewrite
from tests.support import load, parse, same_results, types
from xoptim import XoptimError, optimize
from xoptim.dialects import ChainPattern, ChainRegistry
from xoptim.dialects.chain import matches_feeding
from xoptim.facts.errors import RewriteError
from xoptim.match import Match, PatternRewriter
from xoptim.match.view import GraphView

ROOT = Path(__file__).parents[2]
W = "<float[3,3] w = {1,2,3,4,5,6,7,8,9}, float[3] b = {1,2,3}>"
ACME = {"acme": 1}


def graph(
    nodes: str, *, inputs: str = "float[3,3] x, float[3,3] z", outputs: str = "y", weights: str = W
) -> str:
    """A graph with a weight and a bias."""
    return f"agraph ({inputs}) => ({outputs}) {weights} {{ {nodes} }}"


def matches(pattern: type[ChainPattern], nodes: str, **more: Any) -> bool:
    return find(pattern(), graph(nodes, **more), domains=ACME) is not None


# -------------------------------------------------------------------- the chain


def test_what_is_handed_on() -> None:
    found = find(
        chained("Relu", "Add", "Gemm")(), graph("t = Gemm(x, w, b) u = Add(b, t) y = Relu(u)")
    )
    assert [node.op_type for node in found["entries"]] == ["Relu", "Add", "Gemm"]
    assert found["inputs"] == ("x", "w", "b")
    assert found["parameters"] == ((), ("b",), ("w", "b"))
    assert found["sub_matches"] == ({}, {}, {})


@pytest.mark.parametrize("entry", ["acme::Twist", "ai.onnx::Relu", "Relu"])
def test_domains(entry: str) -> None:
    name = entry.rpartition("::")[2]
    call = f"acme.{name}" if "acme" in entry else name
    assert matches(chained("Exp", entry), f"t = {call}(x) y = Exp(t)")
    assert not matches(chained("Exp", "other::Twist"), f"t = {call}(x) y = Exp(t)")
    assert not matches(chained("Exp", "Tanh"), f"t = {call}(x) y = Exp(t)")


@pytest.mark.parametrize(
    ("entry", "operands"),
    [
        ("Sub", "t, ?"),
        ("Sub", "?, t"),
        ("Gemm", "t, w, ?"),
        ("Gemm", "w, ?, t"),
        ("acme::Blend", "w, ?, t, ?"),
    ],
)
def test_parameters_stand_anywhere(entry: str, operands: str) -> None:
    pattern = chained(entry, "Exp")
    node = f"y = {entry.replace('::', '.')}({operands})"
    assert matches(pattern, f"t = Exp(x) {node.replace('?', 'b')}")
    assert matches(pattern, f"c = Neg(b) t = Exp(x) {node.replace('?', 'c')}"), (
        "constants may be computed"
    )
    assert not matches(pattern, f"t = Exp(x) {node.replace('?', 'z')}")


def test_operands_that_are_omitted_are_no_inputs() -> None:
    assert matches(
        chained("Clip", "Exp"), 't = Exp(x) y = Clip(t, "", c)', weights="<float c = {1}>"
    )


def test_the_last_entry_reads_what_it_likes() -> None:
    found = find(chained("Exp", "Sub")(), graph("t = Sub(x, z) y = Exp(t)"))
    assert found["inputs"] == ("x", "z")
    assert matches(chained("Sub"), "y = Sub(x, z)")
    assert matches(chained("Constant"), "y = Constant <value_float = 1.0> ()")


def test_a_value_read_twice_is_two_inputs() -> None:
    assert not matches(chained("Mul", "Exp"), "t = Exp(x) y = Mul(t, t)")


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ("t = Exp(x) y = Neg(t) v = Abs(t)", "y, v"),
        ("t = Exp(x) y = Neg(t)", "y, t"),
        (
            (
                "t = Exp(x) y = Neg(t) k = Constant <value = bool {1}> () "
                "v = If (k) <then_branch = p () => (q) { q = Abs(t) }, else_branch = r () "
                "=> (s) { s = Abs(y) }>"
            ),
            "y, v",
        ),
    ],
    ids=["another node", "output", "subgraph"],
)
def test_nothing_else_reads_the_inside(nodes: str, outputs: str) -> None:
    pattern = chained("Neg", "Exp")
    assert not matches(pattern, nodes, outputs=outputs)
    (refusal,) = refusals(pattern(), graph(nodes, outputs=outputs))
    assert refusal.values == ("t",)
    assert "read elsewhere" in refusal.reason
    assert matches(pattern, nodes.replace("Abs(t)", "Abs(y)"), outputs=outputs.replace("t", "y"))


def test_the_root_is_read_by_whoever_likes() -> None:
    assert matches(
        chained("Neg", "Exp"), "t = Exp(x) y = Neg(t) v = Abs(y) u = Floor(y)", outputs="y, v, u"
    )


def test_operators_with_subgraphs_have_hidden_inputs() -> None:
    branches = (
        "<then_branch = p () => (q) { q = Abs(x) }, else_branch = r () => (s) { s = Neg(x) }>"
    )
    nodes = f"c = Constant <value = bool {{1}}> () k = Not(c) t = If (k) {branches} y = Exp(t)"
    assert matches(chained("Exp", "If"), nodes)
    assert not matches(chained("Exp", "If", "Not"), nodes)


# -------------------------------------------------------------------- attributes


@pytest.mark.parametrize(
    ("written", "config", "expected"),
    [
        ("<axis = 1>", {"axis": 1}, True),
        ("<axis = 0>", {"axis": 1}, False),
        ("", {"axis": -1}, True),
        ("", {"axis": 1}, False),
        ("<axis = 0>", {}, True),
        ("<axis = 0>", {"axis": lambda axis: axis >= 0}, True),
        ("", {"axis": lambda axis: axis >= 0}, False),
        ("<axis = 0>", {"color": None}, True),
        ("<axis = 0>", {"axis": None}, False),
    ],
)
def test_config(written: str, config: dict[str, Any], expected: bool) -> None:
    nodes = f"t = Exp(x) u = Softmax {written} (t) y = Neg(u)"
    assert matches(chained("Softmax", "Exp", configs=[config]), nodes) is expected
    assert matches(chained("Neg", "Softmax", "Exp", configs=[{}, config]), nodes) is expected


def test_config_with_lists_and_defaults_of_the_rank() -> None:
    assert matches(
        chained("Transpose", configs=[{"perm": [1, 0]}]), "y = Transpose <perm = [1, 0]> (x)"
    )
    assert matches(chained("Transpose", configs=[{"perm": (1, 0)}]), "y = Transpose(x)")
    assert not matches(chained("Transpose", configs=[{"perm": [0, 1]}]), "y = Transpose(x)")


def test_config_of_an_attribute_that_became_an_input() -> None:
    nodes = "t = Neg(x) y = Clip(t, low, high)"
    weights = "<float low = {0}, float high = {6}>"
    assert matches(
        chained("Clip", "Neg", configs=[{"min": 0.0, "max": 6.0}]), nodes, weights=weights
    )
    assert not matches(chained("Clip", "Neg", configs=[{"max": 5.0}]), nodes, weights=weights)


# -------------------------------------------------------------------- results


def test_further_results_that_nothing_reads_need_no_replacement() -> None:
    text = (
        "agraph (float[4] x) => (float[2] y{}) {{ t = Neg(x) y, v = Split <num_outputs = 2> (t) }}"
    )

    class Half(chained("Split", "Neg")):  # type: ignore[misc]
        def apply_pattern(self, g: PatternRewriter, inputs: tuple[str, ...]) -> Any:
            return g.op.Slice(inputs[0], [0], [2])

    assert types(rewrite(Half(), text.format(""))) == ["Slice"]
    with pytest.raises(XoptimError, match="1 results, 2 "):
        rewrite(Half(), text.format(", float[2] v"))

    class Both(Half):
        def apply_pattern(self, g: PatternRewriter, inputs: tuple[str, ...]) -> Any:
            return g.op.Split(g.op.Sin(inputs[0]), num_outputs=2, outputs=2)

    assert types(rewrite(Both(), text.format(", float[2] v"))) == ["Sin", "Split"]


def test_a_chain_goes_on_with_the_first_result() -> None:
    assert matches(chained("Neg", "Split"), "t, u = Split <num_outputs = 2> (x) y = Neg(t)")
    assert not matches(chained("Neg", "Split"), "t, u = Split <num_outputs = 2> (x) y = Neg(u)")
    assert not matches(
        chained("Neg", "Split"), "t, u = Split <num_outputs = 2> (x) y = Neg(t)", outputs="y, u"
    )


def test_an_operand_may_be_the_result() -> None:
    class Undone(chained("Neg", "Neg")):  # type: ignore[misc]
        def apply_pattern(self, g: PatternRewriter, inputs: tuple[str, ...]) -> str:
            return inputs[0]

    assert types(rewrite(Undone(), "{ t = Exp(x) u = Neg(t) v = Neg(u) y = Abs(v) }")) == [
        "Exp",
        "Abs",
    ]


# -------------------------------------------------------------------- chains of constants


@pytest.mark.parametrize(
    ("entries", "nodes", "expected"),
    [
        (("Mul", "Neg"), "c = Neg(w) d = Mul(c, b) y = Add(x, d)", True),
        (("Mul", "Neg"), "c = Neg(w) d = Mul(b, c) y = Add(x, d)", True),
        (("Mul", "Neg"), "c = Neg(w) e = Exp(b) d = Mul(c, e) y = Add(x, d)", False),
        (("Mul", "Neg", "Initializer"), "c = Neg(w) d = Mul(c, b) y = Add(x, d)", True),
        (("Mul", "Neg", "Initializer"), "e = Exp(w) c = Neg(e) d = Mul(c, b) y = Add(x, d)", False),
        (("Mul", "Neg", "Initializer"), "c = Neg(x) y = Mul(c, b)", False),
        (("Mul", "Initializer"), "d = Mul(w, b) y = Add(x, d)", True),
        (("Mul", "Initializer"), "e = Exp(w) d = Mul(e, b) y = Add(x, d)", False),
        (
            ("Neg", "Initializer"),
            "e = Constant <value_float = 1.0> () d = Neg(e) y = Add(x, d)",
            True,
        ),
    ],
)
def test_in_constants_what_is_stored_is_a_parameter(
    entries: tuple[str, ...], nodes: str, expected: bool
) -> None:
    assert matches(chained(*entries), nodes) is expected


def test_the_operators_of_entries_are_found_without_their_initializer() -> None:
    found = find(
        chained("Mul", "Neg", "Initializer")(), graph("c = Neg(w) d = Mul(c, b) y = Add(x, d)")
    )
    assert [node.op_type for node in found["entries"]] == ["Mul", "Neg"]
    assert (found["inputs"], found["initializer"], found["parameters"]) == (
        ("w",),
        "w",
        (("b",), ("w",)),
    )


# -------------------------------------------------------------------- sub-patterns

EXP_W = "e = Exp(w) "


@pytest.mark.parametrize(
    ("sub", "nodes", "expected"),
    [
        (chained("Exp"), "c = Exp(w) y = Gemm(x, c, b)", True),
        (chained("Exp"), "c = Neg(w) y = Gemm(x, c, b)", False),
        (chained("Exp"), "c = Exp(w) d = Neg(c) y = Gemm(x, d, b)", True),
        (chained("Exp", output=True), "c = Exp(w) d = Neg(c) y = Gemm(x, d, b)", False),
        (chained("Neg", "Exp", output=True), "c = Exp(w) d = Neg(c) y = Gemm(x, d, b)", True),
        (chained("Exp"), "c = Exp(z) y = Gemm(x, c, b)", False),
        (chained("Exp"), "c = Exp(w) y = Gemm(c, x, b)", False),
        (chained("Initializer"), "c = Neg(w) y = Gemm(x, c, b)", True),
        (chained("Initializer", output=True), "c = Neg(w) y = Gemm(x, c, b)", False),
        (chained("Initializer", output=True), "y = Gemm(x, w, b)", True),
        (
            chained("Initializer", output=True),
            "c = Constant <value_floats = [1.0]> () y = Gemm(x, c, b)",
            True,
        ),
        (chained("Initializer"), "y = Gemm(x, z, b)", False),
        (chained("Neg", "Initializer"), "c = Neg(w) d = Exp(c) y = Gemm(x, d, b)", True),
        (chained("Exp", "Initializer"), "c = Neg(w) d = Exp(c) y = Gemm(x, d, b)", False),
        (chained("acme::Mix"), "c = acme.Mix(w) y = Gemm(x, c, b)", False),
    ],
)
def test_sub_patterns(sub: type[ChainPattern], nodes: str, expected: bool) -> None:
    """The result of an operator of an unknown domain is not constant, even if its operands are."""
    assert matches(chained("Gemm", subs=[{"B": sub}]), nodes) is expected


def test_inputs_by_name_and_by_position() -> None:
    sub = chained("Exp")
    for name, expected in (
        ("A", False),
        ("B", True),
        ("C", False),
        ("input_0", False),
        ("input_1", True),
        ("input_7", False),
    ):
        assert matches(chained("Gemm", subs=[{name: sub}]), EXP_W + "y = Gemm(x, e)") is expected
    assert matches(
        chained("acme::Blend", subs=[{"input_2": sub}]), EXP_W + "y = acme.Blend(x, w, e)"
    )
    assert matches(chained("Sum", subs=[{"data_0": sub}]), EXP_W + "y = Sum(x, w, e)"), (
        "any of a list of operands"
    )
    assert matches(
        chained("Exp", "Gemm", subs=[{}, {"B": sub}]), EXP_W + "t = Gemm(x, e, b) y = Exp(t)"
    )


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        ("Gemm", "Gemm has no input 'weight'; it has A, B, C"),
        ("acme::Blend", "it has input_0, input_1, ..."),
    ],
)
def test_an_input_that_does_not_exist(operator: str, message: str) -> None:
    nodes = f"y = {operator.replace('::', '.')}(x, w)"
    with pytest.raises(TypeError, match=re.escape(message)):
        matches(chained(operator, subs=[{"weight": chained("Exp")}]), nodes)


def test_all_parameters_must_fit() -> None:
    pattern = chained("Gemm", subs=[{"B": chained("Exp"), "C": chained("Neg")}])
    assert matches(pattern, "c = Exp(w) d = Neg(b) y = Gemm(x, c, d)")
    assert not matches(pattern, "c = Exp(w) d = Abs(b) y = Gemm(x, c, d)")
    assert not matches(pattern, "c = Exp(w) y = Gemm(x, c)"), "the bias is left out"


def test_sub_matches_are_handed_on() -> None:
    nodes = (
        "c = Neg(w) d = Neg(c) e = Neg(d) f = Exp(e) h = Neg(f) i = Neg(h) t = Gemm(x, i, b) "
        "y = Relu(t)"
    )
    found = find(
        chained(
            "Relu", "Gemm", subs=[{}, {"B": chained("Neg", "Neg"), "C": chained("Initializer")}]
        )(),
        graph(nodes),
    )
    first, second = found["sub_matches"]
    assert first == {}
    assert list(second) == ["B", "C"]
    results = [[node.output[0] for node in match.nodes] for match in second["B"]]
    assert results == [["c", "d"], ["h", "i"]], "a node is in one match at most, the earlier one"
    assert [match.pattern.name() for match in second["B"]] == ["NegNeg"] * 2
    assert second["B"][1].bindings["inputs"] == ("f",)
    (stored,) = second["C"]
    assert (stored.bindings["initializer"], stored.nodes, stored.apply(None)) == ("b", [], [])


def test_sub_patterns_have_sub_patterns_and_config() -> None:
    inner = chained("Softmax", configs=[{"axis": 0}], subs=[{"input": chained("Exp")}])
    assert matches(
        chained("Gemm", subs=[{"B": inner}]), "c = Exp(w) d = Softmax <axis = 0> (c) y = Gemm(x, d)"
    )
    assert not matches(
        chained("Gemm", subs=[{"B": inner}]), "c = Neg(w) d = Softmax <axis = 0> (c) y = Gemm(x, d)"
    )
    assert not matches(
        chained("Gemm", subs=[{"B": inner}]), "c = Exp(w) d = Softmax(c) y = Gemm(x, d)"
    )


def test_a_constant_that_several_read_is_found_for_each() -> None:
    pattern = chained("Gemm", subs=[{"B": chained("Neg", "Exp")}])
    nodes = "c = Exp(w) d = Neg(c) t = Gemm(x, d) u = Gemm(z, d) y = Add(t, u)"
    view = GraphView(load(graph(nodes)).graph)
    found = [pattern().match(view, node, []) for node in view.nodes if node.op_type == "Gemm"]
    assert len([match for match in found if match is not None]) == 2
    assert [
        len(matches_feeding(view, name, chained("Exp"))) for name in ("d", "c", "w", "t", "nothing")
    ] == [1, 1, 0, 0, 0]
    assert not matches(pattern, nodes + " v = Abs(c)", outputs="y, v"), "inside, nothing else reads"


def test_stored_constants_of_an_enclosing_graph() -> None:
    branch = (
        "<then_branch = p () => (q) { q = Gemm(x, w) }, else_branch = r () "
        "=> (s) { s = Gemm(x, z) }>"
    )
    pattern = chained("Gemm", subs=[{"B": chained("Initializer", output=True)}])
    body = next(
        iter(
            load(
                graph(f"y = If (k) {branch}", inputs="bool k, float[3,3] x, float[3,3] z")
            ).graph.nodes
        )
    ).bodies
    assert [
        first_match(pattern(), body[name]) is not None for name in ("then_branch", "else_branch")
    ] == [True, False]


def test_a_change_in_what_feeds_a_parameter_is_noticed() -> None:
    pattern = chained("Gemm", subs=[{"B": chained("Neg", "Exp", "Abs")}])
    assert pattern().reach() == 4
    assert chained("Gemm")().reach() == 1


# -------------------------------------------------------------------- outputs


def test_is_output() -> None:
    pattern = chained("Neg", "Exp", output=True)
    assert matches(pattern, "t = Exp(x) y = Neg(t)")
    assert matches(pattern, "t = Exp(x) y = Neg(t) v = Abs(y)", outputs="y, v")
    assert not matches(pattern, "t = Exp(x) u = Neg(t) y = Abs(u)")


# -------------------------------------------------------------------- refusals and mistakes


class Documented(ChainPattern):
    @classmethod
    def entries(cls) -> Sequence[str]:
        return ["Neg", "Gemm"]

    @classmethod
    def sub_patterns(cls) -> Sequence[dict[str, type[ChainPattern]]]:
        return [{}, {"B": chained("Exp")}]

    @classmethod
    def is_output(cls) -> bool:
        return True


@pytest.mark.parametrize(
    ("nodes", "reason", "method"),
    [
        ("t = Exp(x) y = Neg(t)", "expected Gemm, found Exp", "entries"),
        ("y = Gemm(x, w)", "", ""),
        ("t = Gemm(x, w) u = Neg(t) y = Abs(u)", "the result is not a graph output", "is_output"),
        ("t = Gemm(x, w) y = Neg(t)", "Exp does not match at 'B' of Gemm", "sub_patterns"),
    ],
)
def test_refusals_say_where_the_condition_is_written(nodes: str, reason: str, method: str) -> None:
    pattern = type("Anchored", (Documented,), {"anchors": ("Neg",)})()
    found = refusals(pattern, graph(nodes))
    assert [refusal.reason for refusal in found] == [reason] * bool(reason)
    for refusal in found:
        code = getattr(Documented, method).__func__.__code__
        assert refusal.exit_point == f"{__file__}:{code.co_firstlineno}"


def test_a_computed_operand_next_to_the_chain_is_told() -> None:
    (refusal,) = refusals(
        chained("Mul", "Neg")(), graph("c = Neg(w) e = Exp(b) d = Mul(c, e) y = Add(x, d)")
    )
    assert "computed operand" in refusal.reason


@pytest.mark.parametrize(
    ("entries", "more", "message"),
    [
        ((), {}, "entries are operators"),
        (("Initializer",), {}, "entries are operators"),
        (("Neg", "Initializer", "Exp"), {}, "precedes 'Initializer'"),
        (
            ("Neg",),
            {"configs": [{}, {}]},
            "config_patterns .*2 .* 1 ",
        ),
        (
            ("Neg", "Initializer"),
            {"subs": [{}, {}]},
            "sub_patterns .*2 .* 1 ",
        ),
    ],
)
def test_what_no_chain_can_be(entries: tuple[str, ...], more: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        chained(*entries, name="Bad", **more)().anchor_keys()
    with pytest.raises(NotImplementedError, match="ChainPattern"):
        ChainPattern().anchor_keys()


# -------------------------------------------------------------------- registries


def test_a_registry_keeps_rules_by_pattern() -> None:
    registry = ChainRegistry("fuse")
    first, second = chained("Neg", "Neg"), chained("Exp", "Log")
    rule = becomes("Abs")
    assert registry.register(first, rule) is rule

    @registry.register(second)
    def documented(g: PatternRewriter, match: Match) -> str:
        """Exp(Log(x)) → x"""
        return match.inputs[0]

    assert list(registry) == [first, second]
    assert (len(registry), first in registry, chained("Neg") in registry) == (2, True, False)
    assert (registry.rule_of(first), registry.rule_of(second)) == (rule, documented)
    made = registry.patterns()
    assert [cls.name() for cls in made] == ["FuseNegNeg", "FuseLogExp"]
    assert made[1].arrow() == "Exp(Log(x)) → x"
    assert made == registry.patterns(), "they are made, and compiled, once"
    with pytest.raises(ValueError, match=r"NegNeg .*'fuse'"):
        registry.register(first, rule)
    with pytest.raises(LookupError, match=r"Sin .*'fuse'"):
        registry.rule_of(chained("Sin"))


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (
            lambda: ChainRegistry("melt"),  # type: ignore[arg-type]
            ValueError,
            "unknown kind of rules 'melt'; there are: parameter, shatter, fuse",
        ),
        (
            lambda: ChainRegistry("fuse").register(chained("Neg"), 5),  # type: ignore[call-overload]
            TypeError,
            "5 cannot be called",
        ),
        (lambda: ChainRegistry("fuse").register("Neg", becomes("Abs")), TypeError, "not 'Neg'"),  # type: ignore[call-overload]
    ],
)
def test_mistakes_in_registering(action: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        action()


def test_a_pattern_in_several_registries() -> None:
    pattern = chained("Neg", "Neg")
    registries = [ChainRegistry(kind) for kind in ("parameter", "shatter", "fuse")]
    for registry, name in zip(registries, ("Abs", "Sin", "Cos"), strict=True):
        registry.register(pattern, becomes(name))
    patterns = [cls for registry in registries for cls in registry.patterns()]
    assert [cls.name() for cls in patterns] == ["ParameterNegNeg", "ShatterNegNeg", "FuseNegNeg"]
    text = graph(
        "c = Neg(w) d = Neg(c) t = Neg(x) u = Neg(t) y = Add(u, d)", outputs="float[3,3] y"
    )
    after = optimize(parse(text), patterns=patterns, constant_folding=False, strict=True)
    assert sorted(types(after)) == ["Abs", "Add", "Sin"]


def test_outputs_of_constant_sub_graphs() -> None:
    registry = ChainRegistry("parameter")
    registry.register(chained("Neg", output=True), becomes("Abs"))
    text = graph(
        "c = Neg(w) d = Neg(c) e = Neg(w) y = Add(x, d)", outputs="float[3,3] y, float[3,3] e"
    )
    after = optimize(
        parse(text), patterns=registry.patterns(), constant_folding=False, merge=False, strict=True
    )
    assert types(after) == ["Neg", "Abs", "Abs", "Add"]


def test_metadata_of_a_pattern_are_those_of_its_rewrite() -> None:
    registry = ChainRegistry("fuse")
    registry.register(
        chained("Neg", "Neg", exactness="finite", phase="target", tags=("acme",), priority=7),
        becomes("Abs"),
    )
    (made,) = registry.patterns()
    assert (made.exactness, made.phase, made.tags, made.priority) == (
        "finite",
        "target",
        ("acme",),
        207,
    )


def test_a_rule_that_gives_too_much() -> None:
    registry = ChainRegistry("fuse")
    registry.register(chained("Neg"), lambda g, match: (g.op.Sin(match.inputs[0]), "x"))
    with pytest.raises(XoptimError, match=r"FuseNeg: apply_pattern .*2 results, 1 ") as error:
        rewrite(registry.patterns()[0](), "{ y = Neg(x) }")
    assert isinstance(error.value.__cause__, RewriteError)


# -------------------------------------------------------------------- the page


def test_the_page_about_chains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snippets run one after the other, and do what the text between them says."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "chains.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    session: dict[str, Any] = {}
    for number, snippet in enumerate(snippets, 1):
        exec(compile(snippet, f"chains.md, snippet {number}", "exec"), session)
    before, after = session["model"], session["smaller"]
    assert types(after) == ["FusedGemm", "HardSigmoid", "Mul"]
    assert [node.name for node in after.graph.initializer if node.dims == [2, 3]] == ["stored"]
    same_results(before, after, {"x": np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)})
    assert [match.pattern.name() for match in session["matches"]] == [
        "FuseGemmRelu",
        "ShatterHardSwish",
    ]
    assert [root.op_type for root in session["roots"]] == ["Relu", "HardSwish"]
