from onnx import TensorProto

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

_OPPOSITES = {"Greater": "LessOrEqual", "Less": "GreaterOrEqual", "GreaterOrEqual": "Less", "LessOrEqual": "Greater"}


class NotComparePattern(EasyPatternOptimization):
    """Not(Greater(a, b)) → LessOrEqual(a, b), and the three like it

    What: compares the other way round.
    Why: one pass over the result less.
    Refuses when:
    1. a and b are not integers of 32 or 64 bits: with NaN neither comparison is true, and narrower ones have no kernels.
    """

    min_opset = 12
    operand_types = {"a": {TensorProto.INT32, TensorProto.INT64}}  # (1)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        for op_type in ("Greater", "Less", "GreaterOrEqual"):
            if g.option(op_type):
                return g.op.Not(getattr(g.op, op_type)(a, b))
        return g.op.Not(g.op.LessOrEqual(a, b))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return m.derive(opposite=_OPPOSITES[m.nodes[0].op_type])

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, opposite: str) -> str:
        return str(getattr(g.op, opposite)(a, b))

    examples = Example.pairs(
        "agraph (int64[a,1] x, int64[b] z) => (bool[a,b] y) { t = Greater(x, z) y = Not(t) }",
        "{ y = LessOrEqual(x, z) }",
        "agraph (int32[a] x, int32[a] z) => (bool[a] y) { t = LessOrEqual(x, z) y = Not(t) }",
        "{ y = Greater(x, z) }",
    )
