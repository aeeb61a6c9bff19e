"""Rewrites of shape arithmetic, and of tensors that repeat one number."""

from lab.reach.rows import Refused, Row, Theme

THEME = Theme(
    "Shape arithmetic, and tensors that repeat one number",
    rows=(
        Row(
            "CumSum of a tensor of ones → Expand of [1, 2, ...]",
            "agraph (float[b,3,2] x) => (float[b,3,2] y) <int64 k = {1}> { s = Shape(x) "
            "c = ConstantOfShape <value = float[1] {1}> (s) y = CumSum(c, k) }",
            "Expand Shape",
            ("ConstantOfShapeCumSum",),
        ),
        Row(
            "x + (1 - ones) · c, a mask that hides nothing → x",
            "agraph (float[b,h,s,s] x) => (float[b,h,s,s] y) <float o = {1}, "
            "float c = {-10000}> { s = Shape(x) m = ConstantOfShape <value = float[1] {1}> (s) "
            "n = Sub(o, m) p = Mul(n, c) q = Add(x, p) y = Neg(q) }",
            "Neg",
            ("UniformBroadcast",),
        ),
        Row(
            "Reshape(Transpose(Slice(Reshape(v, [-1, 2])))) of the pads of a Pad → Gather(v)",
            "agraph (int64[4] x) => (int64[4] y) <int64[2] t = {-1, 2}, int64[1] o = {-1}, "
            "int64[1] e = {-9}, int64[1] z = {0}> { r = Reshape(x, t) s = Slice(r, o, e, z, o) "
            "p = Transpose(s) y = Reshape(p, o) }",
            "Gather",
            ("VectorMovements",),
        ),
        Row(
            "Cast(ConstantOfShape) → ConstantOfShape of that type",
            "agraph (int64[2] s) => (float[a,b] y) { "
            "t = ConstantOfShape <value = int64[1] {1}> (s) y = Cast <to = 1> (t) }",
            "ConstantOfShape",
            ("ConstantOfShapeCast",),
        ),
        Row(
            "Resize(sizes = [Shape(x), constant]) → Resize(sizes = constant) of the other axes",
            "agraph (float[a,b,4,5] x) => (float[a,b,8,10] y) <int64[2] c = {8, 10}> { s = Shape"
            ' <end = 2> (x) z = Concat <axis = 0> (s, c) y = Resize <mode = "nearest"> (x, , ,'
            " z) }",
            "Resize",
            ("ShapeResize",),
        ),
        Row(
            "Two sizes computed one by one → one operation on both",
            "agraph (float[a,b,c] x, float[n] z) "
            "=> (float[p,q,r] y) <int64 i = {1}, int64 j = {2}, int64[1] o = {0}, "
            "int64[1] m = {-1}> { s = Shape(x) k = Gather(s, i) l = Gather(s, j) d = Div(k, j) "
            "e = Div(l, j) f = Unsqueeze(d, o) g = Unsqueeze(e, o) "
            "t = Concat <axis = 0> (f, g, m) y = Reshape(z, t) }",
            "Concat Div Reshape Shape",
            ("ShapeArithmetic",),
        ),
        Row(
            "Unsqueeze(arithmetic(Gather(Shape(x), i))) → arithmetic(Shape(x, i, i + 1))",
            "agraph (float[a,b] x, float[n] z) "
            "=> (float[p,q] y) <int64 i = {1}, int64 j = {2}, int64[1] o = {0}, "
            "int64[1] m = {-1}> { s = Shape(x) k = Gather(s, i) d = Div(k, j) f = Unsqueeze(d, o) "
            "t = Concat <axis = 0> (f, m) y = Reshape(z, t) }",
            "Concat Div Reshape Shape",
            ("ShapeArithmetic",),
        ),
    ),
    refused=(
        Refused(
            "Resize(sizes = [Shape(x), 2 · Shape(x)]) → Resize(scales)",
            "Runtimes compute sizes from scales in float32, which is not exact from 2^24 on.",
        ),
        Refused(
            "Shape(Transpose(Reshape(x, [d, ...]))) → Concat of d for sizes that are inputs",
            "A 0 or -1 among them means another size; where the sizes are known, ShapeVector "
            "reads them elsewhere.",
        ),
        Refused(
            "Reshape(Expand(constant)) → Expand(constant)",
            "The target shape would have to be computed: as many nodes at the two occurrences in "
            "109 optimized models (`lab.discovery.mine`).",
        ),
        Refused(
            "Expand(Unsqueeze(Expand(x))) → Expand(Unsqueeze(x))",
            "Does not occur in 109 optimized models (`lab.discovery.mine`). Wrong if the inner "
            "Expand stretches an axis that the outer one does not; ExpandExpand does the others.",
        ),
    ),
)
