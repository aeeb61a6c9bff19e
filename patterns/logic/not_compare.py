from onnx import TensorProto

from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol

_OPPOSITES = {
    "Greater": "LessOrEqual",
    "Less": "GreaterOrEqual",
    "GreaterOrEqual": "Less",
    "LessOrEqual": "Greater",
}


class NotComparePattern(EasyPatternOptimization):
    """Not(Greater(a, b)) → LessOrEqual(a, b)

    What: writes the opposite comparison. The same for Less, GreaterOrEqual and LessOrEqual.
    Why: one fewer pass over the result.
    Refuses when:
    1. a and b are not int32 or int64. With NaN, neither comparison is true. Smaller integer types
       have no kernels.
    """

    min_opset = 12
    operand_types = {"a": {TensorProto.INT32, TensorProto.INT64}}  # (1)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        return g.op.Not(getattr(g.op, g.choice("operator", *_OPPOSITES))(a, b))

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, operator: str) -> str:
        return str(getattr(g.op, _OPPOSITES[operator])(a, b))

    examples = Example.pairs(
        "agraph (int64[a,1] x, int64[b] z) => (bool[a,b] y) { t = Greater(x, z) y = Not(t) }",
        "{ y = LessOrEqual(x, z) }",
        "agraph (int32[a] x, int32[a] z) => (bool[a] y) { t = LessOrEqual(x, z) y = Not(t) }",
        "{ y = Greater(x, z) }",
    )
