"""Rewrites of MatMul, Conv, normalizations, elementwise products and sums, and reductions."""

from lab.reach.rows import Refused, Row, Theme

THEME = Theme(
    "MatMul, Conv, elementwise products and sums, and reductions",
    rows=(
        Row(
            "Reshape(Reshape(x) @ Reshape(z) · c + Reshape(b)) of merged batch axes → x @ z · c + "
            "b",
            "agraph (float[a,2,3,4] x, float[a,2,4,5] z, float[a,2,5] c) "
            "=> (float[a,2,3,5] y) <int64[3] i = {-1, 3, 4}, int64[3] j = {-1, 4, 5}, "
            "int64[3] k = {-1, 1, 5}, int64[4] l = {-1, 2, 3, 5}> { r = Reshape(x, i) "
            "w = Reshape(z, j) u = MatMul(r, w) b = Reshape(c, k) d = Add(u, b) "
            "y = Reshape(d, l) }",
            "Add MatMul Unsqueeze",
            ("BatchRegion",),
        ),
        Row(
            "Reshape(MatMul(Reshape(x), Reshape(z))) → MatMul(x, z)",
            "agraph (float[a,2,3,4] x, float[a,2,4,5] z) "
            "=> (float[a,2,3,5] y) <int64[3] p = {-1, 3, 4}, int64[3] q = {-1, 4, 5}, "
            "int64[4] r = {-1, 2, 3, 5}> { s = Reshape(x, p) t = Reshape(z, q) u = MatMul(s, t) "
            "y = Reshape(u, r) }",
            "MatMul",
            ("ReshapeMatMulReshape",),
        ),
        Row(
            "MatMul(Reshape(x), Reshape(z)) → Reshape(MatMul(x, z))",
            "agraph (float[a,2,3,4] x, float[a,2,4,5] z) "
            "=> (float[c,3,5] y) <int64[3] p = {-1, 3, 4}, int64[3] q = {-1, 4, 5}> { "
            "s = Reshape(x, p) t = Reshape(z, q) y = MatMul(s, t) }",
            "MatMul Reshape",
            ("ReshapeMatMulReshape",),
        ),
        Row(
            "Reshape(MatMul(Reshape(x), z)) → MatMul(x, Reshape(z))",
            "agraph (float[2,6,3,4] x, float[12,4,5] z) "
            "=> (float[2,6,3,5] y) <int64[3] p = {-1, 3, 4}, int64[4] r = {2, 6, 3, 5}> { "
            "s = Reshape(x, p) u = MatMul(s, z) y = Reshape(u, r) }",
            "MatMul Reshape",
            ("ReshapeMatMulReshape",),
        ),
        Row(
            "Reshape(MatMul(x, Reshape(z))) → MatMul(Reshape(x), z)",
            "agraph (float[12,3,4] x, float[2,6,4,5] z) "
            "=> (float[2,6,3,5] y) <int64[3] p = {-1, 4, 5}, int64[4] r = {2, 6, 3, 5}> { "
            "s = Reshape(z, p) u = MatMul(x, s) y = Reshape(u, r) }",
            "MatMul Reshape",
            ("ReshapeMatMulReshape",),
        ),
        Row(
            "Reshape(MatMul(Reshape(x), Transpose(Reshape(z)))) of merged batch axes → MatMul(x, "
            "Transpose(z))",
            "agraph (float[a,2,3,4] x, float[a,2,3,4] z) "
            "=> (float[a,2,3,3] y) <int64[3] p = {-1, 3, 4}, int64[4] r = {-1, 2, 3, 3}> { "
            "s = Reshape(x, p) t = Reshape(z, p) v = Transpose <perm = [0, 2, 1]> (t) "
            "u = MatMul(s, v) y = Reshape(u, r) }",
            "MatMul Transpose",
            ("ReshapeMatMulReshape", "MovementChain"),
        ),
        Row(
            "(x · a) @ (z · b) → (x · ab) @ z",
            "agraph (float[a,b,4] x, float[a,4,c] z) "
            "=> (float[a,b,c] y) <float s = {0.5}, float t = {0.25}> { p = Mul(x, s) "
            "q = Mul(z, t) y = MatMul(p, q) }",
            "MatMul Mul",
            ("MulMulMatMul",),
        ),
        Row(
            "MatMul(q, k) · s → s in the weights and the bias of q",
            "agraph (float[a,b,4] x, float[a,c,4] z) "
            "=> (float[a,2,b,c] y) <float[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, "
            "8}, float[4] d = {1, 2, 3, 4}, float[4,4] "
            "v = {2, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}, float[4] "
            "e = {4, 3, 2, 1}, int64[4] s = {0, 0, 2, 2}, float h = {0.5}> { t = MatMul(x, w) "
            "u = Add(t, d) r = Reshape(u, s) q = Transpose <perm = [0, 2, 1, 3]> (r) "
            "t2 = MatMul(z, v) u2 = Add(t2, e) r2 = Reshape(u2, s) "
            "k = Transpose <perm = [0, 2, 3, 1]> (r2) m = MatMul(q, k) y = Mul(m, h) }",
            "Add Add MatMul MatMul MatMul Reshape Reshape Transpose Transpose",
            ("MatMulMul",),
        ),
        Row(
            "Softmax(q @ (k + bias)ᵀ) → Softmax(q @ kᵀ)",
            "agraph (float[a,5,3] x, float[a,2,4,2] q) "
            "=> (float[a,2,4,5] y) <float[3,4] w = {1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2}, "
            "float[4] b = {1, 2, 0.5, 3}, int64[4] s = {0, 0, 2, 2}> { p = MatMul(x, w) "
            "k = Add(p, b) r = Reshape(k, s) t = Transpose <perm = [0, 2, 3, 1]> (r) "
            "m = MatMul(q, t) y = Softmax <axis = -1> (m) }",
            "MatMul MatMul Reshape Softmax Transpose",
            ("AddMatMulSoftmax",),
        ),
        Row(
            "(Softmax(s) @ (v + bias)) @ u + c → (Softmax(s) @ v) @ u + (bias @ u + c)",
            "agraph (float[a,5,3] x, float[a,2,m,5] s) "
            "=> (float[a,m,2] y) <float[3,4] w = {1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2}, "
            "float[4,2] u = {1, 2, 3, 1, 0, 1, 2, 1}, int64[4] k = {0, 5, 2, 2}, int64[3] "
            "l = {0, 0, 4}, float[4] b = {1, 2, 0.5, 3}, float[2] c = {1, 2}> { j = MatMul(x, w) "
            "v = Add(j, b) r = Reshape(v, k) t = Transpose <perm = [0, 2, 1, 3]> (r) "
            "q = Softmax <axis = -1> (s) z = MatMul(q, t) o = Transpose <perm = [0, 2, 1, 3]> (z) "
            "p = Reshape(o, l) h = MatMul(p, u) y = Add(c, h) }",
            "Add MatMul MatMul MatMul Reshape Reshape Softmax Transpose Transpose",
            ("AddSoftmaxMatMul",),
        ),
        Row(
            "a rotary embedding · s → s in the weights",
            "agraph (float[a,2] x, float[a,4] c, float[a,4] d) "
            "=> (float[a,4] y) <float[2,4] w = {2, 4, 6, 8, 1, 3, 5, 7}, int64[2] k = {2, 2}, "
            "float h = {0.5}> { t = MatMul(x, w) p, q = Split <axis = 1> (t, k) n = Neg(q) "
            "r = Concat <axis = 1> (n, p) u = Mul(t, c) v = Mul(r, d) s = Add(u, v) "
            "y = Mul(s, h) }",
            "Add Concat MatMul Mul Mul Neg Split",
            ("MatMulMul",),
        ),
        Row(
            "two convolutions of one input, each with a BatchNormalization → two convolutions",
            "agraph (float[a,2,5,5] x) => (float[a,1,5,5] y, "
            "float[a,1,5,5] z) <float[1,2,1,1] w = {1, 2}, float[1,2,1,1] v = {3, 4}, "
            "float[1] s = {2}, float[1] b = {1}, float[1] m = {0.5}, float[1] r = {1.5}> { "
            "p = Conv(x, w) y = BatchNormalization(p, s, b, m, r) q = Conv(x, v) "
            "z = BatchNormalization(q, s, b, m, r) }",
            "Conv Conv",
            ("ConvBatchNormalization",),
        ),
        Row(
            "a convolution that two BatchNormalizations read → one folded into the convolution, "
            "the other computed from its result",
            "agraph (float[a,2,5,5] x) => (float[a,1,5,5] y, "
            "float[a,1,5,5] z) <float[1,2,1,1] w = {1, 2}, float[1] s = {2}, float[1] t = {3}, "
            "float[1] b = {1}, float[1] m = {0.5}, float[1] r = {1.5}> { p = Conv(x, w) "
            "y = BatchNormalization(p, s, b, m, r) z = BatchNormalization(p, t, b, m, r) }",
            "BatchNormalization Conv",
            ("SharedConvBatchNormalization",),
        ),
        Row(
            "InstanceNormalization(x) · s + b → InstanceNormalization(x)",
            "agraph (float[a,2,5] x) => (float[a,2,5] y) <float[2] s = {1, 2}, float[2] b = {3, "
            "4}, float[2,1] c = {2, 3}, float[2,1] d = {1, 2}> { "
            "t = InstanceNormalization(x, s, b) u = Mul(t, c) y = Add(u, d) }",
            "InstanceNormalization",
            ("BatchNormalizationMul", "BatchNormalizationAdd"),
        ),
        Row(
            "Conv(Pad(x, 0), auto_pad = VALID) → Conv(x) with pads",
            "agraph (float[a,2,h,w] x) => (float[a,1,k,l] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1,"
            " 1}, float[1,2,3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}> { t ="
            ' Pad(x, p) y = Conv <auto_pad = "VALID"> (t, w) }',
            "Conv",
            ("PadConv",),
        ),
        Row(
            "ConvInteger(Pad(x, zero point)) → ConvInteger(x) with pads",
            "agraph (uint8[a,1,h] x, uint8[2,1,3] w) "
            "=> (int32[a,2,k] y) <int64[6] p = {0, 0, 1, 0, 0, 1}, uint8 z = {7}> { "
            "t = Pad(x, p, z) y = ConvInteger(t, w, z) }",
            "ConvInteger",
            ("PadConv",),
        ),
        Row(
            "AveragePool(Pad(x, 0)) → AveragePool(x) with pads",
            "agraph (float[a,2,h] x) => (float[a,2,k] y) <int64[6] p = {0, 0, 1, 0, 0, 1}> { "
            "t = Pad(x, p) y = AveragePool <kernel_shape = [3], strides = [2]> (t) }",
            "AveragePool",
            ("PadAveragePool",),
        ),
        Row(
            "x · Reciprocal(Sqrt(v)) → x / Sqrt(v) for a v of the shape of x",
            "agraph (float[a,4] x, float[a,4] v) => (float[a,4] y) { s = Sqrt(v) "
            "r = Reciprocal(s) y = Mul(x, r) }",
            "Div Sqrt",
            ("ReciprocalMul",),
        ),
        Row(
            "ReduceSum(ReduceSum(x, 1), 2) → ReduceSum(x, (1, 2))",
            "agraph (float[3,4,5] x) => (float[3,1,1] y) <int64[1] i = {1}, int64[1] j = {2}> { "
            "t = ReduceSum(x, i) y = ReduceSum(t, j) }",
            "ReduceSum",
            ("ReduceReduce",),
        ),
        Row(
            "Clip(x + 3, 0, 6) / 6 → HardSigmoid(x)",
            "agraph (float[a,4] x) => (float[a,4] y) <float three = {3}, float z = {0}, "
            "float s = {6}> { e = Add(x, three) c = Clip(e, z, s) y = Div(c, s) }",
            "HardSigmoid",
            ("HardSigmoid",),
        ),
        Row(
            "(x @ w + b) · s with a factor s for each column → x @ (w · s) + b · s",
            "agraph (float[a,b,2] x) => (float[a,b,2] y) <float[2,2] w = {1, 2, 3, 4}, "
            "float[2] c = {5, 6}, float[2] s = {2, 0.5}> { t = MatMul(x, w) u = Add(t, c) "
            "y = Mul(s, u) }",
            "Add MatMul",
            ("MatMulAddMul",),
        ),
        Row(
            "BatchNormalization(Flatten(x @ w)) → Flatten(x @ w' + b)",
            "agraph (float[a,b,2] x) => (float[c,2] y) <float[2,2] w = {1, 2, 3, 4}, "
            "float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] "
            "v = {0.75, 3.75}> { t = MatMul(x, w) f = Flatten <axis = 2> (t) "
            "y = BatchNormalization <epsilon = 0.25> (f, s, o, m, v) }",
            "Add Flatten MatMul",
            ("MatMulReshapeBatchNormalization",),
        ),
        Row(
            "((x · a + b) · c + d) · e + f, and forms with quotients and differences → x · a' + b'",
            "agraph (float[n,3,4] x) => (float[n,3,4] y) <float[4] a = {1, 2, 3, 4}, "
            "float[4] b = {4, 3, 2, 1}, float c = {2}, float[3,4] "
            "d = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, float[4] e = {2, 3, 4, 5}, float[3,1] "
            "f = {1, 2, 3}> { p = Div(x, a) q = Sub(p, b) r = Div(q, c) s = Sub(d, r) "
            "t = Mul(s, e) y = Add(t, f) }",
            "Add Mul",
            ("MulAddMul", "AddAdd"),
        ),
        Row(
            "Pad(x, 0) + Pad(z, 0) of parts of an axis → Concat(x, z)",
            "agraph (float[n,3] x, float[n,5] z) "
            "=> (float[n,8] y) <int64[4] p = {0, 0, 0, 5}, int64[4] q = {0, 3, 0, 0}> { "
            "s = Pad(x, p) t = Pad(z, q) y = Add(s, t) }",
            "Concat",
            ("PadsAdd",),
        ),
        Row(
            "ReduceSum(ReduceSum(x, 2), (1, 2)), of which only the last drops axes → ReduceSum(x, "
            "(1, 2))",
            "agraph (float[2,3,4] x) => (float[2] y) <int64[1] i = {2}, int64[2] j = {1, 2}> { "
            "t = ReduceSum(x, i) y = ReduceSum <keepdims = 0> (t, j) }",
            "ReduceSum",
            ("ReduceReduce",),
        ),
        Row(
            "ReduceSum(ReduceSum(x, 1), 1) of a batch of any size → ReduceSum(x, (1, 2))",
            "agraph (float[n,3,4,5] x) => (float[n,5] y) <int64[1] i = {1}> "
            "{ t = ReduceSum <keepdims = 0> (x, i) y = ReduceSum <keepdims = 0> (t, i) }",
            "ReduceSum",
            ("ReduceReduce",),
        ),
    ),
    refused=(
        Refused(
            "x · Reciprocal(Sqrt(v)) → x / Sqrt(v) for a v that is broadcast",
            "Measured 1.0 to 1.4 times the time: one division for each element of x in place of "
            "one for each element of v.",
        ),
        Refused(
            "(x · a) · (z · b) → (x · ab) · z",
            "x · ab may overflow or underflow where x · a, z · b and their product do not.",
        ),
        Refused(
            "ReduceMax(ReduceMax(x)) → ReduceMax(x)",
            "Whether onnxruntime finds a NaN depends on the order.",
        ),
        Refused(
            "Sqrt(ReduceSum(x · x)) → ReduceL2(x)",
            "Measured 1.2 (128 rows of 64) to 2.8 times the time (1024 of 256); 0.89 for one row "
            "of 64.",
        ),
        Refused(
            "MatMul(x · c, w) where x · c is read elsewhere too → MatMul(x, c · w)",
            "The Mul stays for its other consumers: measured 0.94 to 1.02 times the time for 1 to "
            "128 rows, no difference.",
        ),
        Refused(
            "(x · a + b) · c for constants a and c along different axes, more than 4096 elements "
            "together → x · ac + bc",
            "The model would be larger; done for fewer (MulAddMul).",
        ),
        Refused(
            "ReduceSum(x · x) → ReduceSumSquare(x)",
            "Measured 1.34 times the time.",
        ),
        Refused(
            "ReduceSum(Abs(x)) → ReduceL1(x)",
            "Measured 1.37 times the time.",
        ),
        Refused(
            "Log(ReduceSum(x)) → ReduceLogSum(x)",
            "Measured 4.5 times the time.",
        ),
        Refused(
            "Log(ReduceSum(Exp(x))) → ReduceLogSumExp(x)",
            "Measured 5.1 times the time, and finite where the original is infinite.",
        ),
        Refused(
            "ReduceMean(x, (2, 3)) → GlobalAveragePool(x)",
            "Measured 2.5 times the time.",
        ),
        Refused(
            "x / ReduceL2(x) → LpNormalization(x)",
            "The operator gives 0 where the original is 0 / 0, which is NaN.",
        ),
        Refused(
            "Log(1 + Exp(x)) → Softplus(x)",
            "Softplus is finite where Exp(x) overflows; done for the form that does not overflow "
            "(SoftplusExp).",
        ),
        Refused(
            "x · Tanh(Softplus(x)) → Mish(x), Max(x, 0) + Min(Exp(x) - 1, 0) → Celu(x), "
            "GroupNormalization",
            "onnxruntime has no kernels of these on the CPU: it expands them again.",
        ),
        Refused(
            "MaxPool(Pad(x, 0)) → MaxPool(x) with pads",
            "Wrong: the padding of MaxPool does not count, so that a maximum may be below 0. "
            "PadMaxPool, in no preset as it assumes finite numbers, takes a padding with "
            "-infinity.",
        ),
        Refused(
            "Conv(x, w) + b for a b that is computed → Conv(x, w, b)",
            "Measured 1.34 times the time: onnxruntime keeps a Conv with such a bias out of its "
            "blocked layout.",
        ),
        Refused(
            "Conv(Conv(x, v), w) of 1 by 1 → Conv(x, w · v)",
            "In 109 optimized models, w · v takes at least 1.5 times the multiplications: two "
            "adjacent convolutions have few channels between them.",
        ),
        Refused(
            "MatMul(x, w) + b + z, or x + z + w → Sum",
            "Measured 0.94 to 1.04 times the time, no difference; runtimes fuse Add with adjacent "
            "operators, but not Sum.",
        ),
        Refused(
            "Einsum of two matrices is kept in place of MatMul with Reshape and Transpose, which "
            "are more nodes",
            "MatMul takes 0.58 to 0.90 of the time (lab/payoff.md, EinsumDense and EinsumMatMul): "
            "einsum_net has 60 nodes in place of 36 and takes 0.80 of the time, a mixture of "
            "experts 50 in place of 45 and 0.58.",
        ),
        Refused(
            "a constant result that is an output of the graph → a stored constant",
            "Not all runtimes accept an initializer that is an output; all operands of the last "
            "node are folded.",
        ),
        Refused(
            "a convolution that two BatchNormalizations read → a convolution for each of them",
            "Measured 1.6 times the time (two, 256 channels to 64, 1 by 1) and 2.0 times (three, "
            "192 channels); joined as one, with a Split, 1.7 and 2.2 times.",
        ),
        Refused(
            "equal nodes that are both outputs of the graph → one and a copy",
            "As many nodes; a copy costs as much as most operators.",
        ),
    ),
)
