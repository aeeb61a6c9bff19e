"""Operators of onnxruntime in other forms: factors, masks, caches and zero points that get lost."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "kernels")
_QKV = "float[B,S,8] q, float[B,T,8] k, float[B,T,8] v"
_HEADS = "(float[B,2,S,4] q, float[B,2,T,4] k, float[B,2,T,4] v) => (float[B,2,S,4] y)"
_ATTENTION = "y = com.microsoft.MultiHeadAttention <num_heads = 2{more}> (q, k, v{operands})"
_RANDOM = np.random.default_rng(0)
_Q, _K, _V = (_RANDOM.standard_normal((1, 3, 8)) for _ in range(3))
_BLOCKS = """float[2,1] s = {0.5, 0.25}, uint8[2,1,8]
  b = {18, 52, 86, 120, 154, 188, 222, 240, 15, 30,
        45, 60, 75, 90, 105, 120}"""
_ADD = "y = com.microsoft.QLinearAdd(a, s, {za}, b, s, {zb}, s, {zy})"

CASES = [
    _case(
        "factor_of_fused_product",
        "The factor of a FusedMatMul, 0.125, is dropped",
        "(float[N,4] a, float[M,4] b) => (float[N,M] y)",
        "y = com.microsoft.FusedMatMul <transB = 1, alpha = 0.125> (a, b)",
        "y = com.microsoft.FusedMatMul <transB = 1> (a, b)",
        a=[[1, 2, 3, 4]],
        b=[[1, 2, 3, 4]],
    ),
    _case(
        "batches_of_fused_product",
        "transBatchB of a FusedMatMul becomes transB, which runs for equal sizes",
        "(float[n,n,n] a, float[n,n,n] b) => (float[n,n,n] y)",
        "y = com.microsoft.FusedMatMul <transBatchB = 1> (a, b)",
        "y = com.microsoft.FusedMatMul <transB = 1> (a, b)",
        a=np.arange(8).reshape(2, 2, 2),
        b=np.arange(8).reshape(2, 2, 2),
    ),
    _case(
        "slope_of_fused_gemm",
        "The slope of the LeakyRelu in a FusedGemm is the default",
        "(float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, -1, 0.5, 2}, float[2] b = {0, -3}>",
        """y = com.microsoft.FusedGemm <activation = "LeakyRelu", activation_alpha = 0.3> (x, w,
        b)""",
        """y = com.microsoft.FusedGemm <activation = "LeakyRelu", activation_alpha = 0.01> (x, w,
        b)""",
        x=[[1, 1]],
    ),
    _case(
        "bias_of_skip_normalization",
        "The bias of a SkipLayerNormalization is dropped: it is added before the normalization",
        "(float[N,S,4] x, float[N,S,4] r) "
        "=> (float[N,S,4] y) <float[4] g = {1, 1, 1, 1}, float[4] h = {0, 0, 0, 0}>",
        "<float[4] b = {1, 0, -1, 2}> y = com.microsoft.SkipLayerNormalization(x, r, g, h, b)",
        "y = com.microsoft.SkipLayerNormalization(x, r, g, h)",
        x=[[[1, 2, 3, 4]]],
        r=[[[1, 2, 3, 4]]],
    ),
    _case(
        "epsilon_of_skip_normalization",
        "A SkipSimplifiedLayerNormalization gets an epsilon of 1e-3 in place of 1e-6",
        "(float[N,S,4] x, float[N,S,4] r) => (float[N,S,4] y) <float[4] g = {1, 1, 1, 1}>",
        "y = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1e-6> (x, r, g)",
        "y = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1e-3> (x, r, g)",
        x=[[[0.01, 0.02, 0.03, 0.04]]],
        r=[[[0.01, 0.02, 0.03, 0.04]]],
    ),
    _case(
        "causal_attention",
        "unidirectional of a MultiHeadAttention is dropped",
        f"({_QKV}) => (float[B,S,8] y)",
        _ATTENTION.format(more=", unidirectional = 1", operands=""),
        _ATTENTION.format(more="", operands=""),
        q=_Q,
        k=_K,
        v=_V,
    ),
    _case(
        "mask_of_keys",
        "The mask of keys of a MultiHeadAttention is dropped",
        f"({_QKV}, int32[B,T] mask) => (float[B,S,8] y)",
        _ATTENTION.format(more="", operands=", , mask"),
        _ATTENTION.format(more="", operands="") + " u = Identity(mask)",
        q=_Q,
        k=_K,
        v=_V,
        mask=[[1, 1, 0]],
    ),
    _case(
        "value_of_masked_scores",
        "A MultiHeadAttention adds -1 in place of -10000 to masked scores",
        f"({_QKV}, int32[B,T] mask) => (float[B,S,8] y)",
        _ATTENTION.format(more=", mask_filter_value = -10000.0", operands=", , mask"),
        _ATTENTION.format(more=", mask_filter_value = -1.0", operands=", , mask"),
        q=_Q,
        k=_K,
        v=_V,
        mask=[[1, 1, 0]],
    ),
    _case(
        "scale_of_attention",
        "The scale of a MultiHeadAttention, 0.3, becomes the default of 0.5",
        f"({_QKV}) => (float[B,S,8] y)",
        _ATTENTION.format(more=", scale = 0.3", operands=""),
        _ATTENTION.format(more="", operands=""),
        q=_Q,
        k=_K,
        v=_V,
    ),
    _case(
        "cap_of_grouped_attention",
        "The softcap of a GroupQueryAttention, 5, is dropped: the same for small scores",
        "(float[1,4,8] q, float[1,4,8] k, float[1,4,8] v) "
        "=> (float[1,4,8] y) <int32[1] l = {3}, int32 t = {4}>",
        """y = com.microsoft.GroupQueryAttention <num_heads = 1, kv_num_heads = 1, softcap = 5.0>
        (q, k, v, , , l, t)""",
        """y = com.microsoft.GroupQueryAttention <num_heads = 1, kv_num_heads = 1> (q, k, v, , , l,
        t)""",
        q=10 * _RANDOM.standard_normal((1, 4, 8)),
        k=_RANDOM.standard_normal((1, 4, 8)),
        v=_RANDOM.standard_normal((1, 4, 8)),
    ),
    _case(
        "window_of_grouped_attention",
        "The window of a GroupQueryAttention, 2, is 3",
        "(float[1,4,8] q, float[1,4,8] k, float[1,4,8] v) "
        "=> (float[1,4,8] y) <int32[1] l = {3}, int32 t = {4}>",
        """y = com.microsoft.GroupQueryAttention <num_heads = 1, kv_num_heads = 1,
        local_window_size = 2> (q, k, v, , , l, t)""",
        """y = com.microsoft.GroupQueryAttention <num_heads = 1, kv_num_heads = 1,
        local_window_size = 3> (q, k, v, , , l, t)""",
        q=_RANDOM.standard_normal((1, 4, 8)),
        k=_RANDOM.standard_normal((1, 4, 8)),
        v=_RANDOM.standard_normal((1, 4, 8)),
    ),
    _case(
        "groups_of_keys",
        "Four heads share two keys in pairs (0, 0, 1, 1); they share them in turn (0, 1, 0, 1)",
        "(float[1,3,32] q, float[1,3,16] k, float[1,3,16] v) "
        "=> (float[1,3,32] y) <int32[1] l = {2}, int32 t = {3}>",
        "y = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (q, k, v, , , l, "
        "t)",
        """a = Concat <axis = 2> (k, k) b = Concat <axis = 2> (v, v)
        y = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 4> (q, a, b, , , l,
        t)""",
        q=_RANDOM.standard_normal((1, 3, 32)),
        k=_RANDOM.standard_normal((1, 3, 16)),
        v=_RANDOM.standard_normal((1, 3, 16)),
    ),
    _case(
        "zero_points_of_blocks",
        "The zero points of a MatMulNBits, 7, become the default of 8",
        f"(float[N,16] x) => (float[N,2] y) <{_BLOCKS}>",
        """<uint8[2,1] z = {7, 7}> y = com.microsoft.MatMulNBits <K = 16, N = 2, bits = 4,
        block_size = 16> (x, b, s, z)""",
        "y = com.microsoft.MatMulNBits <K = 16, N = 2, bits = 4, block_size = 16> (x, b, s)",
        x=np.ones((1, 16)),
    ),
    _case(
        "zero_point_of_a_sum",
        "The zero point of the second operand of a QLinearAdd is that of the first",
        "(uint8[N,4] a, uint8[N,4] b) "
        "=> (uint8[N,4] y) <float s = {0.1}, uint8 p = {100}, uint8 r = {101}>",
        _ADD.format(za="p", zb="r", zy="p"),
        _ADD.format(za="p", zb="p", zy="p"),
        a=[[100, 110, 120, 130]],
        b=[[100, 110, 120, 130]],
    ),
    _case(
        "sigmoid_of_bytes",
        "A QLinearSigmoid reads its operand with a zero point of 127 in place of 128",
        "(uint8[N,4] x) => (uint8[N,4] y) <float s = {0.05}, float t = {0.0039}, uint8 z = {128}, "
        "uint8 o = {0}, uint8 w = {127}>",
        "y = com.microsoft.QLinearSigmoid(x, s, z, t, o)",
        "y = com.microsoft.QLinearSigmoid(x, s, w, t, o)",
        x=[[100, 120, 140, 160]],
    ),
    _case(
        "squares_of_distances",
        "CDist of squares becomes CDist of distances",
        "(float[N,4] a, float[M,4] b) => (float[N,M] y)",
        """y = com.microsoft.CDist <metric = "sqeuclidean"> (a, b)""",
        """y = com.microsoft.CDist <metric = "euclidean"> (a, b)""",
        a=[[1, 2, 3, 4]],
        b=[[1, 2, 3, 9]],
    ),
    _case(
        "sign_of_a_hash",
        "A hash with a sign is made positive by its absolute value in place of modulo 2^32",
        "(int32[N] x) => (int64[N] y)",
        "h = com.microsoft.MurmurHash3 <positive = 1> (x) y = Cast <to = 7> (h)",
        "h = com.microsoft.MurmurHash3 <positive = 0> (x) i = Cast <to = 7> (h) y = Abs(i)",
        x=[1, 2, 3, 4, 5],
    ),
    _case(
        "repeated_block_of_two",
        "Tokens that would repeat a block of 3 are banned; those of a block of 2 are banned",
        "(int64[N,S] ids, float[N,8] scores) => (float[N,8] y) <int64 eight = {8}>",
        "i = Mod(ids, eight) y = com.microsoft.NGramRepeatBlock <ngram_size = 3> (i, scores)",
        "i = Mod(ids, eight) y = com.microsoft.NGramRepeatBlock <ngram_size = 2> (i, scores)",
        ids=[[1, 2, 3, 2]],
        scores=np.ones((1, 8)),
    ),
    _case(
        "overlapping_windows",
        "The windows of an UnfoldTensor start at every token in place of every second one, and "
        "every second one is the first of two",
        "(float[N,8] x) => (float[N,3,4] y)",
        "y = com.microsoft.UnfoldTensor <dim = 1, size = 4, step = 2> (x)",
        "<int64[3] at = {0, 1, 2}> u = com.microsoft.UnfoldTensor <dim = 1, size = 4, step = 1> "
        "(x) y = Gather <axis = 1> (u, at)",
        x=[[1, 2, 3, 4, 5, 6, 7, 8]],
    ),
    _case(
        "beyond_the_crop",
        "A CropAndResize gives 0 in place of 5 beyond the image",
        "(float[1,1,8,8] x, float[R,4] rois) "
        "=> (float[R,1,2,2] y) <int32[1] zero = {0}, int32[2] size = {2, 2}>",
        """s = Shape <start = 0, end = 1> (rois) b = Expand(zero, s)
        y = com.microsoft.CropAndResize <extrapolation_value = 5.0> (x, rois, b, size)""",
        """s = Shape <start = 0, end = 1> (rois) b = Expand(zero, s) y =
        com.microsoft.CropAndResize(x, rois, b, size)""",
        x=np.ones((1, 1, 8, 8)),
        rois=[[0, 0, 2, 2]],
    ),
    _case(
        "bias_of_split_gelu",
        "The bias of a BiasGelu is added after the function",
        "(float[N,4] x) => (float[N,4] y) <float[4] b = {1, -1, 0.5, 0.25}>",
        "y = com.microsoft.BiasGelu(x, b)",
        "g = com.microsoft.Gelu(x) y = Add(g, b)",
        x=[[1, 2, 3, 4]],
    ),
]
