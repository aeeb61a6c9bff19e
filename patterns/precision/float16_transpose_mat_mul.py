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
    """MatMul(Transpose(x), W) → Transpose(MatMul(x, W)), in float16

    What: if the Transpose keeps the last axis, it moves after the MatMul. If it is a rotation
    (1, 2, ..., 0), the Transpose before the MatMul also swaps the two axes before the last one, and
    a second Transpose after the MatMul swaps them back. The same for a FusedMatMul with ``transA``.
    Why: lets the model load on the CPU as well. There, onnxruntime 1.32 crashes when it loads a
    float16 Transpose that moves the first axis to one of the last two positions.
    Refuses when:
    1. the type is not float16, or the rank is below 3. Or the Transpose keeps the first axis, or
       moves the last axis but is not a rotation.
    2. W is not a constant matrix.
    """

    providers = ("cuda",)
    exactness = "rounding"
    onnxruntime = "<1.33"
    min_opset = 13
    tags = ("float16_compute", "extra")
    derives = ("order",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol) -> Symbol:
        transposed = g.op.Transpose(x, perm=g.capture("perm"))
        if g.option("columns"):
            return g.op.FusedMatMul(transposed, w, domain="com.microsoft", attributes={"transA": 1})
        return g.op.MatMul(transposed, w)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        order = [*m.perm[:-2], *reversed(m.perm[-2:])] if m.columns else [*m.perm]
        is_harmless = order[0] == 0 or (
            order[-1] != len(order) - 1 and order != [*range(1, len(order)), 0]
        )
        if g.try_infer_type(m.x) != TensorProto.FLOAT16 or len(order) < 3 or is_harmless:  # (1)
            return self.none(m.nodes[0], msg="not float16, or the permutation needs no change")
        if not g.is_constant(m.w) or g.info(m.w).rank != 2:  # (2)
            return self.none(m.nodes[0], msg="the other operand is not a constant matrix")
        return m.derive(order=order)

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, order: list[int]) -> str:
        last = len(order) - 1
        if order[-1] == last:
            return g.op.Transpose(g.op.MatMul(x, w), perm=order)
        swap = [*range(last - 2), last - 1, last - 2, last]
        return g.op.Transpose(
            g.op.MatMul(g.op.Transpose(x, perm=[order[axis] for axis in swap]), w), perm=swap
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
