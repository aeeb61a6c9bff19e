"""Rewrites of Gather, Slice, Scatter, Split and Concat."""

from lab.reach.rows import Refused, Row, Theme

THEME = Theme(
    "Gather, Slice, Scatter, Split and Concat",
    rows=(
        Row(
            "Gather([x, z]) with a vector of indices in one operand → Gather(z)",
            "agraph (float[a,2] x, float[a,3] z) => (float[a,1] y) <int64[1] i = {3}> { "
            "c = Concat <axis = 1> (x, z) y = Gather <axis = 1> (c, i) }",
            "Gather",
            ("ConcatGather",),
        ),
        Row(
            "Gather([x, z]) with a scalar index in one operand → Gather(z)",
            "agraph (float[a,2] x, float[a,3] z) => (float[a] y) <int64 i = {-1}> { "
            "c = Concat <axis = 1> (x, z) y = Gather <axis = 1> (c, i) }",
            "Gather",
            ("ConcatGather",),
        ),
        Row(
            "Slice([x, z]) within one operand → Slice(z)",
            "agraph (float[a,2] x, float[a,3] z) "
            "=> (float[a,1] y) <int64[1] s = {3}, int64[1] e = {4}, int64[1] k = {1}> { "
            "c = Concat <axis = 1> (x, z) y = Slice(c, s, e, k) }",
            "Slice",
            ("ConcatSlice",),
        ),
        Row(
            "Slice([x, z]) of exactly one operand → z",
            "agraph (float[a,2] x, float[a,3] z) "
            "=> (float[a,3] y) <int64[1] s = {2}, int64[1] e = {5}, int64[1] k = {1}> { "
            "c = Concat <axis = 1> (x, z) t = Slice(c, s, e, k) y = Neg(t) }",
            "Neg",
            ("ConcatSlice",),
        ),
        Row(
            "Slice([x, z, w]) of exactly two operands → [x, z]",
            "agraph (float[a,2] x, float[a,3] z, float[a,3] w) "
            "=> (float[a,5] y) <int64[1] s = {0}, int64[1] e = {5}, int64[1] k = {1}> { "
            "c = Concat <axis = 1> (x, z, w) y = Slice(c, s, e, k) }",
            "Concat",
            ("ConcatSlice",),
        ),
        Row(
            "[Gather(x, i), Gather(x, j)] with constant indices → Gather(x, [i, j])",
            "agraph (float[a,9] x) => (float[a,4] y) <int64[2] i = {5, 2}, int64[2] j = {8, 1}> { "
            "p = Gather <axis = 1> (x, i) q = Gather <axis = 1> (x, j) "
            "y = Concat <axis = 1> (p, q) }",
            "Gather",
            ("GathersConcat",),
        ),
        Row(
            "[Gather(x, i), Gather(x, j)] with indices i, j = Split(k) → Gather(x, k)",
            "agraph (float[a,9] x, int64[4] i) => (float[a,4] y) { "
            "k, l = Split <axis = 0, num_outputs = 2> (i) p = Gather <axis = 1> (x, k) "
            "q = Gather <axis = 1> (x, l) y = Concat <axis = 1> (p, q) }",
            "Gather",
            ("GathersConcat", "SplitConcat"),
        ),
        Row(
            "GatherElements(x, indices repeated along each row) → Gather(x)",
            "agraph (float[1,9,4] x, int64[s] i) "
            "=> (float[1,s,4] y) <int64[2] k = {0, 2}, int64[3] r = {1, 1, 4}> { "
            "u = Unsqueeze(i, k) t = Tile(u, r) y = GatherElements <axis = 1> (x, t) }",
            "Gather",
            ("GatherElements",),
        ),
        Row(
            "Reshape(Gather(Unsqueeze(x), i)) → Gather(x, i)",
            "agraph (float[9,4] x, int64[n] i) "
            "=> (float[n,4] y) <int64[1] k = {0}, int64[2] t = {-1, 4}> { u = Unsqueeze(x, k) "
            "g = Gather <axis = 1> (u, i) y = Reshape(g, t) }",
            "Gather",
            ("UnsqueezeGatherReshape",),
        ),
        Row(
            "Squeeze(Gather(x, Unsqueeze(i))) → Gather(x, i)",
            "agraph (float[a,9] x, int64 i) => (float[a] y) <int64[1] o = {0}, int64[1] k = {1}> "
            "{ u = Unsqueeze(i, o) g = Gather <axis = 1> (x, u) y = Squeeze(g, k) }",
            "Gather",
            ("GatherVectorSqueeze",),
        ),
        Row(
            "Gather(x, [0]), Gather(x, [1]), ... → Split(x)",
            "agraph (float[a,2] x) => (float[a,1] y, float[a,1] z) <int64[1] i = {0}, "
            "int64[1] j = {1}> { y = Gather <axis = 1> (x, i) z = Gather <axis = 1> (x, j) }",
            "Split",
            ("GathersSplit",),
        ),
        Row(
            "Gather(x, consecutive indices of the last axis) → Slice(x)",
            "agraph (float[a,9] x) => (float[a,4] y) <int64[4] i = {3, 4, 5, 6}> { "
            "y = Gather <axis = 1> (x, i) }",
            "Slice",
            ("GatherContiguous",),
        ),
        Row(
            "Slices of Slice(x) → Slices of x",
            "agraph (float[a,9] x) => (float[a,2] y, float[a,3] z) <int64[1] i = {1}, "
            "int64[1] j = {8}, int64[1] k = {1}, int64[1] l = {3}, int64[1] m = {4}, int64[1] "
            "n = {7}> { t = Slice(x, i, j, k) y = Slice(t, i, l, k) z = Slice(t, m, n, k) }",
            "Slice Slice",
            ("SliceSlice",),
        ),
        Row(
            "ScatterND(x, all rows, updates) → updates",
            "agraph (float[3,a] x, float[3,a] u) => (float[3,a] y) <int64[3,1] i = {0, 1, 2}> { "
            "t = ScatterND(x, i, u) y = Neg(t) }",
            "Neg",
            ("ScattersConcat",),
        ),
        Row(
            "ScatterND(x, all rows counted by Range, updates) → updates",
            "agraph (float[a,b] x, float[a,b] u) "
            "=> (float[a,b] y) <int64 o = {0}, int64 e = {1}, int64[1] k = {-1}> { s = Shape(x) "
            "n = Gather(s, o) r = Range(o, n, e) i = Unsqueeze(r, k) t = ScatterND(x, i, u) "
            "y = Neg(t) }",
            "Neg",
            ("ScatterNDGrid",),
        ),
        Row(
            "ScatterND(constant, consecutive rows, updates) → Concat",
            "agraph (float[3,2] u) => (float[5,2] y) <float[5,2] x = {0, 0, 0, 0, 0, 0, 0, 0, 0, "
            "0}, int64[3,1] i = {1, 2, 3}> { y = ScatterND(x, i, u) }",
            "Concat",
            ("ScattersConcat",),
        ),
        Row(
            "ScatterElements of an unrolled loop → Concat",
            "agraph (float[2,1] u, float[2,1] v, float[2,1] w) "
            "=> (float[2,3] y) <float[2,3] x = {0, 0, 0, 0, 0, 0}, int64[2,1] i = {0, 0}, "
            "int64[2,1] j = {1, 1}, int64[2,1] k = {2, 2}> { "
            "s = ScatterElements <axis = 1> (x, i, u) t = ScatterElements <axis = 1> (s, j, v) "
            "y = ScatterElements <axis = 1> (t, k, w) }",
            "Concat",
            ("ScattersConcat",),
        ),
        Row(
            "GatherND(x, Unsqueeze(i)) → Gather(x, i)",
            "agraph (float[9,4] x, int64[b] i) => (float[b,4] y) <int64[1] k = {-1}> { "
            "u = Unsqueeze(i, k) y = GatherND(x, u) }",
            "Gather",
            ("GatherNDRows",),
        ),
        Row(
            "GatherND(x, constant column) → Gather(x)",
            "agraph (float[9,4] x) => (float[2,4] y) <int64[2,1] i = {3, 1}> { "
            "y = GatherND(x, i) }",
            "Gather",
            ("GatherNDRows",),
        ),
        Row(
            "GatherND(x, [0, 1, 2, ..., i]) → GatherND(x, i) with a batch axis",
            "agraph (float[b,3,4] x, int64[b,1] i) "
            "=> (float[b,4] y) <int64 z = {0}, int64 j = {1}, int64[1] k = {-1}> { s = Shape(x) "
            "n = Gather(s, z) r = Range(z, n, j) u = Unsqueeze(r, k) "
            "t = Concat <axis = -1> (u, i) y = GatherND(x, t) }",
            "GatherND",
            ("GatherNDBatch",),
        ),
        Row(
            "four strided Slices of rows and columns, concatenated along the channels → Reshape, "
            "Transpose, Reshape",
            "agraph (float[a,8,10,3] x) => (float[a,4,5,12] y) <int64[1] o = {0}, "
            "int64[1] i = {1}, int64[1] e = {9223372036854775807}, int64[1] k = {1}, int64[1] "
            "l = {2}, int64[1] d = {2}> { f = Slice(x, o, e, k, d) g = Slice(x, i, e, k, d) "
            "p = Slice(f, o, e, l, d) q = Slice(g, o, e, l, d) r = Slice(f, i, e, l, d) "
            "s = Slice(g, i, e, l, d) y = Concat <axis = -1> (p, q, r, s) }",
            "Reshape Reshape Transpose",
            ("SliceSlice", "StridedSlicesConcat"),
        ),
        Row(
            "four strided Slices, channels first, concatenated before a convolution → SpaceToDepth",
            "agraph (float[1,1,8,8] x) => (float[1,1,4,4] y) <float[1,4,1,1] w = {1, 2, 3, 4}, "
            "int64[1] o = {0}, int64[1] i = {1}, int64[1] e = {9223372036854775807}, int64[1] "
            "k = {2}, int64[1] l = {3}> { f = Slice(x, o, e, k, k) g = Slice(x, i, e, k, k) "
            "p = Slice(f, o, e, l, k) q = Slice(g, o, e, l, k) r = Slice(f, i, e, l, k) "
            "s = Slice(g, i, e, l, k) c = Concat <axis = 1> (p, q, r, s) y = Conv(c, w) }",
            "Conv SpaceToDepth",
            ("StridedSlicesSpaceToDepth", "SelectionConv"),
        ),
        Row(
            "Tile(constant) → constant",
            "agraph (float[a,4] x) => (float[a,4] y) <float[1,2] c = {1, 2}, int64[2] r = {1, "
            "2}> { t = Tile(c, r) y = Add(x, t) }",
            "Add",
            (),
        ),
        Row(
            "Gather(x @ w + c, -1), the logits of the last token → Gather(x, -1) @ w + c",
            "agraph (float[b,s,4] x) => (float[b,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,8,7,6}, "
            "float[3] c = {1,2,3}, int64 i = {-1}> { m = MatMul(x, w) a = Add(m, c) "
            "y = Gather <axis = 1> (a, i) }",
            "Gather Gemm",
            ("GatherSliceRegion",),
        ),
        Row(
            "Slice(Softmax(Relu(x) + x)) → Softmax(Relu(Slice(x)) + Slice(x))",
            "agraph (float[b,s,4] x) => (float[b,t,4] y) <int64[1] o = {0}, int64[1] e = {1}> "
            "{ r = Relu(x) a = Add(r, x) m = Softmax(a) y = Slice(m, o, e, e) }",
            "Add Relu Slice Softmax",
            ("GatherSliceRegion",),
        ),
        Row(
            "Gather(Flatten(x), i · m + j) of all elements of a matrix → x",
            "agraph (bool[b,s] m) => (bool[b,s] y) <int64 o = {0}, int64 i = {1}, "
            "int64[1] j = {1}, int64[1] k = {0}, int64[1] e = {-1}> { h = Shape(m) "
            "n = Gather(h, o) c = Gather(h, i) f = Reshape(m, e) r = Range(o, n, i) "
            "u = Unsqueeze(r, j) q = Range(o, c, i) v = Unsqueeze(c, k) p = Mul(u, v) "
            "t = Add(p, q) g = Gather(f, t) y = Not(g) }",
            "Not",
            ("GatherGrid",),
        ),
        Row(
            "rotate_every_two: even and odd elements with a new axis → Split of Reshape",
            "agraph (float[a,b,4] x) => (float[a,b,4] y) <int64[1] o = {0}, int64[1] i = {1}, "
            "int64[1] e = {9223372036854775807}, int64[1] k = {2}, int64[1] m = {-1}, int64[3] "
            "r = {0, 0, 4}> { p = Slice(x, o, e, k, k) q = Slice(x, i, e, k, k) n = Neg(q) "
            "u = Unsqueeze(n, m) v = Unsqueeze(p, m) c = Concat <axis = 3> (u, v) "
            "y = Reshape(c, r) }",
            "Concat Neg Reshape Reshape Split",
            ("SlicesUnsqueeze",),
        ),
        Row(
            "q, k and v, each a Gather or a squeezed Split result of one reshaped MatMul → Split "
            "of merged axes",
            "agraph (float[a,5,24] x) => (float[a,3,5,4] y) <int64[5] t = {-1, 5, 2, 3, 4}, "
            "int64 o = {0}, int64 i = {1}> { r = Reshape(x, t) "
            "p = Transpose <perm = [2, 0, 3, 1, 4]> (r) q = Gather(p, o) k = Gather(p, i) "
            "y = Sub(k, q) }",
            "Reshape Split Sub Transpose",
            ("ReshapeSplitSqueeze",),
        ),
        Row(
            "Gather(constant, Slice(constant indices)) → Slice of a constant",
            "agraph (bool[b] x) => (float[1,c,2] y) <float[4,2] t = {1, 2, 3, 4, 5, 6, 7, 8}, "
            "int64[1,3] i = {2, 3, 1}, int64[1] o = {0}, int64[1] e = {1}> { n = Shape(x) "
            "p = Slice(i, o, n, e) y = Gather(t, p) }",
            "Shape Slice",
            ("ConstantSliceGather",),
        ),
        Row(
            "cache.index_copy_(2, positions, new), a ScatterND between Transposes → ScatterND of "
            "complete rows",
            "agraph (float[1,2,64,16] x, int64[3,1] i, float[3,1,2,16] u) "
            "=> (float[1,2,64,16] y) { t = Transpose <perm = [2, 0, 1, 3]> (x) "
            "s = ScatterND(t, i, u) y = Transpose <perm = [1, 2, 0, 3]> (s) }",
            "Concat Expand ScatterND Transpose",
            ("TransposeScatterNDTranspose",),
        ),
    ),
    refused=(
        Refused(
            "Gather(x, i), Gather(x, j) with constant indices and different consumers → "
            "Split(Gather(x, [i, j]))",
            "As many nodes. Measured no difference for 8 and 64 rows of 768, and 1.05 times the "
            "time for 8 of 64.",
        ),
        Refused(
            "Gather(x, 0), Gather(x, 1), ... with scalar indices → Split, Squeeze",
            "As many nodes. Done if each Gather is followed by an Unsqueeze or by the same "
            "operators (GathersSplit, GathersElementwise), or if a Reshape makes the axis "
            "(ReshapeSplitSqueeze).",
        ),
        Refused(
            "Gather(x, consecutive indices) → Slice along another axis than the last",
            "Measured 1.0 to 1.2 times the time: Gather copies complete blocks.",
        ),
        Refused(
            "ScatterND(x, consecutive rows, updates) → Slice, Concat for an x that is computed",
            "Measured 1.18 times the time, and more nodes.",
        ),
        Refused(
            "cache.index_copy_(2, start + [0, 1, ...], new) → TensorScatter",
            "onnxruntime logs a warning in every run that does not share the cache's memory. Takes "
            "0.75 to 0.99 of ScatterND's time.",
        ),
        Refused(
            "Split(x) with one result that is read → Slice(x)",
            "Open: does not occur in 153 optimized models; as many nodes. Takes 0.33 to 0.97 of "
            "the time, 1.17 for one column.",
        ),
        Refused(
            "[b, c] of (a, b, c) = Split(x) → a result of a Split with fewer results",
            "Does not occur in 153 optimized models; SplitConcat handles a Concat of all results.",
        ),
        Refused(
            "[Relu(x), Relu(z)] → Relu([x, z])",
            "Measured 1.03 to 1.06 times the time after convolutions, with which runtimes fuse "
            "Relu. `python -m lab.discovery` found 38 occurrences.",
        ),
        Refused(
            "rotate_every_two → Gather and Mul by signs (SlicesUnsqueeze splits pairs instead)",
            "Measured 1.2 to 3.9 times the time. From operator set 23 on, RotaryEmbedding "
            "replaces it.",
        ),
        Refused(
            "Reshape(Gather(table, i)) or Slice(Gather(table, i)) → Gather of another table",
            "Does not occur in 109 optimized models (`lab.discovery.mine`). A table with other "
            "consumers, as embeddings often have, would be stored twice.",
        ),
    ),
)
