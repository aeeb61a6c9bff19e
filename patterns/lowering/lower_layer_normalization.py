from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._lowering import _Lowering, axes_from, narrowed, widened
from ._normal import centered, divided


class LowerLayerNormalizationPattern(_Lowering):
    """LayerNormalization(x, scale, bias) → (x - mean) / √(mean of (x - mean)² + epsilon) · scale +
    bias

    What: writes the formula with ReduceMean, Sub, Mul, Sqrt and Div; 16-bit floats are computed in
    32 bits, as the operator does it.
    Why: some runtimes lack the operator, or take only scales of rank 1.
    Refuses when:
    1. the mean or the standard deviation is read: they are further results of the operator.
    2. the type is unknown, or so is the rank, on which the normalized axes depend.
    """

    min_opset = 7
    derives = ("axes", "dtype")

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, bias: Optional) -> Symbol:
        return g.op.LayerNormalization(
            x,
            scale,
            bias,
            axis=g.capture("axis"),
            epsilon=g.capture("epsilon"),
            attributes=g.capture("others"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, info = m.nodes[0], g.info(m.x)
        if any(g.is_used(name) for name in node.output[1:]):  # (1)
            return self.none(node, msg="the mean or the inverse standard deviation is read")
        axes = axes_from(m.axis, info.rank)
        if not info.dtype or axes is None:  # (2)
            return self.none(node, msg="the type or the rank is unknown")
        return m.derive(axes=axes, dtype=info.dtype)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        scale: str,
        bias: str,
        axes: list[int],
        dtype: int,
        epsilon: float,
    ) -> str:
        wide = widened(g, x, dtype)
        normal = divided(g, centered(g, wide, axes), axes, epsilon)
        result = g.op.Mul(normal, widened(g, scale, dtype))
        if bias:
            result = g.op.Add(result, widened(g, bias, dtype))
        return narrowed(g, result, dtype)

    _formula = (
        "m = ReduceMean(x, i) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, i) w = Add(v, e) "
        "s = Sqrt(w)"
    )
    examples = Example.pairs(
        "agraph (float[a,b,4] x, float[4] k, float[4] c) => (float[a,b,4] y) "
        "{ y = LayerNormalization <epsilon = 0.001> (x, k, c) }",
        f"<float e = {{0.001}}, int64[1] i = {{-1}}> {{ {_formula} n = Div(d, s) t = Mul(n, k) "
        "y = Add(t, c) }",
        "agraph (float[a,2,4] x, float[2,4] k) => (float[a,2,4] y) "
        "{ y = LayerNormalization <axis = 1, epsilon = 0.001> (x, k) }",
        f"<float e = {{0.001}}, int64[2] i = {{-2, -1}}> {{ {_formula} n = Div(d, s) "
        "y = Mul(n, k) }",
        "agraph (float16[a,4] x, float16[4] k) => (float16[a,4] y) { "
        "y = LayerNormalization <epsilon = 0.001> (x, k) }",
        "<float e = {0.001}, int64[1] i = {-1}> { "
        f"o = Cast <to = 1> (x) {_formula.replace('(x, ', '(o, ')} n = Div(d, s) "
        "l = Cast <to = 1> (k) t = Mul(n, l) y = Cast <to = 10> (t) }",
    )
