from onnx import TensorProto

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class Float16TransposeMatMulPattern(EasyPatternOptimization):
    """MatMul(Transpose(x), W) → Transpose(MatMul(x, W)), in 16 bits

    What: multiplies first where rows alone change their places, and moves rows behind columns
    otherwise; and so for a FusedMatMul that reads columns as rows.
    Why: onnxruntime 1.32 ends the process when it loads a Transpose of 16 bits, for a CPU, that
    moves the first axis to one of the last two places.
    Refuses when:
    1. the type is another one, or the Transpose keeps the first axis or moves it and others
       elsewhere.
    2. W is not a constant matrix.
    """

    providers = ("cuda",)
    exactness = "rounding"
    onnxruntime = "<1.33"
    min_opset = 13
    tags = ("float16_compute", "extra")
    derives = ("turn",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol) -> Symbol:
        transposed = g.op.Transpose(x, perm=g.capture("perm"))
        if g.option("columns"):
            return g.op.FusedMatMul(transposed, w, domain="com.microsoft", attributes={"transA": 1})
        return g.op.MatMul(transposed, w)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        turn = [*m.perm[:-2], *reversed(m.perm[-2:])] if m.columns else [*m.perm]
        is_harmless = turn[0] == 0 or (
            turn[-1] != len(turn) - 1 and turn != [*range(1, len(turn)), 0]
        )
        if g.try_infer_type(m.x) != TensorProto.FLOAT16 or len(turn) < 3 or is_harmless:  # (1)
            return self.none(m.nodes[0], msg="not float16, or the permutation needs no change")
        if not g.is_constant(m.w) or g.info(m.w).rank != 2:  # (2)
            return self.none(m.nodes[0], msg="the other operand is not a constant matrix")
        return m.derive(turn=turn)

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, turn: list[int]) -> str:
        last = len(turn) - 1
        if turn[-1] == last:
            return g.op.Transpose(g.op.MatMul(x, w), perm=turn)
        swap = [*range(last - 2), last - 1, last - 2, last]
        return g.op.Transpose(
            g.op.MatMul(g.op.Transpose(x, perm=[turn[each] for each in swap]), w), perm=swap
        )

    _start = (
        "agraph (float16[t,b,2] x) => (float16[b,t,2] y) <float16[2,2] w = {15360, 14336, 49152, "
        "16896}>"
    )
    _columns = (
        "agraph (float16[2,b,t] x) => (float16[b,t,2] y) <float16[2,2] w = {15360, 14336, 49152, "
        "16896}>"
    )
    _swapped = (
        "{ s = Transpose <perm = [2, 1, 0]> (x) z = MatMul(s, w) "
        "y = Transpose <perm = [1, 0, 2]> (z) }"
    )
    examples = Example.pairs(
        _start + " { z = Transpose <perm = [1, 0, 2]> (x) y = MatMul(z, w) }",
        _start + " { z = MatMul(x, w) y = Transpose <perm = [1, 0, 2]> (z) }",
        _columns + " { z = Transpose <perm = [1, 2, 0]> (x) y = MatMul(z, w) }",
        _columns + " " + _swapped,
        _columns
        + " { z = Transpose <perm = [1, 0, 2]> (x) y = com.microsoft.FusedMatMul <transA = 1> (z,"
        " w) }",
        _columns + " " + _swapped,
        opset=13,
    )
