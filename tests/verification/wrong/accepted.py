"""Rewrites that hold, of operators in newer sets, of 16 bits, quantized, and within branches and
loops.
"""

from functools import partial

import numpy as np

from tests.verification.wrong.case import right

_newest = partial(right, opset=23)
_ROW = "(float[N,4] x) => (float[N,4] y)"
_HALF = "(float16[N,8] x) => (float16[N,8] y)"
_Y = ") => (float[B,2,5,8] y)"
_QKV = "(float[B,2,5,8] q, float[B,2,7,8] k, float[B,2,7,8] v) => (float[B,2,5,8] y)"
_MASKED = f"{_QKV[: -len(_Y)]}, bool[B,1,5,7] mask{_Y}"
_SCALE = "float c = {0.35355339}"
_SCORES = "t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, t) d = Mul(s, c)"
_ONES = "float[8] w = {1, 2, 1, 2, 1, 2, 1, 2}"
_LAST = "int64[1] last = {-1}"
_TOKENS = "(float[N,seq,8] x) => (float[N,seq,8] y)"


def _drawn(name: str, seed: int, *shape: int, factor: float = 1.0) -> str:
    """A weight of random numbers, multiplied in 32 bits, as text."""
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * np.float32(
        factor
    )
    listed = ", ".join(f"{number:.9g}" for number in numbers.reshape(-1))
    return f"float[{','.join(map(str, shape))}] {name} = {{{listed}}}"


def _joined(first: int, second: int) -> str:
    """The MatMul of two random weights, computed in 32 bits, as text."""
    a, b = (
        np.random.default_rng(seed).standard_normal((8, 8)).astype(np.float32)
        for seed in (first, second)
    )
    listed = ", ".join(f"{number:.9g}" for number in (a @ b).reshape(-1))
    return f"float[8,8] w = {{{listed}}}"


