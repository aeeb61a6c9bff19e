"""Rewrites that hold, and that a check which is too eager could refuse."""

from tests.verification.wrong.case import right

_PLAIN = "(float[N,4] x) => (float[N,4] y)"
_ROWS = "(float[N,C] x) => (float[N,C] y) <int64[1] last = {-1}>"
_LONG = "(float[N,4096] x) => (float[N,1] y) <int64[1] last = {-1}>"
_WEIGHTS = "float[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8}"
_ATTENTION = "(float[B,S,8] q, float[B,T,8] k, float[B,T,8] v, float[B,T] mask) => (float[B,S,8] y)"
_SCORES = "t = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, t)"
_MASKED = (
    "(float[B,S,4] x, int64[B,S] mask) => (float[B,S,4] y) <float[4,4] w = {0.3, -0.5, 0.7, 0.1, "
    "0.9, 0.2, -0.4, 0.6, -0.8, 0.5, 0.3, 0.2, 0.1, -0.7, 0.4, 0.8}, float low = {-10000}, "
    "float half = {0.5}, float[4] b = {0.3, -0.2, 0.5, 0.7}, float one = {1}, int64[1] i = {1}>"
)
_MASK = (
    "q = MatMul(x, w) f = Cast <to = 1> (mask) n = Sub(one, f) l = Mul(n, low) u = Unsqueeze(l, i)"
)
_IMAGE = "(float[N,1,8,8] x) => (float[N,2,8,8] y)"
_KERNEL = "float[2,1,1,1] w = {2, 3}"

