"""Fused operators of diffusion models that were optimized for CUDA."""

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Symbol

from .._shapes import broadcasts_to
from ._lowering import ATTENTION_FLOATS, _Lowering


class _LowerDiffusion(_Lowering):
    """A fused operator of ``com.microsoft`` for diffusion models.

    What: writes the standard operators.
    Why: ONNX Runtime runs the operator on CUDA only. Its optimizer for diffusion models writes such
    operators.
    Refuses when:
    1. the type is not float32 or float16 (checked by the matcher).
    2. the other operands are not known to broadcast to x.
    """

    operand_types = {"x": ATTENTION_FLOATS}  # (1)


class LowerBiasAddPattern(_LowerDiffusion):
    """com.microsoft.BiasAdd(x, bias, skip) → x + bias + skip"""

    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol, bias: Symbol, skip: Symbol) -> Symbol:
        return g.op.BiasAdd(x, bias, skip, domain="com.microsoft")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not all(broadcasts_to(g, name, m.x) for name in (m.bias, m.skip)):  # (2)
            return self.none(m.nodes[0], msg="bias or skip is not known to broadcast to x")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, bias: str, skip: str) -> str:
        return g.op.Add(g.op.Add(x, bias), skip)

    examples = Example.pairs(
        "agraph (float[n,s,4] x, float[4] b, float[n,s,4] k) => (float[n,s,4] y) "
        "{ y = com.microsoft.BiasAdd(x, b, k) }",
        "{ t = Add(x, b) y = Add(t, k) }",
    )


class LowerBiasSplitGeluPattern(_LowerDiffusion):
    """com.microsoft.BiasSplitGelu(x, bias) → left · Gelu(right) with left, right = Split(x + bias)

    What: writes the standard operators. Below operator set 20, Gelu is com.microsoft.Gelu.
    Refuses when:
    1. the type is not float32 or float16 (checked by the matcher).
    2. the number of features is unknown or odd, or the bias is not known to broadcast to x.
    """

    min_opset = 13
    derives = ("half",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, bias: Symbol) -> Symbol:
        return g.op.BiasSplitGelu(x, bias, domain="com.microsoft")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.x)
        size = shape[-1] if shape else None
        if not isinstance(size, int) or size % 2 or not size or not broadcasts_to(g, m.bias, m.x):
            # (2)
            return self.none(
                m.nodes[0],
                msg="the number of features is unknown or odd, or bias may not broadcast to x",
            )
        return m.derive(half=size // 2)

    def apply_pattern(self, g: PatternRewriter, x: str, bias: str, half: int) -> str:
        left, right = g.op.Split(g.op.Add(x, bias), split=[half, half], axis=-1, outputs=2)
        domain = "" if g.main_opset >= 20 else "com.microsoft"
        return g.op.Mul(left, g.op.Gelu(right, domain=domain))

    examples = (
        Example(
            "agraph (float[n,s,6] x, float[6] b) => (float[n,s,3] y) "
            "{ y = com.microsoft.BiasSplitGelu(x, b) }",
            "<int64[2] s = {3, 3}> { t = Add(x, b) l, r = Split <axis = -1> (t, s) "
            "h = com.microsoft.Gelu(r) y = Mul(l, h) }",
        ),
        Example(
            "agraph (float[n,s,4] x, float[4] b) => (float[n,s,2] y) "
            "{ y = com.microsoft.BiasSplitGelu(x, b) }",
            "<int64[2] s = {2, 2}> { t = Add(x, b) l, r = Split <axis = -1> (t, s) "
            "h = Gelu(r) y = Mul(l, h) }",
            opset=20,
        ),
    )
