from xoptim.facts.dtypes import FLOATS
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Node,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class _Power(EasyPatternOptimization):
    """A Pow with a literal exponent, which the matcher compares in the exponent's own type."""

    phase = "specialize"
    priority = 8  # after the formulas, which contain squares and roots
    min_opset = 7
    operand_types = {"x": FLOATS}  # (1)


class PowHalfPattern(_Power):
    """Pow(x, 0.5) → Sqrt(x)

    What: takes the square root. (The exactness is ``finite``: for -0 and -inf, Sqrt gives -0 and
    NaN, Pow 0 and inf.)
    Why: measured 10 times as fast on onnxruntime's CPU provider.
    Refuses when:
    1. x is an integer or of unknown type: Sqrt does not support integers.
    2. the exponent may change the shape of the result by broadcasting (checked by the matcher).
    """

    exactness = "finite"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Pow(x, 0.5)  # the exponent may be of another type than x (2)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Sqrt(x)

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) <float half = {0.5}> { y = Pow(x, half) }",
        "{ y = Sqrt(x) }",
    )


class PowTwoPattern(_Power):
    """Pow(x, 2) → x · x

    What: multiplies, with the same bits.
    Why: measured 1.9 times as fast on onnxruntime's CPU provider. It runs after the fusions that
    match squares.
    Refuses when:
    1. x is an integer or of unknown type: Pow computes integers in floating point, Mul does not.
    2. the exponent may change the shape of the result by broadcasting (checked by the matcher).
    3. the Pow is part of a normalization with Div, which onnxruntime fuses at load time only with
       Pow.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Pow(x, 2)  # (2)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node: Node | None = m.nodes[0]
        for op_type in ("ReduceMean", "Add", "Sqrt", "Div"):
            node = (
                next((n for n in g.next_nodes(node.output[0]) if n.op_type == op_type), None)
                if node
                else None
            )
        return (
            True
            if node is None
            else self.none(
                node, msg="part of a normalization, which onnxruntime fuses only with Pow"
            )
        )  # (3)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Mul(x, x)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <float two = {2}> { y = Pow(x, two) }",
        "{ y = Mul(x, x) }",
        "agraph (float[a,b] x) => (float[a,b] y) <int64 two = {2}> { y = Pow(x, two) }",
        "{ y = Mul(x, x) }",
    )
