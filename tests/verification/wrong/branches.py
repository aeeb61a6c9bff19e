"""Rewrites that are wrong in a branch or trip that plain values do not reach."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "branches")
_PLAIN = "(float[N,4] x) => (float[N,4] y)"
_TRIPS = "(int64 count, float[2] x) => (float[2] y)"

CASES = [
    _case(
        "if_large_sum",
        "The branch for a sum above 1,000 is dropped",
        f"{_PLAIN} <float limit = {{1000}}>",
        """t = ReduceSum <keepdims = 0> (x) c = Greater(t, limit)
        y = If (c) <then_branch = a () => (float[N,4] p) { p = Neg(x) },
        else_branch = b () => (float[N,4] q) { q = Relu(x) }>""",
        "y = Relu(x)",
        x=[[1, 2, 3, 2000]],
    ),
    _case(
        "if_many_rows",
        "The branch for more than 16 rows is dropped",
        f"{_PLAIN} <int64 limit = {{16}}>",
        """s = Shape <start = 0, end = 1> (x) n = Squeeze(s) c = Greater(n, limit)
        y = If (c) <then_branch = a () => (float[N,4] p) { p = Neg(x) },
        else_branch = b () => (float[N,4] q) { q = Relu(x) }>""",
        "y = Relu(x)",
        x=np.ones((17, 4)),
    ),
    _case(
        "if_one_row",
        "The branch for one row is taken for all numbers of rows, as observed",
        f"{_PLAIN} <int64 one = {{1}}>",
        """s = Shape <start = 0, end = 1> (x) n = Squeeze(s) c = Equal(n, one)
        y = If (c) <then_branch = a () => (float[N,4] p) { p = Neg(x) },
        else_branch = b () => (float[N,4] q) { q = Abs(x) }>""",
        "y = Neg(x)",
        x=np.ones((2, 4)),
    ),
    _case(
        "if_first_element",
        "The branch for a first element below -50 is dropped",
        f"{_PLAIN} <int64[2] zeros = {{0, 0}}, float limit = {{-50}}>",
        """e = GatherND(x, zeros) c = Less(e, limit)
        y = If (c) <then_branch = a () => (float[N,4] p) { p = Exp(x) },
        else_branch = b () => (float[N,4] q) { q = Relu(x) }>""",
        "y = Relu(x)",
        x=[[-60, 2, 3, 1]],
    ),
    _case(
        "if_in_an_if",
        "The inner branch, for a maximum above 30 and a minimum below -30, is dropped",
        f"{_PLAIN} <float high = {{30}}, float low = {{-30}}>",
        """m = ReduceMax <keepdims = 0> (x) c = Greater(m, high)
        y = If (c) <then_branch = a () => (float[N,4] p) { n = ReduceMin <keepdims = 0> (x)
        d = Less(n, low) p = If (d) <then_branch = e () => (float[N,4] r) { r = Neg(x) },
        else_branch = f () => (float[N,4] s) { s = Abs(x) }> },
        else_branch = b () => (float[N,4] q) { q = Relu(x) }>""",
        """m = ReduceMax <keepdims = 0> (x) c = Greater(m, high)
        y = If (c) <then_branch = a () => (float[N,4] p) { p = Abs(x) },
        else_branch = b () => (float[N,4] q) { q = Relu(x) }>""",
        x=[[1, 2, 40, -40]],
    ),
    _case(
        "if_flag_and_number",
        "The branch for a flag and a number above 20 is dropped",
        "(float[N] x, bool flag, int64 n) => (float[N] y) <int64 limit = {20}>",
        """g = Greater(n, limit) c = And(flag, g)
        y = If (c) <then_branch = a () => (float[N] p) { p = Neg(x) },
        else_branch = b () => (float[N] q) { q = Relu(x) }>""",
        "y = Relu(x)",
        x=[1, 2],
        flag=True,
        n=21,
    ),
    _case(
        "if_not_a_number",
        "The branch for a sum that is NaN is dropped",
        f"{_PLAIN} <float zero = {{0}}>",
        """t = ReduceSum <keepdims = 0> (x) c = IsNaN(t)
        y = If (c) <then_branch = a () => (float[N,4] p) { s = Shape(x) p = Expand(zero, s) },
        else_branch = b () => (float[N,4] q) { q = Relu(x) }>""",
        "y = Relu(x)",
        x=[["nan", 2, 3, 4]],
    ),
    _case(
        "if_empty",
        "The branch for a tensor without elements, which gives one row of zeros, is dropped",
        "(float[N,4] x) => (float[K,4] y) <int64 zero = {0}, float[1,4] row = {0, 0, 0, 0}>",
        """s = Size(x) c = Equal(s, zero)
        y = If (c) <then_branch = a () => (float[K,4] p) { p = Identity(row) },
        else_branch = b () => (float[K,4] q) { q = Relu(x) }>""",
        "y = Relu(x)",
        x=np.ones((0, 4)),
    ),
    _case(
        "if_token",
        "The branch for a sequence that begins with token 101 is dropped",
        "(int64[seq] ids) => (int64[seq] y) <int64[1] zero = {0}, int64 token = {101}>",
        """e = GatherND(ids, zero) c = Equal(e, token)
        y = If (c) <then_branch = a () => (int64[seq] p) { p = Neg(ids) },
        else_branch = b () => (int64[seq] q) { q = Abs(ids) }>""",
        "y = Abs(ids)",
        ids=[101, 5],
    ),
    _case(
        "branches_swapped_at_limit",
        "Greater becomes GreaterOrEqual: a step at exactly 10 takes the other branch",
        "(float[N] x, int64 step) => (float[N] y) <int64 limit = {10}>",
        """c = Greater(step, limit)
        y = If (c) <then_branch = a () => (float[N] p) { p = Neg(x) },
        else_branch = b () => (float[N] q) { q = Relu(x) }>""",
        """c = GreaterOrEqual(step, limit)
        y = If (c) <then_branch = a () => (float[N] p) { p = Neg(x) },
        else_branch = b () => (float[N] q) { q = Relu(x) }>""",
        x=[1, 2],
        step=10,
    ),
    _case(
        "loop_at_least_once",
        "A Loop is rotated: its first trip is taken in any case",
        f"{_TRIPS} <int64 one = {{1}}, int64 zero = {{0}}>",
        """y = Loop(count, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { d = Identity(c) r = Add(a, a) }>""",
        """f = Add(x, x) m = Sub(count, one) n = Max(m, zero)
        y = Loop(n, , f) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { d = Identity(c) r = Add(a, a) }>""",
        count=0,
        x=[1, 2],
    ),
    _case(
        "loop_as_its_body",
        "A Loop becomes its body, as if it ran once",
        _TRIPS,
        """y = Loop(count, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { d = Identity(c) r = Add(a, a) }>""",
        "y = Add(x, x)",
        count=2,
        x=[1, 2],
    ),
    _case(
        "loop_of_few_trips",
        "x * 2^n -> x * (1 + n * (n + 1) / 2) holds for 0, 1 and 2 trips",
        f"{_TRIPS} <float one = {{1}}, float half = {{0.5}}>",
        """y = Loop(count, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { d = Identity(c) r = Add(a, a) }>""",
        """f = Cast <to = 1> (count) g = Add(f, one) h = Mul(f, g) m = Mul(h, half) k = Add(m, one)
        y = Mul(x, k)""",
        count=3,
        x=[1, 2],
    ),
    _case(
        "loop_until_large",
        "A Loop that doubles until the sum reaches 100 is unrolled to 7 trips",
        "(float[2] x) => (float[2] y) <bool yes = {1}, float limit = {100}>",
        """y = Loop(, yes, x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { r = Add(a, a) n = Abs(r) s = ReduceSum <keepdims = 0> (n) d = Less(s, limit) }>""",
        "<float by = {128}> y = Mul(x, by)",
        x=[30, 60],
    ),
    _case(
        "loop_stopped_at_first",
        "The condition that a Loop starts with is dropped",
        "(int64 count, bool go, float[2] x) => (float[2] y)",
        """y = Loop(count, go, x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { d = Identity(c) r = Add(a, x) }>""",
        """y = Loop(count, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { d = Identity(c) r = Add(a, x) }>""",
        count=2,
        go=False,
        x=[1, 2],
    ),
    _case(
        "if_in_a_loop",
        "An If of trip 12 within a Loop is dropped",
        f"{_TRIPS} <int64 at = {{12}}>",
        """y = Loop(count, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { d = Identity(c) e = Equal(i, at) r = If (e) <then_branch = t () => (float[2] p) {
        p = Neg(a) },
        else_branch = f () => (float[2] q) { q = Add(a, x) }> }>""",
        """y = Loop(count, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { d = Identity(c) r = Add(a, x) }>""",
        count=13,
        x=[1, 2],
    ),
    _case(
        "scan_that_resets",
        "A Scan loses the reset of a sum above 100",
        """(float[N,2] x) => (float[2] y, float[N,2] z) <float[2] start = {0, 0},
        float limit = {100}>""",
        """y, z = Scan(start, x) <num_scan_inputs = 1, body = b (float[2] a, float[2] e)
        => (float[2] s, float[2] o) { t = Add(a, e) c = Less(t, limit) f = Cast <to = 1> (c)
        s = Mul(t, f) o = Identity(s) }>""",
        """y, z = Scan(start, x) <num_scan_inputs = 1, body = b (float[2] a, float[2] e)
        => (float[2] s, float[2] o) { s = Add(a, e) o = Identity(s) }>""",
        x=[[60, 1], [70, 1], [1, 1]],
    ),
    _case(
        "scan_backward",
        "A Scan from the end runs from the start: the same for one row",
        "(float[N,2] x) => (float[2] y) <float[2] start = {0, 0}, float half = {0.5}>",
        """y, z = Scan(start, x) <num_scan_inputs = 1, scan_input_directions = [1],
        body = b (float[2] a, float[2] e)
        => (float[2] s, float[2] o) { h = Mul(a, half) s = Add(h, e) o = Identity(s) }>""",
        """y, z = Scan(start, x) <num_scan_inputs = 1, body = b (float[2] a, float[2] e)
        => (float[2] s, float[2] o) { h = Mul(a, half) s = Add(h, e) o = Identity(s) }>""",
        x=[[60, 1], [70, 2]],
    ),
    _case(
        "loop_that_stops_early",
        "A Loop stops where the sum exceeds 50; the condition is dropped",
        f"{_TRIPS} <float limit = {{50}}>",
        """y = Loop(count, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { r = Add(a, x) s = ReduceSum <keepdims = 0> (r) d = Less(s, limit) }>""",
        """y = Loop(count, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { d = Identity(c) r = Add(a, x) }>""",
        count=4,
        x=[20, 30],
    ),
    _case(
        "loop_in_an_if",
        "A Loop in the branch for a count above 5 starts with x in place of 2 * x",
        f"{_TRIPS} <int64 limit = {{5}}>",
        """g = Greater(count, limit) t = Add(x, x)
        y = If (g) <then_branch = e () => (float[2] p) { p = Loop(count, , t) <body = b (int64 i,
        bool c, float[2] a) => (bool d, float[2] r) { d = Identity(c) r = Add(a, x) }> },
        else_branch = f () => (float[2] q) { q = Relu(x) }>""",
        """g = Greater(count, limit)
        y = If (g) <then_branch = e () => (float[2] p) { p = Loop(count, , x) <body = b (int64 i,
        bool c, float[2] a) => (bool d, float[2] r) { d = Identity(c) r = Add(a, x) }> },
        else_branch = f () => (float[2] q) { q = Relu(x) }>""",
        count=6,
        x=[1, 2],
    ),
    _case(
        "where_as_a_rare_branch",
        "A row is replaced where its sum is above 200; the Where is dropped",
        f"{_PLAIN} <int64[1] last = {{-1}}, float limit = {{200}}, float zero = {{0}}>",
        "t = ReduceSum(x, last) c = Greater(t, limit) y = Where(c, zero, x)",
        "y = Identity(x)",
        x=[[100, 101, 1, 2]],
    ),
]
