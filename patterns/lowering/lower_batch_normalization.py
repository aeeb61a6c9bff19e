from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering
from ._normal import along_channels


class LowerBatchNormalizationPattern(_Lowering):
    """BatchNormalization(x, scale, bias, mean, variance) → x · a + (bias - mean · a) with a = scale
    / √(variance + epsilon)

    What: one factor and one summand for each channel, which are numbers where the parameters are
    constant.
    Why: some runtimes lack the operator, or merge Mul and Add into a convolution before it, but not
    this operator.
    Refuses when:
    1. it is the form for training, or its further results are read.
    2. the type is not float or double, or differs from the types of the parameters.
    3. the rank is unknown.
    """

    min_opset = 9
    operand_types = {"x": frozenset((TensorProto.FLOAT, TensorProto.DOUBLE))}  # (2)
    derives = ("rank", "epsilon")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Symbol, b: Symbol, m: Symbol, v: Symbol
    ) -> Symbol:
        return g.op.BatchNormalization(x, s, b, m, v, attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, rank = m.nodes[0], g.info(m.x).rank
        # (1)
        if m.written.get("training_mode") or any(g.is_used(name) for name in node.output[1:]):
            return self.none(node, msg="the node is in training mode")
        if len({g.try_infer_type(name) for name in node.input}) > 1:  # (2)
            return self.none(node, msg="the parameters differ in type")
        if not rank or rank < 2:  # (3)
            return self.none(node, msg="the rank is unknown")
        return m.derive(rank=rank, epsilon=g.get_attribute(node, "epsilon"))

    def apply_pattern(
        self, g: PatternRewriter, x: str, s: str, b: str, m: str, v: str, rank: int, epsilon: float
    ) -> str:
        factor = g.op.Div(s, g.op.Sqrt(g.op.Add(v, epsilon)))
        shift = g.op.Sub(b, g.op.Mul(m, factor))
        product = g.op.Mul(x, along_channels(g, factor, rank))
        return g.op.Add(product, along_channels(g, shift, rank))

    examples = Example.pairs(
        "agraph (float[n,2,h,w] x) => (float[n,2,h,w] y) <float[2] s = {1, 2}, float[2] b = {0, "
        "1}, float[2] m = {1, 2}, float[2] v = {3, 0}> { "
        "y = BatchNormalization <epsilon = 1.0> (x, s, b, m, v) }",
        "<float[2,1,1] a = {0.5, 2}, float[2,1,1] b = {-0.5, -3}> { c = Mul(x, a) y = Add(c, b) }",
        "agraph (float[n,c] x, float[c] s, float[c] b, float[c] m, float[c] v) => (float[n,c] y) "
        "{ y = BatchNormalization(x, s, b, m, v) }",
        "<float a = {1e-05}> { c = Add(v, a) d = Sqrt(c) e = Div(s, d) f = Mul(m, e) g = Sub(b, f) "
        "h = Mul(x, e) y = Add(h, g) }",
        ranges=(("v", 0.5, 2.0),),
    )
