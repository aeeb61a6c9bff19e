"""For each fusion of attentions: a model on which it applies, as in `operator_models.py`."""

from typing import Final

from benchmarks.subject import Subject

ATTENTION: Final = {
    "Attention": Subject(
        "g (float[1,8,ROWS,64] q, float[1,8,ROWS,64] k, float[1,8,ROWS,64] v) => (float[1,8,ROWS,64] y) <float s = {8}> "
        "{ t = Transpose <perm = [0, 1, 3, 2]> (k) a = MatMul(q, t) d = Div(a, s) w = Softmax(d) y = MatMul(w, v) }",
        23,
    ),
    "AddMatMulSoftmax": Subject(
        "g (float[1,ROWS,512] x, float[1,8,ROWS,64] q, float[512,512] W, float[512] B) => (float[1,8,ROWS,ROWS] y) "
        "<int64[4] h = {0, 0, 8, 64}> { t = MatMul(x, W) u = Add(t, B) r = Reshape(u, h) "
        "k = Transpose <perm = [0, 2, 3, 1]> (r) m = MatMul(q, k) y = Softmax <axis = -1> (m) }"
    ),
    "AddSoftmaxMatMul": Subject(
        "g (float[1,ROWS,512] x, float[1,8,ROWS,ROWS] s, float[512,512] W, float[512] B, float[512,512] U, float[512] C) => "
        "(float[1,ROWS,512] y) <int64[4] h = {0, 0, 8, 64}, int64[3] l = {0, 0, 512}> "
        "{ t = MatMul(x, W) u = Add(t, B) r = Reshape(u, h) v = Transpose <perm = [0, 2, 1, 3]> (r) "
        "p = Softmax <axis = -1> (s) m = MatMul(p, v) o = Transpose <perm = [0, 2, 1, 3]> (m) "
        "f = Reshape(o, l) z = MatMul(f, U) y = Add(z, C) }"
    ),
    "AttentionHeads": Subject(
        "g (float[1,ROWS,512] q, float[1,ROWS,512] k, float[1,ROWS,512] v) => (float[1,ROWS,512] y) "
        "<int64[4] h = {0, 0, 8, 64}, int64[3] m = {0, 0, 512}> "
        "{ qr = Reshape(q, h) kr = Reshape(k, h) vr = Reshape(v, h) qt = Transpose <perm = [0, 2, 1, 3]> (qr) "
        "kt = Transpose <perm = [0, 2, 1, 3]> (kr) vt = Transpose <perm = [0, 2, 1, 3]> (vr) a = Attention(qt, kt, vt) "
        "t = Transpose <perm = [0, 2, 1, 3]> (a) y = Reshape(t, m) }",
        23,
    ),
    "ConcatAttention": Subject(
        "g (float[1,8,1,64] q, float[1,8,1,64] k, float[1,8,1,64] v, float[1,8,ROWS,64] e, float[1,8,ROWS,64] f) => "
        "(float[1,8,1,64] y, float[1,8,t,64] i, float[1,8,t,64] j) "
        "{ i = Concat <axis = 2> (e, k) j = Concat <axis = 2> (f, v) y = Attention <scale = 0.125> (q, i, j) }",
        23,
    ),
    "GuardedAttention": Subject(
        "g (float[1,ROWS,512] q, float[1,ROWS,512] k, float[1,ROWS,512] v, float[ROWS,ROWS] M) => (float[1,ROWS,512] y) "
        "<int64[4] h = {0, 0, 8, 64}, int64[3] m = {0, 0, 512}, float z = {0}> { qr = Reshape(q, h) kr = Reshape(k, h) "
        "vr = Reshape(v, h) qt = Transpose <perm = [0, 2, 1, 3]> (qr) kt = Transpose <perm = [0, 2, 3, 1]> (kr) "
        "vt = Transpose <perm = [0, 2, 1, 3]> (vr) a = MatMul(qt, kt) e = Add(a, M) w = Softmax(e) n = IsNaN(w) "
        "u = Where(n, z, w) o = MatMul(u, vt) t = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape(t, m) }",
        23,
    ),
    "MultiHeadAttention": Subject(
        "g (float[1,ROWS,512] q, float[1,ROWS,512] k, float[1,ROWS,512] v) => (float[1,ROWS,512] y) "
        "<int64[4] h = {0, 0, 8, 64}, int64[3] m = {0, 0, 512}, float s = {8}> "
        "{ qr = Reshape(q, h) kr = Reshape(k, h) vr = Reshape(v, h) qt = Transpose <perm = [0, 2, 1, 3]> (qr) "
        "kt = Transpose <perm = [0, 2, 3, 1]> (kr) vt = Transpose <perm = [0, 2, 1, 3]> (vr) a = MatMul(qt, kt) d = Div(a, s) "
        "w = Softmax(d) o = MatMul(w, vt) t = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape(t, m) }",
    ),
    "MulAttention": Subject(
        "g (float[1,8,ROWS,64] q, float[1,8,ROWS,64] k, float[1,8,ROWS,64] v) => (float[1,8,ROWS,64] y) <float s = {0.5}> "
        "{ t = Mul(q, s) y = Attention <scale = 0.25> (t, k, v) }",
        23,
    ),
}
