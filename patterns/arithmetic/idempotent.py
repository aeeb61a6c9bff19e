from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class IdempotentPattern(EasyPatternOptimization):
    """f(f(x)) → f(x), f one of Abs, Ceil, Floor, Relu, Round, Sign

    What: applies the operator once.
    Why: one fewer pass over the tensor.
    Refuses when:
    1. the two operators differ.
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        operator = g.choice("operator", "Abs", "Ceil", "Floor", "Relu", "Round", "Sign")
        return getattr(g.op, operator)(getattr(g.op, operator)(x))  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str, operator: str) -> str:
        return str(getattr(g.op, operator)(x))

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { t = Relu(x) y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a,b] x) => (float[a,b] y) { t = Round(x) y = Round(t) }",
        "{ y = Round(x) }",
    )
