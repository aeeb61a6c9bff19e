"""Values that stand in a relation to each other: rows that are ordered, repeated, distinct, or
that contain each other."""

from functools import partial

from tests.verification.wrong.case import wrong

_case = partial(wrong, "relations")
_ROW = "(float[N,4] x) => (float[N,4] y)"
_SQUARE = "(float[n,n] x) => (float[n,n] y)"
_TOKENS = "(int64[seq] input_ids) => (int64[seq] y)"
_TWO = "(int64[seq] draft_ids, int64[seq] target_ids) => (int64 y)"

CASES = [
    _case(
        "ascending_rows",
        "Rows that ascend are negated; the condition is folded to false",
        f"{_ROW}",
        """<int64[1] a = {0}, int64[1] b = {3}, int64[1] c1 = {1}, int64[1] d = {4}, int64[1] last
        = {-1}>
        f = Slice(x, a, b, last) g = Slice(x, c1, d, last) l = Less(f, g) i = Cast <to = 7> (l)
        m = ReduceMin(i, last) c = Cast <to = 9> (m) n = Neg(x) y = Where(c, n, x)""",
        "y = Identity(x)",
        x=[[1, 2, 3, 4]],
    ),
    _case(
        "palindromes",
        "Rows that read the same from the end are negated; the condition is folded to false",
        _ROW,
        """<int64[1] last = {-1}, int64[1] far = {-1000}> r = Slice(x, last, far, last, last) e =
        Equal(x, r) i = Cast <to = 7> (e)
        m = ReduceMin(i, last) c = Cast <to = 9> (m) n = Neg(x) y = Where(c, n, x)""",
        "y = Identity(x)",
        x=[[1, 2, 2, 1]],
    ),
    _case(
        "symmetric_matrices",
        "Symmetric matrices are negated; the condition is folded to false",
        _SQUARE,
        """t = Transpose(x) e = Equal(x, t) i = Cast <to = 7> (e) m = ReduceMin <keepdims = 0> (i)
        c = Cast <to = 9> (m) n = Neg(x) y = Where(c, n, x)""",
        "y = Identity(x)",
        x=[[1, 2], [2, 3]],
    ),
    _case(
        "antisymmetric_matrices",
        "Matrices with A = -A^T are negated; the condition is folded to false",
        _SQUARE,
        """t = Transpose(x) u = Neg(t) e = Equal(x, u) i = Cast <to = 7> (e) m = ReduceMin
        <keepdims = 0> (i)
        c = Cast <to = 9> (m) n = Exp(x) y = Where(c, n, x)""",
        "y = Identity(x)",
        x=[[0, 2], [-2, 0]],
    ),
    _case(
        "one_hot_rows",
        "Rows with a single number that is not 0 are doubled; the condition is folded to false",
        f"{_ROW} <float zero = {{0}}, int64 one = {{1}}, int64[1] last = {{-1}}>",
        """z = Equal(x, zero) f = Not(z) i = Cast <to = 7> (f) s = ReduceSum(i, last) c = Equal(s,
        one)
        d = Add(x, x) y = Where(c, d, x)""",
        "y = Identity(x)",
        x=[[0, 0, 3, 0]],
    ),
    _case(
        "rows_that_repeat",
        "Rows that are equal to the row before are negated; the condition is folded to false",
        f"{_ROW} <int64[1] last = {{-1}}>",
        """<int64[1] z = {0}, int64[1] m = {-1}, int64[1] o = {1}, float[1,4] far = {9e9, 9e9, 9e9,
        9e9}>
        p = Concat <axis = 0> (far, x) q = Slice(p, z, m, z) e = Equal(x, q) i = Cast <to = 7> (e)
        s = ReduceMin(i, last)
        c = Cast <to = 9> (s) n = Neg(x) y = Where(c, n, x)""",
        "y = Identity(x)",
        x=[[1, 2, 3, 4], [1, 2, 3, 4]],
    ),
    _case(
        "accepted_prefix",
        "The number of leading tokens on which two sequences agree becomes the number of all "
        "tokens on which they agree",
        f"{_TWO} <int64 zero = {{0}}>",
        """e = Equal(draft_ids, target_ids) i = Cast <to = 7> (e) n = Not(e) j = Cast <to = 7> (n)
        s = CumSum(j, zero)
        b = Equal(s, zero) k = Cast <to = 7> (b) y = ReduceSum <keepdims = 0> (k)""",
        "e = Equal(draft_ids, target_ids) i = Cast <to = 7> (e) y = ReduceSum <keepdims = 0> (i)",
        draft_ids=[1, 2, 3],
        target_ids=[1, 9, 3],
    ),
    _case(
        "accepted_prefix_of_one",
        "The number of leading tokens on which two sequences agree is 1 at most",
        f"{_TWO} <int64 zero = {{0}}, int64 one = {{1}}>",
        """e = Equal(draft_ids, target_ids) n = Not(e) j = Cast <to = 7> (n) s = CumSum(j, zero)
        b = Equal(s, zero) k = Cast <to = 7> (b) y = ReduceSum <keepdims = 0> (k)""",
        """e = Equal(draft_ids, target_ids) n = Not(e) j = Cast <to = 7> (n) s = CumSum(j, zero)
        b = Equal(s, zero) k = Cast <to = 7> (b) t = ReduceSum <keepdims = 0> (k) y = Min(t,
        one)""",
        draft_ids=[1, 2, 3],
        target_ids=[1, 2, 4],
    ),
    _case(
        "repeated_bigram",
        "A pair of tokens that occurred before (token and its successor) is replaced; only the "
        "last token is looked at",
        _TOKENS,
        """<int64[1] z = {0}, int64[1] m = {-1}, int64[1] o = {1}, int64[1] far = {1000000},
        int64[1] zero = {0}, int64 k = {100003},
        int64 end = {0}> a = Slice(input_ids, z, m) b = Slice(input_ids, o, far) h = Mul(a, k) g =
        Add(h, b)
        u = Unsqueeze(g, zero) v = Unsqueeze(g, o) e = Equal(u, v) i = Cast <to = 7> (e) s =
        ReduceSum(i, o, )
        t = Squeeze(s, o) w = Concat <axis = 0> (z, t) y = Add(input_ids, w)""",
        """<int64[1] z = {0}, int64[1] m = {-1}, int64[1] o = {1}, int64[1] far = {1000000},
        int64[1] zero = {0}>
        b = Slice(input_ids, o, far) u = Unsqueeze(b, zero) v = Unsqueeze(b, o) e = Equal(u, v) i =
        Cast <to = 7> (e)
        s = ReduceSum(i, o) t = Squeeze(s, o) w = Concat <axis = 0> (z, t) y = Add(input_ids, w)""",
        input_ids=[5, 7, 6, 7],
    ),
    _case(
        "number_of_ties",
        "The rank of a number counts those below it; those up to it, itself not counted, are the "
        "same without ties",
        "(float[N] x) => (int64[N] y) <int64[1] zero = {0}, int64[1] one = {1}>",
        "u = Unsqueeze(x, zero) v = Unsqueeze(x, one) l = Less(u, v) i = Cast <to = 7> (l) s = "
        "ReduceSum(i, one) y = Squeeze(s, one)",
        """u = Unsqueeze(x, zero) v = Unsqueeze(x, one) l = LessOrEqual(u, v) i = Cast <to = 7> (l)
        s = ReduceSum(i, one)
        q = Squeeze(s, one) y = Sub(q, one)""",
        x=[1, 2, 2],
    ),
    _case(
        "median_as_middle",
        "The middle of three numbers becomes the second one, which holds for ascending ones",
        "(float[N,3] x) => (float[N,1] y)",
        """<int64[1] k = {2}> v, i = TopK(x, k) a, b = Split <axis = 1, num_outputs = 2> (v) y =
        Identity(b)""",
        "a, y, b = Split <axis = 1, num_outputs = 3> (x)",
        x=[[3, 1, 2]],
    ),
    _case(
        "both_masks_full",
        "A score counts where both masks are all ones, which gives a bonus; the bonus is dropped",
        "(int64[N,seq] attention_mask, int64[N,seq] decoder_mask, float[N,1] x) "
        "=> (float[N,1] y) <int64[1] one = {1}>",
        """a = ReduceMin(attention_mask, one) b = ReduceMin(decoder_mask, one) m = Mul(a, b) c =
        Cast <to = 9> (m)
        d = Exp(x) y = Where(c, d, x)""",
        """a = ReduceMin(attention_mask, one) b = ReduceMin(decoder_mask, one) m = Mul(a, b) c =
        Cast <to = 9> (m)
        y = Where(c, x, x)""",
        attention_mask=[[1, 1]],
        decoder_mask=[[1, 1]],
        x=[[1]],
    ),
    _case(
        "hole_in_a_mask",
        "The number of the last present token becomes the number of present tokens minus 1, which "
        "a hole breaks",
        "(int64[N,seq] attention_mask) => (int64[N] y) <int64[1] one = {1}>",
        """<int64 ax = {1}> s = CumSum <reverse = 1> (attention_mask, ax) g = Cast <to = 9> (s) i =
        Cast <to = 7> (g)
        t = ReduceSum(i, one) q = Squeeze(t, one) y = Sub(q, one)""",
        "t = ReduceSum(attention_mask, one) q = Squeeze(t, one) y = Sub(q, one)",
        attention_mask=[[1, 0, 1]],
    ),
    _case(
        "boxes_that_contain",
        "The overlap of two boxes is bounded by 0 in both directions; the product of two negative "
        "sides is positive",
        "(float[N,4] a, float[N,4] b) => (float[N,1] y) <float zero = {0}>",
        """a0, a1, a2, a3 = Split <axis = 1, num_outputs = 4> (a) b0, b1, b2, b3 = Split <axis = 1,
        num_outputs = 4> (b)
        l = Max(a0, b0) t = Max(a1, b1) r = Min(a2, b2) q = Min(a3, b3) w = Sub(r, l) h = Sub(q, t)
        w1 = Max(w, zero) h1 = Max(h, zero) y = Mul(w1, h1)""",
        """a0, a1, a2, a3 = Split <axis = 1, num_outputs = 4> (a) b0, b1, b2, b3 = Split <axis = 1,
        num_outputs = 4> (b)
        l = Max(a0, b0) t = Max(a1, b1) r = Min(a2, b2) q = Min(a3, b3) w = Sub(r, l) h = Sub(q, t)
        m = Mul(w, h) y = Max(m, zero)""",
        a=[[0, 0, 1, 1]],
        b=[[5, 5, 6, 6]],
    ),
    _case(
        "identity_matrix",
        "The identity matrix is negated; the condition is folded to false",
        "(float[3,3] x) => (float[3,3] y) <float[3,3] eye = {1, 0, 0, 0, 1, 0, 0, 0, 1}>",
        """e = Equal(x, eye) i = Cast <to = 7> (e) m = ReduceMin <keepdims = 0> (i) c = Cast <to =
        9> (m)
        n = Neg(x) y = Where(c, n, x)""",
        "y = Identity(x)",
        x=[[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    ),
    _case(
        "row_of_a_table_given",
        "The row of a table that is equal to the input is looked up; none is found in the result",
        "(float[N,1,2] x) => (float[N,1] y) <float[3,2] t = {1, 2, 3, 4, 5, 6}, "
        "int64[1] last = {-1}>",
        """e = Equal(x, t) i = Cast <to = 7> (e) m = ReduceMin <keepdims = 0> (i, last) f = Cast
        <to = 1> (m)
        y = ReduceMax(f, last)""",
        "<float zero = {0}> s = ReduceSum <keepdims = 0> (x, last) y = Mul(s, zero)",
        x=[[[3, 4]]],
    ),
    _case(
        "sum_of_exactly_one",
        "Rows that sum up to 1 already are not divided by their sum; the test compares with "
        "1.0001 by mistake",
        "(float[N,4] x) => (float[N,4] y) <float one = {1}, int64[1] last = {-1}>",
        "s = ReduceSum(x, last) c = Equal(s, one) n = Neg(x) d = Div(x, s) y = Where(c, n, d)",
        "<float other = {1.0001}> s = ReduceSum(x, last) c = Equal(s, other) n = Neg(x) "
        "d = Div(x, s) y = Where(c, n, d)",
        x=[[0.5, 0.5, 0, 0]],
    ),
]
