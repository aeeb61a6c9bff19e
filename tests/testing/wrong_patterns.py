"""Patterns with one defect each, of the kinds that are found in the wild.

The harness must see every one of them.
"""

from typing import Any

import numpy as np

from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    Example,
    GraphBuilderPatternOptimization,
    MatchResult,
    Node,
    PatternBuilder,
    PatternOptimization,
    PatternRewriter,
    Symbol,
)

TRANSPOSES = Example(
    "agraph (float[a,b,c] x) => (float[b,c,a] y) { t = Transpose <perm = [0,2,1]> (x) "
    "y = Transpose <perm = [2,1,0]> (t) }",
    "agraph (float[a,b,c] x) => (float[b,c,a] y) { y = Transpose <perm = [1,2,0]> (x) }",
)
UNIT = Example(
    "agraph (float[a,b] x) => (float[a,b] y) <float one = {1}> { t = Mul(x, one) y = Neg(t) }",
    "agraph (float[a,b] x) => (float[a,b] y) { y = Neg(x) }",
)
NEGATIONS = Example(
    "agraph (float[n] x) => (float[n] y) { t = Neg(x) u = Neg(t) y = Abs(u) }",
    "agraph (float[n] x) => (float[n] y) { y = Abs(x) }",
)
REDUCTION = Example(
    "agraph (float[a,b] x) => (float[a] y) <int64[1] axis = {1}> { "
    "t = ReduceSum <keepdims = 0> (x, axis) y = Neg(t) }",
    "agraph (float[a,b] x) => (float[a] y) <int64[1] axis = {1}> { t = Neg(x) "
    "y = ReduceSum <keepdims = 0> (t, axis) }",
)


def _producers(g: GraphBuilderPatternOptimization, node: Node, op_type: str) -> Node | None:
    before = g.node_before(node.input[0])
    return before if before is not None and before.op_type == op_type else None


class ForgetsConsumersPattern(PatternOptimization):
    """Neg(Neg(x)) → x, in place of the first although something may read it in between."""

    anchors = ("Neg",)

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        before = _producers(g, node, "Neg")
        return None if before is None else MatchResult(self, [before, node], self.apply)

    def apply(self, g: PatternRewriter, before: Node, node: Node) -> list[Node]:
        made = [g.make_node("Identity", [before.input[0]], [node.output[0]])]
        if g.is_used_more_than_once(before.output[0]):  # "repairs" the reader with the wrong value
            made.append(g.make_node("Identity", [before.input[0]], [before.output[0]]))
        return made


class DropsAttributePattern(EasyPatternOptimization):
    """Neg(ReduceSum(x)) → ReduceSum(Neg(x)), whatever keepdims says."""

    exactness = "rounding"

    def match_pattern(self, g: PatternBuilder, x: Symbol, axes: Symbol) -> Any:
        return g.op.Neg(g.op.ReduceSum(x, axes, attributes=ANY))

    def apply_pattern(self, g: PatternRewriter, x: str, axes: str) -> Any:
        return g.op.ReduceSum(g.op.Neg(x), axes, keepdims=0)


class WrongConstantPattern(PatternOptimization):
    """x · 1 → x, where 1 is anything within 5 %."""

    anchors = ("Mul",)

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        value = g.get_constant_scalar(node.input[1])
        close = value is not None and abs(value - 1) < 0.05
        return (
            MatchResult(self, [node], self.apply)
            if close and g.info(node.input[1]).rank == 0
            else None
        )

    def apply(self, g: PatternRewriter, node: Node) -> list[Node]:
        return [g.make_node("Identity", [node.input[0]], [node.output[0]])]


class ReadsDefaultAsConstantPattern(PatternOptimization):
    """x · 1 → x, where 1 is only the default of an input."""

    anchors = ("Mul",)

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        stored = g.graph.initializers.get(node.input[1])
        is_one = stored is not None and stored.shape == () and stored.numpy().item() == 1
        return MatchResult(self, [node], self.apply) if is_one else None

    def apply(self, g: PatternRewriter, node: Node) -> list[Node]:
        return [g.make_node("Identity", [node.input[0]], [node.output[0]])]


class ChangesTypePattern(EasyPatternOptimization):
    """Neg(Neg(x)) → x by way of the type float, whatever the type of x."""

    exactness = "rounding"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Neg(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.CastLike(g.op.Cast(x, to=1), x)

    _after = (
        "agraph (float[n] x) => (float[n] y) { c = Cast <to = 1> (x) t = CastLike(c, x) "
        "y = Abs(t) }"
    )
    examples = (Example(NEGATIONS.before, _after),)


class IgnoresDomainPattern(PatternOptimization):
    """Neg(Neg(x)) → x, whosever Neg it is."""

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        before = _producers(g, node, "Neg") if node.op_type == "Neg" else None
        alone = before is not None and g.is_exclusive(before.output[0])
        return MatchResult(self, [before, node], self.apply) if alone else None

    def apply(self, g: PatternRewriter, before: Node, node: Node) -> list[Node]:
        return [g.make_node("Identity", [before.input[0]], [node.output[0]])]


class LosesRankPattern(PatternOptimization):
    """x · 1 → x, although a constant of higher rank adds axes."""

    anchors = ("Mul",)

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        return (
            MatchResult(self, [node], self.apply)
            if g.is_constant_scalar(node.input[1], 1)
            else None
        )

    def apply(self, g: PatternRewriter, node: Node) -> list[Node]:
        return [g.make_node("Identity", [node.input[0]], [node.output[0]])]


class ClaimsOnlyPattern(EasyPatternOptimization):
    """Neg(Neg(x)) → Neg(Neg(x)): changes nothing, again and again."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Neg(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Neg(g.op.Neg(x))


class NeverMatchesPattern(EasyPatternOptimization):
    """Sin(Sin(x)) → x: not what the example shows."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Sin(g.op.Sin(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return x


class PingPongPattern(EasyPatternOptimization):
    """a + b → b + a: never at rest."""

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Any:
        return g.op.Add(a, b)

    def apply_pattern(self, g: PatternRewriter, a: str, b: str) -> Any:
        return g.op.Add(b, a)


class UnequalNumbersPattern(EasyPatternOptimization):
    """Neg(Neg(x)) → Relu(x), as its example says, and wrong."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Neg(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Relu(x)


class LosesZeroSignPattern(EasyPatternOptimization):
    """Neg(Neg(x)) → x + 0, called exact: -0 becomes 0."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Neg(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Add(x, 0.0)


class ReadsAbsentPermPattern(PatternOptimization):
    """Transpose(Transpose(x)) → Transpose(x), if both permutations are written."""

    anchors = ("Transpose",)

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        before = _producers(g, node, "Transpose")
        alone = before is not None and g.is_exclusive(before.output[0])
        return MatchResult(self, [before, node], self.apply) if alone else None

    def apply(self, g: PatternRewriter, before: Node, node: Node) -> list[Node]:
        perm = [before.attribute["perm"][axis] for axis in node.attribute["perm"]]
        return [g.make_node("Transpose", [before.input[0]], [node.output[0]], perm=perm)]


class FixedNamesPattern(EasyPatternOptimization):
    """Neg(Neg(x)) → Abs(-|x|) and the like, with a result that is always called the same."""

    exactness = "approximate"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Abs(g.op.Neg(g.op.Neg(x)))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        g.created.append(g.make_node("Neg", [x], ["negated"]))
        return g.op.Abs("negated")


class AssumesSizesPattern(EasyPatternOptimization):
    """Neg(Neg(x)) → x reshaped to the sizes of the example."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Neg(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Reshape(x, np.array([-1], np.int64))
