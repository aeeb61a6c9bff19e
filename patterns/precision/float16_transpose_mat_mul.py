from typing import Any

from onnx import TensorProto

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class Float16TransposeMatMulPattern(EasyPatternOptimization):
    """MatMul(Transpose(x), W) → Transpose(MatMul(x, W)), in 16 bits

    What: multiplies first where rows alone change their places.
    Why: onnxruntime 1.32 ends the process when it loads such a Transpose of 16 bits for a CPU.
    Refuses when:
    1. the type is another one, or the Transpose keeps the first axis or moves the last one.
    2. W is not a constant matrix.
    """

    providers = ("cuda",)
    exactness = "rounding"
    min_opset = 13
    tags = ("halves", "extra")

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol) -> Symbol:
        return g.op.MatMul(g.op.Transpose(x, attributes=g.capture("turn")), w)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        perm = m.turn.get("perm")
        if g.try_infer_type(m.x) != TensorProto.FLOAT16 or not perm or perm[0] == 0 or perm[-1] != len(perm) - 1:  # (1)
            return self.none(m.nodes[0], msg="another type or permutation")
        if not g.is_constant(m.w) or g.info(m.w).rank != 2:  # (2)
            return self.none(m.nodes[0], msg="the other factor is not a constant matrix")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, turn: Any) -> str:
        return g.op.Transpose(g.op.MatMul(x, w), **turn)

    _start = "agraph (float16[t,b,2] x) => (float16[b,t,2] y) <float16[2,2] w = {15360, 14336, 49152, 16896}>"
    examples = Example.only(
        _start + " { z = Transpose <perm = [1, 0, 2]> (x) y = MatMul(z, w) }",
        _start + " { z = MatMul(x, w) y = Transpose <perm = [1, 0, 2]> (z) }",
        opset=13,
    )