CASES = [
    right(
        "sum_reassociated",
        "(a + b) + c -> a + (b + c) rounds",
        "(float[N,4] a, float[N,4] b, float[N,4] c) => (float[N,4] y)",
        "d = Add(a, b) y = Add(d, c)",
        "d = Add(b, c) y = Add(a, d)",
    ),
    right(
        "sum_of_four",
        "Three Add -> Sum rounds",
        "(float[N,4] a, float[N,4] b, float[N,4] c, float[N,4] d) => (float[N,4] y)",
        "e = Add(a, b) f = Add(c, d) y = Add(e, f)",
        "y = Sum(d, c, b, a)",
    ),
    right(
        "factors_merged",
        "x * 0.1 * 30 -> x * 3 rounds",
        _PLAIN,
        "<float a = {0.1}, float b = {30}> m = Mul(x, a) y = Mul(m, b)",
        "<float a = {3}> y = Mul(x, a)",
    ),
    right(
        "division_as_factor",
        "x / 7 -> x * (1 / 7) rounds",
        _PLAIN,
        "<float a = {7}> y = Div(x, a)",
        "<float a = {0.14285715}> y = Mul(x, a)",
    ),
    right(
        "factor_distributed",
        "(a + b) * 3 -> a * 3 + b * 3 cancels for opposite numbers",
        "(float[N,4] a, float[N,4] b) => (float[N,4] y) <float c = {3}>",
        "s = Add(a, b) y = Mul(s, c)",
        "d = Mul(a, c) e = Mul(b, c) y = Add(d, e)",
    ),
    right(
        "weights_scaled",
        "MatMul(x, w) * 0.5 -> MatMul(x, w * 0.5)",
        _PLAIN,
        f"<{_WEIGHTS}, float half = {{0.5}}> m = MatMul(x, w) y = Mul(m, half)",
        """<float[4,4] w = {0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, -0.5, -1, -1.5, -2, -2.5, -3, -3.5, -4}>
        y = MatMul(x, w)""",
    ),
    right(
        "matmuls_reassociated",
        "(x * w) * w -> x * (w * w)",
        "(float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}>",
        "m = MatMul(x, w) y = MatMul(m, w)",
        "m = MatMul(w, w) y = MatMul(x, m)",
    ),
    right(
        "gemm_of_parts",
        "MatMul and Add -> Gemm",
        f"(float[N,4] x) => (float[N,4] y) <{_WEIGHTS}, float[4] b = {{1, 2, 3, 4}}>",
        "m = MatMul(x, w) y = Add(m, b)",
        "y = Gemm(x, w, b)",
    ),
    right(
        "gemm_alpha_folded",
        "alpha of a Gemm is folded into its weights",
        "(float[N,2] x) => (float[N,2] y) <float[2] b = {1, 2}>",
        "<float[2,2] w = {1, 2, 3, 4}> y = Gemm <alpha = 0.3> (x, w, b)",
        "<float[2,2] w = {0.3, 0.6, 0.9, 1.2}> y = Gemm(x, w, b)",
    ),
    right(
        "normalization_fused",
        "The parts of a LayerNormalization are merged",
        """(float[N,8] x) => (float[N,8] y) <float[8] w = {1, 2, 1, 2, 1, 2, 1, 2}, float[8] b = {0,
        1, 0, 1, 0, 1, 0, 1}>""",
        """<int64[1] last = {-1}, float two = {2}, float e = {1e-5}> m = ReduceMean(x, last)
        d = Sub(x, m)
        p = Pow(d, two) v = ReduceMean(p, last) a = Add(v, e) r = Sqrt(a) q = Div(d, r)
        s = Mul(q, w)
        y = Add(s, b)""",
        "y = LayerNormalization <epsilon = 1e-5> (x, w, b)",
    ),
    right(
        "root_mean_square_by_reciprocal",
        "x / Sqrt(m) -> x * Reciprocal(Sqrt(m))",
        "(float[N,C] x) => (float[N,C] y) <int64[1] last = {-1}, float e = {1e-6}>",
        "s = Mul(x, x) m = ReduceMean(s, last) a = Add(m, e) r = Sqrt(a) y = Div(x, r)",
        """s = Mul(x, x) m = ReduceMean(s, last) a = Add(m, e) r = Sqrt(a) q = Reciprocal(r)
        y = Mul(x, q)""",
    ),
    right(
        "batch_normalization_as_affine",
        "BatchNormalization becomes a factor and a term",
        "(float[N,2,L] x) => (float[N,2,L] y)",
        """<float[2] s = {2, 3}, float[2] b = {1, -1}, float[2] m = {0.5, 1}, float[2] v = {4, 9}>
        y = BatchNormalization <epsilon = 0.0> (x, s, b, m, v)""",
        "<float[2,1] s = {1, 1}, float[2,1] b = {0.5, -2}> p = Mul(x, s) y = Add(p, b)",
    ),
    right(
        "softmax_of_parts",
        "The stable form of a Softmax in parts becomes Softmax",
        _ROWS,
        "m = ReduceMax(x, last) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, last) y = Div(e, s)",
        "y = Softmax(x)",
    ),
    right(
        "softmax_shifted",
        "Softmax(x + c) -> Softmax(x)",
        _PLAIN,
        "<float c = {3}> a = Add(x, c) y = Softmax(a)",
        "y = Softmax(x)",
    ),
    right(
        "log_softmax_of_parts",
        "x - ReduceLogSumExp(x) -> LogSoftmax(x)",
        _ROWS,
        "m = ReduceLogSumExp(x, last) y = Sub(x, m)",
        "y = LogSoftmax(x)",
    ),
    right(
        "sigmoid_of_parts",
        "1 / (1 + Exp(-x)) -> Sigmoid(x) saturates on both sides",
        f"{_PLAIN} <float one = {{1}}>",
        "n = Neg(x) e = Exp(n) a = Add(e, one) y = Div(one, a)",
        "y = Sigmoid(x)",
    ),
    right(
        "sigmoid_by_tanh",
        "Sigmoid(x) -> Tanh(x / 2) / 2 + 1 / 2 for moderate x",
        f"{_PLAIN} <float half = {{0.5}}, float low = {{-5}}, float high = {{5}}>",
        "c = Clip(x, low, high) y = Sigmoid(c)",
        "c = Clip(x, low, high) h = Mul(c, half) t = Tanh(h) m = Mul(t, half) y = Add(m, half)",
    ),
    right(
        "swish_fused",
        "x * Sigmoid(x) -> QuickGelu with an alpha of 1",
        _PLAIN,
        "s = Sigmoid(x) y = Mul(x, s)",
        "y = com.microsoft.QuickGelu <alpha = 1.0> (x)",
    ),
    right(
        "gelu_fused",
        "Gelu by Erf in parts becomes Gelu",
        f"{_PLAIN} <float half = {{0.5}}, float one = {{1}}, float root = {{1.41421356}}>",
        "d = Div(x, root) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
        "y = Gelu(x)",
    ),
    right(
        "gelu_by_tanh_fused",
        "Gelu by Tanh in parts becomes Gelu by Tanh",
        f"""{_PLAIN} <float half = {{0.5}}, float one = {{1}}, float three = {{3}},
        float c = {{0.044715}}, float r = {{0.7978845608}}>""",
        """p = Pow(x, three) q = Mul(p, c) s = Add(x, q) t = Mul(s, r) h = Tanh(t) a = Add(h, one)
        m = Mul(x, a) y = Mul(m, half)""",
        """y = Gelu <approximate = "tanh"> (x)""",
    ),
    right(
        "sum_of_4096",
        "A sum of 4,096 elements becomes one of 64 sums",
        _LONG,
        "y = ReduceSum(x, last)",
        """<int64[3] t = {0, 64, 64}, int64[1] one = {1}> r = Reshape(x, t) a = ReduceSum(r, last)
        y = ReduceSum <keepdims = 0> (a, one)""",
    ),
    right(
        "sum_of_4096_as_matmul",
        "A sum of 4,096 elements becomes a MatMul with ones",
        _LONG,
        "y = ReduceSum(x, last)",
        """<float one = {1}, int64[2] s = {4096, 1}> o = Expand(one, s) y = MatMul(x, o)""",
    ),
    right(
        "mean_of_4096",
        "A mean of 4,096 elements becomes a sum with a factor",
        _LONG,
        "y = ReduceMean(x, last)",
        "<float c = {0.000244140625}> s = ReduceSum(x, last) y = Mul(s, c)",
    ),
    right(
        "mask_of_infinity",
        "Where(mask, s, -inf) -> s + Where(mask, 0, -inf) within an attention",
        f"{_ATTENTION} <int64[1] one = {{1}}, float low = {{-inf}}, float zero = {{0}}>",
        f"""{_SCORES} b = Cast <to = 9> (mask) u = Unsqueeze(b, one) m = Where(u, s, low)
        p = Softmax(m)
        y = MatMul(p, v)""",
        f"""{_SCORES} b = Cast <to = 9> (mask) u = Unsqueeze(b, one) a = Where(u, zero, low)
        m = Add(s, a)
        p = Softmax(m) y = MatMul(p, v)""",
    ),
    right(
        "mask_of_large_number",
        "s + Where(mask, 0, -1e9) with the scale of the scores moved to the queries",
        f"""{_ATTENTION} <int64[1] one = {{1}}, float low = {{-1e9}}, float zero = {{0}},
        float c = {{0.35355339}}>""",
        f"""{_SCORES} r = Mul(s, c) b = Cast <to = 9> (mask) u = Unsqueeze(b, one)
        a = Where(u, zero, low)
        m = Add(r, a) p = Softmax(m) y = MatMul(p, v)""",
        """d = Mul(q, c) t = Transpose <perm = [0, 2, 1]> (k) s = MatMul(d, t)
        b = Cast <to = 9> (mask)
        u = Unsqueeze(b, one) a = Where(u, zero, low) m = Add(s, a) p = Softmax(m)
        y = MatMul(p, v)""",
    ),
    right(
        "conv_with_batch_normalization",
        "BatchNormalization is folded into the weights of a Conv",
        _IMAGE,
        f"""<{_KERNEL}, float[2] b = {{1, 2}}, float[2] s = {{2, 3}}, float[2] c = {{1, -1}},
        float[2] m = {{0.5, 1}}, float[2] v = {{4, 9}}> q = Conv(x, w, b)
        y = BatchNormalization <epsilon = 0.0> (q, s, c, m, v)""",
        "<float[2,1,1,1] w = {2, 3}, float[2] b = {1.5, 0}> y = Conv(x, w, b)",
    ),
    right(
        "conv_with_bias",
        "An Add after a Conv becomes its bias",
        _IMAGE,
        f"<{_KERNEL}, float[2,1,1] b = {{1, 2}}> q = Conv(x, w) y = Add(q, b)",
        f"<{_KERNEL}, float[2] b = {{1, 2}}> y = Conv(x, w, b)",
    ),
    right(
        "relu_with_sqrt",
        "Relu(Sqrt(x)) -> Sqrt(x): a root is negative for no number",
        _PLAIN,
        "s = Sqrt(x) y = Relu(s)",
        "y = Sqrt(x)",
    ),
    right(
        "square_as_pow",
        "Pow(x, 2) -> x * x",
        f"{_PLAIN} <float two = {{2}}>",
        "y = Pow(x, two)",
        "y = Mul(x, x)",
    ),
    right(
        "norm_by_reduce",
        "Sqrt(ReduceSum(x * x)) -> ReduceL2(x)",
        "(float[N,C] x) => (float[N,1] y) <int64[1] last = {-1}>",
        "m = Mul(x, x) s = ReduceSum(m, last) y = Sqrt(s)",
        "y = ReduceL2(x, last)",
    ),
    right(
        "exp_of_difference",
        "Exp(a) / Exp(b) -> Exp(a - b) within the bounds of a Clip",
        "(float[N,4] x, float[N,4] z) => (float[N,4] y) <float low = {-9}, float high = {9}>",
        "a = Clip(x, low, high) b = Clip(z, low, high) e = Exp(a) f = Exp(b) y = Div(e, f)",
        "a = Clip(x, low, high) b = Clip(z, low, high) d = Sub(a, b) y = Exp(d)",
    ),
    right(
        "output_of_1e_20",
        "Small results of a MatMul whose factor of 1e-20 is moved",
        f"{_PLAIN} <{_WEIGHTS}, float c = {{1e-20}}>",
        "m = MatMul(x, w) y = Mul(m, c)",
        "m = Mul(x, c) y = MatMul(m, w)",
    ),
    right(
        "integer_quotients",
        "x / 4 / 3 -> x / 12 holds for truncated quotients of both signs",
        "(int64[N] x) => (int64[N] y)",
        "<int64 a = {4}, int64 b = {3}> d = Div(x, a) y = Div(d, b)",
        "<int64 a = {12}> y = Div(x, a)",
    ),
    right(
        "wrapping_sum",
        "(x + c) - c -> x holds in int32, which wraps around",
        "(int32[N] x) => (int32[N] y) <int32 c = {2147483647}>",
        "a = Add(x, c) y = Sub(a, c)",
        "y = Identity(x)",
    ),
    right(
        "slice_with_negative_start",
        "x[start:] -> Gather(x, Range(start, n)) with a negative start made positive",
        "(float[N,8] x) => (float[N,3] y)",
        "<int64[1] a = {-3}, int64[1] b = {9999}, int64[1] one = {1}> y = Slice(x, a, b, one)",
        "<int64[3] i = {5, 6, 7}> y = Gather <axis = 1> (x, i)",
    ),
    right(
        "float16_relu_and_scale",
        "In float16, Relu(x * 2) -> Relu(x) * 2",
        "(float16[N,4] x) => (float16[N,4] y) <float two = {2}>",
        "h = Cast <to = 10> (two) m = Mul(x, h) y = Relu(m)",
        "h = Cast <to = 10> (two) m = Relu(x) y = Mul(m, h)",
    ),
    right(
        "quantized_relu",
        "Relu before a QuantizeLinear with a zero point of 0 in uint8 saturates alike",
        "(float[N,4] x) => (uint8[N,4] y) <float s = {0.1}, uint8 z = {0}>",
        "r = Relu(x) y = QuantizeLinear(r, s, z)",
        "y = QuantizeLinear(x, s, z)",
    ),
    right(
        "bound_of_sigmoid",
        "Clip(Sigmoid(x), 0, 1) -> Sigmoid(x)",
        f"{_PLAIN} <float zero = {{0}}, float one = {{1}}>",
        "s = Sigmoid(x) y = Clip(s, zero, one)",
        "y = Sigmoid(x)",
    ),
    right(
        "absolute_square",
        "Abs(x * x) -> x * x",
        _PLAIN,
        "s = Mul(x, x) y = Abs(s)",
        "y = Mul(x, x)",
    ),
    right(
        "branch_that_is_dead",
        "The branch for a negative sum of absolute values is dropped",
        f"{_PLAIN} <float zero = {{0}}>",
        """a = Abs(x) t = ReduceSum <keepdims = 0> (a) c = Less(t, zero)
        y = If (c) <then_branch = e () => (float[N,4] p) { p = Neg(x) },
        else_branch = f () => (float[N,4] q) { q = Relu(x) }>""",
        "y = Relu(x)",
    ),
    right(
        "loop_as_a_factor",
        "A Loop that adds x becomes x * count, for counts of at least 0 and at most 4",
        "(int64 count, float[2] x) => (float[2] y) <int64 five = {5}, float[2] none = {0, 0}>",
        """n = Mod(count, five) y = Loop(n, , none) <body = b (int64 i, bool c, float[2] a)
        => (bool d, float[2] r) { d = Identity(c) r = Add(a, x) }>""",
        "n = Mod(count, five) f = Cast <to = 1> (n) y = Mul(x, f)",
    ),
    right(
        "tanh_by_exp",
        "Tanh -> 1 - 2 / (Exp(2 * x) + 1) saturates on both sides; near 0 it cancels",
        f"{_PLAIN} <float one = {{1}}, float two = {{2}}, float low = {{1}}, float high = {{9}}>",
        "c = Clip(x, low, high) y = Tanh(c)",
        """c = Clip(x, low, high) m = Mul(c, two) e = Exp(m) a = Add(e, one) d = Div(two, a)
        y = Sub(one, d)""",
    ),
    right(
        "not_of_comparison",
        "Not(a < b) -> a >= b holds for integers",
        "(int64[N] a, int64[N] b) => (bool[N] y)",
        "c = Less(a, b) y = Not(c)",
        "y = GreaterOrEqual(a, b)",
    ),
    right(
        "index_made_positive",
        "Gather counts negative indices from the end, as the Where does",
        """(int64[N] ids) => (float[N] y) <float[4] t = {1, 2, 3, 4}, int64 zero = {0},
        int64 rows = {4}>""",
        "c = Less(ids, zero) u = Add(ids, rows) i = Where(c, u, ids) y = Gather(t, i)",
        "y = Gather(t, ids)",
    ),
    right(
        "mask_compared",
        "Cast(mask, bool) -> Not(mask == 0)",
        """(float[N,4] x, int64[N,4] attention_mask) => (float[N,4] y) <float none = {0},
        int64 zero = {0}>""",
        "c = Cast <to = 9> (attention_mask) y = Where(c, x, none)",
        "e = Equal(attention_mask, zero) y = Where(e, none, x)",
    ),
    right(
        "bias_of_keys",
        "A bias of the keys changes no probability; a row without a key loses three digits",
        _MASKED,
        f"""{_MASK} k = Add(q, b)
        t = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, t) a = Add(s, u)
        p = Softmax(a) y = MatMul(p, x)""",
        f"""{_MASK}
        t = Transpose <perm = [0, 2, 1]> (q) s = MatMul(q, t) a = Add(s, u) p = Softmax(a)
        y = MatMul(p, x)""",
    ),
    right(
        "mask_added_first",
        "(s + s / 2) + mask -> s + (s / 2 + mask); a row without a key loses three digits",
        _MASKED,
        f"""{_MASK}
        t = Transpose <perm = [0, 2, 1]> (q) s = MatMul(q, t) h = Mul(s, half) d = Add(s, h)
        a = Add(d, u) p = Softmax(a) y = MatMul(p, x)""",
        f"""{_MASK}
        t = Transpose <perm = [0, 2, 1]> (q) s = MatMul(q, t) h = Mul(s, half) d = Add(h, u)
        a = Add(s, d) p = Softmax(a) y = MatMul(p, x)""",
    ),
]
