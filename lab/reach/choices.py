"""Rewrites of Where, Boolean masks, comparisons, Max and Min."""

from lab.reach.rows import Refused, Row, Theme

THEME = Theme(
    "Where, masks and comparisons",
    rows=(
        Row(
            "Equal(Cast(c), 0) → Not(c)",
            "agraph (bool[a,4] c, float[a,4] x, float[a,4] z) => (float[a,4] y) <float o = {0}> { "
            "f = Cast <to = 1> (c) b = Equal(f, o) y = Where(b, x, z) }",
            "Where",
            ("BooleanArithmetic", "NotWhere"),
        ),
        Row(
            "Equal(Cast(c), 1) → c",
            "agraph (bool[a,4] c, float[a,4] x, float[a,4] z) => (float[a,4] y) <float o = {1}> { "
            "f = Cast <to = 1> (c) b = Equal(f, o) y = Where(b, x, z) }",
            "Where",
            ("BooleanArithmetic",),
        ),
        Row(
            "Greater(Cast(c), 0) → c",
            "agraph (bool[a,4] c, float[a,4] x, float[a,4] z) => (float[a,4] y) <float o = {0}> { "
            "f = Cast <to = 1> (c) b = Greater(f, o) y = Where(b, x, z) }",
            "Where",
            ("BooleanArithmetic",),
        ),
        Row(
            "Cast(Cast(c, to = float), to = bool) → c",
            "agraph (bool[a,4] c, float[a,4] x, float[a,4] z) => (float[a,4] y) { "
            "f = Cast <to = 1> (c) b = Cast <to = 9> (f) y = Where(b, x, z) }",
            "Where",
            ("BooleanArithmetic",),
        ),
        Row(
            "Cast(Where(c, 1, 0), to = bool) → c",
            "agraph (bool[a,4] c, float[a,4] x, float[a,4] z) "
            "=> (float[a,4] y) <float i = {1}, float o = {0}> { f = Where(c, i, o) "
            "b = Cast <to = 9> (f) y = Where(b, x, z) }",
            "Where",
            ("BooleanArithmetic",),
        ),
        Row(
            "Cast(1 - Cast(c), to = bool) → Not(c)",
            "agraph (bool[a,4] c, float[a,4] x, float[a,4] z) => (float[a,4] y) <float i = {1}> { "
            "f = Cast <to = 1> (c) g = Sub(i, f) b = Cast <to = 9> (g) y = Where(b, x, z) }",
            "Where",
            ("BooleanArithmetic", "NotWhere"),
        ),
        Row(
            "(1 - Cast(c)) · k → Where(c, 0, k)",
            "agraph (bool[a,4] c) => (float[a,4] y) <float one = {1}, float low = {-10000}> { "
            "t = Cast <to = 1> (c) u = Sub(one, t) y = Mul(u, low) }",
            "Where",
            ("BooleanArithmetic",),
        ),
        Row(
            "Where(c, 1, 0) → Cast(c)",
            "agraph (bool[a,4] c) => (float[a,4] y) <float i = {1}, float j = {0}> { "
            "y = Where(c, i, j) }",
            "Cast",
            ("BooleanArithmetic",),
        ),
        Row(
            "Where(c, Where(c, x, z), w) → Where(c, x, w)",
            "agraph (bool[a,4] c, float[a,4] x, float[a,4] z, float[a,4] w) => (float[a,4] y) { "
            "t = Where(c, x, z) y = Where(c, t, w) }",
            "Where",
            ("WhereWhere",),
        ),
        Row(
            "Where(c, x, Where(c, z, w)) → Where(c, x, w)",
            "agraph (bool[a,4] c, float[a,4] x, float[a,4] z, float[a,4] w) => (float[a,4] y) { "
            "t = Where(c, z, w) y = Where(c, x, t) }",
            "Where",
            ("WhereWhere",),
        ),
        Row(
            "Where(Not(c), x, z) → Where(c, z, x)",
            "agraph (float[a,4] x, float[a,4] z) => (float[a,4] y) { e = Equal(x, z) n = Not(e) "
            "y = Where(n, x, z) }",
            "Equal Where",
            ("NotWhere",),
        ),
        Row(
            "Trilu(x, 1) · Cast(column > row) → Trilu(x, 1)",
            "agraph (float[n,n] x, bool[n] z) "
            "=> (float[n,n] y) <int64 o = {0}, int64 e = {1}, int64[1] k = {1}> { s = Size(z) "
            "r = Range(o, s, e) c = Unsqueeze(r, k) b = Greater(r, c) m = Cast <to = 1> (b) "
            "t = Trilu(x, e) y = Mul(t, m) }",
            "Trilu",
            ("TriluMul",),
        ),
        Row(
            "Max(x, a, b), constants a and b → Max(x, the larger of a and b)",
            "agraph (float[a,4] x) => (float[a,4] y) <float[4] i = {1, 2, 3, 4}, float o = {2}> { "
            "y = Max(i, x, o) }",
            "Max",
            ("MaxConstants",),
        ),
        Row(
            "Max(Min(x, a, b), c) → Clip(x, c, the smaller of a and b)",
            "agraph (float[a,4] x) => (float[a,4] y) <float i = {1}, float j = {6}, "
            "float o = {-2}> { t = Min(x, i, j) y = Max(t, o) }",
            "Clip",
            ("MaxConstants", "MaxMin"),
        ),
    ),
    refused=(
        Refused(
            "And(positions ≥ 0, m), where it is added to scores → m",
            "A RoBERTa with 128 tokens takes 1.03 times as long, because the Add to the scores "
            "then broadcasts a row.",
        ),
        Refused(
            "Cast(c) · k → Where(c, k, 0)",
            "Takes 1.1 to 2.1 times as long: Where is as slow as three other operators.",
        ),
        Refused(
            "Max(Max(x, z), w) → Max(x, z, w)",
            "Does not occur in 109 optimized models (`lab.discovery.mine`). Takes 0.92 to 1.00 of "
            "the time; with constants, MaxMax does it.",
        ),
        Refused(
            "Where(c, 0, 1) → Cast(Not(c))",
            "Two nodes in place of one.",
        ),
        Refused(
            "Where(IsNaN(Softmax(x)), 0, Softmax(x)) → Softmax(x)",
            "Right only if no score is NaN or infinite, which cannot be known of the result of a "
            "MatMul; GuardedAttention moves the guard after the fused attention.",
        ),
        Refused(
            "ArgMax(Softmax(x)) → ArgMax(x)",
            "Ties and NaN: different numbers may be rounded to equal ones by Softmax.",
        ),
        Refused(
            "(x + m) + m → x + m for a mask of 0 and -infinity",
            "Only a constant mask is known to consist of 0 and -infinity.",
        ),
        Refused(
            "Where(c, x, Where(d, x, z)) → Where(Or(c, d), x, z)",
            "Does not occur in 109 optimized models (`lab.discovery.mine`); as many nodes.",
        ),
        Refused(
            "Not(And(Not(c), Not(d))) → Or(c, d), Cast(c) · Cast(d) → Cast(And(c, d))",
            "Does not occur in 109 optimized models (`lab.discovery.mine`), but for two Muls of "
            "casts of numbers.",
        ),
        Refused(
            "Not(Cast(x, to = bool)) → Equal(x, 0)",
            "Does not occur in 109 optimized models (`lab.discovery.mine`). Takes 0.8 to 0.9 of "
            "the time for integers, 0.9 to 1.0 for floats.",
        ),
        Refused(
            "Trilu(Expand(k)) · Cast(Greater(p, q)) → Where",
            "Outside of the triangle, 0 times -infinity is NaN, and the result of Where is not.",
        ),
    ),
)
