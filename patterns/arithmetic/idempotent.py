"""An operator whose second application changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class IdempotentPattern(EasyPatternOptimization):
    """f(f(x)) → f(x), f one of Abs, Ceil, Floor, Relu, Round, Sign

    What: applies it once.
    Why: one pass over the tensor less.
    Refuses when:
    1. the two operators differ.
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Twice the same (1)."""
        for op_type in ("Abs", "Ceil", "Floor", "Relu", "Round"):
            if g.option(op_type):
                return getattr(g.op, op_type)(getattr(g.op, op_type)(x))
        return g.op.Sign(g.op.Sign(x))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Remember which one."""
        return m.derive(op_type=m.nodes[0].op_type)

    def apply_pattern(self, g: PatternRewriter, x: str, op_type: str) -> str:
        """Once."""
        return str(getattr(g.op, op_type)(x))

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Two activations, and a number rounded twice."""
        return (
            Example(
                "agraph (float[a,b] x) => (float[a,b] y) { t = Relu(x) y = Relu(t) }",
                "agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }",
            ),
            Example(
                "agraph (float[a,b] x) => (float[a,b] y) { t = Round(x) y = Round(t) }",
                "agraph (float[a,b] x) => (float[a,b] y) { y = Round(x) }",
            ),
        )
