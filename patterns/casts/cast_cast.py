from xoptim.facts.dtypes import is_one_conversion
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class CastCastPattern(EasyPatternOptimization):
    """Cast(Cast(x, to=b), to=c) → Cast(x, to=c), or x when it has the type c

    What: converts once where the type in between does not change the result.
    Why: each Cast copies the whole tensor.
    Refuses when:
    1. the type of x is unknown, or not one of the common ones.
    2. the first cast may round, saturate or truncate the operand of the second one: float to
       float16 and back, int64 to float and on, int32 to bool. Integers may lose bits that the
       second cast drops anyway.
    """

    interior = "keep"
    min_opset = 6
    derives = ("back",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Cast(g.op.Cast(x, to=g.capture("middle")), to=g.capture("to"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        source = g.try_infer_type(m.x)
        if not is_one_conversion(source, m.middle, m.to):  # (1) (2)
            return self.none(
                m.nodes[0],
                msg=lambda: f"type {source} by way of {m.middle} to {m.to} is not the same at once",
            )
        return m.derive(back=source == m.to)

    def apply_pattern(self, g: PatternRewriter, x: str, to: int, back: bool) -> str:
        return x if back else g.op.Cast(x, to=to)

    examples = Example.pairs(
        "agraph (float16[a,b] x) => (float16[a,b] y) { t = Cast <to = 1> (x) "
        "y = Cast <to = 10> (t) }",
        "{ y = Identity(x) }",
        "agraph (int32[a,b] x) => (float[a,b] y) { t = Cast <to = 7> (x) y = Cast <to = 1> (t) }",
        "{ y = Cast <to = 1> (x) }",
        "agraph (int64[a,b] x) => (int8[a,b] y) { t = Cast <to = 6> (x) y = Cast <to = 3> (t) }",
        "{ y = Cast <to = 3> (x) }",
    )
