"""Mistakes in declared patterns are errors when the class is first used, strict or not.

They name file, line and correction.
"""

import re
from typing import Any

import pytest

from tests.support import parse, types
from xoptim import (
    EasyPatternOptimization,
    ModelError,
    OptimizationOptions,
    installed_patterns,
    optimize,
)
from xoptim.facts.errors import PatternError, XoptimError
from xoptim.match import GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.easy import check

SHIPPED = {
    name: cls
    for name, cls in installed_patterns().items()
    if issubclass(cls, EasyPatternOptimization)
}
MODEL = "agraph (float[a,b] x, float[a,b] mask) => (float[a,b] y) { t = Neg(x) y = Abs(t) }"


class NegAbs(EasyPatternOptimization):
    """Abs(Neg(x)) → Abs(x)"""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Abs(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Abs(x)


class WrongParameterPattern(NegAbs):
    def apply_pattern(self, g: PatternRewriter, xx: str) -> Any:  # here
        return g.op.Abs(xx)


class WrongDerivedPattern(NegAbs):
    derives = ("rank",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return m.derive(rank=2)

    def apply_pattern(self, g: PatternRewriter, x: str, ranks: int) -> Any:  # type: ignore[override]  # here
        return g.op.Abs(x)


class NoResultPattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        g.op.Abs(g.op.Neg(x))


class MisspeltOperatorPattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Abss(x)  # here


class MisspeltMicrosoftPattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.FastGellu(x, domain="com.microsoft")  # here


class MisspeltAttributePattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Softmax(x, axes=1)  # type: ignore[call-overload]  # here


class FewOperandsPattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.MatMul(x)  # here


class ManyOperandsPattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Abs(x, 1.0)  # type: ignore[call-overload]  # here


class ManyResultsPattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Abs(x, outputs=2)  # type: ignore[call-overload]  # here


class OptionLikeOperandPattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol, mask: Symbol) -> Any:  # type: ignore[override]
        return g.op.Add(x, mask) if g.option("mask") else g.op.Abs(x)


class CaptureLikeOperandPattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Softmax(x, axis=g.capture("x"))


class OptionLikeCapturePattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Softmax(x, axis=g.capture("axis")) if g.option("axis") else g.op.Abs(x)


class UnreadParameterPattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> Any:  # type: ignore[override]
        return g.op.Neg(x)


class MisspeltInteriorPattern(NegAbs):
    interior = "drop"  # type: ignore[assignment]


class TwoOfOneNamePattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Add(x, g.constant("x"))  # here


WRONG: dict[type[EasyPatternOptimization], str] = {
    WrongParameterPattern: (
        "apply_pattern has a parameter 'xx', which nothing captures or derives; did you mean 'x'?"
    ),
    WrongDerivedPattern: (
        "apply_pattern has a parameter 'ranks', which nothing captures or derives; did you mean "
        "'rank'?"
    ),
    NoResultPattern: "match_pattern returns None; return the results of the subgraph",
    MisspeltOperatorPattern: "there is no operator Abss; did you mean 'Abs'?",
    MisspeltMicrosoftPattern: (
        "there is no operator com.microsoft::FastGellu; did you mean 'FastGelu'?"
    ),
    MisspeltAttributePattern: "Softmax has no attribute 'axes'; did you mean 'axis'?",
    FewOperandsPattern: "MatMul does not take 1 operands (2)",
    ManyOperandsPattern: "Abs does not take 2 operands (1)",
    ManyResultsPattern: "Abs does not give 2 results (at most 1)",
    OptionLikeOperandPattern: "match_pattern uses the name 'mask' for two things",
    CaptureLikeOperandPattern: "match_pattern uses the name 'x' for two things",
    OptionLikeCapturePattern: "match_pattern uses the name 'axis' for two things",
    UnreadParameterPattern: "match_pattern does not read its parameter 'z'",
    MisspeltInteriorPattern: "interior is one of refuse, keep, not 'drop'",
    TwoOfOneNamePattern: "the pattern captures 'x' twice",
}


@pytest.mark.parametrize("pattern", WRONG, ids=lambda pattern: pattern.name())
@pytest.mark.parametrize("strict", [False, True])
def test_mistakes_are_errors(pattern: type[EasyPatternOptimization], strict: bool) -> None:
    """The model has no node that the pattern could match: it is checked all the same."""
    model = parse("agraph (float[a,b] x) => (float[a,b] y) { y = Exp(x) }")
    with pytest.raises(PatternError) as error:
        optimize(model, patterns=[pattern], strict=strict)
    text = str(error.value)
    assert WRONG[pattern] in text
    assert text.startswith(f"{__file__}:")
    functions = (vars(pattern).get(name) for name in ("match_pattern", "apply_pattern"))
    places = [
        mark for function in functions if function is not None for mark in marked(function.__code__)
    ]
    if places:
        assert text.startswith(f"{__file__}:{places[0]}:")


def marked(code: Any) -> list[int]:
    """The lines of a function that end with the comment ``# here``."""
    with open(__file__, encoding="utf-8") as stream:
        lines = stream.read().splitlines()
    last = max(line for _, _, line in code.co_lines() if line)
    return [n for n in range(code.co_firstlineno, last + 1) if re.search(r"# here$", lines[n - 1])]


def shared_by_a_family(m: Match) -> bool:
    return m.derive(rank=2)


class DerivedElsewherePattern(NegAbs):
    derives = ("rank",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return self._further(m)

    def _further(self, m: Match) -> bool:
        return shared_by_a_family(m)

    def apply_pattern(self, g: PatternRewriter, x: str, rank: int) -> Any:  # type: ignore[override]
        assert rank == 2
        return g.op.Abs(x)


class ForeignOperatorPattern(NegAbs):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Whatever(x, x, x, domain="acme", colour=g.capture("colour"))

    def apply_pattern(self, g: PatternRewriter, x: str, colour: Any) -> Any:  # type: ignore[override]
        return g.op.Abs(x)


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        (NegAbs, ["Abs"]),
        (DerivedElsewherePattern, ["Abs"]),
        (ForeignOperatorPattern, ["Neg", "Abs"]),
    ],
)
def test_patterns_that_are_right(pattern: type[EasyPatternOptimization], left: list[str]) -> None:
    assert types(optimize(parse(MODEL), patterns=[pattern], strict=True)) == left


