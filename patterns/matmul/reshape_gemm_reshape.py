import numpy as np

from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._deductions import reshapes_as_inferred
from .._shapes import reshape_target


class ReshapeGemmReshapePattern(EasyPatternOptimization):
    """Reshape(Gemm(Reshape(x), w, b)) → Add(MatMul(x, w), b)

    What: multiplies x without merging its leading axes. The Add is written only if there is a bias.
    Why: no target shapes are computed. Runtimes that are faster with Gemm merge the axes
    themselves.
    Refuses when:
    1. shapes are unknown. Or the leading axes of result and x differ, and no Reshape of x to a
       constant target makes them equal.
    2. the Gemm has a factor, or an operand is transposed. (A constant weight that no other node
       reads may be: it is stored transposed.)
    3. b has more than one row.
    4. a computed size may be 0 at run time: Reshape reads a 0 as "copy the size of the operand".
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 9
    derives = ("target",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Symbol, b: Symbol, merged: Symbol, split: Symbol
    ) -> Symbol:
        flat = g.keep(g.op.Reshape(x, merged, attributes=ANY))  # other MatMuls may read it
        operands = (flat, w, b) if g.option("bias") else (flat, w)
        matmul = g.op.Gemm(*operands, transB=g.capture("is_swapped"))
        return g.op.Reshape(matmul, split, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        before, flat, after = map(g.try_infer_shape, (m.x, m.nodes[0].output[0], m.outputs[0]))
        flat_result = g.try_infer_shape(m.nodes[1].output[0])
        if not before or not flat or not after or not flat_result or len(after) < 3:  # (1)
            return self.none(m.nodes[0], msg="the shapes are unknown, or no axes are merged")
        if not all(reshapes_as_inferred(g, m.nodes[place]) for place in (0, 2)):  # (4)
            return self.none(
                m.nodes[0], msg="the target shape may contain a 0, which copies an input dimension"
            )
        rows = (*after[:-1], flat[-1])
        target = None if before == rows else reshape_target(g, before, rows)
        if after[-1] != flat_result[-1] or (before != rows and target is None):  # (1)
            return self.none(m.nodes[2], msg="the second Reshape does not restore the leading axes")
        if m.is_swapped and not (g.is_constant(m.w) and g.is_exclusive(m.w)):  # (2)
            return self.none(m.nodes[1], msg="an operand is transposed")
        bias = g.try_infer_shape(m.b) if m.bias else ()
        if bias is None or len(bias) > 2 or (len(bias) == 2 and bias[0] != 1):  # (3)
            return self.none(m.nodes[1], msg="the bias has more than one row")
        return m.derive(target=target)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        w: str,
        b: str,
        bias: bool,
        is_swapped: int,
        target: list[int] | None,
    ) -> str:
        if target is not None:
            x = g.op.Reshape(x, np.array(target, dtype=np.int64))
        if is_swapped:
            w = g.op.Transpose(w, perm=[1, 0])
        matmul = g.op.MatMul(x, w)
        return g.op.Add(matmul, b) if bias else matmul

    examples = Example.pairs(
        "agraph (float[a,5,4] x, float[4,3] w, float[3] b) "
        "=> (float[a,5,3] y) <int64[2] s = {-1, 4}, int64[3] t = {-1, 5, 3}> { f = Reshape(x, s) "
        "p = Gemm(f, w, b) y = Reshape(p, t) }",
        "{ p = MatMul(x, w) y = Add(p, b) }",
        "agraph (float[a,5,4] x, float[4,3] w, float[4,2] u) => (float[a,5,3] y, float[a,5,2] z) "
        "<int64[2] s = {-1, 4}, int64[3] t = {-1, 5, 3}, int64[3] r = {-1, 5, 2}> "
        "{ f = Reshape(x, s) p = Gemm(f, w) y = Reshape(p, t) q = Gemm(f, u) z = Reshape(q, r) }",
        "{ y = MatMul(x, w) z = MatMul(x, u) }",
        "agraph (float[a,5,4] x) => (float[a,5,2] y) <float[2,4] w = {1, 2, 3, 4, 5, 6, 7, 8}, "
        "int64[2] s = {-1, 4}, int64[3] t = {-1, 5, 2}> { f = Reshape(x, s) "
        "p = Gemm <transB = 1> (f, w) y = Reshape(p, t) }",
        "<float[4,2] w = {1, 5, 2, 6, 3, 7, 4, 8}> { y = MatMul(x, w) }",
    )
