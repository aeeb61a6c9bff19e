# mypy: disable-error-code="no-any-return"
"""Why something did not match: the reason, the node, the line, and the way that led furthest."""

import inspect
import re
from threading import Thread

import pytest

from tests.match.matching import find, refusals
from tests.support import load, node_of
from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    GraphBuilderPatternOptimization,
    Match,
    MatchResult,
    Node,
    PatternBuilder,
    PatternOptimization,
    Symbol,
)
from xoptim.match.refusal import READ_ELSEWHERE, Refusal, listener, listening

HERE = __file__


class Gelu(EasyPatternOptimization):
    """Several conditions on different lines."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        t = g.op.Mul(x, 0.5)
        u = g.op.Erf(t)
        v = g.op.Softmax(u, axis=1)
        return g.op.Sub(v, 1.0)

    def validate_mapping(self, g: GraphBuilderPatternOptimization, m: Match) -> bool | None:
        if m.x == "z":
            return self.none(m.nodes[0], msg="z is not wanted")
        return True


FIRST_LINE = inspect.getsourcelines(Gelu.match_pattern)[1]
TEXT = (
    "agraph (float[N,3] x, float[N,3] z) "
    "=> (y) <float half = {{0.5}}, float one = {{1}}, float two = {{2}}> {{ t = Mul({a}, {b}) "
    "u = {c}(t) v = Softmax <axis = {d}> (u) y = Sub(v, {e}) }}"
)
GOOD = {"a": "x", "b": "half", "c": "Erf", "d": "1", "e": "one"}


@pytest.mark.parametrize(
    ("wrong", "op_type", "reason", "line"),
    [
        ({"b": "two"}, "Mul", r"'two' .* 0\.5$", 1),
        ({"c": "Exp"}, "Exp", "Erf.* Exp$", 2),
        ({"d": "0"}, "Softmax", " axis=0 ", 3),
        ({"e": "two"}, "Sub", r"'two' .* 1\.0$", 4),
    ],
)
def test_the_condition_that_failed(
    wrong: dict[str, str], op_type: str, reason: str, line: int
) -> None:
    assert find(Gelu(), TEXT.format(**GOOD)) == {"x": "x"}
    heard = refusals(Gelu(), TEXT.format(**{**GOOD, **wrong}))
    (refusal,) = heard
    assert refusal.node is not None
    assert (refusal.pattern, refusal.node.op_type) == ("Gelu", op_type)
    assert re.search(reason, refusal.reason)
    assert (refusal.file, refusal.line) == (HERE, FIRST_LINE + line)
    assert refusal.exit_point == f"{HERE}:{FIRST_LINE + line}"


def test_only_the_way_that_led_furthest_is_told() -> None:
    class Sum(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Max(g.op.Neg(g.op.Abs(g.op.Exp(x))), 1.0)

    text = (
        "agraph (float[N] x) => (y) <float one = {1}> { e = Log(x) a = Abs(e) n = Neg(a) "
        "y = Max(one, n) }"
    )
    (refusal,) = refusals(Sum(), text)
    assert re.search("Exp.* Log$", refusal.reason)


def test_validations_and_results_in_between() -> None:
    (refusal,) = refusals(Gelu(), TEXT.format(**{**GOOD, "a": "z"}))
    line = inspect.getsourcelines(Gelu.validate_mapping)[1] + 2
    assert (refusal.reason, refusal.line, refusal.file) == ("z is not wanted", line, HERE)
    text = TEXT.format(**GOOD).replace("=> (y)", "=> (y, t)")
    (refusal,) = refusals(Gelu(), text)
    assert refusal.reason == READ_ELSEWHERE
    assert refusal.node is not None
    assert refusal.node.op_type == "Mul"
    assert refusal.file == HERE


class Shared(EasyPatternOptimization):
    """The second node is found through a constant that both read."""

    anchors = ("Mul",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, z: Symbol, k: Constant
    ) -> tuple[Symbol, Symbol]:
        return g.op.Mul(x, k), g.op.Sub(k, z)


def test_listening_changes_nothing_that_is_found() -> None:
    """In the order of operands that does not fit, no constant is bound from which the search could
    go on.
    """
    text = (
        "agraph (float[N,3] x, float[N,3] z) => (y, v) <float k = {2}> { y = Mul(k, x) "
        "v = Sub(k, z) }"
    )
    found = find(Shared(), text)
    assert found == {"x": "x", "z": "z", "k": "k"}
    heard: list[Refusal] = []
    with listening(heard.append):
        assert find(Shared(), text) == found
    assert heard == [], "what matches is not refused"
    (refusal,) = refusals(Shared(), text.replace("Mul(k, x)", "Mul(z, x)"))
    assert re.match("'x' .*constant", refusal.reason)


@pytest.mark.parametrize("operands", ["m, b", "b, m"])
def test_the_order_of_operands_in_which_all_else_fits_is_told(operands: str) -> None:
    class Biased(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol, b: Constant) -> Symbol:
            return g.op.Add(g.op.Mul(x, 0.5), b)

    text = "agraph (float[N] x, float[3] b) => (y) <float k = {0.5}> { m = Mul(x, k) y = Add(%s) }"
    (refusal,) = refusals(Biased(), text % operands)
    assert re.match("'b' .*constant", refusal.reason)


def test_a_match_asks_nobody_who_listens() -> None:
    """The attempt that decides refuses in silence.

    Its conditions are asked once more to tell why.
    """
    asked: list[bool] = []

    class Asking(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Neg(x)

        def validate_mapping(self, g: GraphBuilderPatternOptimization, m: Match) -> bool | None:
            asked.append(listener() is None)
            return self.none(msg="no")

    assert [refusal.reason for refusal in refusals(Asking(), "{ y = Neg(x) }")] == ["no"]
    assert asked == [True, False]


class ByHand(PatternOptimization):
    anchors = ("Neg",)

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        if node.name == "plain":
            return self.none()
        frame = inspect.currentframe()
        assert frame is not None
        if node.name == "seed":
            return self.none(node, frame.f_lineno)
        if node.name == "lazy":
            return self.none(node, msg=lambda: f"{node.op_type} is lazy")
        return self.none(node, 17, "a line of its own")


def test_patterns_by_hand() -> None:
    first = inspect.getsourcelines(ByHand.match)[1]
    expected = {
        "plain": ("", first + 4, None),
        "seed": ("", first + 8, "seed"),
        "lazy": ("Neg is lazy", first + 10, "lazy"),
        "other": ("a line of its own", 17, "other"),
    }
    for name, (reason, line, node) in expected.items():
        (refusal,) = refusals(ByHand(), f"{{ [{name}] y = Neg(x) }}")
        assert (refusal.pattern, refusal.reason, refusal.line, refusal.file) == (
            "ByHand",
            reason,
            line,
            HERE,
        )
        assert (refusal.node.name if refusal.node is not None else None) == node


def test_text() -> None:
    node = node_of(load("agraph (float[n] x) => (float[n] y) { y = Neg(x) }"), "Neg")
    assert str(Refusal("P", None, "why", "f.py", 3)) == "P refused: why (f.py:3)"
    assert str(Refusal("P", node, "", "f.py", 3)) == "P refused at y = Neg(x) (f.py:3)"
    node.name = "n"
    assert str(Refusal("P", node, "why", "f.py", 3)) == "P refused at 'n': why (f.py:3)"
    assert Refusal("P", None, "").exit_point == ""


def test_nothing_is_made_when_nobody_listens() -> None:
    def fail() -> str:
        raise AssertionError("there is no listener")

    assert listener() is None
    Gelu().none(None, None, fail)
    heard: list[Refusal] = []
    with listening(heard.append):
        assert listener() is not None
        with listening(None):
            Gelu().none(None, None, fail)
        Gelu().none(None, 1, "heard")
        other = Thread(target=lambda: Gelu().none(None, None, fail))
        other.start()
        other.join()
    assert listener() is None
    assert [refusal.reason for refusal in heard] == ["heard"]
