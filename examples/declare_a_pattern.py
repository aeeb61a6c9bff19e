"""A pattern as two small graphs: the subgraph to find, and its replacement.

python examples/declare_a_pattern.py
"""

from typing import Any

import xoptim
from xoptim.doc import pretty_onnx
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphBuilderPatternOptimization,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.testing import check_pattern, parse


class NegMaxPattern(EasyPatternOptimization):
    """Max(x, Neg(x)) → Abs(x).

    What: names the absolute value, in whichever order the operands of Max are.
    Why: one pass over the tensor instead of two.
    Refuses when:
    1. x holds integers: the negative of the smallest one is itself.
    """

    exactness = "finite"  # of 0 and -0, Max may take either

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        """The larger one of a number and its negative."""
        return g.op.Max(x, g.op.Neg(x))

    def validate_mapping(self, g: GraphBuilderPatternOptimization, m: Match) -> bool | None:
        """Check the type, which the form of the subgraph does not express."""
        if g.has_type(m.x) and g.get_type(m.x) in (1, 10, 11):  # float, float16, double
            return True
        return self.none(m.nodes[0], msg="not known to hold floating-point numbers")  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        """The absolute value."""
        return g.op.Abs(x)

    examples = (
        Example(
            "agraph (float[a] x) => (float[a] y) { t = Neg(x) y = Max(t, x) }",
            "agraph (float[a] x) => (float[a] y) { y = Abs(x) }",
        ),
    )


def main() -> None:
    """Test the pattern, then use it."""
    print(f"near misses: {check_pattern(NegMaxPattern)['tried']}")
    model = parse(
        "agraph (float[n] x) => (float[n] y) { e = Exp(x) t = Neg(e) m = Max(e, t) y = Sqrt(m) }"
    )
    print(pretty_onnx(xoptim.optimize(model, patterns=[NegMaxPattern])))


if __name__ == "__main__":
    main()
