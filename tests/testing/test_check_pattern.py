"""All checks of a pattern in one call."""

import pytest

from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol
from xoptim.testing import check_pattern


class CosNegPattern(EasyPatternOptimization):
    """Cos(Neg(x)) → Cos(x)"""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Cos(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Cos(x)


class CosNegWithExamplesPattern(CosNegPattern):
    """Cos(Neg(x)) → Cos(x)"""

    examples = Example.pairs(
        "agraph (float[a] x) => (float[a] y) { t = Neg(x) y = Cos(t) }",
        "agraph (float[a] x) => (float[a] y) { y = Cos(x) }",
        "agraph (float[a,3] x) => (float[a,3] y) { t = Neg(x) y = Cos(t) }",
        "agraph (float[a,3] x) => (float[a,3] y) { y = Cos(x) }",
    )


class CosNegWrongPattern(CosNegWithExamplesPattern):
    """Cos(Neg(x)) → Sin(x)"""

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Sin(x)


def test_all_examples_are_checked() -> None:
    counts = check_pattern(CosNegWithExamplesPattern)
    assert counts["tried"] > 50
    assert counts["fired"]


def test_a_pattern_without_examples_fails() -> None:
    with pytest.raises(AssertionError, match=r"CosNegPattern .*examples"):
        check_pattern(CosNegPattern)


def test_a_wrong_pattern_fails() -> None:
    with pytest.raises(AssertionError, match="CosNegWrongPattern: "):
        check_pattern(CosNegWrongPattern)
