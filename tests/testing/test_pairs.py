"""The check of pairs of patterns finds what it is there for."""

from collections import Counter
from typing import Any

import onnx

from tests.support import types, verify
from tests.testing.pairs import PairCheck, Splice, splices
from xoptim import EasyPatternOptimization, Example, PatternOptimization


class DoubleNegPattern(EasyPatternOptimization):
    """Neg(Neg(x)) → x."""

    @classmethod
    def match_pattern(cls, g: Any, x: Any) -> Any:
        return g.op.Neg(g.op.Neg(x))

    @classmethod
    def apply_pattern(cls, g: Any, x: Any) -> Any:
        return g.op.Identity(x)

    _before = "agraph (float[n,m] x) => (float[n,m] y) { a = Neg(x) b = Neg(a) y = Relu(b) }"
    examples = (Example(_before, "agraph (float[n,m] x) => (float[n,m] y) { y = Relu(x) }"),)


class ReluIsMaxPattern(EasyPatternOptimization):
    """Relu(x) → Max(x, 0)."""

    @classmethod
    def match_pattern(cls, g: Any, x: Any) -> Any:
        return g.op.Relu(x)

    @classmethod
    def apply_pattern(cls, g: Any, x: Any) -> Any:
        return g.op.Max(x, 0.0)

    _before = "agraph (float[k,4] x) => (float[k,4] y) { y = Relu(x) }"
    _after = "agraph (float[k,4] x) => (float[k,4] y) <float zero = {0.0}> { y = Max(x, zero) }"
    examples = (Example(_before, _after),)


class MaxIsReluPattern(EasyPatternOptimization):
    """Max(x, 0) → Relu(x), which another one undoes."""

    @classmethod
    def match_pattern(cls, g: Any, x: Any) -> Any:
        return g.op.Max(x, 0.0)

    @classmethod
    def apply_pattern(cls, g: Any, x: Any) -> Any:
        return g.op.Relu(x)

    (_other,) = ReluIsMaxPattern.examples
    examples = (Example(_other.after, _other.before),)


class SignOfReluPattern(EasyPatternOptimization):
    """Sign(Relu(x)) → Relu(x), which is right where x is 0 or 1, as it happens to be in its
    example.
    """

    @classmethod
    def match_pattern(cls, g: Any, x: Any) -> Any:
        return g.op.Sign(g.op.Relu(x))

    @classmethod
    def apply_pattern(cls, g: Any, x: Any) -> Any:
        return g.op.Relu(x)

    _before = (
        "agraph (float[i,j] x) => (float[i,j] y) { s = Sign(x) p = Relu(s) r = Relu(p) "
        "y = Sign(r) }"
    )
    _after = "agraph (float[i,j] x) => (float[i,j] y) { s = Sign(x) p = Relu(s) y = Relu(p) }"
    examples = (Example(_before, _after),)


class SignAfterReluPattern(SignOfReluPattern):
    """The same, with an example in which it is wrong."""

    (_example,) = ReluIsMaxPattern.examples
    examples = (
        Example(_example.before.replace("y = Relu(x)", "r = Relu(x) y = Sign(r)"), _example.before),
    )


def only(first: type[PatternOptimization], second: type[PatternOptimization], kind: str) -> Splice:
    return next(s for s in splices(first, second) if s.kind == kind)


def declared(value: onnx.ValueInfoProto) -> list[str | int]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_chained() -> None:
    """The second reads what the first computes; dimensions that meet become one."""
    splice = only(DoubleNegPattern, ReluIsMaxPattern, "chained")
    graph = splice.model.graph
    assert types(graph) == ["Neg", "Neg", "Relu", "Relu"]
    assert [v.name for v in graph.input] == ["a_x"]
    assert [v.name for v in graph.output] == ["b_y"]
    assert declared(graph.input[0]) == ["a_n", 4]
    assert declared(graph.output[0]) == ["a_n", 4]


def test_shared() -> None:
    """Both read the same input; that is done for one of the two orders."""
    graph = only(DoubleNegPattern, ReluIsMaxPattern, "shared").model.graph
    assert [v.name for v in graph.input] == ["a_x"]
    assert [v.name for v in graph.output] == ["a_y", "b_y"]
    assert {s.kind for s in splices(ReluIsMaxPattern, DoubleNegPattern)} == {"chained"}


def test_beside_when_nothing_fits() -> None:
    class OfIntegersPattern(DoubleNegPattern):
        """Neg(Neg(x)) → x for integers."""

        (_e,) = DoubleNegPattern.examples
        examples = (
            Example(_e.before.replace("float", "int32"), _e.after.replace("float", "int32")),
        )

    assert [s.kind for s in splices(OfIntegersPattern, ReluIsMaxPattern)] == ["beside"]


def test_a_size_that_follows_from_others_is_not_fixed() -> None:
    """The result of the first model determines its shape: no declaration becomes false."""

    class ShorteningPattern(DoubleNegPattern):
        """Neg(Neg(x)) → x on what has been cut."""

        examples = (
            Example(
                "agraph (float[n,m] x) => (float[n,k] y) { a = Neg(x) b = Neg(a) "
                "y = Concat<axis=1>(b, b) }",
                "",
            ),
        )

    assert "chained" not in {s.kind for s in splices(ShorteningPattern, ReluIsMaxPattern)}
    assert only(ShorteningPattern, DoubleNegPattern, "chained").kind == "chained"


def test_patterns_that_get_on_with_each_other() -> None:
    check = PairCheck([DoubleNegPattern, ReluIsMaxPattern], verify)
    assert check.check(DoubleNegPattern, ReluIsMaxPattern) == []
    assert check.check(ReluIsMaxPattern, DoubleNegPattern) == []
    assert check.check(DoubleNegPattern, DoubleNegPattern) == []
    wanted = {"pairs": 3, "splices": 5, "chained": 3, "shared": 2, "compared": 5}
    assert {name: check.counts[name] for name in wanted} == wanted


def test_patterns_that_undo_each_other() -> None:
    check = PairCheck([], verify)
    for pair in ((ReluIsMaxPattern, MaxIsReluPattern), (MaxIsReluPattern, ReluIsMaxPattern)):
        failures = check.check(*pair, numbers=False)
        assert failures
        assert all("BudgetError" in failure for failure in failures)


def test_numbers_that_depend_on_the_neighbour() -> None:
    """Both orders are compared with the original."""
    check = PairCheck([], verify)
    assert check.check(SignOfReluPattern, DoubleNegPattern) == []
    for pair in (
        (SignAfterReluPattern, DoubleNegPattern),
        (DoubleNegPattern, SignAfterReluPattern),
    ):
        failures = check.check(*pair)
        assert failures
        assert [f for f in failures if "(exact): output " not in f] == []


def test_the_tables_are_looked_at() -> None:
    seen: Counter[str] = Counter()
    PairCheck([], lambda model: seen.update(["model"])).check(
        DoubleNegPattern, ReluIsMaxPattern, numbers=False
    )
    assert seen["model"] == 4
