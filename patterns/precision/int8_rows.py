import numpy as np

from xoptim.match import Example, PatternRewriter
from xoptim.match.quantization import LARGEST

from ._matmul import WeightedMatMul, _Int8MatMul
from ._quantization import INT8_ENDS

_MIDDLE = 128
"""The uint8 zero point."""
_INTEGERS = "127, -3, 64, 5, -127, 90, 1, 0, -64, 33, 17, -80, 7, 100, -1, 2"
_WEIGHTS = ", ".join(str(int(n) / 2) for n in _INTEGERS.split(","))


class Int8RowsPattern(_Int8MatMul):
    """MatMul(x, w) → s · MatMul(DequantizeLinear(QuantizeLinear(x / s)), DequantizeLinear(w8, t)),
    s for each row of x

    What: quantizes both operands of a MatMul with constant weights to 8 bits, as `Int8Operands`
    does, but with a scale for each row of x, which each run computes. onnxruntime fuses it to an
    integer MatMul at load time.
    Why: if few rows have large values, a single scale leaves no digits for the other rows. The
    MatMul takes 1.1 to 1.3 of the time of `Int8Operands`, with few columns up to 1.4
    (lab/payoff.md).
    Refuses when:
    1. the weights are not a finite constant float32 matrix, or have fewer than 16 rows.
    2. x is transposed, or not known to be a matrix, or alpha or beta is set.
    3. the provider has no kernel of DequantizeLinear.
    """

    priority = 1
    is_alternative = True
    time = 0.36

    def computed(self, g: PatternRewriter, x: str, matmul: WeightedMatMul) -> str:
        largest = g.op.ReduceMax(g.op.Abs(x), axes=[-1], keepdims=1)
        steps = g.op.Mul(g.op.Max(largest, 1 / LARGEST), 1 / INT8_ENDS[1])
        one, zero = g.make_initializer("", np.float32(1)), g.make_initializer("", np.uint8(_MIDDLE))
        rows = g.op.DequantizeLinear(g.op.QuantizeLinear(g.op.Div(x, steps), one, zero), one, zero)
        return g.op.Mul(g.op.MatMul(rows, self.weights(g, matmul)), steps)

    _given = (
        f"agraph (float[n,16] x, float[1] c) => (float[n,1] y) <float[16,1] w = {{{_WEIGHTS}}}>"
    )
    _stored = (
        "agraph (float[n,16] x, float[1] c) "
        f"=> (float[n,1] y) <int8[16,1] w = {{{_INTEGERS}}}, float[1] t = {{0.5}}, "
        f"float least = {{{1 / LARGEST}}}, float p = {{{1 / INT8_ENDS[1]}}}, float "
        f"one = {{1}}, uint8 z = {{{_MIDDLE}}}> {{ a = Abs(x) "
        "l = ReduceMax <axes = [-1], keepdims = 1> (a) k = Max(l, least) s = Mul(k, p) "
        "v = Div(x, s) q = QuantizeLinear(v, one, z) d = DequantizeLinear(q, one, z) "
        "e = DequantizeLinear <axis = 1> (w, t) m = MatMul(d, e)"
    )
    examples = Example.pairs(
        f"{_given} {{ y = MatMul(x, w) }}",
        f"{_stored} y = Mul(m, s) }}",
        f"{_given} {{ y = Gemm(x, w, c) }}",
        f"{_stored} u = Mul(m, s) y = Add(u, c) }}",
        opset=13,
    )
