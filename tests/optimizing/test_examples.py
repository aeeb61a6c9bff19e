"""Examples of patterns are proved, and the weakest of them counts."""

from typing import Any

from xoptim import EasyPatternOptimization, Example, installed_patterns
from xoptim.match import PatternBuilder, PatternRewriter, Symbol
from xoptim.optimizing.examples import grade_of, prove_example


class FactorPattern(EasyPatternOptimization):
    """Mul(x, factor) → x, which holds where the factor is 1"""

    def match_pattern(self, g: PatternBuilder, x: Symbol, factor: Symbol) -> Symbol:
        return g.op.Mul(x, factor)

    def apply_pattern(self, g: PatternRewriter, x: str, factor: str) -> Any:
        return g.op.Identity(x)

    examples = Example.pairs(
        "g (float[N] x) => (float[N] z) <float s = {1}> { y = Mul(x, s) z = Sin(y) }",
        "{ z = Sin(x) }",
        "g (float[N] x) => (float[N] z) <float s = {2}> { y = Mul(x, s) z = Sin(y) }",
        "{ z = Sin(x) }",
    )


def test_grades_of_examples() -> None:
    grades = [prove_example(FactorPattern, example).grade for example in FactorPattern.examples]
    assert grades == ["over real numbers", "only run"]
    assert grade_of(installed_patterns()["TransposeTranspose"]) == "same bits"


def test_the_weakest_example_counts() -> None:
    assert grade_of(FactorPattern) == "only run"
