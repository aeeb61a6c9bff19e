"""Local rewriters: functions that look at one node."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.engine.rules import NegNegPattern, events, reported
from tests.match.matching import find, refusals, rewrite
from tests.support import load, parse, same_results, text_of, types
from xoptim import Example, Node, PatternOptimization, XoptimError, optimize
from xoptim.catalogue.discovery import patterns_of
from xoptim.dialects import local_rewriter
from xoptim.dialects.local import LocalRewriter, LocalView
from xoptim.match.view import GraphView
from xoptim.testing import check_example

X = "agraph (float[N,3] x, float[N,3] z) => (float[N,3] y)"
FEEDS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) + 1, "z": np.full((2, 3), 2, np.float32)}


@local_rewriter("Exp")
def exp_of_neg(g: LocalView, node: Node) -> str | None:
    """Exp(Neg(x)) → Reciprocal(Exp(x))"""
    before = g.node_before(node.input[0])
    if before is None:
        return g.refuse("nothing is computed before", node)
    if before.op_type != "Neg":
        return None
    inner: str = g.op.Exp(before.input[0])
    if not g.has_shape(inner):
        return g.refuse("unknown shape", node)
    result: str = g.op.Reciprocal(inner)
    return result


@local_rewriter(["Add", "acme::Plus"], name="Doubled", exactness="exact", tags=["mine"], priority=2)
def doubled(g: LocalView, node: Node) -> Any:
    if node.input[0] != node.input[1]:
        return False
    return g.op.Mul(node.input[0], 2.0)


def matching(pattern: type[PatternOptimization], text: str, **options: Any) -> tuple[Any, Any]:
    """The model, and whether the pattern matches at its last node."""
    model = load(text, **options)
    node = model.graph.nodes.last
    assert node is not None
    return model, pattern().match(GraphView(model.graph), node, [])


def test_a_function_becomes_a_pattern_class() -> None:
    assert issubclass(exp_of_neg, LocalRewriter)
    assert (exp_of_neg.__name__, exp_of_neg.name(), exp_of_neg.__module__) == (
        "ExpOfNegPattern",
        "ExpOfNeg",
        __name__,
    )
    assert exp_of_neg.arrow() == "Exp(Neg(x)) → Reciprocal(Exp(x))"
    assert exp_of_neg().anchor_keys() == {("", "Exp")}
    assert exp_of_neg.exactness == "rounding"
    assert (doubled.name(), doubled.exactness, doubled.tags, doubled.priority) == (
        "Doubled",
        "exact",
        ("mine",),
        2,
    )
    assert doubled().anchor_keys() == {("", "Add"), ("acme", "Plus")}
    module = ModuleType("acme_pack")
    source = (
        "from xoptim.dialects import local_rewriter\n"
        "@local_rewriter('Neg')\n"
        "def no_neg(g, node):\n"
        "    return node.input[0]\n"
    )
    exec(source, vars(module))
    assert [cls.name() for cls in patterns_of(module)] == ["NoNeg"]


def test_new_nodes() -> None:
    text = f"{X} {{ n = Neg(x) y = Exp(n) }}"
    after = rewrite(exp_of_neg(), text)
    assert types(after) == ["Exp", "Reciprocal"]
    same_results(parse(text), after, FEEDS)
    text = f"{X} {{ a = Add(x, x) b = Add(x, z) c = Mul(a, b) y = Add(c, c) }}"
    after = rewrite(doubled(), text)
    assert types(after) == ["Mul", "Add", "Mul", "Mul"]
    same_results(parse(text), after, FEEDS)
    assert types(rewrite(doubled(), f"{X} {{ y = acme.Plus(x, x) }}", domains={"acme": 1})) == [
        "Mul"
    ]


def test_the_view_has_the_settings_of_the_optimization() -> None:
    settings: list[tuple[str, str]] = []

    @local_rewriter("Neg")
    def observer(g: LocalView, node: Node) -> None:
        settings.append((g.provider, g.cpu))

    rewrite(observer(), f"{X} {{ y = Neg(x) }}", provider="cuda", cpu="vnni")
    assert set(settings) == {("cuda", "vnni")}


def test_results_of_several_outputs() -> None:
    @local_rewriter("acme::Both")
    def both(g: LocalView, node: Node) -> Any:
        return g.op.Neg(node.input[0]), node.input[0]

    text = f"{X[:-1]}, float[N,3] w) {{ a, b = acme.Both(x) y = Abs(a) w = Exp(b) }}"
    after = rewrite(both(), text, domains={"acme": 1})
    assert types(after) == ["Neg", "Abs", "Exp"]
    assert after.graph.node[2].input == ["x"]


def test_looking_for_a_match_changes_nothing() -> None:
    """Nodes, literals, facts and functions that the function makes appear only when it is
    applied.
    """

    @local_rewriter("Neg")
    def undecided(g: LocalView, node: Node) -> Any:
        g.op.Mul(g.op.Add(node.input[0], 3.0), g.make_initializer("k", [1.0]), domain="acme")
        g.function("f (a) => (b) { b = Abs(a) }")(node.input[0])
        return False

    @local_rewriter("Neg")
    def failing(g: LocalView, node: Node) -> Any:
        g.op.Add(node.input[0], 3.0)
        raise ValueError("no")

    text = f"{X} {{ y = Neg(x) }}"
    for pattern in (undecided, failing):
        model, untouched = load(text), load(text)
        view = GraphView(model.graph)
        node = model.graph.nodes.first
        assert node is not None
        try:
            assert pattern().match(view, node, []) is None
        except ValueError:
            assert pattern is failing
        assert [n for n, _ in model.graph.all_known()] == [
            n for n, _ in untouched.graph.all_known()
        ]
        assert model.graph.initializers == {}
        assert (model.opsets, model.functions) == (untouched.opsets, [])
        assert text_of(model) == text_of(untouched)
    model, match = matching(exp_of_neg, f"{X} {{ n = Neg(x) y = Exp(n) }}")
    assert match is not None
    assert [node.op_type for node in model.graph.nodes] == ["Neg", "Exp"]
    assert {name for name, _ in model.graph.all_known()} == {"x", "z", "n", "y"}


def test_literals_and_functions_come_with_the_match() -> None:
    @local_rewriter("Neg")
    def called(g: LocalView, node: Node) -> Any:
        twice = g.function("twice (a) => (b) { b = Add(a, a) }")
        return g.op.Sub(
            0.0, g.op.Mul(twice(node.input[0]), g.make_initializer("half", np.float32(0.5)))
        )

    text = f"{X} {{ a = Neg(x) b = Abs(a) y = Neg(b) }}"
    after = rewrite(called(), text)
    assert types(after) == ["twice", "Mul", "Sub", "Abs", "twice", "Mul", "Sub"]
    assert len(after.functions) == 1
    same_results(parse(text), after, FEEDS)


def test_the_function_sees_what_it_made() -> None:
    seen: list[Any] = []

    @local_rewriter("Abs")
    def look(g: LocalView, node: Node) -> Any:
        total = g.op.ReduceSum(node.input[0], axes=[1], keepdims=0)
        seen.append(
            (g.get_type(total), g.get_rank(total), g.get_constant_scalar(g.op.Identity(2.0)))
        )
        return None

    assert find(look(), f"{X} {{ y = Abs(x) }}") is None
    assert seen == [(1, 1, None)]


def test_nothing_to_do() -> None:
    for answer in (False, None, lambda node: node.output, lambda node: node.output[0]):
        found = local_rewriter("Neg", name="Same")(
            lambda g, node, a=answer: a(node) if callable(a) else a
        )
        assert find(found(), f"{X} {{ y = Neg(x) }}") is None
    copies = local_rewriter("Identity", name="Copy")(lambda g, node: node.input[0])
    assert types(rewrite(copies(), f"{X} {{ y = Identity(x) }}")) == ["Identity"], (
        "it would be one again"
    )


def test_a_new_node_may_have_the_name_of_the_old_result() -> None:
    rename = local_rewriter("Neg", name="Rename")(
        lambda g, node: g.op.Abs(node.input[0], outputs=[node.output[0]])
    )
    text = f"{X} {{ a = Neg(x) y = Exp(a) }}"
    after = rewrite(rename(), text)
    assert [(node.op_type, node.output[0]) for node in after.graph.node] == [
        ("Abs", "a"),
        ("Exp", "y"),
    ]
    model, match = matching(rename, f"{X} {{ y = Neg(x) }}")
    assert match is not None
    assert model.graph.info_of("y").rank == 2


def test_refusals() -> None:
    (found,) = refusals(exp_of_neg(), "{ y = Exp(x) }")
    assert (found.pattern, found.reason, found.file) == (
        "ExpOfNeg",
        "nothing is computed before",
        __file__,
    )
    assert found.node is not None
    assert found.node.op_type == "Exp"
    with open(__file__, encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert "nothing is computed before" in lines[found.line - 1]
    (silent,) = refusals(exp_of_neg(), "{ a = Abs(x) y = Exp(a) }")
    assert silent.reason
    assert silent.file == __file__
    assert "local_rewriter" in lines[silent.line - 1]
    assert silent.progress < found.progress


def test_a_model_without_functions_is_declined() -> None:
    @local_rewriter("Neg")
    def called(g: LocalView, node: Node) -> Any:
        return g.function("f (a) => (b) { b = Abs(a) }")(node.input[0])

    old = parse(f"{X} {{ y = Neg(x) }}", ir_version=7)
    assert types(optimize(old, patterns=called, strict=True)) == ["Neg"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((), "an? Neg with 1 results cannot be replaced by 0"),
        (["x", "x"], "an? Neg with 1 results cannot be replaced by 2"),
        (True, "must return names of results, None or False, not True"),
        ([3], "must return names of results"),
        ([None], "is removed but still read"),
        ("nothing", "reads 'nothing', which is not defined"),
    ],
)
def test_wrong_answers(answer: Any, message: str, caplog: pytest.LogCaptureFixture) -> None:
    wrong = local_rewriter("Neg", name="Wrong")(lambda g, node: answer)
    text = f"{X} {{ a = Neg(x) y = Abs(a) }}"
    with pytest.raises(XoptimError, match=message):
        rewrite(wrong(), text)
    after = optimize(parse(text), patterns=wrong)
    assert types(after) == ["Neg", "Abs"]
    assert all("Wrong" in record.getMessage() for record in caplog.records)


def test_mistakes_in_the_decoration() -> None:
    for operators in ("", [], [3], lambda g, node: None):
        with pytest.raises(TypeError, match="operators"):
            local_rewriter(operators)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'colour'"):
        local_rewriter("Neg", colour="red")(lambda g, node: None)
    with pytest.raises(TypeError, match="phase"):
        local_rewriter("Neg", phase="late")(lambda g, node: None)


def test_matches_that_overlap_are_drafted_again() -> None:
    """Both match in the same round; the second one is asked again after the first was applied."""
    text = f"{X} {{ n = Neg(x) a = Exp(n) b = Exp(n) y = Add(a, b) }}"
    after = rewrite(exp_of_neg(), text)
    assert types(after) == ["Exp", "Reciprocal", "Exp", "Reciprocal", "Add"]
    same_results(parse(text), after, FEEDS)
    names = [name for node in after.graph.node for name in node.output]
    assert len(set(names)) == len(names)


def test_events_and_statistics() -> None:
    text = f"{X} {{ n = Neg(x) y = Exp(n) }}"
    kinds = [
        (event.kind, event.pattern)
        for event in events(text, [exp_of_neg, NegNegPattern])
        if event.pattern == "ExpOfNeg"
    ]
    assert kinds == [("matched", "ExpOfNeg"), ("applied", "ExpOfNeg")]
    report = reported(text, exp_of_neg)
    assert report.applied == {"ExpOfNeg": 1}
    assert report.exactness == "rounding"
    assert {"match_ExpOfNeg", "apply_ExpOfNeg"} & {row["pattern"] for row in report.rows}


@pytest.mark.slow
def test_examples_are_proved() -> None:
    example = Example(
        "agraph (float[a] x) => (float[a] y) { t = Neg(x) u = Exp(t) y = Abs(u) }",
        "agraph (float[a] x) => (float[a] y) { t = Exp(x) u = Reciprocal(t) y = Abs(u) }",
    )
    made = local_rewriter("Exp", name="Proved", examples=[example])(exp_of_neg.function)
    check_example(made, example)
