from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, Optional, PatternBuilder, PatternRewriter, Symbol


class GemmTransposePattern(EasyPatternOptimization):
    """Transpose(Gemm(a, b, c)) → Gemm(b, a, c) with both attributes transA and transB toggled

    What: (a·b)ᵀ is bᵀ·aᵀ; the same for MatMul of two matrices.
    Why: saves a copy of the result.
    Refuses when:
    1. there is a bias of more than one element.
    2. the provider has no kernel of Gemm for the type, or the operands are not matrices.
    """

    phase = "specialize"
    priority = 1
    exactness = "rounding"
    min_opset = 11
    operand_ranks = {"a": 2, "b": 2}  # (2)
    kernels = {"Gemm": "a"}  # (2)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Optional) -> Symbol:
        y = g.op.MatMul(a, b) if g.option("plain") else g.op.Gemm(a, b, c, attributes=g.capture("attributes"))
        return g.op.Transpose(y, perm=[1, 0])

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.c and g.static_shape(m.c) not in ((), (1,), (1, 1)):  # (1)
            return self.none(m.nodes[0], msg="there is a bias")
        given: dict[str, Any] = m.get("attributes", {})
        return m.derive(swapped={**given, "transA": 1 - given.get("transB", 0), "transB": 1 - given.get("transA", 0)})

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, c: str, swapped: dict[str, Any]) -> str:
        return g.op.Gemm(b, a, c, **swapped)

    examples = (
        Example(
            "agraph (float[n,4] x, float[3,4] w) => (float[3,n] y) <float[1] c = {2}> "
            "{ t = Gemm <transB = 1> (x, w, c) y = Transpose <perm = [1, 0]> (t) }",
            "<float[1] c = {2}> { y = Gemm <transA = 0, transB = 1> (w, x, c) }",
        ),
        Example(
            "agraph (float[n,4] x, float[4,3] w) => (float[3,n] y) { t = MatMul(x, w) y = Transpose <perm = [1, 0]> (t) }",
            "{ y = Gemm <transA = 1, transB = 1> (w, x) }",
        ),
    )
