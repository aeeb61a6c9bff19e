"""The exact Gaussian error linear unit, spelled out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._kernels import runs


class GeluErfPattern(EasyPatternOptimization):
    """x · 0.5 · (1 + Erf(x / √2)) → Gelu(x)

    What: one operator instead of five, in whatever order the factors are multiplied.
    Why: measured 1.8 to 2.6 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. a constant is not 0.5, 1 or √2 (or its inverse) as the type of the tensor rounds it.
    2. the provider has no kernel of Gelu for the type.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 20

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """The argument of Erf by division or multiplication, the half in any of three places (1)."""
        argument = g.op.Div(x, math.sqrt(2)) if g.option("division") else g.op.Mul(x, math.sqrt(0.5))
        shifted = g.op.Add(g.op.Erf(argument), 1.0)
        if g.option("half_last"):
            return g.op.Mul(g.op.Mul(x, shifted), 0.5)
        if g.option("half_first"):
            return g.op.Mul(g.op.Mul(x, 0.5), shifted)
        return g.op.Mul(x, g.op.Mul(shifted, 0.5))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """The type decides."""
        return True if runs(g, "Gelu", m.x) else self.none(m.nodes[0], msg="Gelu has no kernel for the type")  # (2)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """The operator without approximation."""
        return g.op.Gelu(x)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """As torch exports it, and with the half first."""
        constants = "<float s = {1.4142135}, float one = {1}, float half = {0.5}>"
        after = "agraph (float[a,b] x) => (float[a,b] y) { y = Gelu(x) }"
        return (
            Example(
                f"agraph (float[a,b] x) => (float[a,b] y) {constants} "
                "{ d = Div(x, s) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half) }",
                after,
                opset=20,
            ),
            Example(
                f"agraph (float[a,b] x) => (float[a,b] y) {constants} "
                "{ h = Mul(half, x) d = Div(x, s) e = Erf(d) p = Add(one, e) y = Mul(p, h) }",
                after,
                opset=20,
            ),
        )