class UndeclaredPattern(NegAbs):
    derives = ("rank",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return m.derive(rank=2, ranks=2)


class NotDerivedPattern(NegAbs):
    derives = ("rank",)


class NoReturnPattern(NegAbs):
    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        g.op.Abs(x)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (
            UndeclaredPattern,
            "Undeclared: the validation derives 'ranks', which `derives` does not name; did you "
            "mean 'rank'?",
        ),
        (NotDerivedPattern, "NotDerived: `derives` names 'rank', which the validation does not"),
        (NoReturnPattern, "NoReturn: apply_pattern returns nothing; return the results"),
    ],
)
def test_mistakes_that_a_match_shows(pattern: type[EasyPatternOptimization], message: str) -> None:
    with pytest.raises(XoptimError, match=re.escape(message)):
        optimize(parse(MODEL), patterns=[pattern], strict=True)
    assert types(optimize(parse(MODEL), patterns=[pattern])) == ["Neg", "Abs"]


def test_a_class_without_source_has_no_place() -> None:
    made = type("MadePattern", (NegAbs,), {"exactness": "roughly"})
    with pytest.raises(PatternError, match=r"^Made: exactness "):
        optimize(parse(MODEL), patterns=[made])


def test_a_pattern_without_a_replacement() -> None:
    class OnlyPattern(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
            return g.op.Abs(g.op.Neg(x))

    with pytest.raises(XoptimError, match=r"OnlyPattern .*apply_pattern"):
        optimize(parse(MODEL), patterns=[OnlyPattern], strict=True)


def test_the_rest_of_what_is_captured() -> None:
    class RestPattern(NegAbs):
        def apply_pattern(self, g: PatternRewriter, **rest: Any) -> Any:  # type: ignore[override]
            assert rest == {"x": "x"}
            return g.op.Abs(rest["x"])

    assert types(optimize(parse(MODEL), patterns=[RestPattern], strict=True)) == ["Abs"]


def test_sizes_that_cannot_be_read_are_no_pattern_errors() -> None:
    with pytest.raises(ValueError, match="500kB"):
        OptimizationOptions(max_growth="much")
    assert not issubclass(PatternError, ModelError)


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_patterns_have_no_mistakes(name: str) -> None:
    """No run checks them, which takes a tenth of a second."""
    pattern = SHIPPED[name]()
    check(pattern, pattern.traced())
