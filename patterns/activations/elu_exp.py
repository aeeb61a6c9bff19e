from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Scalar, Symbol

from .._factors import fits


class EluExpPattern(EasyPatternOptimization):
    """Where(x > 0, x, a · (Exp(x) - 1)) → Elu(x, alpha=a)

    What: one operator instead of five; the same for x < 0, x ≥ 0 and x ≤ 0, and without a.
    Why: one kernel launch instead of five; not on the CPU, where it was measured 1.3 times slower.
    Refuses when:
    1. a is not a positive number of moderate size, or does not fit the attribute.
    2. the provider has no kernel of Elu for the type.
    """

    phase = "specialize"
    exactness = "rounding"  # the sign of zero may differ
    min_opset = 9
    providers = ("cuda",)
    kernels = {"Elu": "x"}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol, a: Scalar) -> Symbol:
        # The comparison decides which branch is which.
        curve = g.op.Sub(g.op.Exp(x), 1.0)
        bent = g.op.Mul(curve, a) if g.option("factor") else curve
        if g.option("positive"):
            return g.op.Where(g.op.Greater(x, 0) if g.option("strict") else g.op.GreaterOrEqual(x, 0), x, bent)
        return g.op.Where(g.op.Less(x, 0) if g.option("strict") else g.op.LessOrEqual(x, 0), bent, x)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        alpha = float(g.get_constant_scalar(m.a) or 0) if m.factor else 1.0
        if not 1e-3 < alpha < 1e3 or not fits(g, m.x, alpha):  # (1)
            return self.none(m.nodes[-1], msg=f"the factor is {alpha}")
        return m.derive(alpha=alpha)

    def apply_pattern(self, g: PatternRewriter, x: str, alpha: float) -> str:
        return g.op.Elu(x, alpha=alpha)

    _start, _one = "agraph (float[a,b] x) => (float[a,b] y)", "e = Exp(x) d = Sub(e, one)"
    _constants = "float one = {1}, float z = {0}, float k = {0.5}"
    examples = (
        Example(
            f"{_start} <{_constants}> {{ c = Greater(x, z) {_one} t = Mul(k, d) y = Where(c, x, t) }}",
            f"{_start} {{ y = Elu <alpha = 0.5> (x) }}",
        ),
        Example(f"{_start} <{_constants}> {{ c = Less(x, z) {_one} y = Where(c, d, x) }}", f"{_start} {{ y = Elu(x) }}"),
    )
