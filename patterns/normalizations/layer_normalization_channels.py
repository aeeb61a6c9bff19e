from onnx import TensorProto

from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.trace import Optional


class LayerNormalizationChannelsPattern(EasyPatternOptimization):
    """LayerNormalization(x, scale, bias) → Transpose of its formula over axis 1 of Transpose(x)

    What: writes the formula along the axis of features in the layout (batch, features, tokens).
    Why: it belongs to `MatMulConv` (``--include npu``): the Transposes cancel with those around
    convolutions, so that a transformer keeps the layout from layer to layer. On CPUs the formula
    is slower.
    Refuses when:
    1. the type is not float, or the rank is not 3 (checked by the matcher).
    2. the mean or the standard deviation is read, or more than one axis is normalized.
    3. scale or bias is not a vector (checked by the matcher).
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 17
    tags = ("npu", "extra")
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)
    operand_ranks = {"x": 3, "scale": 1, "bias": 1}  # (1) (3)

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, bias: Optional) -> Symbol:
        return g.op.LayerNormalization(
            *(x, scale, bias), axis=g.any_of(-1, 2), epsilon=g.capture("epsilon")
        )  # (2)

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: str, bias: str, epsilon: float
    ) -> str:
        rows = g.op.Transpose(x, perm=[0, 2, 1])
        distance = g.op.Sub(rows, g.op.ReduceMean(rows, axes=[1]))
        variance = g.op.ReduceMean(g.op.Mul(distance, distance), axes=[1])
        normal = g.op.Div(distance, g.op.Sqrt(g.op.Add(variance, epsilon)))
        result = g.op.Mul(normal, g.op.Unsqueeze(scale, axes=[1]))
        if bias:
            result = g.op.Add(result, g.op.Unsqueeze(bias, axes=[1]))
        return g.op.Transpose(result, perm=[0, 2, 1])

    _formula = (
        "t = Transpose <perm = [0, 2, 1]> (x) m = ReduceMean(t, i) d = Sub(t, m) q = Mul(d, d) "
        "v = ReduceMean(q, i) a = Add(v, e) s = Sqrt(a) n = Div(d, s)"
    )
    examples = Example.pairs(
        "agraph (float[n,s,2] x, float[2] k, float[2] c) => (float[n,s,2] y) "
        "{ y = LayerNormalization <epsilon = 0.001> (x, k, c) }",
        f"<int64[1] i = {{1}}, float e = {{0.001}}> {{ {_formula} p = Unsqueeze(k, i) "
        "o = Mul(n, p) r = Unsqueeze(c, i) f = Add(o, r) y = Transpose <perm = [0, 2, 1]> (f) }",
        "agraph (float[n,s,2] x, float[2] k) => (float[n,s,2] y) "
        "{ y = LayerNormalization <epsilon = 0.001> (x, k) }",
        f"<int64[1] i = {{1}}, float e = {{0.001}}> {{ {_formula} p = Unsqueeze(k, i) "
        "o = Mul(n, p) y = Transpose <perm = [0, 2, 1]> (o) }",
    )
