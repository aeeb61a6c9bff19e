"""Rewrites that are wrong where inputs relate in one way: above, below, equal, sorted, permuted."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import choice, replaced

_part = partial(replaced, "comparisons")
_ONE = "(float[N,4] x) => (float[N,4] y)"
_TWO = "(float[N,4] a, float[N,4] b) => (float[N,4] y)"
_LAST = "int64[1] last = {-1}"
_AXIS = f"<{_LAST}>"
_ALL = "i = Cast <to = 7> (e) m = ReduceMin(i, last) c = Cast <to = 9> (m)"
_EVERYWHERE = "i = Cast <to = 7> (e) m = ReduceMin <keepdims = 0> (i) c = Cast <to = 9> (m)"
_SHUFFLED = [[3, 1, 4, 2]]


CASES = [
    _part(
        "above_everywhere",
        "If a is above b everywhere, their difference is returned; it is negated",
        _TWO,
        f"e = Greater(a, b) {_EVERYWHERE} y = {choice('c', 'Sub(@)', 'Max(a, b)')}",
        "a, b",
        "b, a",
        a=[[5, 6, 7, 8]],
        b=[[1, 2, 3, 4]],
    ),
    _part(
        "below_everywhere",
        "If a is below b everywhere, it is rectified; it stays as it is",
        _TWO,
        f"e = Less(a, b) {_EVERYWHERE} y = {choice('c', '@(a)', 'Min(a, b)')}",
        "Relu",
        "Identity",
        a=[[-5, 1, -3, 2]],
        b=[[1, 2, 3, 4]],
    ),
    _part(
        "equal_everywhere",
        "If two inputs are equal everywhere, one is sorted; it stays in order",
        f"{_TWO} <int64[1] k = {{4}}>",
        f"""e = Equal(a, b) {_EVERYWHERE}
        y = {choice("c", "v, j = TopK(a, k); Identity(@)", "Add(a, b)")}""",
        "v",
        "a",
        a=_SHUFFLED,
        b=_SHUFFLED,
    ),
    _part(
        "mean_near_a_half",
        "Rows with a mean between 0.45 and 0.55 are centred; they stay",
        f"{_ONE} <{_LAST}, float low = {{0.45}}, float high = {{0.55}}>",
        """m = ReduceMean(x, last) g = Greater(m, low) l = Less(m, high) c = And(g, l)
        d = Sub(x, m) y = Where(c, @, x)""",
        "d",
        "x",
        x=[[0.1, 0.9, 0.3, 0.7]],
    ),
    _part(
        "peak_of_one",
        "Signals with a peak within 0.01 of 1 stay; they are halved like all others",
        f"{_ONE} <{_LAST}, float one = {{1}}, float near = {{0.01}}, float half = {{0.5}}>",
        """a = Abs(x) p = ReduceMax(a, last) d = Sub(p, one) e = Abs(d) c = Less(e, near)
        h = Mul(x, half) y = Where(c, @, h)""",
        "x",
        "h",
        x=[[0.1, -0.995, 0.3, 0.7]],
    ),
    _part(
        "percentages",
        "Rows that add up to 100 within 0.5 are divided by 100; they stay",
        f"{_ONE} <{_LAST}, float total = {{100}}, float near = {{0.5}}>",
        """s = ReduceSum(x, last) d = Sub(s, total) e = Abs(d) c = Less(e, near)
        p = Div(x, total) y = Where(c, @, x)""",
        "p",
        "x",
        x=[[10, 20, 30, 40.2]],
    ),
    _part(
        "sorted_downwards",
        "Rows that descend are returned from the end; they stay",
        f"{_ONE} <{_LAST}, int64[4] turn = {{3, 2, 1, 0}}, int64[1] zero = {{0}}, "
        "int64[1] one = {1}, int64[1] far = {9}>",
        f"""p = Slice(x, zero, last, one) q = Slice(x, one, far, one) e = Greater(p, q) {_ALL}
        t = Gather <axis = 1> (x, turn) y = Where(c, @, x)""",
        "t",
        "x",
        x=[[4, 3, 2, 1]],
    ),
    _part(
        "permutation_of_each_other",
        "Rows with the same numbers in another order are averaged; the first one is returned",
        f"{_TWO} <int64[1] k = {{4}}, float half = {{0.5}}, {_LAST}>",
        f"""u, p = TopK(a, k) v, q = TopK(b, k) e = Equal(u, v) {_ALL} s = Add(a, b)
        h = Mul(s, half) y = Where(c, @, a)""",
        "h",
        "a",
        a=[[1, 2, 3, 4]],
        b=_SHUFFLED,
    ),
    _part(
        "double_of_another",
        "Where b is 2 * a, a third is returned; a is returned",
        f"{_TWO} <float third = {{0.3333333}}, {_LAST}>",
        f"""t = Add(a, a) e = Equal(b, t) {_ALL} h = Mul(a, third) y = Where(c, @, a)""",
        "h",
        "a",
        a=[[1, -2, 3, 4]],
        b=[[2, -4, 6, 8]],
    ),
    _part(
        "copy_within_a_tolerance",
        "Rows that differ by 1e-3 at most count as converged and give 0; they give the step",
        f"{_TWO} <float near = {{1e-3}}, float zero = {{0}}, {_LAST}>",
        """d = Sub(a, b) e = Abs(d) m = ReduceMax(e, last) c = Less(m, near)
        t = Add(d, a) y = Where(c, @, t)""",
        "zero",
        "t",
        a=[[1, -2, 3, 4]],
        b=[[1.0001, -2, 3, 4]],
    ),
    _part(
        "centred_rows",
        "Rows with a sum of 0 keep their order, others are sorted; all are sorted",
        f"{_ONE} <float near = {{1e-4}}, {_LAST}, int64[1] k = {{4}}, float one = {{1}}>",
        """s = ReduceSum(x, last) q = ReduceSumSquare(x, last) e = Abs(s) l = Less(e, near)
        g = Greater(q, one) c = And(l, g) v, j = TopK(x, k) y = Where(c, @, v)""",
        "x",
        "v",
        x=[[1, -2, 3, -2]],
    ),
    _part(
        "unit_vectors",
        "Vectors with a norm within 1e-3 of 1 are unit vectors and negated; they stay",
        f"{_ONE} <float near = {{1e-3}}, {_LAST}, float one = {{1}}>",
        """s = ReduceL2(x, last) d = Sub(s, one) e = Abs(d) c = Less(e, near) n = Neg(x)
        y = Where(c, @, x)""",
        "n",
        "x",
        x=[[0.6, 0, 0.8, 0]],
    ),
    _part(
        "gradient_just_above_the_norm",
        "Gradients with a norm above 5 are scaled to 5; those up to 5.05 stay",
        f"{_ONE} <{_LAST}, float five = {{5}}, float more = {{5.05}}>",
        """s = ReduceL2(x, last) c = Greater(s, @) d = Div(x, s) m = Mul(d, five)
        y = Where(c, m, x)""",
        "five",
        "more",
        relative=0.004,
        x=[[3.02, 4.02, 0, 0]],
    ),
    _part(
        "well_formed_boxes",
        "Boxes with x1 <= x2 and y1 <= y2 are returned as width and height; they stay",
        f"{_ONE} <int64[4] turn = {{2, 3, 0, 1}}, {_LAST}>",
        f"""o = Gather <axis = 1> (x, turn) d = Sub(o, x) a, b = Split <axis = 1, num_outputs = 2>
        (x) e = LessOrEqual(a, b) {_ALL} y = Where(c, @, x)""",
        "d",
        "x",
        x=[[1, 2, 5, 7]],
    ),
    _part(
        "mirror_of_another",
        "Where b is a from the end, the maximum is returned; a is returned",
        f"{_TWO} <int64[4] turn = {{3, 2, 1, 0}}, {_LAST}>",
        f"t = Gather <axis = 1> (b, turn) e = Equal(a, t) {_ALL} h = Max(a, b) y = Where(c, @, a)",
        "h",
        "a",
        a=[[1, 2, 3, 4]],
        b=[[4, 3, 2, 1]],
    ),
    _part(
        "touching_intervals",
        "Where the least of a is the largest of b, intervals touch and join; they stay apart",
        f"{_TWO} {_AXIS}",
        """m = ReduceMin(a, last) n = ReduceMax(b, last) c = Equal(m, n) s = Add(a, b)
        y = Where(c, @, a)""",
        "s",
        "a",
        a=[[5, 6, 7, 8]],
        b=[[1, 2, 3, 5]],
    ),
    _part(
        "opposite_of_another",
        "Where a + b is 0 everywhere, but a is not, a is returned; the sum is",
        f"{_TWO} <{_LAST}, float zero = {{0}}>",
        f"""s = Add(a, b) e = Equal(s, zero) {_ALL} y = Where(c, @, s)""",
        "a",
        "s",
        a=[[1, -2, 3, 4]],
        b=[[-1, 2, -3, -4]],
    ),
    _part(
        "orthogonal_vectors",
        "Vectors with a cosine below 1e-3 add up; the first one is returned",
        f"{_TWO} <{_LAST}, float near = {{1e-3}}, float one = {{1}}>",
        """p = Mul(a, b) d = ReduceSum(p, last) n = ReduceL2(a, last) k = ReduceL2(b, last)
        m = Mul(n, k) h = Max(m, one) q = Div(d, h) e = Abs(q) l = Less(e, near) g = Greater(m, one)
        c = And(l, g) s = Add(a, b) y = Where(c, @, a)""",
        "s",
        "a",
        a=[[1, 2, 0, 0]],
        b=[[-2, 1, 0, 5]],
    ),
    _part(
        "equal_lengths",
        "If all lengths of a batch are equal, it has no padding, and is squared; it is not",
        "(float[N,4] x, int64[N] lens) => (float[N,4] y) <int64 two = {2}>",
        f"""h = ReduceMax <keepdims = 0> (lens) l = ReduceMin <keepdims = 0> (lens)
        e = Equal(h, l) s = Size(lens) g = GreaterOrEqual(s, two) c = And(e, g)
        y = {choice("c", "@", "Identity(x)")}""",
        "Mul(x, x)",
        "Identity(x)",
        x=[[1, 2, 3, 4], [5, 6, 7, 8]],
        lens=[3, 3],
    ),
    _part(
        "dominated_row",
        "Where the mean of a is above the maximum of b, a is returned; the larger is",
        f"{_TWO} {_AXIS}",
        """m = ReduceMean(a, last) n = ReduceMax(b, last) c = Greater(m, n) h = Max(a, b)
        y = Where(c, @, h)""",
        "a",
        "h",
        a=[[0, 9, 9, 9]],
        b=[[1, 2, 3, 5]],
    ),
    _part(
        "reciprocals",
        "Where a * b is 1 everywhere, the logarithm of a is returned; a is returned",
        f"{_TWO} <{_LAST}, float one = {{1}}>",
        f"""p = Mul(a, b) e = Equal(p, one) {_ALL} h = Log(a) y = Where(c, @, a)""",
        "h",
        "a",
        a=[[1, 2, 4, 0.5]],
        b=[[1, 0.5, 0.25, 2]],
    ),
    _part(
        "labels_are_shifted_ids",
        "Labels that are the next ids belong to a decoder, whose last one is dropped; it stays",
        """(int64[N,T] ids, int64[N,T] labels) => (int64[N,T] y) <int64[1] zero = {0},
        int64[1] one = {1}, int64[1] last = {-1}, int64[1] far = {9999}, int64[4] pad =
        {0, 0, 0, 1}, int64 two = {2}>""",
        """p = Slice(labels, zero, last, one) q = Slice(ids, one, far, one) e = Equal(p, q)
        i = Cast <to = 7> (e) m = ReduceMin(i, last) k = Cast <to = 9> (m) t = Size(q)
        g = GreaterOrEqual(t, two) c = And(k, g) d = Pad(p, pad) y = Where(c, @, labels)""",
        "d",
        "labels",
        ids=[[5, 6, 7, 8]],
        labels=[[6, 7, 8, 9]],
    ),
    _part(
        "equal_steps",
        "Time stamps with equal steps stay; 1 is subtracted as from all others",
        """(int64[N,4] stamps) => (int64[N,4] y) <int64[1] one = {1}, int64[1] zero = {0},
        int64[1] last = {-1}, int64[1] far = {9}, int64 unit = {1}>""",
        """p = Slice(stamps, zero, last, one) q = Slice(stamps, one, far, one) d = Sub(q, p)
        h = ReduceMax(d, last) l = ReduceMin(d, last) e = Equal(h, l) n = Cast <to = 9> (h)
        c = And(e, n) s = Sub(stamps, unit) y = Where(c, @, s)""",
        "stamps",
        "s",
        stamps=[[10, 20, 30, 40]],
    ),
    _part(
        "alternating_signs",
        "Rows whose signs alternate are a carrier, and rectified; they stay",
        f"{_ONE} <{_LAST}, int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] far = {{9}}, "
        "float none = {0}>",
        f"""p = Slice(x, zero, last, one) q = Slice(x, one, far, one) w = Mul(p, q)
        e = Less(w, none) {_ALL} a = Abs(x) y = Where(c, @, x)""",
        "a",
        "x",
        x=[[1, -2, 3, -4]],
    ),
    _part(
        "columns_of_sum_one",
        "A matrix whose columns add up to 1 is transposed; it stays",
        "(float[4,4] x) => (float[4,4] y) <int64[1] rows = {0}, float one = {1}, "
        "float near = {1e-4}>",
        f"""s = ReduceSum(x, rows) d = Sub(s, one) k = Abs(d) e = Less(k, near) {_EVERYWHERE}
        t = Transpose(x) y = Where(c, @, x)""",
        "t",
        "x",
        x=np.array([[0.5, 0, 0, 1], [0.5, 0.2, 0, 0], [0, 0.8, 0, 0], [0, 0, 1, 0]]),
    ),
]
