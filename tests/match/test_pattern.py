import pytest

from tests.support import load, node_of
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphBuilderPatternOptimization,
    MatchResult,
    PatternOptimization,
)
from xoptim.match.pattern import operator_key


class ThingPattern(PatternOptimization):
    """Thing(x) → x

    More words.
    """

    anchors = ("Thing", "com.microsoft::Gelu")
    near = ("Add",)
    radius = 5


class Bare(PatternOptimization):
    pass


def test_metadata() -> None:
    pattern = ThingPattern()
    assert (pattern.name(), pattern.arrow(), repr(pattern)) == (
        "Thing",
        "Thing(x) → x",
        "ThingPattern()",
    )
    assert pattern.anchor_keys() == {("", "Thing"), ("com.microsoft", "Gelu")}
    assert pattern.near_keys() == {("", "Add")}
    assert pattern.reach() == 5
    bare = Bare()
    assert (bare.name(), bare.anchor_keys(), bare.near_keys()) == ("Bare", frozenset(), frozenset())
    assert (bare.phase, bare.priority, bare.exactness, bare.status, bare.examples) == (
        "canonicalize",
        0,
        "exact",
        "stable",
        (),
    )
    assert operator_key("a::b::Op") == ("a::b", "Op")


def test_both_methods_must_be_there() -> None:
    graph = load("agraph (float[n] x) => (float[n] y) { y = Neg(x) }").graph
    with pytest.raises(NotImplementedError, match=r"Bare .* match\b"):
        Bare().match(GraphBuilderPatternOptimization(graph), node_of(graph, "Neg"), [])
    with pytest.raises(NotImplementedError, match=r"Bare .* apply\b"):
        Bare().apply(None)  # type: ignore[arg-type]


def test_results() -> None:
    graph = load("agraph (float[n] x) => (float[n] y) { y = Neg(x) }").graph
    result = MatchResult(Bare(), [None, node_of(graph, "Neg")], Bare().apply, comment="why")
    assert repr(result) == "MatchResult(Bare, [, Neg])"
    assert (result.insert_at, result.bindings, result.comment) == (None, None, "why")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            "agraph (float[a] x) => (float[a] y) { y = Abs(x) }",
            "{ y = Neg(x) }",
            "agraph (float[a] x) => (float[a] y) { y = Neg(x) }",
        ),
        (
            "agraph (seq(float[a]) x) => (float[a] y) <int64 i = {0}> { y = SequenceAt(x, i) }",
            "<int64 i = {1}> { y = SequenceAt(x, i) }",
            "agraph (seq(float[a]) x) => (float[a] y) <int64 i = {1}> { y = SequenceAt(x, i) }",
        ),
        (
            "agraph (float[a] x) => (y) { y = Abs(x) }",
            "agraph (x) => (y) { y = Neg(x) }",
            "agraph (x) => (y) { y = Neg(x) }",
        ),
    ],
)
def test_the_graph_after_has_the_ends_of_the_graph_before(
    before: str, after: str, expected: str
) -> None:
    assert Example(before, after).after == expected


def test_examples_of_pairs() -> None:
    texts = ("agraph (float[a] x) => (float[a] y) { y = Relu(x) }", "{ y = Elu(x) }")
    assert Example.pairs(*texts, *texts[::-1], opset=20) == (
        Example(*texts, opset=20),
        Example(*texts[::-1], opset=20),
    )
    with pytest.raises(ValueError, match="shorter"):
        Example.pairs(*texts, texts[0])


def test_domains_that_an_example_uses() -> None:
    before, after = (
        "agraph (float[a] x) => (float[a] y) { y = ai.onnx.ml.Scaler(x) }",
        "{ y = com.microsoft.Gelu(x) }",
    )
    assert Example(before, after).domains == (("com.microsoft", 1), ("ai.onnx.ml", 1))
    assert Example(
        before, "{ y = acme.F(x) }", domains=(("acme", 2), ("ai.onnx.ml", 3))
    ).domains == (
        ("ai.onnx.ml", 3),
        ("acme", 2),
    )


def test_a_declarative_pattern_is_compiled_once() -> None:
    count = 0

    class Counting(EasyPatternOptimization):
        def match_pattern(self, g, x):  # type: ignore[no-untyped-def]
            nonlocal count
            count += 1
            return g.op.Neg(x)

    for _ in range(3):
        assert Counting().anchor_keys() == {("", "Neg")}
        assert Counting().reach() == 1
    assert count == 1
