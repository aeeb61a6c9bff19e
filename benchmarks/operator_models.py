"""For each fusion: models of realistic size on which it applies.

``ROWS`` is the number of rows, tokens or images. Inputs in capital letters are weights: initializers with random values.
"""

from benchmarks.attention_models import ATTENTION
from benchmarks.subject import Subject

IMAGES = (1, 4)
_E = "float e = {0.00001}"
_LAST = "int64[1] i = {-1}"
_BATCH = "float[64] S, float[64] O, float[64] M, float[64] V"
_GELU_TANH = (
    "<float three = {3}, float c = {0.044715}, float k = {0.7978846}, float one = {1}, float half = {0.5}> "
    "{ h = Mul(x, half) p = Pow(x, three) q = Mul(p, c) s = Add(x, q) t = Mul(s, k) u = Tanh(t) v = Add(u, one) y = Mul(h, v) }"
)
_GELU_ERF = (
    "<float s = {1.4142135}, float one = {1}, float half = {0.5}> "
    "{ d = Div(x, s) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half) }"
)
_RMS = "q = Pow(x, two) m = ReduceMean(q, i) v = Add(m, e) s = Sqrt(v) r = Reciprocal(s)"
_HEADS = "float[1,8,ROWS,64] x, float[1,8,ROWS,64] k"


def _steps(steps: int) -> str:
    """A scan along the second axis."""
    places = ", ".join(f"int64 i{step} = {{{step}}}" for step in range(steps))
    parts = " ".join(f"a{t} = Gather <axis = 1> (x, i{t}) b{t} = Gather <axis = 1> (z, i{t})" for t in range(steps))
    body = " ".join(f"m{t} = Mul(a{t}, h{t}) h{t + 1} = Add(m{t}, b{t})" for t in range(steps))
    return (
        f"g (float[ROWS,{steps},8,256] x, float[ROWS,{steps},8,256] z) => (float[ROWS,8,256] h{steps}) "
        f"<float h0 = {{0}}, {places}> {{ {parts} {body} }}"
    )


def _elementwise(width: int, rest: str) -> str:
    return f"g (float[ROWS,{width}] x) => (float[ROWS,{width}] y) {rest}"


def _tokens(more: str, rest: str, out: int = 768) -> str:
    return f"g (float[1,ROWS,768] x{more}) => (float[1,ROWS,{out}] y) {rest}"


def _product(more: str, rest: str, out: int = 768) -> str:
    return f"g (float[ROWS,768] x, {more}) => (float[ROWS,{out}] y) {rest}"


def _image(more: str, rest: str) -> str:
    return f"g (float[ROWS,64,28,28] x, {more}) => (float[n,c,h,w] y) {rest}"


def _wide_image(node: str) -> str:
    return f"g (float[ROWS,256,28,28] x, float[256,256,3,3] K) => (float[ROWS,256,28,28] y) {{ {node} }}"


def _parts(weights: str, layer: str, image: str, axis: int) -> str:
    """Eight layers of one input, joined."""
    lanes = range(8)
    inputs = ", ".join(weights.format(lane=lane) for lane in lanes)
    nodes = " ".join(f"{layer.format(lane=lane)} r{lane} = Relu(p{lane})" for lane in lanes)
    joined = ", ".join(f"r{lane}" for lane in lanes)
    return f"g (float[ROWS,{image}] x, {inputs}) => (y) {{ {nodes} y = Concat <axis = {axis}> ({joined}) }}"


