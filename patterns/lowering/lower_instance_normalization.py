from xoptim.match import (
    Constant,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._folding import constant, doubles, rounded
from ._lowering import COMPUTED, _Lowering, narrowed, widened
from ._normal import along_channels, centered, divided


class LowerInstanceNormalizationPattern(_Lowering):
    """InstanceNormalization(x, scale, bias) → (x - mean) / √(variance + epsilon) · scale + bias

    What: writes the formula with ReduceMean over all axes after the second, Sub, Mul, Sqrt and Div;
    16-bit floats are computed in 32 bits, as the operator does it.
    Why: some runtimes lack the operator, or a kernel of it for a type or rank.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    2. the rank is unknown, or there is no axis after the second.
    3. scale or bias are not constants of moderate size.
    """

    min_opset = 7
    operand_types = {"x": COMPUTED}  # (1)
    derives = ("rank", "dtype", "number")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, scale: Constant, bias: Constant
    ) -> Symbol:
        epsilon = g.capture("epsilon", optional=True)
        return g.op.InstanceNormalization(x, scale, bias, epsilon=epsilon)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank or 0
        if rank < 3:  # (2)
            return self.none(m.nodes[0], msg="the rank is unknown or less than 3")
        for name in (m.scale, m.bias):  # (3)
            rounded(doubles(g, name), constant(g, name).dtype, terms=())
        number = g.get_attribute(m.nodes[0], "epsilon")
        return m.derive(rank=rank, dtype=g.try_infer_type(m.x), number=number)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        scale: str,
        bias: str,
        rank: int,
        dtype: int,
        number: float,
    ) -> str:
        axes = list(range(2 - rank, 0))
        normal = divided(g, centered(g, widened(g, x, dtype), axes), axes, number)
        factor, shift = (along_channels(g, widened(g, name, dtype), rank) for name in (scale, bias))
        return narrowed(g, g.op.Add(g.op.Mul(normal, factor), shift), dtype)

    examples = Example.pairs(
        "agraph (float[n,3,h,w] x) => (float[n,3,h,w] y) "
        "<float[3] s = {1, 2, 3}, float[3] b = {0, 1, 2}> "
        "{ y = InstanceNormalization <epsilon = 0.001> (x, s, b) }",
        "<int64[2] a = {-2, -1}, float b = {0.001}, float[3,1,1] c = {1, 2, 3}, float[3,1,1] d = "
        "{0, 1, 2}> { e = ReduceMean(x, a) f = Sub(x, e) g = Mul(f, f) h = ReduceMean(g, a) i = "
        "Add(h, b) j = Sqrt(i) k = Div(f, j) l = Mul(k, c) y = Add(l, d) }",
        "agraph (float16[n,2,h] x) => (float16[n,2,h] y) <float16[2] s = {15360, 16384}, "
        "float16[2] b = {0, 15360}> { y = InstanceNormalization(x, s, b) }",
        "<int64[1] a = {-1}, float b = {1e-05}, float[2,1] c = {1, 2}, float[2,1] d = {0, 1}> { e "
        "= Cast <to = 1> (x) f = ReduceMean(e, a) g = Sub(e, f) h = Mul(g, g) i = ReduceMean(h, a) "
        "j = Add(i, b) k = Sqrt(j) l = Div(g, k) m = Mul(l, c) n = Add(m, d) y = Cast <to = 10> "
        "(n) }",
    )
