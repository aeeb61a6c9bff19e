from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Scalar, Symbol

from .._factors import fits


class EluMulPattern(EasyPatternOptimization):
    """Elu(x, alpha=a) · k → Selu(x, alpha=a, gamma=k)

    What: one operator instead of two; with `EluPattern` one instead of six.
    Why: saves one pass over the tensor.
    Refuses when:
    1. a or k is not a positive number of moderate size, or k does not fit the attribute.
    2. the provider has no kernel of Selu for the type.
    """

    phase = "specialize"
    priority = 1
    exactness = "rounding"
    min_opset = 7
    kernels = {"Selu": "x"}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol, k: Scalar) -> Symbol:
        return g.op.Mul(g.op.Elu(x, alpha=g.capture("alpha", lambda value: 1e-3 < value < 1e3)), k)  # (1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        gamma = float(g.get_constant_scalar(m.k) or 0)
        if not 1e-3 < gamma < 1e3 or not fits(g, m.x, gamma):  # (1)
            return self.none(m.nodes[-1], msg=f"the factor is {gamma}")
        return m.derive(gamma=gamma)

    def apply_pattern(self, g: PatternRewriter, x: str, alpha: float, gamma: float) -> str:
        return g.op.Selu(x, alpha=alpha, gamma=gamma)

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <float k = {1.5}> { t = Elu <alpha = 2.0> (x) y = Mul(t, k) }",
            "agraph (float[a,b] x) => (float[a,b] y) { y = Selu <alpha = 2.0, gamma = 1.5> (x) }",
        ),
    )
