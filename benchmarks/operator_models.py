"""For each fusion: a model of realistic size on which it applies.

A graph has the name of its pattern. ``ROWS`` is the number of rows, tokens or images. Inputs in capital letters are weights:
initializers with random values; WT is W transposed.
"""

import re
from typing import NamedTuple

TOKENS, SHORT, SEVERAL, FEW, IMAGES = (1, 16, 128, 1024), (1, 16, 128), (16, 128, 1024), (1, 4, 128), (1, 4)


class Subject(NamedTuple):
    """A model on which one pattern applies: the text of its graph, the operator set, and the numbers of rows to measure."""

    text: str
    opset: int = 18
    rows: tuple[int, ...] = TOKENS


def _subjects(texts: str, opset: int = 18, rows: tuple[int, ...] = TOKENS) -> dict[str, Subject]:
    """Subjects by the names of their graphs; each graph begins at the beginning of a line."""
    return {text.partition(" ")[0]: Subject(text, opset, rows) for text in re.split(r"\n(?=\S)", texts.strip())}


def _steps(steps: int) -> str:
    """A scan along the second axis."""
    places = ", ".join(f"int64 i{step} = {{{step}}}" for step in range(steps))
    parts = " ".join(f"a{t} = Gather <axis = 1> (x, i{t}) b{t} = Gather <axis = 1> (z, i{t})" for t in range(steps))
    body = " ".join(f"m{t} = Mul(a{t}, h{t}) h{t + 1} = Add(m{t}, b{t})" for t in range(steps))
    given = f"float[ROWS,{steps},8,256] x, float[ROWS,{steps},8,256] z"
    return f"g ({given}) => (h{steps}) <float h0 = {{0}}, {places}> {{ {parts} {body} }}"


def _parts(image: str, weights: str, layer: str) -> str:
    """Eight layers of one input, joined; LANE is the number of one."""
    lanes = range(8)
    inputs = ", ".join(weights.replace("LANE", str(lane)) for lane in lanes)
    nodes = " ".join(f"{layer.replace('LANE', str(lane))} r{lane} = Relu(p{lane})" for lane in lanes)
    joined = ", ".join(f"r{lane}" for lane in lanes)
    return f"g (float[{image}] x, {inputs}) => (y) {{ {nodes} y = Concat <axis = 1> ({joined}) }}"