CASES = [
    _newest(
        "attention_of_parts",
        "MatMul, scale, Softmax, MatMul -> Attention",
        _QKV,
        f"<{_SCALE}> {_SCORES} p = Softmax(d) y = MatMul(p, v)",
        "y = Attention(q, k, v)",
    ),
    _newest(
        "attention_with_mask",
        "The same with a Boolean mask as -inf; the first key is visible",
        f"{_MASKED} <{_SCALE}, float zero = {{0}}, float low = {{-inf}}, bool[7] first = {{1, 0, "
        "0, 0, 0, 0, 0}>",
        f"{_SCORES} o = Or(mask, first) a = Where(o, zero, low) m = Add(d, a) p = Softmax(m) "
        "y = MatMul(p, v)",
        "o = Or(mask, first) a = Where(o, zero, low) y = Attention(q, k, v, a)",
    ),
    _newest(
        "attention_with_large_mask",
        "The same with -1e9, which leaves rows that are masked whole uniform",
        f"{_MASKED} <{_SCALE}, float zero = {{0}}, float low = {{-1e9}}>",
        f"{_SCORES} a = Where(mask, zero, low) m = Add(d, a) p = Softmax(m) y = MatMul(p, v)",
        "a = Where(mask, zero, low) y = Attention(q, k, v, a)",
    ),
    _newest(
        "attention_scaled_before",
        "The scale of scores is moved to both operands",
        f"{_QKV} <float r = {{0.59460355}}>",
        f"<{_SCALE}> {_SCORES} p = Softmax(d) y = MatMul(p, v)",
        """e = Mul(q, r) f = Mul(k, r) t = Transpose <perm = [0, 1, 3, 2]> (f) s = MatMul(e, t)
        p = Softmax(s) y = MatMul(p, v)""",
    ),
    _newest(
        "rms_normalization_of_parts",
        "Parts of an RMSNormalization are merged",
        f"{_TOKENS} <{_ONES}>",
        f"""<{_LAST}, float two = {{2}}, float e = {{1e-6}}> p = Pow(x, two) m = ReduceMean(p, last)
        a = Add(m, e) r = Sqrt(a) i = Reciprocal(r) n = Mul(x, i) y = Mul(n, w)""",
        "y = RMSNormalization <epsilon = 1e-6> (x, w)",
    ),
    right(
        "simplified_normalization",
        "The same as SimplifiedLayerNormalization",
        f"{_TOKENS} <{_ONES}>",
        f"""<{_LAST}, float two = {{2}}, float e = {{1e-6}}> p = Pow(x, two) m = ReduceMean(p, last)
        a = Add(m, e) r = Sqrt(a) i = Div(x, r) y = Mul(w, i)""",
        "y = SimplifiedLayerNormalization <axis = -1, epsilon = 1e-6, stash_type = 1> (x, w)",
    ),
    _newest(
        "rotary_of_parts",
        "x * cos + rotated x * sin -> RotaryEmbedding",
        """(float[N,2,seq,4] x) => (float[N,2,seq,4] y) <int64 zero = {0}, int64 one = {1},
        float[2] f = {1, 0.01}>""",
        """<int64[1] a = {0}, int64[1] b = {2}, int64[1] e = {9}, int64[1] axis = {3},
          int64[1] last = {1}>
        t = Shape <start = 2, end = 3> (x) n = Squeeze(t) r = Range(zero, n, one)
          g = Cast <to = 1> (r)
        u = Unsqueeze(g, last) h = Mul(u, f) i = Concat <axis = 1> (h, h) c = Cos(i) s = Sin(i)
        p = Slice(x, a, b, axis) q = Slice(x, b, e, axis) m = Neg(q) o = Concat <axis = 3> (m, p)
        j = Mul(x, c) k = Mul(o, s) y = Add(j, k)""",
        """<int64[1] last = {1}, int64[1] first = {0}, int64 axis = {0}>
          t = Shape <start = 2, end = 3> (x)
        l = Shape <start = 0, end = 1> (x) n = Squeeze(t) r = Range(zero, n, one)
          g = Cast <to = 1> (r)
        u = Unsqueeze(g, last) h = Mul(u, f) c = Cos(h) s = Sin(h) z = Concat <axis = 0> (l, t)
        v = Expand(r, z) y = RotaryEmbedding(x, c, s, v)""",
    ),
    right(
        "skip_normalization",
        "An Add and a LayerNormalization -> SkipLayerNormalization",
        f"(float[N,seq,8] x, float[N,seq,8] z) => (float[N,seq,8] y) <{_ONES}>",
        "a = Add(x, z) y = LayerNormalization <epsilon = 1e-5> (a, w, w)",
        "y = com.microsoft.SkipLayerNormalization <epsilon = 1e-5> (x, z, w, w)",
    ),
    right(
        "bias_gelu",
        "An Add and a Gelu -> BiasGelu",
        f"{_TOKENS} <{_ONES}>",
        "a = Add(x, w) y = Gelu(a)",
        "y = com.microsoft.BiasGelu(x, w)",
    ),
    right(
        "fast_gelu",
        "An Add and a Gelu by Tanh -> FastGelu",
        f"{_TOKENS} <{_ONES}>",
        """a = Add(x, w) y = Gelu <approximate = "tanh"> (a)""",
        "y = com.microsoft.FastGelu(x, w)",
    ),
    right(
        "fused_matmul",
        "A Transpose, a MatMul and a factor -> FusedMatMul",
        "(float[N,4,8] x, float[N,4,8] z) => (float[N,4,4] y) <float c = {0.3}>",
        "t = Transpose <perm = [0, 2, 1]> (z) m = MatMul(x, t) y = Mul(m, c)",
        "y = com.microsoft.FusedMatMul <transB = 1, alpha = 0.3> (x, z)",
    ),
    right(
        "folded_in_32_bits",
        "x * a * b -> x * (a * b) for random matrices, and numbers within bounds",
        f"{_TOKENS} <float low = {{-9}}, float high = {{9}}>",
        f"<{_drawn('a', 1, 8, 8)}, {_drawn('b', 2, 8, 8)}> c = Clip(x, low, high) "
        "m = MatMul(c, a) y = MatMul(m, b)",
        f"<{_joined(1, 2)}> c = Clip(x, low, high) y = MatMul(c, w)",
    ),
    right(
        "factor_folded",
        "A factor of 0.7 is folded into random weights in 32 bits",
        _TOKENS,
        f"<{_drawn('a', 1, 8, 8)}, float c = {{0.7}}> m = MatMul(x, a) y = Mul(m, c)",
        f"<{_drawn('a', 1, 8, 8, factor=0.7)}> y = MatMul(x, a)",
    ),
    right(
        "factor_folded_with_steps",
        "The same before a Round and a comparison, which step",
        "(float[N,8] x) => (float[N,8] y, bool[N,8] z) <float t = {0.3}>",
        f"<{_drawn('a', 1, 8, 8)}, float c = {{0.7}}> m = MatMul(x, a) n = Mul(m, c) y = Relu(n) "
        "z = Greater(m, t)",
        f"""<{_drawn("a", 1, 8, 8, factor=0.7)}, {_drawn("b", 1, 8, 8)}> n = MatMul(x, a)
          y = Relu(n)
        m = MatMul(x, b) z = Less(t, m)""",
    ),
    right(
        "half_factor",
        "In float16, x * 3 + x -> x * 4 rounds once",
        f"{_HALF} <float16 c = {{16896}}, float16 d = {{17408}}>",
        "m = Mul(x, c) y = Add(m, x)",
        "y = Mul(x, d)",
    ),
    right(
        "half_softmax_in_float",
        "The float16 Softmax as Softmax in float32",
        _HALF,
        "y = Softmax(x)",
        "f = Cast <to = 1> (x) s = Softmax(f) y = Cast <to = 10> (s)",
    ),
    right(
        "half_normalization",
        "In float16, the parts of a LayerNormalization in float32 are merged",
        f"{_HALF} <{_LAST}, float two = {{2}}, float e = {{1e-5}}, {_ONES}>",
        """f = Cast <to = 1> (x) m = ReduceMean(f, last) d = Sub(f, m) p = Pow(d, two)
        v = ReduceMean(p, last) a = Add(v, e) r = Sqrt(a) q = Div(d, r) h = Mul(q, w)
          y = Cast <to = 10> (h)""",
        "f = Cast <to = 1> (x) h = LayerNormalization(f, w) y = Cast <to = 10> (h)",
    ),
    right(
        "half_transposed_matmul",
        "In float16, a Transpose in front of a MatMul is moved behind it",
        """(float16[t,b,2] x) => (float16[b,t,2] y) <float16[2,2]
          w = {15360, 14336, 49152, 16896}>""",
        "z = Transpose <perm = [1, 0, 2]> (x) y = MatMul(z, w)",
        "z = MatMul(x, w) y = Transpose <perm = [1, 0, 2]> (z)",
    ),
    right(
        "quantized_weights_transposed",
        "Quantized weights are transposed when they are stored",
        "(float[N,2] x) => (float[N,2] y) <float[2] s = {0.1, 0.3}>",
        """<int8[2,2] w = {1, 2, 3, 4}> d = DequantizeLinear <axis = 0> (w, s)
        t = Transpose <perm = [1, 0]> (d) y = MatMul(x, t)""",
        "<int8[2,2] w = {1, 3, 2, 4}> d = DequantizeLinear <axis = 1> (w, s) y = MatMul(x, d)",
    ),
    right(
        "quantized_reshape",
        "A Reshape between QuantizeLinear and DequantizeLinear moves in front of them",
        "(float[N,4] x) => (float[K] y) <float s = {0.1}, uint8 z = {128}, int64[1] f = {-1}>",
        "q = QuantizeLinear(x, s, z) r = Reshape(q, f) y = DequantizeLinear(r, s, z)",
        "r = Reshape(x, f) q = QuantizeLinear(r, s, z) y = DequantizeLinear(q, s, z)",
    ),
    right(
        "quantized_twice",
        "A second QuantizeLinear and DequantizeLinear with the same scale is dropped",
        f"{_ROW} <float s = {{0.1}}, uint8 z = {{128}}>",
        """q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) r = QuantizeLinear(d, s, z)
        y = DequantizeLinear(r, s, z)""",
        "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)",
    ),
    right(
        "integer_matmul",
        "MatMulInteger, a cast and a factor -> a MatMul of dequantized numbers",
        "(uint8[N,4] x) => (float[N,2] y) <int8[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}, "
        "float s = {0.5}>",
        "m = MatMulInteger(x, w) f = Cast <to = 1> (m) y = Mul(f, s)",
        "a = Cast <to = 1> (x) b = Cast <to = 1> (w) c = Mul(b, s) y = MatMul(a, c)",
    ),
    right(
        "branches_swapped",
        "If(not c) swaps its branches",
        f"{_ROW} <float t = {{0.3}}>",
        """s = ReduceSum <keepdims = 0> (x) g = Greater(s, t) n = Not(g)
        y = If (n) <then_branch = a () => (float[N,4] p) { p = Neg(x) },
        else_branch = b () => (float[N,4] q) { q = Relu(x) }>""",
        """s = ReduceSum <keepdims = 0> (x) g = Greater(s, t)
        y = If (g) <then_branch = b () => (float[N,4] q) { q = Relu(x) },
        else_branch = a () => (float[N,4] p) { p = Neg(x) }>""",
    ),
    right(
        "common_part_of_branches",
        "A Neg in both branches moves in front of the If",
        f"{_ROW} <float t = {{20}}>",
        """s = ReduceSum <keepdims = 0> (x) g = Greater(s, t)
        y = If (g) <then_branch = a () => (float[N,4] p) { n = Neg(x) p = Exp(n) },
        else_branch = b () => (float[N,4] q) { m = Neg(x) q = Tanh(m) }>""",
        """s = ReduceSum <keepdims = 0> (x) g = Greater(s, t) n = Neg(x)
        y = If (g) <then_branch = a () => (float[N,4] p) { p = Exp(n) },
        else_branch = b () => (float[N,4] q) { q = Tanh(n) }>""",
    ),
    right(
        "loop_with_invariant",
        "A MatMul that does not change moves out of a Loop",
        f"(int64 count, float[2,8] x) => (float[2,8] y) <{_drawn('w', 3, 8, 8)}, "
        "int64 five = {5}, bool on = {1}>",
        """n = Mod(count, five) y = Loop(n, on, x) <body = l (int64 i, bool c, float[2,8] a)
        => (bool d,
          float[2,8] r) { d = Identity(c) m = MatMul(x, w) s = Add(a, m) r = Tanh(s) }>""",
        """n = Mod(count, five) m = MatMul(x, w)
          y = Loop(n, on, x) <body = l (int64 i, bool c, float[2,8] a)
        => (bool d, float[2,8] r) { d = Identity(c) s = Add(m, a) r = Tanh(s) }>""",
    ),
    right(
        "scan_as_cumulative_sum",
        "A Scan that adds up -> CumSum",
        "(float[N,4] x) => (float[N,4] y) <float[4] none = {0, 0, 0, 0}, int64 axis = {0}>",
        """e, y = Scan <num_scan_inputs = 1, body = s (float[4] p, float[4] r) => (float[4] q,
          float[4] o)
        { q = Add(p, r) o = Identity(q) }> (none, x)""",
        "y = CumSum(x, axis)",
    ),
    right(
        "gather_of_slices",
        "A Gather of a Slice -> a Gather of moved indices, for indices that are not negative",
        "(float[N,9] x, int64[K] ids) => (float[N,K] y) <int64 four = {4}>",
        """<int64[1] a = {2}, int64[1] b = {7}, int64[1] axis = {1}> s = Slice(x, a, b, axis)
        m = Mod(ids, four) y = Gather <axis = 1> (s, m)""",
        "<int64 two = {2}> m = Mod(ids, four) i = Add(m, two) y = Gather <axis = 1> (x, i)",
    ),
    right(
        "embedding_scaled",
        "A factor after a Gather moves to the table",
        "(int64[N,seq] input_ids) => (float[N,seq,8] y)",
        f"<{_drawn('t', 4, 8, 8)}, float c = {{2.8284271}}> g = Gather(t, input_ids) y = Mul(g, c)",
        f"<{_drawn('t', 4, 8, 8, factor=2.8284271)}> y = Gather(t, input_ids)",
    ),
    right(
        "scalar_clip",
        "Max and Min with scalar inputs -> Clip, for bounds in order",
        "(int64[N,4] x, int64 a, int64 b) => (int64[N,4] y)",
        "l = Min(a, b) h = Max(a, b) m = Max(x, l) y = Min(m, h)",
        "l = Min(a, b) h = Max(a, b) y = Clip(x, l, h)",
    ),
    right(
        "integers_near_limits",
        "x + a + b -> x + (a + b) in int64, which wraps around",
        "(int64[N] x, int64[N] a, int64[N] b) => (int64[N] y)",
        "s = Add(x, a) y = Add(s, b)",
        "s = Add(a, b) y = Add(x, s)",
    ),
    right(
        "shift_as_factor",
        "x * 4 -> x << 2 in uint32, which wraps around",
        "(uint32[N] x) => (uint32[N] y)",
        "<uint32 c = {4}> y = Mul(x, c)",
        """<uint32 c = {2}> y = BitShift <direction = "LEFT"> (x, c)""",
    ),
    right(
        "masked_mean",
        "The mean over tokens that are present by Where -> by a product, for finite numbers",
        """(float[N,seq,8] x, int64[N,seq] attention_mask) => (float[N,8] y) <int64[1] axis = {1},
        int64[1] last = {-1}, float low = {1e-9}>""",
        """f = Cast <to = 1> (attention_mask) u = Unsqueeze(f, last) m = Mul(x, u)
        s = ReduceSum <keepdims = 0> (m, axis) n = ReduceSum <keepdims = 0> (u, axis)
          c = Max(n, low)
        y = Div(s, c)""",
        """f = Cast <to = 1> (attention_mask) u = Unsqueeze(f, axis) m = MatMul(u, x)
          s = Squeeze(m, axis)
        n = ReduceSum(f, axis) c = Max(n, low) y = Div(s, c)""",
    ),
    right(
        "pooling_by_weights",
        "A GlobalAveragePool -> ReduceMean",
        "(float[N,3,H,W] x) => (float[N,3,1,1] y)",
        "y = GlobalAveragePool(x)",
        "<int64[2] a = {2, 3}> y = ReduceMean(x, a)",
    ),
    right(
        "convolution_as_matmul",
        "A Conv of one point -> a MatMul",
        "(float[N,8,L] x) => (float[N,8,L] y)",
        f"<{_drawn('w', 5, 8, 8, 1)}> y = Conv(x, w)",
        f"<{_drawn('w', 5, 8, 8)}> y = MatMul(w, x)",
    ),
    right(
        "normalized_convolution",
        "Random statistics of a BatchNormalization are folded into a Conv",
        "(float[N,1,H,W] x) => (float[N,1,P,Q] y) <float[1,1,3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}>",
        """<float[1] s = {0.7}, float[1] b = {0.3}, float[1] m = {0.1}, float[1] q = {2.3}>
        c = Conv(x, w) y = BatchNormalization <epsilon = 0.001> (c, s, b, m, q)""",
        """<float f = {0.461466024}, float[1] b = {0.253853398}> v = Mul(w, f) y = Conv(x, v, b)""",
    ),
    right(
        "hard_swish_of_seven_digits",
        "x * HardSigmoid(x) with a slope of 0.1666667 -> HardSwish",
        _ROW,
        "h = HardSigmoid <alpha = 0.1666667, beta = 0.5> (x) y = Mul(x, h)",
        "y = HardSwish(x)",
    ),
    right(
        "resize_of_twice",
        "A nearest Resize by 2 -> a Tile of new axes",
        "(float[N,3,H,W] x) => (float[N,3,P,Q] y)",
        """<float[4] s = {1, 1, 2, 2}> y = Resize <mode = "nearest", nearest_mode = "floor",
        coordinate_transformation_mode = "asymmetric"> (x, , s)""",
        """<int64[6] t = {1, 1, 1, 2, 1, 2}, int64[2] new = {3, 5}, int64[4] two = {1, 1, 2, 2}>
        u = Unsqueeze(x, new) r = Tile(u, t) s = Shape(x) n = Mul(s, two)
          y = Reshape <allowzero = 1> (r, n)""",
    ),
    right(
        "one_hot_as_comparison",
        "OneHot of indices in range -> Equal with positions",
        "(int64[N] ids) => (float[N,5] y) <int64 five = {5}>",
        "<float[2] v = {0, 1}> m = Mod(ids, five) y = OneHot(m, five, v)",
        """<int64[5] r = {0, 1, 2, 3, 4}, int64[1] last = {1}> m = Mod(ids, five)
          u = Unsqueeze(m, last)
        e = Equal(u, r) y = Cast <to = 1> (e)""",
    ),
    right(
        "tree_after_scaler",
        "A Scaler by 2 in front of a tree moves into its split",
        "(float[N,1] x) => (float[N,1] y)",
        """s = ai.onnx.ml.Scaler <offset = [0.0], scale = [2.0]> (x)
        y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0],
          nodes_nodeids = [0, 1, 2],
        nodes_featureids = [0, 0, 0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
          nodes_values = [0.5, 0.0, 0.0],
        nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0],
        target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]> (s)""",
        """y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0],
          nodes_nodeids = [0, 1, 2],
        nodes_featureids = [0, 0, 0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
          nodes_values = [0.25, 0.0, 0.0],
        nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0],
        target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]> (x)""",
    ),
    right(
        "threshold_scaled",
        "x * 0.1 > 0.3 -> x > 3 rounds at the step",
        "(float[N] x) => (bool[N] y)",
        "<float c = {0.1}, float t = {0.3}> m = Mul(x, c) y = Greater(m, t)",
        "<float t = {3}> y = Greater(x, t)",
    ),
    right(
        "rounding_scaled",
        "Round(x / 0.1) -> Round(x * 10) rounds at halves",
        _ROW,
        "<float c = {0.1}> m = Div(x, c) y = Round(m)",
        "<float c = {10}> m = Mul(x, c) y = Round(m)",
    ),
    right(
        "argmax_of_logits",
        "ArgMax(x / 3) -> ArgMax(x): equal numbers stay equal",
        "(float[N,4] x) => (int64[N,1] y)",
        "<float c = {3}> m = Div(x, c) y = ArgMax <axis = 1> (m)",
        "y = ArgMax <axis = 1> (x)",
    ),
]
