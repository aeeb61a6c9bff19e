"""Faults that show for rare values only, or in few elements, behind other operators."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "hidden")
_ROW = "(float[N,4] x) => (float[N,4] y)"
_PAIR = "(float[N,4] a, float[N,4] b) => (float[N,4] y)"
_IDS = "(int64[N,seq] input_ids) => (int64[N,seq] y)"

CASES = [
    _case(
        "clip_after_a_scale",
        "A Clip at 50 of x / 100 is dropped: it acts above 5,000",
        f"{_ROW} <float by = {{100}}, float low = {{-50}}, float high = {{50}}>",
        "d = Div(x, by) y = Clip(d, low, high)",
        "y = Div(x, by)",
        x=[[1, 2, 3, 6000]],
    ),
    _case(
        "clip_after_a_small_factor",
        "A Clip at 1 of x * 1e-6 is dropped: it acts above 1e6",
        f"{_ROW} <float by = {{1e-6}}, float low = {{-1}}, float high = {{1}}>",
        "d = Mul(x, by) y = Clip(d, low, high)",
        "y = Mul(x, by)",
        x=[[1, 2, 3, 2e6]],
    ),
    _case(
        "clip_of_narrow_range",
        "A Clip to [0.3, 0.31] after a Sigmoid becomes its lower bound",
        f"{_ROW} <float low = {{0.3}}, float high = {{0.301}}, float zero = {{0}}>",
        "s = Sigmoid(x) y = Clip(s, low, high)",
        "m = Mul(x, zero) y = Add(m, low)",
        relative=1e-3,
        x=[[1, 2, 3, 4]],
    ),
    _case(
        "small_window_of_a_threshold",
        "Numbers between 0.7 and 0.7001 are doubled",
        f"{_ROW} <float low = {{0.7}}, float high = {{0.7001}}>",
        "y = Identity(x)",
        """g = Greater(x, low) l = Less(x, high) c = And(g, l) d = Add(x, x) y = Where(c, d, x)""",
        x=[[0.70005, 2, 3, 4]],
    ),
    _case(
        "difference_of_inputs",
        "The branch for a - b above 100 is dropped",
        f"{_PAIR} <float t = {{100}}>",
        "d = Sub(a, b) g = Greater(d, t) n = Neg(a) y = Where(g, n, a)",
        "z = Sub(b, b) y = Add(a, z)",
        a=[[200, 1, 2, 3]],
        b=[[1, 1, 2, 3]],
    ),
    _case(
        "equal_inputs_elementwise",
        "Elements of a that are those of b are doubled",
        _PAIR,
        "y = Identity(a)",
        "e = Equal(a, b) d = Add(a, a) y = Where(e, d, a)",
        a=[[200, 1, 2, 3]],
        b=[[1, 1, 2, 4]],
    ),
    _case(
        "two_tokens_in_a_row",
        "Token 50256 after token 198 is replaced; the condition is dropped",
        """(int64[N,seq] input_ids) => (int64[N,M] y) <int64 one_token = {198}, int64
          other = {50256},
        int64[1] zero = {0}, int64[1] one = {1}, int64[1] end = {9999}, int64[1]
          axis = {1}, int64[1] e = {-1},
        int64 none = {0}>""",
        """p = Slice(input_ids, zero, e, axis) q = Slice(input_ids, one, end, axis)
        a = Equal(p, one_token) b = Equal(q, other) c = And(a, b) y = Where(c, none, q)""",
        "y = Slice(input_ids, one, end, axis)",
        input_ids=[[1, 198, 50256]],
    ),
    _case(
        "count_of_a_token",
        "More than 3 of token 5 in a row are replaced",
        f"{_IDS} <int64 token = {{5}}, int64[1] axis = {{1}}, int64 three = {{3}}>",
        """e = Equal(input_ids, token) c = Cast <to = 7> (e) s = ReduceSum(c, axis)
          g = Greater(s, three)
        n = Neg(input_ids) y = Where(g, n, input_ids)""",
        "y = Identity(input_ids)",
        input_ids=[[5, 5, 5, 5, 5]],
    ),
    _case(
        "maximum_of_absolute",
        "Max(x, -x) -> Abs holds; Max(x, 0.999 * -x) -> Abs does not",
        f"{_ROW} <float c = {{-0.999}}>",
        "m = Mul(x, c) y = Max(x, m)",
        "y = Abs(x)",
        relative=5e-4,
        x=[[1, -2, 3, -4]],
    ),
    _case(
        "sine_of_large",
        "Sin(x) -> Sin(x - 2 * 3.14 * Floor(x / 6.28)) differs for large x",
        f"{_ROW} <float c = {{6.283}}>",
        "y = Sin(x)",
        "d = Div(x, c) f = Floor(d) m = Mul(f, c) s = Sub(x, m) y = Sin(s)",
        x=[[100, 2, 3, 4]],
    ),
    _case(
        "exp_bounded_from_below",
        "Exp(x) becomes Exp(Max(x, -20)), which differs below 2e-9",
        f"{_ROW} <float low = {{-20}}>",
        "y = Exp(x)",
        "m = Max(x, low) y = Exp(m)",
        relative=0.1,
        x=[[-40, -30, -25, -22]],
    ),
    _case(
        "denormal_flushed",
        "Numbers below 1e-30 become 0",
        f"{_ROW} <float low = {{1e-30}}, float zero = {{0}}, float big = {{1e35}}>",
        "y = Mul(x, big)",
        "a = Abs(x) l = Less(a, low) w = Where(l, zero, x) y = Mul(w, big)",
        x=[[1e-33, 1e-34, 1e-33, 1e-34]],
    ),
    _case(
        "product_underflows",
        "a * b / b -> the order of a product of 1e-20 and 1e-20 that underflows",
        f"{_PAIR} <float s = {{1e-25}}, float t = {{1e25}}>",
        "m = Mul(a, s) n = Mul(m, t) y = Add(n, b)",
        "m = Mul(a, s) p = Mul(m, s) q = Mul(p, t) n = Mul(q, t) y = Add(n, b)",
        a=[[200, 1, 2, 3]],
        b=[[1, 1, 2, 4]],
    ),
    _case(
        "tail_of_wide_rows",
        "The last 3 of 1,027 columns, after full vectors, are not negated",
        "(float[N,1027] x) => (float[N,1027] y)",
        "y = Neg(x)",
        """<int64[1] z = {0}, int64[1] e = {1024}, int64[1] b = {9999}, int64[1] a = {1}>
        p = Slice(x, z, e, a) q = Slice(x, e, b, a) n = Neg(p) m = Abs(q) k = Neg(m)
          y = Concat <axis = 1> (n, k)""",
        x=np.full((1, 1027), -1.0),
    ),
    _case(
        "one_pixel_of_an_image",
        "The pixel in the last corner of a padded image is that of its neighbour",
        "(float[1,1,32,32] x) => (float[1,1,32,32] y)",
        "y = Relu(x)",
        """<int64[1,4] at = {0, 0, 31, 31}, int64[4] from = {0, 0, 31, 30},
          int64[1,4] src = {0, 0, 31, 30}>
        r = Relu(x) v = GatherND(r, src) y = ScatterND(r, at, v)""",
        x=np.eye(32).reshape(1, 1, 32, 32),
    ),
    _case(
        "order_of_equal_sorts",
        "The two smallest of a row in the order of the row become sorted",
        "(float[N,4] x) => (int64[N,2] y) <int64[1] k = {2}>",
        "v, y = TopK <largest = 0> (x, k)",
        "n = Neg(x) v, y = TopK <largest = 1> (n, k)",
        relative=0,
        x=[[np.nan, 2, 3, 1]],
    ),
    _case(
        "mean_without_padding",
        "The mean over tokens that are present becomes that over all, equal without padding",
        """(float[N,seq,4] x, int64[N,seq] attention_mask) => (float[N,4] y) <int64[1] axis = {1},
        int64[1] last = {-1}>""",
        """f = Cast <to = 1> (attention_mask) u = Unsqueeze(f, last) m = Mul(x, u)
        s = ReduceSum <keepdims = 0> (m, axis) n = ReduceSum(f, axis) y = Div(s, n)""",
        "y = ReduceMean <keepdims = 0> (x, axis)",
        x=np.arange(12).reshape(1, 3, 4),
        attention_mask=[[1, 1, 0]],
    ),
    _case(
        "table_of_vocabulary",
        "Token 30000 of a table of 32,000 rows reads another row",
        "(int64[N,seq] input_ids) => (float[N,seq] y) <int64 zero = {0}, int64 one = {1}, "
        "int64 rows = {32000}>",
        "r = Range(zero, rows, one) t = Cast <to = 1> (r) y = Gather(t, input_ids)",
        """<int64 bad = {30000}> r = Range(zero, rows, one) t = Cast <to = 1> (r)
          e = Equal(input_ids, bad)
        i = Where(e, zero, input_ids) y = Gather(t, i)""",
        input_ids=[[1, 30000]],
    ),
    _case(
        "tokens_in_bytes",
        "Token ids pass through 16 and 8 bits",
        "(int64[N,seq] input_ids) => (float[N,seq] y) <int64 zero = {0}, int64 one = {1}, "
        "int64 rows = {32000}>",
        "r = Range(zero, rows, one) t = Cast <to = 1> (r) y = Gather(t, input_ids)",
        """r = Range(zero, rows, one) t = Cast <to = 1> (r) f = Cast <to = 5> (input_ids)
        g = Cast <to = 3> (f) h = Cast <to = 7> (g) y = Gather(t, h)""",
        input_ids=[[1, 31000]],
    ),
    _case(
        "square_root_of_sum",
        "Sqrt(a^2 + b^2) -> |a| + |b| holds where one is 0",
        _PAIR,
        "p = Mul(a, a) q = Mul(b, b) s = Add(p, q) y = Sqrt(s)",
        "p = Abs(a) q = Abs(b) y = Add(p, q)",
        a=[[200, 1, 2, 3]],
        b=[[1, 1, 2, 4]],
    ),
    _case(
        "mask_of_other_batch",
        "The mask of row 0 is used for all rows",
        "(float[N,seq] x, int64[N,seq] attention_mask) "
        "=> (float[N,seq] y) <float none = {-1e9}, int64 i = {0}>",
        "c = Cast <to = 9> (attention_mask) y = Where(c, x, none)",
        "c = Cast <to = 9> (attention_mask) d = Gather(c, i) y = Where(d, x, none)",
        x=np.ones((2, 3)),
        attention_mask=[[1, 1, 1], [1, 0, 1]],
    ),
    _case(
        "threshold_of_a_confidence",
        "Softmax probabilities below 1e-4 become 0",
        f"{_ROW} <float t = {{1e-4}}, float zero = {{0}}>",
        "y = Softmax(x)",
        "s = Softmax(x) l = Less(s, t) y = Where(l, zero, s)",
        relative=0.5,
        x=[[0, 10, 0, 0]],
    ),
    _case(
        "top_probability_only",
        "A row whose largest probability is above 0.99 becomes one-hot",
        f"{_ROW} <float t = {{0.9999}}, int64[1] last = {{-1}}>",
        "y = Softmax(x)",
        "s = Softmax(x) m = ReduceMax(s, last) g = Greater(m, t) h = Hardmax(x) y = Where(g, h, s)",
        relative=0.5,
        x=[[0, 12, 0, 0]],
    ),
    _case(
        "four_inputs_negative",
        "A product of four signs is taken for 1 unless all four inputs are negative or one is",
        """(float[N] a, float[N] b, float[N] c, float[N] d) => (float[N] y) <float z = {-1}>""",
        "p = Min(a, b, c, d) g = Greater(p, z) n = Neg(a) y = Where(g, a, n)",
        "p = Min(a, b, c) g = Greater(p, z) n = Neg(a) y = Where(g, a, n)",
        a=[1],
        b=[1],
        c=[1],
        d=[-2],
    ),
    _case(
        "all_of_six_large",
        "Six inputs above 1 at once are replaced; the condition is dropped",
        """(float[N] a, float[N] b, float[N] c, float[N] d, float[N] e, float[N] f) => (float[N] y)
        <float t = {1}>""",
        "p = Min(a, b, c, d, e, f) g = Greater(p, t) n = Neg(a) y = Where(g, n, a)",
        "s = Sum(b, c, d, e, f) z = Sub(s, s) y = Add(a, z)",
        a=[2],
        b=[2],
        c=[2],
        d=[2],
        e=[2],
        f=[2],
    ),
]
