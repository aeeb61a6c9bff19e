from typing import Any

from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class MatMulNBitsAddPattern(EasyPatternOptimization):
    """com.microsoft.MatMulNBits(x, w, s) + b → com.microsoft.MatMulNBits(x, w, s, bias=b)

    What: adds the bias within the MatMul.
    Why: one fewer pass over the result. On one thread (768 by 768, 1 to 128 rows), it takes 0.92 to
    1.05 of the time in float32, and 0.89 to 1.00 in float16. onnxruntime fuses the same at load
    time.
    Refuses when:
    1. the MatMul has a bias already.
    2. the bias is not an initializer with one value per column of the result.
    3. the provider has no kernel for the type.
    """

    phase = "target"
    exactness = "rounding"
    min_opset = 7
    produces = ("com.microsoft",)
    providers = ("cpu",)
    tags = ("onnxruntime",)
    kernels = {"com.microsoft::MatMulNBits": "x"}  # (3)

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        w: Symbol,
        s: Symbol,
        z: Optional,
        i: Optional,
        b: Constant,
    ) -> Symbol:
        # (1)
        matmul = g.op.MatMulNBits(
            x, w, s, z, i, domain="com.microsoft", attributes=g.capture("attributes")
        )
        return g.op.Add(matmul, b)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # (2)
        if g.node_before(m.b) is not None or g.try_infer_shape(m.b) != (m.attributes["N"],):
            return self.none(
                m.nodes[-1], msg="the bias is not an initializer with one value per column"
            )
        return True

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        w: str,
        s: str,
        z: str,
        i: str,
        b: str,
        attributes: dict[str, Any],
    ) -> str:
        return g.op.MatMulNBits(
            x, w, s, z or None, i or None, b, domain="com.microsoft", **attributes
        )

    _ones = ", ".join(["129"] * 16)
    _weights = f"<uint8[1,1,16] w = {{{_ones}}}, float[1,1] s = {{0.5}}, float[1] b = {{3}}>"
    examples = Example.only(
        f"agraph (float[n,16] x) => (float[n,1] y) {_weights} {{ "
        "p = com.microsoft.MatMulNBits <K = 16, N = 1, bits = 8, block_size = 16> (x, w, s) "
        "y = Add(b, p) }",
        f"{_weights} {{ "
        "y = com.microsoft.MatMulNBits <K = 16, N = 1, bits = 8, block_size = 16> "
        "(x, w, s, , , b) }",
        opset=21,
    )
