# mypy: disable-error-code="no-any-return"
"""Conditions on operands that a pattern declares as class attributes."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.match.matching import find, refusals
from tests.support import load, node_of
from xoptim.facts.dtypes import FLOATS
from xoptim.facts.errors import Declined, PatternError
from xoptim.match import (
    EasyPatternOptimization,
    GraphView,
    Match,
    MatchResult,
    Node,
    Optional,
    PatternBuilder,
    PatternOptimization,
    PatternRewriter,
    Symbol,
)
from xoptim.match.lines import attribute_line
from xoptim.match.refusal import listening


class Fused(EasyPatternOptimization):
    """Relu(Gemm(a, b, c)) → Gemm(a, b, c), of which only the conditions matter."""

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Optional) -> Symbol:
        return g.op.Relu(g.op.Gemm(a, b, c))

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, c: str) -> str:
        return g.op.Gemm(a, b, c)


class Floats(Fused):
    operand_types = {"a": FLOATS}


class Matrices(Fused):
    operand_ranks = {"b": 2}


class Biased(Fused):
    constant_operands = ("c",)


class Kernel(Fused):
    kernels = {"Gemm": "a"}


PLAIN = "agraph (float[2,3] a, float[3,4] b) => (float[2,4] y) { t = Gemm(a, b) y = Relu(t) }"
UNKNOWN = (
    "agraph (float[2,3] a, float[3,4] b) => (float[2,4] y) { u = test.Odd(b) t = Gemm(a, u) "
    "y = Relu(t) }"
)


@pytest.mark.parametrize(
    ("pattern", "text", "reason"),
    [
        (Floats, PLAIN.replace("float[", "int32["), "int32 of 'a' "),
        (Matrices, UNKNOWN, "'u' .* rank 2$"),
        (
            Biased,
            PLAIN.replace("b) =>", "b, float[4] c) =>").replace("(a, b)", "(a, b, c)"),
            "'c' .*constant$",
        ),
        (Kernel, PLAIN, "Gemm .*kernel .*'a'$"),
    ],
)
def test_a_condition_that_does_not_hold(
    pattern: type[EasyPatternOptimization], text: str, reason: str
) -> None:
    """The refusal names the line of the declaration."""
    (refusal,) = refusals(pattern(), text)
    assert re.search(reason, refusal.reason)
    lines, first = inspect.getsourcelines(pattern)
    assert (Path(refusal.file).name, refusal.line) == (
        "test_conditions_declared.py",
        first + len(lines) - 1,
    )


@pytest.mark.parametrize("pattern", [Floats, Matrices, Biased])
def test_conditions_that_hold(pattern: type[EasyPatternOptimization]) -> None:
    """An operand that is left out satisfies all of them."""
    assert find(pattern(), PLAIN) is not None
    constant = PLAIN.replace("{ t", "<float[4] c = {1, 2, 3, 4}> { t").replace(
        "(a, b)", "(a, b, c)"
    )
    assert find(pattern(), constant) is not None


def test_a_name_that_nothing_captures() -> None:
    class Wrong(Fused):
        operand_types = {"aa": FLOATS}

    with pytest.raises(
        PatternError, match=r"test_conditions_declared.py:\d+: Wrong: operand_types .*'aa'"
    ):
        find(Wrong(), PLAIN)


def test_a_class_without_source() -> None:
    made: Any = type("Made", (Fused,), {"operand_ranks": {"a": 3}})
    assert attribute_line(made, "operand_ranks") == ("", 0)
    (refusal,) = refusals(made(), PLAIN)
    assert re.fullmatch("'a' .* rank 3", refusal.reason)


def _declines() -> None:
    raise Declined("a helper declines")


class Validated(Fused):
    """A helper finds the reason to refuse."""

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        _declines()
        return True


class Matched(PatternOptimization):
    """The same, with match and apply."""

    anchors = ("Relu",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        _declines()
        return None


def test_a_helper_that_declines() -> None:
    """The refusal names the line of the pattern that called the helper."""
    heard = refusals(Validated(), PLAIN)
    graph = load(PLAIN).graph
    with listening(heard.append):
        assert Matched().match_at(GraphView(graph), node_of(graph, "Relu"), []) is None
    assert [refusal.reason for refusal in heard] == ["a helper declines"] * 2
    codes = Validated.validate_mapping.__code__, Matched.match.__code__
    assert [(each.file, each.line) for each in heard] == [
        (code.co_filename, code.co_firstlineno + 1) for code in codes
    ]
