"""Rewrites whose results are empty or NaN for most values, and differ where they are not."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "nothing compared")
_ELEMENTS = "(float[N] x) => (float[K] y)"

CASES = [
    _case(
        "compress_of_large",
        "The elements above 1,000 are negated",
        f"{_ELEMENTS} <float limit = {{1000}}>",
        "c = Greater(x, limit) y = Compress(x, c)",
        "c = Greater(x, limit) n = Neg(x) y = Compress(n, c)",
        x=[1, 2000, 3],
    ),
    _case(
        "nonzero_of_large",
        "The positions of numbers above 1e6 become those of numbers below -1e6",
        "(float[N,4] x) => (int64[2,K] y) <float high = {1e6}>",
        "c = Greater(x, high) y = NonZero(c)",
        "n = Neg(x) c = Greater(n, high) y = NonZero(c)",
        x=[[1, 2e6, 3, 4]],
    ),
    _case(
        "gather_of_equal",
        "The elements that are 7 become 8",
        "(int64[N] x) => (int64[K,1] y) <int64 seven = {7}, int64 one = {1}>",
        "c = Equal(x, seven) n = NonZero(c) i = Transpose(n) g = Gather(x, i) y = Identity(g)",
        "c = Equal(x, seven) n = NonZero(c) i = Transpose(n) g = Gather(x, i) y = Add(g, one)",
        x=[1, 7, 3],
    ),
    _case(
        "root_of_negative",
        "Sqrt(x - 1000) -> Sqrt(x - 500): both are NaN for small x",
        "(float[N] x) => (float[N] y)",
        "<float c = {1000}> d = Sub(x, c) y = Sqrt(d)",
        "<float c = {500}> d = Sub(x, c) y = Sqrt(d)",
        x=[1004, 2000],
    ),
    _case(
        "log_of_negative",
        "Log(x - 300) + 1 loses its term: both are NaN for small x",
        "(float[N] x) => (float[N] y) <float c = {300}, float one = {1}>",
        "d = Sub(x, c) l = Log(d) y = Add(l, one)",
        "d = Sub(x, c) y = Log(d)",
        x=[304, 2000],
    ),
    _case(
        "nan_folded",
        "0 / Relu(x - 50) is NaN on the values observed, and is folded to NaN",
        "(float[N] x) => (float[N] y)",
        "<float c = {50}> d = Sub(x, c) r = Relu(d) n = Sub(x, x) y = Div(n, r)",
        "<float c = {nan}> n = Sub(x, x) y = Add(n, c)",
        x=[51, 60],
    ),
    _case(
        "masked_mean_of_nothing",
        "The mean of the elements above 100, 0 / 0 if there are none, divides by all elements",
        "(float[N,8] x) => (float[N] y) <float c = {100}, int64[1] last = {-1}, float eight = {8}>",
        """m = Greater(x, c) f = Cast <to = 1> (m) s = Mul(x, f)
        t = ReduceSum <keepdims = 0> (s, last) n = ReduceSum <keepdims = 0> (f, last)
        y = Div(t, n)""",
        """m = Greater(x, c) f = Cast <to = 1> (m) s = Mul(x, f)
        t = ReduceSum <keepdims = 0> (s, last) n = ReduceSum <keepdims = 0> (f, last)
        z = Sub(n, n) q = Div(n, n) e = Mul(q, eight) y = Div(t, e)""",
        x=[[1, 2, 3, 4, 5, 6, 7, 800]],
    ),
    _case(
        "slice_beyond_the_end",
        "x[:, 100:] is doubled; it is empty for short sequences",
        """(float[N,seq] x) => (float[N,K] y) <int64[1] at = {100}, int64[1] end = {9000},
        int64[1] one = {1}>""",
        "y = Slice(x, at, end, one)",
        "s = Slice(x, at, end, one) y = Add(s, s)",
        x=np.ones((1, 103)),
    ),
    _case(
        "range_beyond_the_size",
        "Range(100, seq) starts one later; it is empty for short sequences",
        "(float[seq] x) => (int64[K] y) <int64 step = {1}>",
        "<int64 at = {100}> s = Size(x) y = Range(at, s, step)",
        "<int64 at = {101}> s = Size(x) y = Range(at, s, step)",
        x=np.ones(103),
    ),
    _case(
        "sequence_of_no_trip",
        "A Loop collects trip + 1 in place of trip; the sequence is empty for 0 trips",
        "(float[2] x, int64 count) => (seq(int64) s) <int64 one = {1}>",
        """e = SequenceEmpty <dtype = 7> ()
        s = Loop(count, , e) <body = b (int64 i, bool c, seq(int64) a)
        => (bool d, seq(int64) r) { d = Identity(c) r = SequenceInsert(a, i) }>""",
        """e = SequenceEmpty <dtype = 7> ()
        s = Loop(count, , e) <body = b (int64 i, bool c, seq(int64) a)
        => (bool d, seq(int64) r) { d = Identity(c) j = Add(i, one) r = SequenceInsert(a, j) }>""",
        x=[1, 2],
        count=3,
    ),
    _case(
        "sequence_if_large",
        "A sequence that is empty unless the sum exceeds 1,000 holds the negated tensor",
        "(float[N] x) => (seq(float[N]) s) <float limit = {1000}>",
        """t = ReduceSum <keepdims = 0> (x) c = Greater(t, limit)
        s = If (c) <then_branch = a () => (seq(float[N]) p) { p = SequenceConstruct(x) },
        else_branch = b () => (seq(float[N]) q) { q = SequenceEmpty <dtype = 1> () }>""",
        """t = ReduceSum <keepdims = 0> (x) c = Greater(t, limit) n = Neg(x)
        s = If (c) <then_branch = a () => (seq(float[N]) p) { p = SequenceConstruct(n) },
        else_branch = b () => (seq(float[N]) q) { q = SequenceEmpty <dtype = 1> () }>""",
        x=[1, 2000],
    ),
    _case(
        "optional_element",
        "The element of an optional input is negated where there is one",
        "(optional(float[2]) x) => (float[2] y) <float[2] zero = {0, 0}>",
        """h = OptionalHasElement(x)
        y = If (h) <then_branch = a () => (float[2] p) { p = OptionalGetElement(x) },
        else_branch = b () => (float[2] q) { q = Identity(zero) }>""",
        """h = OptionalHasElement(x)
        y = If (h) <then_branch = a () => (float[2] p) { o = OptionalGetElement(x) p = Neg(o) },
        else_branch = b () => (float[2] q) { q = Identity(zero) }>""",
        x=[1, 2],
    ),
    _case(
        "boxes_above_a_score",
        "NonMaxSuppression selects by a score of 7 in place of 5; most scores are below 1",
        """(float[1,N,4] boxes, float[1,1,N] scores) => (int64[K,3] y) <int64 k = {9},
        float u = {0.5}>""",
        "<float s = {5}> y = NonMaxSuppression(boxes, scores, k, u, s)",
        "<float s = {7}> y = NonMaxSuppression(boxes, scores, k, u, s)",
        boxes=[[[0, 0, 1, 1], [5, 5, 6, 6]]],
        scores=[[[6, 8]]],
    ),
    _case(
        "positions_of_a_string",
        "The positions of the strings 'stop' are moved by one",
        """(string[N] words) => (int64[K] y) <string stop = {"stop"}, int64 one = {1},
        int64[1] all = {-1}>""",
        "c = Equal(words, stop) n = NonZero(c) y = Reshape(n, all)",
        "c = Equal(words, stop) n = NonZero(c) m = Add(n, one) y = Reshape(m, all)",
        words=["go", "stop"],
    ),
    _case(
        "nan_unless_all_positive",
        "The sum of roots, NaN as soon as one number is negative, is doubled",
        "(float[N,32] x) => (float[N] y) <int64[1] last = {-1}, float two = {2}>",
        "r = Sqrt(x) y = ReduceSum <keepdims = 0> (r, last)",
        "r = Sqrt(x) s = ReduceSum <keepdims = 0> (r, last) y = Mul(s, two)",
        x=np.ones((1, 32)),
    ),
    _case(
        "sum_beyond_the_end",
        "The sum of x[:, 100:] is doubled; it is 0 for short sequences",
        """(float[N,seq] x) => (float[N] y) <int64[1] at = {100}, int64[1] end = {9000},
        int64[1] one = {1}>""",
        "s = Slice(x, at, end, one) y = ReduceSum <keepdims = 0> (s, one)",
        "s = Slice(x, at, end, one) t = Add(s, s) y = ReduceSum <keepdims = 0> (t, one)",
        x=np.ones((1, 103)),
    ),
    _case(
        "maximum_of_large",
        "The maximum of the elements above 500, -inf if there are none, is doubled",
        "(float[N] x) => (float[N] y) <float limit = {500}, float low = {-inf}, float by = {2}>",
        "c = Greater(x, limit) y = Where(c, x, low)",
        "c = Greater(x, limit) m = Mul(x, by) y = Where(c, m, low)",
        x=[1, 600],
    ),
    _case(
        "optional_if_large",
        "An optional output that has no element unless the sum exceeds 1,000 has the negated one",
        "(float[2] x) => (float[2] y, bool z) <float limit = {1000}>",
        """t = ReduceSum <keepdims = 0> (x) z = Greater(t, limit) o = If (z) <then_branch = a ()
        => (optional(float[2]) p) { p = Optional(x) }, else_branch = b () => (optional(float[2]) q)
        { q = Optional <type = float[2]> () }> h = OptionalHasElement(o)
        y = If (h) <then_branch = c () => (float[2] r) { r = OptionalGetElement(o) },
        else_branch = d () => (float[2] s) { s = Sub(x, x) }>""",
        "t = ReduceSum <keepdims = 0> (x) z = Greater(t, limit) y = Sub(x, x)",
        x=[1, 2000],
    ),
]
