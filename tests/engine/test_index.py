# mypy: disable-error-code="no-any-return"
import pytest

from tests.engine.rules import AbsNegPattern, NegNegPattern, renaming
from tests.support import load, parse, types
from xoptim import optimize
from xoptim.engine.index import PatternIndex
from xoptim.match import (
    CONSTANT_OPERAND,
    EasyPatternOptimization,
    PatternBuilder,
    PatternOptimization,
    Scalar,
    Symbol,
)

TEXT = """agraph (float[N] x) => (float[N] y) <float k = {2}> {
  a = Neg(x) b = Neg(a) c = Abs(b) d = Abs(x) e = Mul(c, d) f = Mul(e, k) g = test.Neg(f)
  j = Constant <value_float = 1.0> () h = Add(j, k) y = Mul(g, h)
}"""


class ScaledPattern(EasyPatternOptimization):
    def match_pattern(self, g: PatternBuilder, x: Symbol, k: Scalar) -> Symbol:
        return g.op.Mul(x, k)


class AnywherePattern(PatternOptimization):
    pass


def offered(*patterns: PatternOptimization, distance: int = 0) -> dict[str, list[str]]:
    graph = load(TEXT, domains={"test": 1}).graph
    index = PatternIndex(patterns)
    found = index.candidates(graph, dict.fromkeys(graph.nodes, distance))
    return {
        index.patterns[n].name(): [node.output[0] for node in nodes] for n, nodes in found.items()
    }


def test_by_anchor_and_producer() -> None:
    assert offered(NegNegPattern(), AbsNegPattern()) == {"NegNeg": ["b"], "AbsNeg": ["c"]}
    assert offered(renaming("Neg", "Exp")()) == {"NegToExp": ["a", "b"]}
    assert offered(renaming("test::Neg", "Exp")()) == {"test::NegToExp": ["g"]}


def test_by_constant_operand() -> None:
    assert offered(ScaledPattern()) == {"Scaled": ["f", "y"]}, "h is computed from constants"


@pytest.mark.parametrize(
    ("value", "nodes"), [(2.0, ["f", "y"]), (1.0, ["y"]), (0.044715, ["f", "y"])]
)
def test_by_literal(value: float, nodes: list[str]) -> None:
    """The value of h is not stored, so that it may be any literal.

    One that may be rounded is compared by the matcher.
    """

    class TimesPattern(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Mul(x, value)

    assert offered(TimesPattern()) == {"Times": nodes}


@pytest.mark.parametrize(
    "stored",
    [
        "float k = {1}",
        "float[1,1] k = {1}",
        "float16 k = {15360}",
        "bfloat16 k = {16256}",
        "int8 k = {1}",
    ],
)
def test_a_literal_in_every_type(stored: str) -> None:
    """Numbers of 16 bits are written as their bits: both are 1."""
    element = stored.split()[0].split("[")[0]
    result = optimize(
        parse(
            f"agraph ({element}[n,2] x) => ({element}[n,2] y) <{stored}> {{ t = Mul(x, k) "
            "y = Neg(t) }"
        )
    )
    assert types(result) == ["Neg"]


def test_patterns_without_anchor_see_every_node() -> None:
    assert offered(AnywherePattern())["Anywhere"] == [
        "a",
        "b",
        "c",
        "d",
        "e",
        "f",
        "g",
        "j",
        "h",
        "y",
    ]


def test_patterns_come_in_their_order() -> None:
    assert list(offered(AnywherePattern(), AbsNegPattern(), NegNegPattern())) == [
        "Anywhere",
        "AbsNeg",
        "NegNeg",
    ]


def test_patterns_to_be_explained_are_tried_at_all_their_anchors() -> None:
    graph = load(TEXT, domains={"test": 1}).graph
    pattern = NegNegPattern()
    index = PatternIndex([pattern, AbsNegPattern()], [pattern])
    found = index.candidates(graph, dict.fromkeys(graph.nodes, 0))
    assert [[node.output[0] for node in nodes] for nodes in found.values()] == [["a", "b"], ["c"]]


def test_too_far_away() -> None:
    near = renaming("Neg", "Exp", radius=2)()
    assert offered(near, distance=2) == {"NegToExp": ["a", "b"]}
    assert offered(near, distance=3) == {}
    index = PatternIndex([near, NegNegPattern()])
    assert index.longest_reach == 2
    assert PatternIndex([]).longest_reach == 0


def test_a_constant_operand_may_be_near() -> None:
    class NearConstantPattern(PatternOptimization):
        anchors = ("Mul", "Add")
        near = ("Abs", CONSTANT_OPERAND)

    assert offered(NearConstantPattern()) == {"NearConstant": ["e", "f", "h", "y"]}