_TOKENS_13 = """
LayerNormalizationOrt (float[ROWS,768] x) => (y) <float two = {2}, float e = {0.00001}>
    { m = ReduceMean <axes = [-1]> (x) d = Sub(x, m) q = Pow(d, two) v = ReduceMean <axes = [-1]> (q) w = Add(v, e) s = Sqrt(w)
    y = Div(d, s) }
Int4Table (int64[ROWS] x, float[30000,768] W) => (y) { y = Gather(W, x) }
Int8LSTM (float[ROWS,1,256] x, float[1,1024,256] W, float[1,1024,256] R) => (y) { y = LSTM <hidden_size = 256> (x, W, R) }
Int8Operands (float[ROWS,768] x, float[768,768] W) => (y) { y = MatMul(x, W) }
Int8Rows (float[ROWS,768] x, float[768,768] W) => (y) { y = MatMul(x, W) }
Int8Table (int64[ROWS] x, float[30000,768] W) => (y) { y = Gather(W, x) }
"""
_TOKENS_18 = """
EluMul (float[ROWS,768] x) => (y) <float k = {0.5}> { t = Elu <alpha = 1.5> (x) y = Mul(t, k) }
EluExp (float[ROWS,768] x) => (y) <float o = {1}, float z = {0}>
    { c = Greater(x, z) e = Exp(x) d = Sub(e, o) y = Where(c, x, d) }
FastGelu (float[ROWS,3072] x) => (y) <float three = {3}, float c = {0.044715}, float k = {0.7978846}, float one = {1},
    float half = {0.5}>
    { h = Mul(x, half) p = Pow(x, three) q = Mul(p, c) s = Add(x, q) t = Mul(s, k) u = Tanh(t) v = Add(u, one) y = Mul(h, v) }
GeluOrt (float[ROWS,3072] x) => (y) <float s = {1.4142135}, float one = {1}, float half = {0.5}>
    { d = Div(x, s) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half) }
HardSigmoid (float[ROWS,768] x) => (y) <float a = {3}, float z = {0}, float s = {6}>
    { t = Add(x, a) u = Clip(t, z, s) y = Div(u, s) }
HardSwish (float[ROWS,768] x) => (y) <float a = {3}, float z = {0}, float s = {6}>
    { t = Add(x, a) u = Clip(t, z, s) v = Mul(x, u) y = Div(v, s) }
HardSigmoidMul (float[ROWS,768] x) => (y) { t = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, t) }
LeakyRelu (float[ROWS,768] x) => (y) <float z = {0}, float s = {0.25}> { c = Greater(x, z) t = Mul(x, s) y = Where(c, x, t) }
LogSoftmaxExp (float[ROWS,768] x) => (y) <int64[1] i = {-1}>
    { m = ReduceMax(x, i) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, i) l = Log(s) y = Sub(d, l) }
MaxRelu (float[ROWS,768] x) => (y) <float z = {0}> { y = Max(z, x) }
QuickGelu (float[ROWS,3072] x) => (y) <float c = {1.702}> { t = Mul(c, x) s = Sigmoid(t) y = Mul(x, s) }
SigmoidExp (float[ROWS,768] x) => (y) <float o = {1}> { n = Neg(x) e = Exp(n) d = Add(e, o) y = Div(o, d) }
SoftmaxExp (float[ROWS,768] x) => (y) <int64[1] i = {-1}>
    { m = ReduceMax(x, i) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, i) y = Div(e, s) }
SoftmaxLog (float[ROWS,768] x) => (y) { s = Softmax(x) y = Log(s) }
SoftplusExp (float[ROWS,768] x) => (y) <float o = {1}>
    { r = Relu(x) a = Abs(x) n = Neg(a) e = Exp(n) s = Add(e, o) l = Log(s) y = Add(r, l) }
SoftsignAbs (float[ROWS,768] x) => (y) <float one = {1}> { a = Abs(x) s = Add(one, a) y = Div(x, s) }
ThresholdedRelu (float[ROWS,768] x) => (y) <float t = {0.5}, float z = {0}> { c = Greater(x, t) y = Where(c, x, z) }
PadsAdd (float[ROWS,768] x, float[ROWS,768] z) => (y) <int64[4] p = {0, 0, 0, 768}, int64[4] q = {0, 768, 0, 0}>
    { s = Pad(x, p) t = Pad(z, q) y = Add(s, t) }
TransposeReshape (float[ROWS,1,768] x) => (y) { r = Relu(x) t = Transpose <perm = [1, 0, 2]> (r) y = Sigmoid(t) }
MulAddMul (float[ROWS,768] x, float[768] A, float[768] B, float[768] C) => (y) { t = Mul(x, A) u = Add(B, t) y = Mul(u, C) }
PowHalf (float[ROWS,768] x) => (y) <float h = {0.5}> { a = Abs(x) y = Pow(a, h) }
PowTwo (float[ROWS,768] x) => (y) <float two = {2}> { y = Pow(x, two) }
AddMatMulSoftmax (float[1,ROWS,512] x, float[1,8,ROWS,64] q, float[512,512] W, float[512] B) => (y) <int64[4] h = {0, 0, 8, 64}>
    { t = MatMul(x, W) u = Add(t, B) r = Reshape(u, h) k = Transpose <perm = [0, 2, 3, 1]> (r) m = MatMul(q, k)
    y = Softmax <axis = -1> (m) }
AddSoftmaxMatMul (float[1,ROWS,512] x, float[1,8,ROWS,ROWS] s, float[512,512] W, float[512] B, float[512,512] U, float[512] C)
    => (y) <int64[4] h = {0, 0, 8, 64}, int64[3] l = {0, 0, 512}>
    { t = MatMul(x, W) u = Add(t, B) r = Reshape(u, h) v = Transpose <perm = [0, 2, 1, 3]> (r) p = Softmax <axis = -1> (s)
    m = MatMul(p, v) o = Transpose <perm = [0, 2, 1, 3]> (m) f = Reshape(o, l) z = MatMul(f, U) y = Add(z, C) }
MultiHeadAttention (float[1,ROWS,512] q, float[1,ROWS,512] k, float[1,ROWS,512] v) => (y) <int64[4] h = {0, 0, 8, 64},
    int64[3] m = {0, 0, 512}, float s = {8}>
    { qr = Reshape(q, h) kr = Reshape(k, h) vr = Reshape(v, h) qt = Transpose <perm = [0, 2, 1, 3]> (qr)
    kt = Transpose <perm = [0, 2, 3, 1]> (kr) vt = Transpose <perm = [0, 2, 1, 3]> (vr) a = MatMul(qt, kt) d = Div(a, s)
    w = Softmax(d) o = MatMul(w, vt) t = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape(t, m) }
UnsqueezeExpandReshape (float[1,2,ROWS,64] x) => (y) <int64[1] k = {2}, int64[5] e = {1, 1, 4, 1, 1},
    int64[4] t = {0, 8, -1, 64}>
    { u = Unsqueeze(x, k) v = Expand(u, e) y = Reshape(v, t) }
ForkMovements (float[1,ROWS,64] x) => (y, z) <int64[1] k = {1}>
    { c = Cos(x) y = Unsqueeze(c, k) s = Sin(x) z = Unsqueeze(s, k) }
CastLayerNormalizationCast (float16[ROWS,768] x, float[768] S, float[768] B) => (y)
    { w = Cast <to = 1> (x) t = LayerNormalization(w, S, B) y = Cast <to = 10> (t) }
CastSimplifiedLayerNormalizationCast (float16[ROWS,768] x, float[768] S) => (y)
    { w = Cast <to = 1> (x) t = SimplifiedLayerNormalization <axis = -1, epsilon = 0.00001> (w, S) y = Cast <to = 10> (t) }
LayerNormalization (float[ROWS,768] x) => (y) <float two = {2}, float e = {0.00001}, int64[1] i = {-1}>
    { m = ReduceMean(x, i) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, i) w = Add(v, e) s = Sqrt(w) y = Div(d, s) }
LayerNormalizationBias (float[ROWS,768] x, float[768] S, float[768] B) => (y) { t = LayerNormalization(x, S) y = Add(B, t) }
LayerNormalizationRow (float[1,ROWS,768] x, float[1,ROWS,768] r, float[768] S, float[768] B) => (y)
    { t = Add(x, r) y = LayerNormalization(t, S, B) }
LayerNormalizationScale (float[ROWS,768] x, float[768] S, float[768] F) => (y) { t = LayerNormalization(x, S) y = Mul(F, t) }
SimplifiedLayerNormalization (float[ROWS,768] x) => (y) <float two = {2}, float e = {0.00001}, int64[1] i = {-1}>
    { q = Pow(x, two) m = ReduceMean(q, i) v = Add(m, e) s = Sqrt(v) r = Reciprocal(s) y = Mul(x, r) }
SimplifiedLayerNormalizationMul (float[ROWS,768] x, float[768] S, float[768] F) => (y)
    { t = SimplifiedLayerNormalization <axis = -1> (x, S) y = Mul(F, t) }
SkipLayerNormalization (float[1,ROWS,768] x, float[1,ROWS,768] r, float[768] S, float[768] B) => (y)
    { t = Add(x, r) y = LayerNormalization(t, S, B) }
FusedMatMul (float[1,8,ROWS,64] x, float[1,8,ROWS,64] k) => (y) { t = Transpose <perm = [0, 1, 3, 2]> (k) y = MatMul(x, t) }
FusedMatMulDiv (float[8,ROWS,64] x, float[8,64,ROWS] k) => (y) <float s = {8}> { t = MatMul(x, k) y = Div(t, s) }
FusedMatMulTranspose (float[8,ROWS,64] x, float[8,64,ROWS] k) => (y) { t = MatMul(x, k) y = Transpose <perm = [0, 2, 1]> (t) }
FusedMatMulx2 (float[8,ROWS,64] x, float[8,64,ROWS] k) => (y) <float s = {0.125}> { t = Mul(x, s) y = MatMul(t, k) }
FusedGemm (float[ROWS,768] x, float[768,768] W, float[768] B) => (y) { t = Gemm(x, W, B) y = Relu(t) }
GemmAdd (float[ROWS,768] x, float[768,768] W, float[768] B) => (y) { t = Gemm(x, W) y = Add(B, t) }
GemmBatchNormalization (float[ROWS,768] x, float[768,768] W, float[768] C, float[768] S, float[768] O, float[768] M,
    float[768] V) => (y)
    { t = Gemm(x, W, C) y = BatchNormalization(t, S, O, M, V) }
GemmBiasAdd (float[ROWS,768] x, float[768,768] W, float[768] C, float[768] D) => (y) { t = Gemm(x, W, C) y = Add(t, D) }
GemmMul (float[ROWS,768] x, float[768,768] W, float[768] B) => (y) <float s = {0.5}> { t = Gemm(x, W, B) y = Mul(t, s) }
GemmTranspose (float[ROWS,768] x, float[768,768] W) => (y) { t = Gemm <transB = 1> (x, W) y = Transpose <perm = [1, 0]> (t) }
GemmZeroBias (float[ROWS,768] x, float[768,768] W) => (y) <float c = {0}> { y = Gemm(x, W, c) }
MatMulAdd (float[ROWS,768] x, float[768,768] W, float[768] B) => (y) { t = MatMul(x, W) y = Add(B, t) }
MatMulAddMul (float[1,ROWS,768] x, float[768,768] W, float[768] B, float[768] S) => (y)
    { t = MatMul(x, W) u = Add(t, B) y = Mul(u, S) }
MatMulMul (float[1,ROWS,768] x, float[768,768] W, float[768] B) => (y) <int64[4] s = {0, 0, 12, 64}, float h = {0.125}>
    { t = MatMul(x, W) u = Add(t, B) v = Reshape(u, s) z = Transpose <perm = [0, 1, 3, 2]> (v) y = Mul(z, h) }
MatMulReshapeBatchNormalization (float[1,ROWS,768] x, float[768,768] W, float[768] S, float[768] O, float[768] M, float[768] V)
    => (y)
    { t = MatMul(x, W) f = Flatten <axis = 2> (t) y = BatchNormalization(f, S, O, M, V) }
MulMatMul (float[ROWS,768] x, float[768] S, float[768,768] W) => (y) { t = Mul(x, S) y = MatMul(t, W) }
MulMulMatMul (float[1,8,ROWS,64] x, float[1,8,ROWS,64] k) => (y) <float s = {0.35}>
    { p = Mul(x, s) t = Transpose <perm = [0, 1, 3, 2]> (k) q = Mul(t, s) y = MatMul(p, q) }
ReshapeGemmReshape (float[1,ROWS,768] x, float[768,768] W, float[768] B) => (y) <int64[2] s = {-1, 768},
    int64[3] t = {1, -1, 768}>
    { f = Reshape(x, s) p = Gemm(f, W, B) y = Reshape(p, t) }
TransposeFusedMatMulB (float[1,8,ROWS,64] x, float[1,ROWS,8,64] k) => (y)
    { t = Transpose <perm = [0, 2, 3, 1]> (k) y = MatMul(x, t) }
TransposeGemm (float[ROWS,768] x, float[768,768] w, float[768] B) => (y)
    { t = Transpose <perm = [1, 0]> (w) y = Gemm <transB = 1, alpha = 0.5> (x, t, B) }
TransposeMatMul (float[ROWS,768] x, float[768,768] w) => (y) { t = Transpose <perm = [1, 0]> (w) y = MatMul(x, t) }
DynamicQuantizeMatMul (float[ROWS,768] x, int8[768,768] W, float[768] S, float[768] B) => (y) <int8 z = {0}>
    { i, s, u = DynamicQuantizeLinear(x) y = com.microsoft.MatMulIntegerToFloat(i, W, s, S, u, z, B) }
MatMulIntegerToFloat (float[ROWS,768] x, int8[768,768] W, float[768] S, float[768] B) => (y) <int8 z = {0}>
    { i, s, u = DynamicQuantizeLinear(x) m = MatMulInteger(i, W, u, z) c = Cast <to = 1> (m) p = Mul(s, S) q = Mul(c, p)
    y = Add(q, B) }
QLinear (uint8[ROWS,768] x, int8[768,768] W) => (y) <float s = {0.01}, float t = {0.03}, float r = {0.5}, uint8 u = {128},
    int8 z = {0}>
    { a = DequantizeLinear(x, s, u) b = DequantizeLinear(W, t, z) c = MatMul(a, b) y = QuantizeLinear(c, r, u) }
QLinearElement (uint8[ROWS,3072] x) => (y) <float s = {0.05}, float r = {0.00390625}, uint8 u = {128}>
    { a = DequantizeLinear(x, s, u) c = Sigmoid(a) y = QuantizeLinear(c, r) }
GathersSplit (float[ROWS,2,384] x) => (y, z) <int64 i = {0}, int64 j = {1}, int64[1] k = {1}>
    { p = Gather <axis = 1> (x, i) q = Gather <axis = 1> (x, j) y = Unsqueeze(p, k) z = Unsqueeze(q, k) }
ReshapeSplitSqueeze (float[1,ROWS,384] x) => (y, z) <int64[5] n = {1,ROWS,2,3,64}, int64 i = {0}, int64 j = {1}>
    { r = Reshape(x, n) t = Transpose <perm = [2, 0, 3, 1, 4]> (r) y = Gather(t, i) z = Gather(t, j) }
SlicesConcat (float[ROWS,8,96] x) => (y) <int64[1] o = {0}, int64[1] a = {4}, int64[1] e = {8}, int64[1] k = {1}>
    { p = Slice(x, a, e, k) q = Slice(x, o, a, k) y = Concat <axis = 1> (p, q) }
SlicesUnsqueeze (float[1,ROWS,16,64] x) => (y) <int64[1] o = {0}, int64[1] i = {1}, int64[1] e = {64}, int64[1] k = {3},
    int64[1] l = {2}, int64[1] m = {-1}>
    { p = Slice(x, o, e, k, l) q = Slice(x, i, e, k, l) n = Neg(q) u = Unsqueeze(n, m) v = Unsqueeze(p, m)
    y = Concat <axis = -1> (u, v) }
SlicesSplit (float[ROWS,768] x) => (y, z) <int64[1] o = {0}, int64[1] h = {384}, int64[1] e = {768}, int64[1] k = {1}>
    { y = Slice(x, o, h, k) z = Slice(x, h, e, k) }
"""
_TOKENS_20 = """
HalfFunction (float16[ROWS,768] x) => (y) { a = Add(x, x) b = Softmax(a) c = Gelu(b) y = Mul(c, x) }
BiasGelu (float[ROWS,3072] x, float[3072] B) => (y) { t = Add(x, B) y = Gelu(t) }
Gelu (float[ROWS,3072] x) => (y) <float three = {3}, float c = {0.044715}, float k = {0.7978846}, float one = {1},
    float half = {0.5}>
    { h = Mul(x, half) p = Pow(x, three) q = Mul(p, c) s = Add(x, q) t = Mul(s, k) u = Tanh(t) v = Add(u, one) y = Mul(h, v) }
GeluErf (float[ROWS,3072] x) => (y) <float s = {1.4142135}, float one = {1}, float half = {0.5}>
    { d = Div(x, s) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half) }
"""
_TOKENS_21 = """
Int4Weights (float[ROWS,768] x, float[768,768] W) => (y) { y = MatMul(x, W) }
MatMulNBits (float[ROWS,768] x, int4[768,768] W, float[24,768] S) => (y)
    { d = DequantizeLinear <axis = 0, block_size = 32> (W, S) y = MatMul(x, d) }
"""
_TOKENS_23 = """
Attention (float[1,8,ROWS,64] q, float[1,8,ROWS,64] k, float[1,8,ROWS,64] v) => (y) <float s = {8}>
    { t = Transpose <perm = [0, 1, 3, 2]> (k) a = MatMul(q, t) d = Div(a, s) w = Softmax(d) y = MatMul(w, v) }
AttentionHeads (float[1,ROWS,512] q, float[1,ROWS,512] k, float[1,ROWS,512] v) => (y) <int64[4] h = {0, 0, 8, 64},
    int64[3] m = {0, 0, 512}>
    { qr = Reshape(q, h) kr = Reshape(k, h) vr = Reshape(v, h) qt = Transpose <perm = [0, 2, 1, 3]> (qr)
    kt = Transpose <perm = [0, 2, 1, 3]> (kr) vt = Transpose <perm = [0, 2, 1, 3]> (vr) a = Attention(qt, kt, vt)
    t = Transpose <perm = [0, 2, 1, 3]> (a) y = Reshape(t, m) }
ConcatAttention (float[1,8,1,64] q, float[1,8,1,64] k, float[1,8,1,64] v, float[1,8,ROWS,64] e, float[1,8,ROWS,64] f)
    => (y, i, j)
    { i = Concat <axis = 2> (e, k) j = Concat <axis = 2> (f, v) y = Attention <scale = 0.125> (q, i, j) }
GuardedAttention (float[1,ROWS,512] q, float[1,ROWS,512] k, float[1,ROWS,512] v, float[ROWS,ROWS] M) => (y)
    <int64[4] h = {0, 0, 8, 64}, int64[3] m = {0, 0, 512}, float z = {0}>
    { qr = Reshape(q, h) kr = Reshape(k, h) vr = Reshape(v, h) qt = Transpose <perm = [0, 2, 1, 3]> (qr)
    kt = Transpose <perm = [0, 2, 3, 1]> (kr) vt = Transpose <perm = [0, 2, 1, 3]> (vr) a = MatMul(qt, kt) e = Add(a, M)
    w = Softmax(e) n = IsNaN(w) u = Where(n, z, w) o = MatMul(u, vt) t = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape(t, m) }
MulAttention (float[1,8,ROWS,64] q, float[1,8,ROWS,64] k, float[1,8,ROWS,64] v) => (y) <float s = {0.5}>
    { t = Mul(q, s) y = Attention <scale = 0.25> (t, k, v) }
CastRMSNormalizationCast (float16[ROWS,768] x, float[768] S) => (y)
    { w = Cast <to = 1> (x) t = RMSNormalization(w, S) y = Cast <to = 10> (t) }
RMSNormalization (float[ROWS,768] x) => (y) <float two = {2}, float e = {0.00001}, int64[1] i = {-1}>
    { q = Pow(x, two) m = ReduceMean(q, i) v = Add(m, e) s = Sqrt(v) r = Reciprocal(s) y = Mul(x, r) }
RMSNormalizationMul (float[ROWS,768] x, float[768] S, float[768] F) => (y) { t = RMSNormalization(x, S) y = Mul(F, t) }
SkipSimplifiedLayerNormalization (float[1,ROWS,768] x, float[1,ROWS,768] r, float[768] S) => (y)
    { t = Add(x, r) y = RMSNormalization(t, S) }
GatherAttention (float[1,8,ROWS,64] x, float[1,2,ROWS,64] k, float[1,2,ROWS,64] v) => (y)
    <int64[8] i = {0, 0, 0, 0, 1, 1, 1, 1}>
    { p = Gather <axis = 1> (k, i) w = Gather <axis = 1> (v, i) y = Attention(x, p, w) }
RotaryEmbedding (float[1,8,ROWS,64] x, float[1,ROWS,32] f) => (y) <int64[1] one = {1}, int64[1] o = {0}, int64[1] h = {32},
    int64[1] e = {64}, int64[1] k = {3}>
    { d = Concat <axis = -1> (f, f) c0 = Cos(d) s0 = Sin(d) c = Unsqueeze(c0, one) i = Unsqueeze(s0, one) a = Slice(x, o, h, k)
    r = Slice(x, h, e, k) n = Neg(r) t = Concat <axis = -1> (n, a) p = Mul(x, c) q = Mul(t, i) y = Add(p, q) }
RotaryEmbeddingHeads (float[1,ROWS,512] x, float[1,ROWS,32] c, float[1,ROWS,32] i) => (y) <int64[4] n = {0, 0, 8, 64}>
    { r = Reshape(x, n) t = Transpose <perm = [0, 2, 1, 3]> (r) y = RotaryEmbedding(t, c, i) }
RotaryEmbeddingPart (float[1,8,ROWS,64] x, float[1,ROWS,16] c, float[1,ROWS,16] i) => (y) <int64[2] z = {32, 32}>
    { p, r = Split <axis = 3> (x, z) t = RotaryEmbedding(p, c, i) y = Concat <axis = -1> (t, r) }
"""
_IMAGES_18 = """
SoftmaxReshape (float[ROWS,16,4,400] x) => (y) { y = Softmax <axis = 1> (x) }
ReduceReduce (float[ROWS,64,28,28] x) => (y) <int64[1] i = {3}, int64[1] j = {2}> { t = ReduceMean(x, i) y = ReduceMean(t, j) }
BatchNormalizationConv (float[ROWS,64,28,28] x, float[64] S, float[64] O, float[64] M, float[64] V, float[64,64,3,3] K) => (y)
    { t = BatchNormalization(x, S, O, M, V) y = Conv(t, K) }
ConvWinograd (float[ROWS,256,28,28] x, float[256,256,3,3] K) => (y) { y = Conv <pads = [1, 1, 1, 1]> (x, K) }
ConvWinogradWide (float[ROWS,256,28,28] x, float[256,256,3,3] K) => (y) { y = Conv <pads = [1, 1, 1, 1]> (x, K) }
CubicResize (float[ROWS,64,28,28] x) => (y) <float[4] s = {1, 1, 2, 2}> { y = Resize <mode = "cubic"> (x, , s) }
MaxPoolMaxPool (float[ROWS,64,28,28] x) => (y)
    { a = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (x) b = MaxPool <kernel_shape = [9, 9], pads = [4, 4, 4, 4]> (x)
    c = MaxPool <kernel_shape = [13, 13], pads = [6, 6, 6, 6]> (x) y = Concat <axis = 1> (a, b, c) }
NearestResize (float[ROWS,64,28,28] x) => (y) <float[4] s = {1, 1, 2, 2}> { y = Resize(x, , s) }
ConvAdd (float[ROWS,64,28,28] x, float[64,64,3,3] K, float[64,1,1] C) => (y) { t = Conv(x, K) y = Add(C, t) }
ConvBatchNormalization (float[ROWS,64,28,28] x, float[64] S, float[64] O, float[64] M, float[64] V, float[64,64,3,3] K) => (y)
    { t = Conv(x, K) y = BatchNormalization(t, S, O, M, V) }
ConvBatchNormalizations (float[ROWS,64,28,28] x, float[64] S, float[64] O, float[64] M, float[64] V, float[64] T, float[64] P,
    float[64,64,3,3] K) => (y, z)
    { t = Conv(x, K) y = BatchNormalization(t, S, O, M, V) z = BatchNormalization(t, T, P, M, V) }
ConvMul (float[ROWS,64,28,28] x, float[64,64,3,3] K, float[64,1,1] C) => (y) { t = Conv(x, K) y = Mul(C, t) }
ConvSlice (float[ROWS,256,64] x, float[256,1,4] K) => (y) <int64[1] o = {0}, int64[1] e = {-3}, int64[1] k = {2}>
    { t = Conv <group = 256, pads = [3, 3]> (x, K) y = Slice(t, o, e, k) }
FusedConv (float[ROWS,64,28,28] x, float[64,64,3,3] K, float[64] B) => (y) { t = Conv(x, K, B) y = Relu(t) }
MulAddConv (float[ROWS,64,28,28] x, float[64,64,3,3] K, float[64,1,1] C, float[64,1,1] D) => (y)
    { t = Mul(x, C) u = Add(t, D) y = Conv(u, K) }
PadAveragePool (float[ROWS,64,28,28] x) => (y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}>
    { t = Pad(x, p) y = AveragePool <kernel_shape = [3, 3], strides = [2, 2]> (t) }
PadConv (float[ROWS,64,28,28] x, float[64,64,3,3] K) => (y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}>
    { t = Pad(x, p) y = Conv(t, K) }
PadMaxPool (float[ROWS,64,28,28] x) => (y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}, float z = {-inf}>
    { t = Pad(x, p, z) y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (t) }
DepthToSpace (float[ROWS,256,28,28] x) => (y) <int64[6] s = {-1, 64, 2, 2, 28, 28}, int64[4] t = {-1, 64, 56, 56}>
    { r = Reshape(x, s) p = Transpose <perm = [0, 1, 4, 2, 5, 3]> (r) y = Reshape(p, t) }
SpaceToDepth (float[ROWS,64,56,56] x) => (y) <int64[6] s = {-1, 64, 28, 2, 28, 2}, int64[4] t = {-1, 256, 28, 28}>
    { r = Reshape(x, s) p = Transpose <perm = [0, 3, 5, 1, 2, 4]> (r) y = Reshape(p, t) }
TransposeRegion (float[ROWS,64,28,28] x, float[64] B) => (y)
    { t = Transpose <perm = [0, 2, 3, 1]> (x) a = Add(t, B) r = Relu(a) y = Transpose <perm = [0, 3, 1, 2]> (r) }
TransposeRegionSum (float[ROWS,64,28,28] x) => (y) <int64[2] k = {1, 2}>
    { t = Transpose <perm = [0, 2, 3, 1]> (x) m = ReduceMean(t, k) p = Sub(t, m) y = Transpose <perm = [0, 3, 1, 2]> (p) }
BatchNormalizationAdd (float[ROWS,64,28,28] x, float[64] S, float[64] O, float[64] M, float[64] V, float[64,1,1] C) => (y)
    { t = BatchNormalization(x, S, O, M, V) y = Add(C, t) }
BatchNormalizationMul (float[ROWS,64,28,28] x, float[64] S, float[64] O, float[64] M, float[64] V, float[64,1,1] C) => (y)
    { t = BatchNormalization(x, S, O, M, V) y = Mul(C, t) }
InstanceNormalization (float[ROWS,64,28,28] x, float[64,1,1] S, float[64,1,1] O) => (y) <int64[2] i = {2, 3},
    float e = {0.00001}>
    { m = ReduceMean(x, i) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, i) w = Add(v, e) s = Sqrt(w) t = Div(d, s)
    p = Mul(t, S) y = Add(p, O) }
Int8Layer (float[ROWS,64,28,28] x, float[64,64,3,3] W, float[64,64,3,3] K) => (y) <float l = {0}, float h = {6}>
    { a = Clip(x, l, h) b = Conv <pads = [1, 1, 1, 1]> (a, W) c = Clip(b, l, h) d = Conv <pads = [1, 1, 1, 1]> (c, K)
    y = Clip(d, l, h) }
LRNConv (float[ROWS,64,28,28] x) => (y) { y = LRN <size = 5> (x) }
DequantizeLinearConv (uint8[ROWS,64,28,28] x, int8[64,64,3,3] K, float[64,1,1] V) => (y) <float s = {0.01}, float t = {0.02},
    float r = {0.7}, uint8 u = {128}>
    { a = DequantizeLinear(x, t, u) d = DequantizeLinear(K, s) c = Conv <pads = [1, 1, 1, 1]> (a, d) m = Mul(c, V)
    y = QuantizeLinear(m, r, u) }
SlicesSteps (float[ROWS,56,56,64] x) => (y) <int64[1] o = {0}, int64[1] i = {1}, int64[1] e = {56}, int64[1] k = {1},
    int64[1] l = {2}>
    { f = Slice(x, o, e, k, l) g = Slice(x, i, e, k, l) p = Slice(f, o, e, l, l) q = Slice(g, o, e, l, l)
    r = Slice(f, i, e, l, l) s = Slice(g, i, e, l, l) y = Concat <axis = -1> (p, q, r, s) }
"""
_IMAGES_19 = """
AveragePoolConv (float[ROWS,64,1000] x) => (y) { y = AveragePool <kernel_shape = [3]> (x) }
"""
_SHORT_18 = """
EinsumDense (float[1,ROWS,256] x, float[256,4,64] W) => (y) { y = Einsum <equation = "bsd,dhk->bhsk"> (x, W) }
EinsumMatMul (float[1,4,ROWS,64] q, float[1,4,ROWS,64] k) => (y) { y = Einsum <equation = "bhqd,bhkd->bhqk"> (q, k) }
EinsumMul (float[ROWS,256] x, float[256] z) => (y) { y = Einsum <equation = "ij,j->ij"> (x, z) }
EinsumTranspose (float[ROWS,16,64] x) => (y) { y = Einsum <equation = "bij->bji"> (x) }
UnsqueezeBroadcast (float[768] x, float[ROWS,768] z) => (y) <int64[1] k = {0}> { u = Unsqueeze(x, k) y = Add(u, z) }
"""
_SEVERAL_18 = """
UnsqueezeElementwiseUnsqueeze (bool[ROWS,ROWS] c, bool[2,ROWS] m) => (y) <int64[1] k = {1}>
    { r = Unsqueeze(m, k) a = And(c, r) y = Unsqueeze(a, k) }
PartRegion (float[1,ROWS,256] x, float[256,1024] W) => (y) <int64 i = {-1}>
    { m = MatMul(x, W) r = Relu(m) y = Gather <axis = 1> (r, i) }
"""
_FEW_18 = """
GatherMatMul (float[1,ROWS,768] x, int64[1,ROWS] i, float[16384,768] W, float[768,16384] WT) => (e, y)
    { e = Gather(W, i) y = MatMul(x, WT) }
TransposeMatMulReshape (float[1,ROWS,768] x, int64[1,ROWS] i, float[16384,768] W) => (e, y)
    { e = Gather(W, i) t = Transpose <perm = [1, 0]> (W) y = MatMul(x, t) }
"""
SUBJECTS: dict[str, Subject] = {
    "GathersSteps": Subject(_steps(16), rows=(1, 4, 16)),
    "MatMulConcat": Subject(
        _parts("ROWS,256", "float[256,64] WLANE, float[64] BLANE", "mLANE = MatMul(x, WLANE) pLANE = Add(mLANE, BLANE)")
    ),
    "ConvConcat": Subject(
        _parts(
            "ROWS,64,28,28", "float[32,64,3,3] WLANE, float[32] BLANE", "pLANE = Conv <pads = [1, 1, 1, 1]> (x, WLANE, BLANE)"
        ),
        rows=IMAGES,
    ),
    **_subjects(_TOKENS_13, 13),
    **_subjects(_TOKENS_18),
    **_subjects(_TOKENS_20, 20),
    **_subjects(_TOKENS_21, 21),
    **_subjects(_TOKENS_23, 23),
    **_subjects(_IMAGES_18, 18, IMAGES),
    **_subjects(_IMAGES_19, 19, IMAGES),
    **_subjects(_SHORT_18, 18, SHORT),
    **_subjects(_SEVERAL_18, 18, SEVERAL),
    **_subjects(_FEW_18, 18, FEW),
}
