"""Rewrites of Reshape, Transpose, Squeeze, Unsqueeze, DepthToSpace and SpaceToDepth."""

from lab.reach.rows import Refused, Row, Theme

THEME = Theme(
    "Reshape, Transpose, Squeeze and Unsqueeze",
    rows=(
        Row(
            "Reshape(Relu(Reshape(x))) → Relu(x)",
            "agraph (float[a,6] x) => (float[a,6] y) <int64[3] p = {-1, 2, 3}, int64[2] r = {-1, "
            "6}> { s = Reshape(x, p) u = Relu(s) y = Reshape(u, r) }",
            "Relu",
            ("MovementChain",),
        ),
        Row(
            "Reshape(Reshape(x) + Reshape(z)) → x + z",
            "agraph (float[a,6] x, float[a,6] z) "
            "=> (float[a,6] y) <int64[3] p = {-1, 2, 3}, int64[2] r = {-1, 6}> { "
            "s = Reshape(x, p) t = Reshape(z, p) u = Add(s, t) y = Reshape(u, r) }",
            "Add",
            ("MovementsElementwise", "ReshapeReshape"),
        ),
        Row(
            "Unsqueeze(Squeeze(x) + Squeeze(z)) → x + z",
            "agraph (float[a,1,6] x, float[a,1,6] z) => (float[a,1,6] y) <int64[1] p = {1}> { "
            "s = Squeeze(x, p) t = Squeeze(z, p) u = Add(s, t) y = Unsqueeze(u, p) }",
            "Add",
            ("MovementsElementwise", "SqueezeUnsqueeze"),
        ),
        Row(
            "Squeeze(x) + Squeeze(z) → Squeeze(x + z)",
            "agraph (float[a,1,6] x, float[a,1,6] z) => (float[a,6] y) <int64[1] p = {1}> { "
            "s = Squeeze(x, p) t = Squeeze(z, p) y = Add(s, t) }",
            "Add Squeeze",
            ("MovementsElementwise",),
        ),
        Row(
            "Unsqueeze(x) · Unsqueeze(z) → Unsqueeze(x · z)",
            "agraph (float[a,6] x, float[a,6] z) => (float[a,1,6] y) <int64[1] p = {1}> { "
            "s = Unsqueeze(x, p) t = Unsqueeze(z, p) y = Mul(s, t) }",
            "Mul Unsqueeze",
            ("MovementsElementwise",),
        ),
        Row(
            "Unsqueeze(x) · Unsqueeze(z) of tensors that are broadcast → Unsqueeze(x · z)",
            "agraph (float[a,6] x, float[1,6] z) => (float[a,1,6] y) <int64[1] p = {1}> { "
            "s = Unsqueeze(x, p) t = Unsqueeze(z, p) y = Mul(s, t) }",
            "Mul Unsqueeze",
            ("MovementsElementwise",),
        ),
        Row(
            "Transpose(x) · Transpose(z) → Transpose(x · z)",
            "agraph (float[a,6] x, float[a,6] z) => (float[6,a] y) { s = Transpose(x) "
            "t = Transpose(z) y = Mul(s, t) }",
            "Mul Transpose",
            ("TransposeRegion",),
        ),
        Row(
            "Squeeze(Sigmoid(Unsqueeze(x))) → Sigmoid(x)",
            "agraph (float[a,6] x) => (float[a,6] y) <int64[1] p = {1}> { s = Unsqueeze(x, p) "
            "t = Sigmoid(s) y = Squeeze(t, p) }",
            "Sigmoid",
            ("MovementChain",),
        ),
        Row(
            "Cos and Sin of one tensor, each followed by Unsqueeze → one Unsqueeze before both",
            "agraph (float[a,b,4] f, float[a,h,b,8] x) => (float[a,h,b,8] y) <int64[1] k = {1}> { "
            "c = Concat <axis = -1> (f, f) d = Cos(c) e = Sin(c) p = Unsqueeze(d, k) "
            "q = Unsqueeze(e, k) r = Mul(x, p) s = Mul(x, q) y = Add(r, s) }",
            "Add Concat Cos Mul Mul Sin Unsqueeze",
            ("ForkMovements",),
        ),
        Row(
            "Reshape(Reshape(x, [0, 0, 2, -1]), [0, 0, -1]) → x",
            "agraph (float[a,b,4] x) => (float[a,b,4] y) <int64[4] p = {0, 0, 2, -1}, "
            "int64[3] q = {0, 0, -1}> { t = Reshape(x, p) u = Reshape(t, q) y = Neg(u) }",
            "Neg",
            ("ReshapeReshape",),
        ),
        Row(
            "Reshape, Transpose, Reshape → DepthToSpace",
            "agraph (float[a,12,4,5] x) => (float[a,3,8,10] y) <int64[6] s = {-1, 2, 2, 3, 4, 5}, "
            "int64[4] t = {-1, 3, 8, 10}> { r = Reshape(x, s) "
            "p = Transpose <perm = [0, 3, 4, 1, 5, 2]> (r) y = Reshape(p, t) }",
            "DepthToSpace",
            ("DepthToSpace",),
        ),
        Row(
            "Reshape, Transpose, Reshape → DepthToSpace of mode CRD",
            "agraph (float[a,12,4,5] x) => (float[a,3,8,10] y) <int64[6] s = {-1, 3, 2, 2, 4, 5}, "
            "int64[4] t = {-1, 3, 8, 10}> { r = Reshape(x, s) "
            "p = Transpose <perm = [0, 1, 4, 2, 5, 3]> (r) y = Reshape(p, t) }",
            "DepthToSpace",
            ("DepthToSpace",),
        ),
        Row(
            "Reshape, Transpose, Reshape → SpaceToDepth",
            "agraph (float[a,3,8,10] x) => (float[a,12,4,5] y) <int64[6] s = {-1, 3, 4, 2, 5, 2}, "
            "int64[4] t = {-1, 12, 4, 5}> { r = Reshape(x, s) "
            "p = Transpose <perm = [0, 3, 5, 1, 2, 4]> (r) y = Reshape(p, t) }",
            "SpaceToDepth",
            ("SpaceToDepth",),
        ),
        Row(
            "Unsqueeze(x, leading axes) ≤ z, which broadcasts → x ≤ z",
            "agraph (int64[a] x, int64[a] z) => (bool[a,a] y) <int64[1] k = {0}, int64[1] l = {1}> "
            "{ u = Unsqueeze(x, k) v = Unsqueeze(z, l) y = LessOrEqual(u, v) }",
            "LessOrEqual Unsqueeze",
            ("UnsqueezeBroadcast",),
        ),
        Row(
            "Unsqueeze(f(Unsqueeze(x), z)) → f(Unsqueeze(x), z)",
            "agraph (bool[s,s] c, bool[b,s] m) "
            "=> (bool[b,1,s,s] y) <int64[3] i = {0, 1, -1}, int64[4] j = {0, 1, 0, -1}> { "
            "r = Reshape(m, i) a = And(c, r) y = Reshape(a, j) }",
            "And Unsqueeze",
            ("UnsqueezeElementwiseUnsqueeze",),
        ),
        Row(
            "Cast(Transpose(Cast(x, to = float)), to = float16) → Transpose(x), and the same for "
            "other data movements",
            "agraph (float16[a,b] x) => (float16[b,a] y) { c = Cast <to = 1> (x) "
            "t = Transpose <perm = [1, 0]> (c) y = Cast <to = 10> (t) }",
            "Transpose",
            ("CastMovementCast",),
        ),
        Row(
            "Transpose(Relu(Transpose(x)) + b) between convolutions → Relu(x) + b",
            "agraph (float[1,3,8,8] x, float[4,3,3,3] w, float[4,4,3,3] v) "
            "=> (float[1,4,4,4] y) <float[4] b = {1, 2, 3, 4}> { c = Conv(x, w) "
            "t = Transpose <perm = [0, 2, 3, 1]> (c) r = Relu(t) a = Add(r, b) "
            "u = Transpose <perm = [0, 3, 1, 2]> (a) y = Conv(u, v) }",
            "Add Conv Conv Relu",
            ("TransposeRegion",),
        ),
        Row(
            "Transpose(x) of (1, n) or (n, 1) → Reshape(x)",
            "agraph (float[1,n] x) => (float[n,1] y) { y = Transpose(x) }",
            "Reshape",
            ("TransposeReshape",),
        ),
    ),
    refused=(
        Refused(
            "Transpose(x) of (b, 1, n, c) by [0, 2, 1, 3] → Reshape(x) where b and n are not known",
            "A Reshape cannot infer a dimension if another one has the size 0; a Transpose can.",
        ),
        Refused(
            "Transpose(Cast(x, to = float)) → Cast(Transpose(x), to = float)",
            "On a CPU, onnxruntime computes float16 operators in float32. It skips the rounding to "
            "float16 before a Cast to float, but not before another operator, so results would "
            "change by a float16 rounding.",
        ),
        Refused(
            "Squeeze(Softmax(Unsqueeze(x))) → Softmax(x)",
            "Does not occur in 109 optimized models (`lab.discovery.mine`). MovementChain passes "
            "elementwise operators only.",
        ),
        Refused(
            "Reshape(Reshape(x, [0, 0, 2, -1]), [0, 0, -1]) → x for a last axis of unknown size",
            "Right only if 2 divides the size, which nothing checks any more without the first "
            "Reshape: one Reshape is kept.",
        ),
    ),
)
