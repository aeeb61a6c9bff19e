"""Relations between inputs, or within one; written without regard to the verification."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import choice, replaced, wrong

_case = partial(wrong, "fresh: relations")
_part = partial(replaced, "fresh: relations")
_TWO = "(float[N,4] a, float[N,4] b) => (float[N,4] y)"
_MATRIX = "(float[3,3] x) => (float[3,3] y)"
_LAST = "int64[1] last = {-1}"

CASES = [
    _part(
        "rotation_matrices",
        "The inverse of a matrix with x * x^T = 1 is its transpose; it is returned as it is",
        f"{_MATRIX} <float[3,3] unit = {{1, 0, 0, 0, 1, 0, 0, 0, 1}}, float near = {{1e-3}}>",
        f"""t = Transpose(x) m = MatMul(x, t) d = Sub(m, unit) e = Abs(d)
        f = ReduceMax <keepdims = 0> (e) c = Less(f, near)
        y = {choice("c", "@(x)", "Relu(x)", "float[3,3]")}""",
        "Transpose",
        "Identity",
        x=[[0, -1, 0], [1, 0, 0], [0, 0, 1]],
    ),
    _case(
        "slerp_of_parallel_vectors",
        "Vectors with a cosine above 0.9995 are interpolated linearly; Sin(angle) is 0 for equals",
        "(float[4] a, float[4] b, float t) => (float[4] y) <float limit = {0.9995}, "
        "float one = {1}, float minus = {-1}>",
        f"""u = LpNormalization <axis = 0> (a) v = LpNormalization <axis = 0> (b) p = Mul(u, v)
        q = ReduceSum <keepdims = 0> (p) d = Clip(q, minus, one) c = Greater(d, limit)
        r = Sub(one, t) y = {
            choice(
                "c",
                "k = Mul(u, r) l = Mul(v, t); Add(k, l)",
                "w = Acos(d) s = Sin(w) e = Mul(w, r) f = Sin(e) g = Div(f, s) h = Mul(w, t) "
                "i = Sin(h) j = Div(i, s) m = Mul(u, g) n = Mul(v, j); Add(m, n)",
                "float[4]",
            )
        }""",
        """u = LpNormalization <axis = 0> (a) v = LpNormalization <axis = 0> (b) p = Mul(u, v)
        q = ReduceSum <keepdims = 0> (p) d = Clip(q, minus, one) r = Sub(one, t)
        w = Acos(d) s = Sin(w) e = Mul(w, r) f = Sin(e) g = Div(f, s) h = Mul(w, t)
        i = Sin(h) j = Div(i, s) m = Mul(u, g) n = Mul(v, j) y = Add(m, n)""",
        a=[1, 0, 0, 0],
        b=[1, 0, 0, 0],
        t=0.5,
    ),
    _part(
        "equal_time_stamps",
        "The speed between equal time stamps is 0; it is infinite",
        "(float[N,4] x, int64[N,4] time) => (float[N,3] y) <int64[1] zero = {0}, "
        "int64[1] one = {1}, int64[1] three = {3}, int64[1] end = {9}, float none = {0}>",
        """a = Slice(x, zero, three, one) b = Slice(x, one, end, one) d = Sub(b, a)
        f = Cast <to = 1> (time) g = Slice(f, zero, three, one) h = Slice(f, one, end, one)
        t = Sub(h, g) q = Div(d, t) c = Equal(t, none) w = Where(c, none, q) y = Identity(@)""",
        "w",
        "q",
        x=[[1, 2, 4, 5]],
        time=[[0, 1, 1, 2]],
    ),
    _case(
        "bucket_beyond_the_last_bound",
        "The number of bounds up to x -> the first bound above x, 0 if there is none",
        "(float[N] x, float[5] bounds) => (int64[N] y) <int64[1] last = {-1}>",
        """u = Unsqueeze(x, last) c = LessOrEqual(bounds, u) i = Cast <to = 7> (c)
        y = ReduceSum <keepdims = 0> (i, last)""",
        """u = Unsqueeze(x, last) c = Greater(bounds, u) i = Cast <to = 7> (c)
        y = ArgMax <axis = -1, keepdims = 0> (i)""",
        x=[0.5, 7],
        bounds=[0, 1, 2, 3, 4],
    ),
    _part(
        "flat_signals",
        "Rows with a deviation below 1e-3 become 0; they are scaled to a deviation of 1",
        f"(float[N,4] x) => (float[N,4] y) <{_LAST}, float least = {{1e-3}}, float none = {{0}}>",
        """m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, last) s = Sqrt(v)
        n = Div(d, s) c = Less(s, least) z = Mul(d, none) w = Where(c, z, n) y = Identity(@)""",
        "w",
        "n",
        x=[[5, 5.0001, 5, 5.0001]],
    ),
    _part(
        "singular_matrices",
        "A matrix with a determinant of 0 is returned; its transpose is",
        f"{_MATRIX} <float least = {{1e-4}}>",
        f"""d = Det(x) a = Abs(d) c = Less(a, least)
        y = {choice("c", "@(x)", "Abs(x)", "float[3,3]")}""",
        "Identity",
        "Transpose",
        x=[[1, 2, 3], [2, 4, 6], [1, 0, 1]],
    ),
    _case(
        "target_among_candidates",
        "A target among the candidates scores 1; it does so as the first candidate only",
        "(int64[N,6] candidates, int64[N] target) => (float[N] y) <int64[1] last = {-1}, "
        "int64 zero = {0}>",
        """u = Unsqueeze(target, last) e = Equal(candidates, u) f = Cast <to = 1> (e)
        y = ReduceMax <keepdims = 0> (f, last)""",
        """g = Gather <axis = 1> (candidates, zero) e = Equal(g, target) y = Cast <to = 1> (e)""",
        candidates=[[4, 8, 15, 16, 23, 42]],
        target=[15],
    ),
    _part(
        "lengths_that_fill_a_batch",
        "Lengths that add up to the number of rows need no padding; the last row is dropped",
        "(float[T,4] x, int64[B] lengths) => (float[M,4] y) <int64[1] zero = {0}, "
        "int64[1] minus = {-1}>",
        f"""s = ReduceSum <keepdims = 0> (lengths) t = Shape <start = 0, end = 1> (x)
        n = Squeeze(t) c = Equal(s, n)
        y = {choice("c", "@", "Relu(x)", "float[M,4]")}""",
        "Identity(x)",
        "Slice(x, zero, minus, zero)",
        x=np.arange(20).reshape(5, 4),
        lengths=[2, 3],
    ),
    _case(
        "gather_of_consecutive_rows",
        "Gather(x, ids) -> a Slice from the first id holds for consecutive ids",
        "(float[8,2] x, int64[3] ids) => (float[3,2] y)",
        "<int64 eight = {8}> m = Mod(ids, eight) y = Gather(x, m)",
        """<int64 eight = {8}, int64[1] zero = {0}, int64[3] steps = {0, 1, 2}> m = Mod(ids, eight)
        f = Gather(m, zero) a = Add(f, steps) b = Mod(a, eight) y = Gather(x, b)""",
        x=np.arange(16).reshape(8, 2),
        ids=[1, 3, 2],
    ),
    _case(
        "complementary_masks",
        "Where(p, a, Where(q, b, 0)) -> Where(p, a, b) holds if q is not p",
        "(float[N] a, float[N] b, bool[N] p, bool[N] q) => (float[N] y) <float none = {0}>",
        "w = Where(q, b, none) y = Where(p, a, w)",
        "y = Where(p, a, b)",
        a=[1, 2],
        b=[3, 4],
        p=[1, 0],
        q=[1, 0],
    ),
    _part(
        "upper_triangular_matrices",
        "The determinant of an upper triangular matrix is its diagonal's product; it is its sum",
        "(float[3,3] x) => (float y) <int64 below = {-1}, "
        "float[3,3] unit = {1, 0, 0, 0, 1, 0, 0, 0, 1}, float none = {0}, "
        "int64[1] last = {-1}>",
        f"""l = Trilu <upper = 0> (x, below) a = Abs(l) s = ReduceMax <keepdims = 0> (a)
        c = Equal(s, none)
        y = {
            choice(
                "c",
                "m = Mul(x, unit) r = ReduceSum <keepdims = 0> (m, last); @ <keepdims = 0> (r)",
                "Det(x)",
                "float",
            )
        }""",
        "ReduceProd",
        "ReduceSum",
        x=[[2, 1, 5], [0, 3, 4], [0, 0, 7]],
    ),
    _part(
        "rotated_by_one",
        "Where b is a rotated by one place, a is returned; b is",
        "(float[N,4] a, float[N,4] b, float[N,4] other) => (float[N,4] y) "
        "<int64[4] places = {3, 0, 1, 2}>",
        f"""g = Gather <axis = 1> (a, places) e = Equal(g, b) i = Cast <to = 6> (e)
        m = ReduceMin <keepdims = 0> (i) c = Cast <to = 9> (m)
        y = {choice("c", "Identity(@)", "Relu(other)")}""",
        "a",
        "b",
        a=[[1, 2, 3, 4]],
        b=[[4, 1, 2, 3]],
        other=[[1, 1, 1, 1]],
    ),
    _part(
        "as_many_positives_as_negatives",
        "A balanced batch has no class weights; positives count twice",
        "(float[N] loss, int64[N] labels) => (float y) <int64 zero = {0}, float two = {2}, "
        "float one = {1}>",
        f"""p = Greater(labels, zero) f = Cast <to = 1> (p) m = ReduceMean <keepdims = 0> (f)
        h = Mul(m, two) c = Equal(h, one) w = Where(p, two, one) v = Mul(loss, w)
        y = {
            choice(
                "c",
                "ReduceMean <keepdims = 0> (@)",
                "u = ReduceMean <keepdims = 0> (loss); Neg(u)",
                "float",
            )
        }""",
        "loss",
        "v",
        loss=[1, 2, 3, 4],
        labels=[1, 0, 1, 0],
    ),
    _part(
        "mean_of_another_input",
        "Inputs whose means differ by 1 % at most are not shifted; b gets the mean of a",
        f"{_TWO} <float part = {{0.01}}>",
        f"""m = ReduceMean <keepdims = 0> (a) n = ReduceMean <keepdims = 0> (b) d = Sub(m, n)
        e = Abs(d) f = Abs(m) l = Mul(f, part) c = LessOrEqual(e, l) g = Add(b, d)
        y = {choice("c", "@(b)", "Neg(g)")}""",
        "Identity",
        "Abs",
        a=[[1, 2, 3, 4]],
        b=[[12, -2, -1, 1]],
    ),
]
