"""Constant folding, common subexpression elimination and dead code elimination."""

from lab.reach.rows import Refused, Row, Theme

THEME = Theme(
    "Constant folding, common subexpression elimination and dead code elimination",
    rows=(
        Row(
            "an output that depends on constants only → Constant",
            "agraph (float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}> { a = Neg(w) "
            "b = Exp(a) z = Sqrt(b) y = Relu(x) }",
            "Constant Relu",
            (),
        ),
        Row(
            "equal nodes that each compute a graph output → one node, and an Identity",
            "agraph (float[a,2] x) => (float[a,2] y, float[a,2] z) <float[2,2] w = {1, 2, 3, "
            "4}> { m = MatMul(x, w) y = Exp(m) n = MatMul(x, w) z = Exp(n) }",
            "Exp Identity MatMul",
            (),
        ),
        Row(
            "a node of a branch that is equal to a node before the If → its result",
            "agraph (float[a,2] x, float[2,2] z, bool c) => (float[a,2] y, float[a,2] w) { "
            "m = MatMul(x, z) w = Sin(m) y = If(c) < then_branch = yes () "
            "=> (float[a,2] p) { n = MatMul(x, z) k = Sin(n) "
            "p = Neg(k) }, else_branch = no () => (float[a,2] q) { q = Exp(m) }> }",
            "If MatMul Sin",
            (),
        ),
        Row(
            "an unused scan output of a Loop → none",
            "agraph (float[a] x, int64 n) => (float[a] y) { "
            "y, k = Loop(n, , x) < body = round (int64 i, bool d, float[a] s) "
            "=> (bool e, float[a] t, float[a] u) { e = Identity(d) t = Sin(s) u = Cos(s) }> }",
            "Loop",
            ("LoopState",),
        ),
        Row(
            "Split(x @ W + b) with a result that is not read → a MatMul with fewer columns",
            "agraph (float[a,b,2] x) => (float[a,b,1] y, float[a,b,1] z) <float[2,4] w = {1, 2, "
            "3, 4, 5, 6, 7, 8}, float[4] c = {1, 2, 3, 4}, int64[3] n = {1, 2, 1}> { "
            "m = MatMul(x, w) s = Add(m, c) y, u, z = Split <axis = -1> (s, n) }",
            "Add MatMul Split",
            ("MatMulSplit",),
        ),
    ),
    refused=(
        Refused(
            "Split(Conv(x, W)) with a result that is not read → a convolution with fewer filters",
            "onnxruntime computes a convolution with one filter in another order. Where a sum of "
            "numbers near the type's limits overflows, it gave NaN in place of infinity.",
        ),
        Refused(
            "TopK(x, k = 1) whose indices alone are read → ArgMax(x)",
            "TopK and ArgMax differ where an element is NaN, and ONNX leaves open which of equal "
            "elements TopK takes.",
        ),
        Refused(
            "an input that nothing reads → none",
            "Done on request (`--drop-unused-inputs`), because callers must then pass fewer "
            "values. The summary names such inputs.",
        ),
    ),
)
