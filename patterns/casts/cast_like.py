from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class CastLikePattern(EasyPatternOptimization):
    """CastLike(x, like) → Cast(x, to=type of like), or x if it has that type

    What: names the type instead of a tensor of that type.
    Why: ``like`` need not be computed for its type alone. Runtimes without a kernel for CastLike
    expand it into the same Cast.
    Refuses when:
    1. the type of ``like`` is unknown.
    """

    min_opset = 15
    derives = ("to", "same")

    def match_pattern(self, g: PatternBuilder, x: Symbol, like: Symbol) -> Symbol:
        return g.op.CastLike(x, like)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        to = g.try_infer_type(m.like)
        if not to:  # (1)
            return self.none(m.nodes[0], msg="the type of the second operand is unknown")
        return m.derive(to=to, same=g.try_infer_type(m.x) == to)

    def apply_pattern(self, g: PatternRewriter, x: str, to: int, same: bool) -> str:
        return x if same else g.op.Cast(x, to=to)

    examples = Example.pairs(
        "agraph (float[a] x, float16[b] z) => (float16[a] y) { y = CastLike(x, z) }",
        "{ y = Cast <to = 10> (x) }",
        "agraph (float[a] x, float[b] z) => (float[a] y) { t = CastLike(x, z) y = Relu(t) }",
        "{ y = Relu(x) }",
    )
