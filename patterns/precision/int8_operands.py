from xoptim.match import Example, PatternRewriter

from ._matmul import COLUMN, INTEGERS, WEIGHTS, WeightedMatMul, _Int8MatMul

_ROWS = ", ".join(map(str, (*COLUMN, *COLUMN[::-1])))


class Int8OperandsPattern(_Int8MatMul):
    """MatMul(x, w) → MatMul(DequantizeLinear(DynamicQuantizeLinear(x)), DequantizeLinear(w8, s))

    What: quantizes both operands of a MatMul with constant weights to 8 bits, in the form that
    runtimes and `DequantizeLinearMatMul` fuse to integer MatMuls. Weights have a scale for each
    column, and x has one scale, which each run computes. The same for Gemm. Results change by about
    a hundredth of the largest result.
    Why: weights take a quarter of the bytes. On CPUs with int8 multiplication, MatMuls take a third
    of the time (lab/payoff.md).
    Refuses when:
    1. the weights are not a finite constant float32 matrix, or have fewer than 16 rows.
    2. x is transposed, or not known to be a matrix, or alpha or beta is set.
    3. the provider has no kernel of DequantizeLinear.
    """

    def computed(self, g: PatternRewriter, x: str, matmul: WeightedMatMul) -> str:
        rows = g.op.DequantizeLinear(*g.op.DynamicQuantizeLinear(x, outputs=3))
        return g.op.MatMul(rows, self.weights(g, matmul))

    examples = (
        Example(
            f"agraph (float[n,16] x) => (float[n,2] y) <float[16,2] w = {{{WEIGHTS}}}> {{ "
            "y = MatMul(x, w) }",
            f"agraph (float[n,16] x) => (float[n,2] y) <int8[16,2] w = {{{INTEGERS}}}, "
            "float[2] s = {0.5, 0.25}> { q, t, z = DynamicQuantizeLinear(x) "
            "a = DequantizeLinear(q, t, z) b = DequantizeLinear <axis = 1> (w, s) "
            "y = MatMul(a, b) }",
            opset=13,
        ),
        Example(
            f"agraph (float[n,16] x, float[2] c) => (float[n,2] y) <float[2,16] w = {{{_ROWS}}}> "
            "{ y = Gemm <transB = 1> (x, w, c) }",
            "agraph (float[n,16] x, float[2] c) "
            f"=> (float[n,2] y) <int8[2,16] w = {{{_ROWS}}}, float[2] s = {{1.0, 1.0}}> {{ "
            "q, t, z = DynamicQuantizeLinear(x) a = DequantizeLinear(q, t, z) "
            "v = Transpose <perm = [1, 0]> (w) b = DequantizeLinear <axis = 1> (v, s) "
            "m = MatMul(a, b) y = Add(m, c) }",
            opset=13,
        ),
    )
