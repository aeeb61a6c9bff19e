"""The exact Gaussian error linear unit, where the standard operator does not exist yet."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import Example, GraphView, Match, PatternRewriter

from .._kernels import runs
from .gelu_erf import GeluErfPattern


class GeluOrtPattern(GeluErfPattern):
    """x · 0.5 · (1 + Erf(x / √2)) → com.microsoft.Gelu(x)

    What: one operator instead of five, in whatever order the factors are multiplied.
    Why: measured 1.7 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. a constant is not 0.5, 1 or √2 (or its inverse) as the type of the tensor rounds it.
    2. the provider has no kernel of Gelu for the type.
    """

    phase = "target"  # type: ignore[assignment]
    min_opset = 7
    max_opset = 19
    produces = ("com.microsoft",)
    tags = ("onnxruntime",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Ask for a kernel (2); the constants are in the pattern that this one extends (1)."""
        has_kernel = runs(g, "Gelu", m.x, "com.microsoft")
        return True if has_kernel else self.none(m.nodes[-1], msg="Gelu has no kernel for the type")

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """The operator without approximation."""
        return g.op.Gelu(x, domain="com.microsoft")

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """As torch exports it."""
        return (
            Example(
                "agraph (float[a,b] x) => (float[a,b] y) <float s = {1.4142135}, float one = {1}, float half = {0.5}> "
                "{ d = Div(x, s) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half) }",
                "agraph (float[a,b] x) => (float[a,b] y) { y = com.microsoft.Gelu(x) }",
                domains=(("com.microsoft", 1),),
            ),
        )
