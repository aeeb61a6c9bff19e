from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import COMPUTED, _Lowering, axes_from, narrowed, widened
from ._normal import divided


class LowerRMSNormalizationPattern(_Lowering):
    """RMSNormalization(x, scale) → x / √(mean of x² + epsilon) · scale

    What: writes the formula with Mul, ReduceMean, Sqrt and Div; the same for
    SimplifiedLayerNormalization, ONNX Runtime's name of the operator. 16-bit floats are computed in
    32 bits, as the operator does it.
    Why: many runtimes lack the operator.
    Refuses when:
    1. the standard deviation is read, a further result of ONNX Runtime's operator.
    2. the types of x and scale are unknown or differ.
    3. the rank is unknown, on which the normalized axes depend.
    """

    min_opset = 7
    operand_types = {"x": COMPUTED}  # (2)
    derives = ("axes", "dtype", "number")

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol) -> Symbol:
        operator = g.choice("operator", "RMSNormalization", "SimplifiedLayerNormalization")
        result: Symbol = getattr(g.op, operator)(x, scale, attributes=g.capture("written"))
        return result

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, info = m.nodes[0], g.info(m.x)
        if any(g.is_used(name) for name in node.output[1:]):  # (1)
            return self.none(node, msg="the inverse standard deviation is read")
        if g.try_infer_type(m.scale) != info.dtype:  # (2)
            return self.none(node, msg="the types differ")
        axes = axes_from(m.written.get("axis", -1), info.rank)
        if axes is None:  # (3)
            return self.none(node, msg="the rank is unknown")
        return m.derive(axes=axes, dtype=info.dtype, number=m.written.get("epsilon", 1e-5))

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: str, axes: list[int], dtype: int, number: float
    ) -> str:
        normal = divided(g, widened(g, x, dtype), axes, number)
        return narrowed(g, g.op.Mul(normal, widened(g, scale, dtype)), dtype)

    examples = (
        *Example.pairs(
            "agraph (float[a,b,4] x, float[4] k) => (float[a,b,4] y) { "
            "y = RMSNormalization <epsilon = 0.001> (x, k) }",
            "<int64[1] a = {-1}, float b = {0.001}> { c = Mul(x, x) d = ReduceMean(c, a) "
            "e = Add(d, b) f = Sqrt(e) g = Div(x, f) y = Mul(g, k) }",
            "agraph (float16[a,2,4] x, float16[2,4] k) => (float16[a,2,4] y) "
            "{ y = RMSNormalization <axis = 1, epsilon = 0.001> (x, k) }",
            "<int64[2] a = {-2, -1}, float b = {0.001}> { c = Cast <to = 1> (x) d = Mul(c, c) "
            "e = ReduceMean(d, a) f = Add(e, b) g = Sqrt(f) h = Div(c, g) i = Cast <to = 1> (k) "
            "j = Mul(h, i) y = Cast <to = 10> (j) }",
            opset=23,
        ),
        Example(
            "agraph (float[a,b,4] x, float[4] k) => (float[a,b,4] y) "
            "{ y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.001> (x, k) }",
            "<int64[1] a = {-1}, float b = {0.001}> { c = Mul(x, x) d = ReduceMean(c, a) "
            "e = Add(d, b) f = Sqrt(e) g = Div(x, f) y = Mul(g, k) }",
        ),
    )