SUBJECTS: dict[str, Subject] = {
    # casts
    "HalfFunction": Subject(
        "g (float16[ROWS,768] x) => (float16[ROWS,768] y) { a = Add(x, x) b = Softmax(a) c = Gelu(b) y = Mul(c, x) }", 20
    ),
    # activations
    "BiasGelu": Subject("g (float[ROWS,3072] x, float[3072] B) => (float[ROWS,3072] y) { t = Add(x, B) y = Gelu(t) }", 20),
    "MatMulConcat": Subject(
        _parts(
            "float[256,64] W{lane}, float[64] B{lane}", "m{lane} = MatMul(x, W{lane}) p{lane} = Add(m{lane}, B{lane})", "256", 1
        )
    ),
    "ConvConcat": Subject(
        _parts(
            "float[32,64,3,3] W{lane}, float[32] B{lane}",
            "p{lane} = Conv <pads = [1, 1, 1, 1]> (x, W{lane}, B{lane})",
            "64,28,28",
            1,
        ),
        rows=IMAGES,
    ),
    "EluMul": Subject(_elementwise(768, "<float k = {0.5}> { t = Elu <alpha = 1.5> (x) y = Mul(t, k) }")),
    "EluExp": Subject(
        _elementwise(768, "<float o = {1}, float z = {0}> { c = Greater(x, z) e = Exp(x) d = Sub(e, o) y = Where(c, x, d) }")
    ),
    "FastGelu": Subject(_elementwise(3072, _GELU_TANH)),
    "Gelu": Subject(_elementwise(3072, _GELU_TANH), 20),
    "GeluErf": Subject(_elementwise(3072, _GELU_ERF), 20),
    "GeluOrt": Subject(_elementwise(3072, _GELU_ERF)),
    "HardSigmoid": Subject(
        _elementwise(768, "<float a = {3}, float z = {0}, float s = {6}> { t = Add(x, a) u = Clip(t, z, s) y = Div(u, s) }")
    ),
    "HardSwish": Subject(
        _elementwise(
            768, "<float a = {3}, float z = {0}, float s = {6}> { t = Add(x, a) u = Clip(t, z, s) v = Mul(x, u) y = Div(v, s) }"
        )
    ),
    "HardSigmoidMul": Subject(_elementwise(768, "{ t = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, t) }")),
    "LeakyRelu": Subject(
        _elementwise(768, "<float z = {0}, float s = {0.25}> { c = Greater(x, z) t = Mul(x, s) y = Where(c, x, t) }")
    ),
    "LogSoftmaxExp": Subject(
        _elementwise(
            768,
            f"<{_LAST}> {{ m = ReduceMax(x, i) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, i) l = Log(s) y = Sub(d, l) }}",
        )
    ),
    "MaxRelu": Subject(_elementwise(768, "<float z = {0}> { y = Max(z, x) }")),
    "QuickGelu": Subject(_elementwise(3072, "<float c = {1.702}> { t = Mul(c, x) s = Sigmoid(t) y = Mul(x, s) }")),
    "SigmoidExp": Subject(_elementwise(768, "<float o = {1}> { n = Neg(x) e = Exp(n) d = Add(e, o) y = Div(o, d) }")),
    "SoftmaxExp": Subject(
        _elementwise(768, f"<{_LAST}> {{ m = ReduceMax(x, i) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, i) y = Div(e, s) }}")
    ),
    "SoftmaxReshape": Subject(
        "g (float[ROWS,16,4,400] x) => (float[ROWS,16,4,400] y) { y = Softmax <axis = 1> (x) }", rows=IMAGES
    ),
    "SoftmaxLog": Subject(_elementwise(768, "{ s = Softmax(x) y = Log(s) }")),
    "SoftplusExp": Subject(
        _elementwise(
            768, "<float o = {1}> { r = Relu(x) a = Abs(x) n = Neg(a) e = Exp(n) s = Add(e, o) l = Log(s) y = Add(r, l) }"
        )
    ),
    "SoftsignAbs": Subject(_elementwise(768, "<float one = {1}> { a = Abs(x) s = Add(one, a) y = Div(x, s) }")),
    "ThresholdedRelu": Subject(_elementwise(768, "<float t = {0.5}, float z = {0}> { c = Greater(x, t) y = Where(c, x, z) }")),
    # arithmetic
    "MulAddMul": Subject(_product("float[768] A, float[768] B, float[768] C", "{ t = Mul(x, A) u = Add(B, t) y = Mul(u, C) }")),
    "ReduceReduce": Subject(
        "g (float[ROWS,64,28,28] x) => (float[ROWS,64,1,1] y) <int64[1] i = {3}, int64[1] j = {2}> "
        "{ t = ReduceMean(x, i) y = ReduceMean(t, j) }",
        rows=IMAGES,
    ),
    "PowHalf": Subject(_elementwise(768, "<float h = {0.5}> { a = Abs(x) y = Pow(a, h) }")),
    "PowTwo": Subject(_elementwise(768, "<float two = {2}> { y = Pow(x, two) }")),
    **ATTENTION,
    # convolutions
    "BatchNormalizationConv": Subject(
        _image(f"{_BATCH}, float[64,64,3,3] K", "{ t = BatchNormalization(x, S, O, M, V) y = Conv(t, K) }"), 18, IMAGES
    ),
    "AveragePoolConv": Subject(
        "g (float[ROWS,64,1000] x) => (float[ROWS,64,998] y) { y = AveragePool <kernel_shape = [3]> (x) }", 19, IMAGES
    ),
    "ConvWinograd": Subject(_wide_image("y = Conv <pads = [1, 1, 1, 1]> (x, K)"), rows=IMAGES),
    "ConvWinogradWide": Subject(_wide_image("y = Conv <pads = [1, 1, 1, 1]> (x, K)"), rows=IMAGES),
    "CubicResize": Subject(
        "g (float[ROWS,64,28,28] x) => (float[ROWS,64,56,56] y) <float[4] s = {1, 1, 2, 2}> "
        '{ y = Resize <mode = "cubic"> (x, , s) }',
        rows=IMAGES,
    ),
    "MaxPoolMaxPool": Subject(
        "g (float[ROWS,64,28,28] x) => (float[ROWS,192,28,28] y) { "
        "a = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (x) "
        "b = MaxPool <kernel_shape = [9, 9], pads = [4, 4, 4, 4]> (x) "
        "c = MaxPool <kernel_shape = [13, 13], pads = [6, 6, 6, 6]> (x) y = Concat <axis = 1> (a, b, c) }",
        rows=IMAGES,
    ),
    "NearestResize": Subject(
        "g (float[ROWS,64,28,28] x) => (float[ROWS,64,56,56] y) <float[4] s = {1, 1, 2, 2}> { y = Resize(x, , s) }",
        rows=IMAGES,
    ),
    "ConvAdd": Subject(_image("float[64,64,3,3] K, float[64,1,1] C", "{ t = Conv(x, K) y = Add(C, t) }"), 18, IMAGES),
    "ConvBatchNormalization": Subject(
        _image(f"{_BATCH}, float[64,64,3,3] K", "{ t = Conv(x, K) y = BatchNormalization(t, S, O, M, V) }"), 18, IMAGES
    ),
    "ConvBatchNormalizations": Subject(
        f"g (float[ROWS,64,28,28] x, {_BATCH}, float[64] T, float[64] P, float[64,64,3,3] K) => (y, z) "
        "{ t = Conv(x, K) y = BatchNormalization(t, S, O, M, V) z = BatchNormalization(t, T, P, M, V) }",
        18,
        IMAGES,
    ),
    "ConvMul": Subject(_image("float[64,64,3,3] K, float[64,1,1] C", "{ t = Conv(x, K) y = Mul(C, t) }"), 18, IMAGES),
    "ConvSlice": Subject(
        "g (float[ROWS,256,64] x, float[256,1,4] K) => (float[ROWS,256,64] y) <int64[1] o = {0}, int64[1] e = {-3}, "
        "int64[1] k = {2}> { t = Conv <group = 256, pads = [3, 3]> (x, K) y = Slice(t, o, e, k) }",
        rows=IMAGES,
    ),
    "FusedConv": Subject(_image("float[64,64,3,3] K, float[64] B", "{ t = Conv(x, K, B) y = Relu(t) }"), 18, IMAGES),
    "MulAddConv": Subject(
        _image("float[64,64,3,3] K, float[64,1,1] C, float[64,1,1] D", "{ t = Mul(x, C) u = Add(t, D) y = Conv(u, K) }"),
        rows=IMAGES,
    ),
    "PadAveragePool": Subject(
        "g (float[ROWS,64,28,28] x) => (float[n,c,h,w] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> "
        "{ t = Pad(x, p) y = AveragePool <kernel_shape = [3, 3], strides = [2, 2]> (t) }",
        rows=IMAGES,
    ),
    "PadConv": Subject(
        _image("float[64,64,3,3] K", "<int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> { t = Pad(x, p) y = Conv(t, K) }"), 18, IMAGES
    ),
    "PadMaxPool": Subject(
        "g (float[ROWS,64,28,28] x) => (float[n,c,h,w] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}, float z = {-inf}> "
        "{ t = Pad(x, p, z) y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (t) }",
        rows=IMAGES,
    ),
    # movement
    "DepthToSpace": Subject(
        "g (float[ROWS,256,28,28] x) => (float[ROWS,64,56,56] y) <int64[6] s = {-1, 64, 2, 2, 28, 28}, "
        "int64[4] t = {-1, 64, 56, 56}> "
        "{ r = Reshape(x, s) p = Transpose <perm = [0, 1, 4, 2, 5, 3]> (r) y = Reshape(p, t) }",
        rows=IMAGES,
    ),
    "UnsqueezeExpandReshape": Subject(
        "g (float[1,2,ROWS,64] x) => (float[1,8,ROWS,64] y) <int64[1] k = {2}, int64[5] e = {1, 1, 4, 1, 1}, "
        "int64[4] t = {0, 8, -1, 64}> { u = Unsqueeze(x, k) v = Expand(u, e) y = Reshape(v, t) }"
    ),
    "ForkMovements": Subject(
        "g (float[1,ROWS,64] x) => (float[1,1,ROWS,64] y, float[1,1,ROWS,64] z) <int64[1] k = {1}> "
        "{ c = Cos(x) y = Unsqueeze(c, k) s = Sin(x) z = Unsqueeze(s, k) }"
    ),
    "UnsqueezeElementwiseUnsqueeze": Subject(
        "g (bool[ROWS,ROWS] c, bool[2,ROWS] m) => (bool[2,1,ROWS,ROWS] y) <int64[1] k = {1}> "
        "{ r = Unsqueeze(m, k) a = And(c, r) y = Unsqueeze(a, k) }",
        rows=(16, 128, 1024),
    ),
    "SpaceToDepth": Subject(
        "g (float[ROWS,64,56,56] x) => (float[ROWS,256,28,28] y) <int64[6] s = {-1, 64, 28, 2, 28, 2}, "
        "int64[4] t = {-1, 256, 28, 28}> "
        "{ r = Reshape(x, s) p = Transpose <perm = [0, 3, 5, 1, 2, 4]> (r) y = Reshape(p, t) }",
        rows=IMAGES,
    ),
    "TransposeRegion": Subject(
        "g (float[ROWS,64,28,28] x, float[64] B) => (float[ROWS,64,28,28] y) { t = Transpose <perm = [0, 2, 3, 1]> (x) "
        "a = Add(t, B) r = Relu(a) y = Transpose <perm = [0, 3, 1, 2]> (r) }",
        rows=IMAGES,
    ),
    "TransposeRegionSum": Subject(
        "g (float[ROWS,64,28,28] x) => (float[ROWS,64,28,28] y) <int64[2] k = {1, 2}> "
        "{ t = Transpose <perm = [0, 2, 3, 1]> (x) m = ReduceMean(t, k) p = Sub(t, m) "
        "y = Transpose <perm = [0, 3, 1, 2]> (p) }",
        rows=IMAGES,
    ),
    "PartRegion": Subject(
        "g (float[1,ROWS,256] x, float[256,1024] W) => (float[1,1024] y) <int64 i = {-1}> "
        "{ m = MatMul(x, W) r = Relu(m) y = Gather <axis = 1> (r, i) }",
        18,
        (16, 128, 1024),
    ),
    # normalizations
    "BatchNormalizationAdd": Subject(
        _image(f"{_BATCH}, float[64,1,1] C", "{ t = BatchNormalization(x, S, O, M, V) y = Add(C, t) }"), 18, IMAGES
    ),
    "BatchNormalizationMul": Subject(
        _image(f"{_BATCH}, float[64,1,1] C", "{ t = BatchNormalization(x, S, O, M, V) y = Mul(C, t) }"), 18, IMAGES
    ),
    "CastLayerNormalizationCast": Subject(
        "g (float16[ROWS,768] x, float[768] S, float[768] B) => (float16[ROWS,768] y) "
        "{ w = Cast <to = 1> (x) t = LayerNormalization(w, S, B) y = Cast <to = 10> (t) }"
    ),
    "CastSimplifiedLayerNormalizationCast": Subject(
        "g (float16[ROWS,768] x, float[768] S) => (float16[ROWS,768] y) { w = Cast <to = 1> (x) "
        "t = SimplifiedLayerNormalization <axis = -1, epsilon = 0.00001> (w, S) y = Cast <to = 10> (t) }"
    ),
    "CastRMSNormalizationCast": Subject(
        "g (float16[ROWS,768] x, float[768] S) => (float16[ROWS,768] y) "
        "{ w = Cast <to = 1> (x) t = RMSNormalization(w, S) y = Cast <to = 10> (t) }",
        23,
    ),
    "InstanceNormalization": Subject(
        _image(
            "float[64,1,1] S, float[64,1,1] O",
            f"<int64[2] i = {{2, 3}}, {_E}> {{ m = ReduceMean(x, i) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, i) "
            "w = Add(v, e) s = Sqrt(w) t = Div(d, s) p = Mul(t, S) y = Add(p, O) }",
        ),
        rows=IMAGES,
    ),
    "LRNConv": Subject("g (float[ROWS,64,28,28] x) => (float[ROWS,64,28,28] y) { y = LRN <size = 5> (x) }", rows=IMAGES),
    "LayerNormalization": Subject(
        _elementwise(
            768,
            f"<float two = {{2}}, {_E}, {_LAST}> {{ m = ReduceMean(x, i) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, i) "
            "w = Add(v, e) s = Sqrt(w) y = Div(d, s) }",
        )
    ),
    "LayerNormalizationBias": Subject(_product("float[768] S, float[768] B", "{ t = LayerNormalization(x, S) y = Add(B, t) }")),
    "LayerNormalizationRow": Subject(
        _tokens(", float[1,ROWS,768] r, float[768] S, float[768] B", "{ t = Add(x, r) y = LayerNormalization(t, S, B) }")
    ),
    "LayerNormalizationOrt": Subject(
        _elementwise(
            768,
            f"<float two = {{2}}, {_E}> {{ m = ReduceMean <axes = [-1]> (x) d = Sub(x, m) q = Pow(d, two) "
            "v = ReduceMean <axes = [-1]> (q) w = Add(v, e) s = Sqrt(w) y = Div(d, s) }",
        ),
        13,
    ),
    "LayerNormalizationScale": Subject(
        _product("float[768] S, float[768] F", "{ t = LayerNormalization(x, S) y = Mul(F, t) }")
    ),
    "RMSNormalization": Subject(_elementwise(768, f"<float two = {{2}}, {_E}, {_LAST}> {{ {_RMS} y = Mul(x, r) }}"), 23),
    "RMSNormalizationMul": Subject(_product("float[768] S, float[768] F", "{ t = RMSNormalization(x, S) y = Mul(F, t) }"), 23),
    "SimplifiedLayerNormalization": Subject(
        _elementwise(768, f"<float two = {{2}}, {_E}, {_LAST}> {{ {_RMS} y = Mul(x, r) }}")
    ),
    "SimplifiedLayerNormalizationMul": Subject(
        _product("float[768] S, float[768] F", "{ t = SimplifiedLayerNormalization <axis = -1> (x, S) y = Mul(F, t) }")
    ),
    "SkipLayerNormalization": Subject(
        _tokens(", float[1,ROWS,768] r, float[768] S, float[768] B", "{ t = Add(x, r) y = LayerNormalization(t, S, B) }")
    ),
    "SkipSimplifiedLayerNormalization": Subject(
        _tokens(", float[1,ROWS,768] r, float[768] S", "{ t = Add(x, r) y = RMSNormalization(t, S) }"), 23
    ),
    # products
    "FusedMatMul": Subject(
        f"g ({_HEADS}) => (float[1,8,ROWS,ROWS] y) {{ t = Transpose <perm = [0, 1, 3, 2]> (k) y = MatMul(x, t) }}"
    ),
    "FusedMatMulDiv": Subject(
        "g (float[8,ROWS,64] x, float[8,64,ROWS] k) => (float[8,ROWS,ROWS] y) <float s = {8}> "
        "{ t = MatMul(x, k) y = Div(t, s) }"
    ),
    "FusedMatMulTranspose": Subject(
        "g (float[8,ROWS,64] x, float[8,64,ROWS] k) => (float[8,ROWS,ROWS] y) "
        "{ t = MatMul(x, k) y = Transpose <perm = [0, 2, 1]> (t) }"
    ),
    "FusedMatMulx2": Subject(
        "g (float[8,ROWS,64] x, float[8,64,ROWS] k) => (float[8,ROWS,ROWS] y) <float s = {0.125}> "
        "{ t = Mul(x, s) y = MatMul(t, k) }"
    ),
    "FusedGemm": Subject(_product("float[768,768] W, float[768] B", "{ t = Gemm(x, W, B) y = Relu(t) }")),
    "GatherAttention": Subject(
        "g (float[1,8,ROWS,64] x, float[1,2,ROWS,64] k, float[1,2,ROWS,64] v) => (float[1,8,ROWS,64] y) "
        "<int64[8] i = {0, 0, 0, 0, 1, 1, 1, 1}> "
        "{ p = Gather <axis = 1> (k, i) w = Gather <axis = 1> (v, i) y = Attention(x, p, w) }",
        23,
    ),
    "GemmAdd": Subject(_product("float[768,768] W, float[768] B", "{ t = Gemm(x, W) y = Add(B, t) }")),
    "GemmBatchNormalization": Subject(
        _product(
            "float[768,768] W, float[768] C, float[768] S, float[768] O, float[768] M, float[768] V",
            "{ t = Gemm(x, W, C) y = BatchNormalization(t, S, O, M, V) }",
        )
    ),
    "GemmBiasAdd": Subject(_product("float[768,768] W, float[768] C, float[768] D", "{ t = Gemm(x, W, C) y = Add(t, D) }")),
    "GemmMul": Subject(_product("float[768,768] W, float[768] B", "<float s = {0.5}> { t = Gemm(x, W, B) y = Mul(t, s) }")),
    "GemmTranspose": Subject(
        "g (float[ROWS,768] x, float[768,768] W) => (float[768,ROWS] y) "
        "{ t = Gemm <transB = 1> (x, W) y = Transpose <perm = [1, 0]> (t) }"
    ),
    "MatMulAdd": Subject(_product("float[768,768] W, float[768] B", "{ t = MatMul(x, W) y = Add(B, t) }")),
    "MatMulAddMul": Subject(
        _tokens(", float[768,768] W, float[768] B, float[768] S", "{ t = MatMul(x, W) u = Add(t, B) y = Mul(u, S) }")
    ),
    "MatMulMul": Subject(
        "g (float[1,ROWS,768] x, float[768,768] W, float[768] B) => (float[1,ROWS,64,12] y) "
        "<int64[4] s = {0, 0, 12, 64}, float h = {0.125}> { t = MatMul(x, W) u = Add(t, B) v = Reshape(u, s) "
        "z = Transpose <perm = [0, 1, 3, 2]> (v) y = Mul(z, h) }"
    ),
    "MatMulReshapeBatchNormalization": Subject(
        "g (float[1,ROWS,768] x, float[768,768] W, float[768] S, float[768] O, float[768] M, float[768] V) => "
        "(float[ROWS,768] y) { t = MatMul(x, W) f = Flatten <axis = 2> (t) y = BatchNormalization(f, S, O, M, V) }"
    ),
    "MulMatMul": Subject(_product("float[768] S, float[768,768] W", "{ t = Mul(x, S) y = MatMul(t, W) }")),
    "MulMulMatMul": Subject(
        f"g ({_HEADS}) => (float[1,8,ROWS,ROWS] y) <float s = {{0.35}}> "
        "{ p = Mul(x, s) t = Transpose <perm = [0, 1, 3, 2]> (k) q = Mul(t, s) y = MatMul(p, q) }"
    ),
    "ReshapeGemmReshape": Subject(
        _tokens(
            ", float[768,768] W, float[768] B",
            "<int64[2] s = {-1, 768}, int64[3] t = {1, -1, 768}> { f = Reshape(x, s) p = Gemm(f, W, B) y = Reshape(p, t) }",
        )
    ),
    "TransposeFusedMatMulB": Subject(
        "g (float[1,8,ROWS,64] x, float[1,ROWS,8,64] k) => (float[1,8,ROWS,ROWS] y) "
        "{ t = Transpose <perm = [0, 2, 3, 1]> (k) y = MatMul(x, t) }"
    ),
    "TransposeGemm": Subject(
        _product(
            "float[768,768] w, float[768] B",
            "{ t = Transpose <perm = [1, 0]> (w) y = Gemm <transB = 1, alpha = 0.5> (x, t, B) }",
        )
    ),
    "GatherMatMul": Subject(
        "g (float[1,ROWS,768] x, int64[1,ROWS] i, float[16384,768] W, float[768,16384] WT) => (float[1,ROWS,768] e, "
        "float[1,ROWS,16384] y) { e = Gather(W, i) y = MatMul(x, WT) }",
        rows=(1, 4, 128),
    ),
    "TransposeMatMulReshape": Subject(
        "g (float[1,ROWS,768] x, int64[1,ROWS] i, float[16384,768] W) => (float[1,ROWS,768] e, float[1,ROWS,16384] y) "
        "{ e = Gather(W, i) t = Transpose <perm = [1, 0]> (W) y = MatMul(x, t) }",
        rows=(1, 4, 128),
    ),
    "TransposeMatMul": Subject(_product("float[768,768] w", "{ t = Transpose <perm = [1, 0]> (w) y = MatMul(x, t) }")),
    # quantization
    "DequantizeLinearConv": Subject(
        "g (uint8[ROWS,64,28,28] x, int8[64,64,3,3] K, float[64,1,1] V) => (uint8[n,c,h,w] y) <float s = {0.01}, "
        "float t = {0.02}, float r = {0.7}, uint8 u = {128}> { a = DequantizeLinear(x, t, u) d = DequantizeLinear(K, s) "
        "c = Conv <pads = [1, 1, 1, 1]> (a, d) m = Mul(c, V) y = QuantizeLinear(m, r, u) }",
        rows=IMAGES,
    ),
    "DynamicQuantizeMatMul": Subject(
        _product(
            "int8[768,768] W, float[768] S, float[768] B",
            "<int8 z = {0}> { i, s, u = DynamicQuantizeLinear(x) y = com.microsoft.MatMulIntegerToFloat(i, W, s, S, u, z, B) }",
        )
    ),
    "MatMulIntegerToFloat": Subject(
        _product(
            "int8[768,768] W, float[768] S, float[768] B",
            "<int8 z = {0}> { i, s, u = DynamicQuantizeLinear(x) m = MatMulInteger(i, W, u, z) c = Cast <to = 1> (m) "
            "p = Mul(s, S) q = Mul(c, p) y = Add(q, B) }",
        )
    ),
    "MatMulNBits": Subject(
        _product(
            "int4[768,768] W, float[24,768] S",
            "{ d = DequantizeLinear <axis = 0, block_size = 32> (W, S) y = MatMul(x, d) }",
        ),
        21,
    ),
    "QLinear": Subject(
        "g (uint8[ROWS,768] x, int8[768,768] W) => (uint8[ROWS,768] y) <float s = {0.01}, float t = {0.03}, float r = {0.5}, "
        "uint8 u = {128}, int8 z = {0}> { a = DequantizeLinear(x, s, u) b = DequantizeLinear(W, t, z) c = MatMul(a, b) "
        "y = QuantizeLinear(c, r, u) }"
    ),
    "QLinearElement": Subject(
        "g (uint8[ROWS,3072] x) => (uint8[ROWS,3072] y) <float s = {0.05}, float r = {0.00390625}, uint8 u = {128}> "
        "{ a = DequantizeLinear(x, s, u) c = Sigmoid(a) y = QuantizeLinear(c, r) }"
    ),
    # rotary
    "RotaryEmbedding": Subject(
        "g (float[1,8,ROWS,64] x, float[1,ROWS,32] f) => (float[1,8,ROWS,64] y) <int64[1] one = {1}, int64[1] o = {0}, "
        "int64[1] h = {32}, int64[1] e = {64}, int64[1] k = {3}> "
        "{ d = Concat <axis = -1> (f, f) c0 = Cos(d) s0 = Sin(d) c = Unsqueeze(c0, one) i = Unsqueeze(s0, one) "
        "a = Slice(x, o, h, k) r = Slice(x, h, e, k) n = Neg(r) t = Concat <axis = -1> (n, a) p = Mul(x, c) q = Mul(t, i) "
        "y = Add(p, q) }",
        23,
    ),
    "RotaryEmbeddingHeads": Subject(
        "g (float[1,ROWS,512] x, float[1,ROWS,32] c, float[1,ROWS,32] i) => (float[1,8,ROWS,64] y) "
        "<int64[4] n = {0, 0, 8, 64}> "
        "{ r = Reshape(x, n) t = Transpose <perm = [0, 2, 1, 3]> (r) y = RotaryEmbedding(t, c, i) }",
        23,
    ),
    "RotaryEmbeddingPart": Subject(
        "g (float[1,8,ROWS,64] x, float[1,ROWS,16] c, float[1,ROWS,16] i) => (float[1,8,ROWS,64] y) <int64[2] z = {32, 32}> "
        "{ p, r = Split <axis = 3> (x, z) t = RotaryEmbedding(p, c, i) y = Concat <axis = -1> (t, r) }",
        23,
    ),
    # gathers, slices and splits
    "GathersSplit": Subject(
        "g (float[ROWS,2,384] x) => (float[ROWS,1,384] y, float[ROWS,1,384] z) "
        "<int64 i = {0}, int64 j = {1}, int64[1] k = {1}> "
        "{ p = Gather <axis = 1> (x, i) q = Gather <axis = 1> (x, j) y = Unsqueeze(p, k) z = Unsqueeze(q, k) }"
    ),
    "GathersSteps": Subject(_steps(16), rows=(1, 4, 16)),
    "ReshapeSplitSqueeze": Subject(
        "g (float[1,ROWS,384] x) => (float[1,3,ROWS,64] y, float[1,3,ROWS,64] z) <int64[5] n = {1,ROWS,2,3,64}, int64 i = {0}, "
        "int64 j = {1}> { r = Reshape(x, n) t = Transpose <perm = [2, 0, 3, 1, 4]> (r) y = Gather(t, i) z = Gather(t, j) }"
    ),
    "SlicesConcat": Subject(
        "g (float[ROWS,8,96] x) => (float[ROWS,8,96] y) <int64[1] o = {0}, int64[1] a = {4}, int64[1] e = {8}, "
        "int64[1] k = {1}> { p = Slice(x, a, e, k) q = Slice(x, o, a, k) y = Concat <axis = 1> (p, q) }"
    ),
    "SlicesSteps": Subject(
        "g (float[ROWS,56,56,64] x) => (float[ROWS,28,28,256] y) <int64[1] o = {0}, int64[1] i = {1}, int64[1] e = {56}, "
        "int64[1] k = {1}, int64[1] l = {2}> { f = Slice(x, o, e, k, l) g = Slice(x, i, e, k, l) p = Slice(f, o, e, l, l) "
        "q = Slice(g, o, e, l, l) r = Slice(f, i, e, l, l) s = Slice(g, i, e, l, l) y = Concat <axis = -1> (p, q, r, s) }",
        rows=IMAGES,
    ),
    "SlicesUnsqueeze": Subject(
        "g (float[1,ROWS,16,64] x) => (float[1,ROWS,16,32,2] y) <int64[1] o = {0}, int64[1] i = {1}, int64[1] e = {64}, "
        "int64[1] k = {3}, int64[1] l = {2}, int64[1] m = {-1}> { p = Slice(x, o, e, k, l) q = Slice(x, i, e, k, l) "
        "n = Neg(q) u = Unsqueeze(n, m) v = Unsqueeze(p, m) y = Concat <axis = -1> (u, v) }"
    ),
    "SlicesSplit": Subject(
        "g (float[ROWS,768] x) => (float[ROWS,384] y, float[ROWS,384] z) <int64[1] o = {0}, int64[1] h = {384}, "
        "int64[1] e = {768}, int64[1] k = {1}> { y = Slice(x, o, h, k) z = Slice(x, h, e, k) }"
    ),
    "EinsumDense": Subject(
        "g (float[1,ROWS,256] x, float[256,4,64] W) => (float[1,4,ROWS,64] y) "
        '{ y = Einsum <equation = "bsd,dhk->bhsk"> (x, W) }',
        rows=(1, 16, 128),
    ),
    "EinsumMatMul": Subject(
        "g (float[1,4,ROWS,64] q, float[1,4,ROWS,64] k) => (float[1,4,ROWS,ROWS] y) "
        '{ y = Einsum <equation = "bhqd,bhkd->bhqk"> (q, k) }',
        rows=(1, 16, 128),
    ),
    "EinsumMul": Subject(
        'g (float[ROWS,256] x, float[256] z) => (float[ROWS,256] y) { y = Einsum <equation = "ij,j->ij"> (x, z) }',
        rows=(1, 16, 128),
    ),
    "EinsumTranspose": Subject(
        'g (float[ROWS,16,64] x) => (float[ROWS,64,16] y) { y = Einsum <equation = "bij->bji"> (x) }', rows=(1, 16, 128)
    ),
    "UnsqueezeBroadcast": Subject(
        "g (float[768] x, float[ROWS,768] z) => (float[ROWS,768] y) <int64[1] k = {0}> { u = Unsqueeze(x, k) y = Add(u, z) }",
        rows=(1, 16, 128),
    ),
}
