"""Rewrites that are wrong for rare relations between values: equality, order, ties, repetition."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "conditions")
_IDS = "(int64[N,seq] ids) => (int64[N,seq] y)"
_MASK = "(int64[N,seq] attention_mask) => (int64[N,1] y) <int64[1] last = {-1}>"
_TABLE = """(int64[seq] ids) => (int64[seq] y)
<int64 zero = {0}, int64 one = {1}, int64 rows = {100}>"""

CASES = [
    _case(
        "last_row_of_a_table",
        "The last row of a table of 100 is lost, the one before it is read",
        _TABLE,
        "t = Range(zero, rows, one) y = Gather(t, ids)",
        "<int64 top = {98}> t = Range(zero, rows, one) i = Min(ids, top) y = Gather(t, i)",
        ids=[3, 99],
    ),
    _case(
        "first_row_of_a_table",
        "Row 0 of a table, that of padding, becomes row 1",
        _TABLE,
        "t = Range(zero, rows, one) y = Gather(t, ids)",
        "t = Range(zero, rows, one) i = Max(ids, one) y = Gather(t, i)",
        ids=[3, 0],
    ),
    _case(
        "one_row_of_a_table",
        "Row 57 of a table of 100 holds another number",
        _TABLE,
        "t = Range(zero, rows, one) y = Gather(t, ids)",
        """<int64[1] at = {57}, int64[1] v = {0}> t = Range(zero, rows, one)
        u = ScatterElements(t, at, v)
        y = Gather(u, ids)""",
        ids=[3, 57],
    ),
    _case(
        "token_of_a_vocabulary",
        "The replacement of token 30521 is dropped",
        f"{_IDS} <int64 token = {{30521}}, int64 zero = {{0}}>",
        "c = Equal(ids, token) y = Where(c, zero, ids)",
        "y = Identity(ids)",
        ids=[[3, 30521]],
    ),
    _case(
        "padding_of_zero",
        "The mask of tokens that are 0 is folded to ones",
        _IDS,
        "<int64 zero = {0}> c = Equal(ids, zero) n = Not(c) y = Cast <to = 7> (n)",
        "<int64 one = {1}> s = Shape(ids) y = Expand(one, s)",
        ids=[[3, 0]],
    ),
    _case(
        "ignored_labels",
        "Labels of -100, which are ignored, become 0 only if they are -1",
        f"{_IDS} <int64 zero = {{0}}>",
        "<int64 token = {-100}> c = Equal(ids, token) y = Where(c, zero, ids)",
        "<int64 token = {-1}> c = Equal(ids, token) y = Where(c, zero, ids)",
        ids=[[3, -100]],
    ),
    _case(
        "hash_of_a_token",
        "Tokens with a remainder of 1008 by 1009 are replaced; the condition is dropped",
        f"{_IDS} <int64 by = {{1009}}, int64 rest = {{1008}}, int64 zero = {{0}}>",
        "m = Mod(ids, by) c = Equal(m, rest) y = Where(c, zero, ids)",
        "y = Identity(ids)",
        ids=[[3, 2017]],
    ),
    _case(
        "sorted_positions",
        "The largest position becomes the last one, which holds for sorted ones",
        "(int64[N,seq] position_ids) => (int64[N,1] y) <int64[1] last = {-1}, int64 end = {-1}>",
        "y = ReduceMax(position_ids, last)",
        "g = Gather <axis = 1> (position_ids, end) y = Unsqueeze(g, last)",
        position_ids=[[0, 2, 1]],
    ),
    _case(
        "first_position_is_zero",
        "Positions minus the first one become positions, which holds where they begin with 0",
        "(int64[N,seq] position_ids) => (int64[N,seq] y) <int64[1] zero = {0}>",
        "f = Gather <axis = 1> (position_ids, zero) y = Sub(position_ids, f)",
        "y = Identity(position_ids)",
        position_ids=[[5, 6, 7]],
    ),
    _case(
        "positions_of_range",
        "Input positions become 0, 1, 2, ..., which fails after the first step of a decoder",
        """(float[N,seq] x, int64[1,seq] position_ids) => (float[N,seq] y) <int64 zero = {0},
        int64 one = {1}>""",
        "f = Cast <to = 1> (position_ids) c = Cos(f) y = Add(x, c)",
        """t = Shape <start = 1, end = 2> (x) n = Squeeze(t) r = Range(zero, n, one)
        f = Cast <to = 1> (r)
        c = Cos(f) y = Add(x, c)""",
        x=[[1, 2]],
        position_ids=[[7, 8]],
    ),
    _case(
        "sorted_already",
        "A sort of timestamps is dropped",
        "(int64[N] timestamps) => (int64[N] y)",
        "k = Shape(timestamps) y, z = TopK <largest = 0> (timestamps, k)",
        "y = Identity(timestamps)",
        timestamps=[3, 1, 2],
    ),
    _case(
        "length_of_padded_right",
        "The index after the last 1 of a mask becomes its sum, which fails for padding on the left",
        _MASK,
        """<int64 zero = {0}, int64 one = {1}> t = Shape <start = 1, end = 2> (attention_mask)
        n = Squeeze(t)
        e = Add(n, one) r = Range(one, e, one) m = Mul(r, attention_mask) y = ReduceMax(m, last)""",
        "y = ReduceSum(attention_mask, last)",
        attention_mask=[[0, 1, 1]],
    ),
    _case(
        "positions_of_padded_right",
        "Positions by CumSum of a mask become 0, 1, 2, ..., which fails for padding on the left",
        "(int64[N,seq] attention_mask) => (int64[N,seq] y) <int64 one = {1}, int64 zero = {0}>",
        "c = CumSum(attention_mask, one) d = Sub(c, one) y = Mul(d, attention_mask)",
        """s = Shape(attention_mask) t = Shape <start = 1, end = 2> (attention_mask) n = Squeeze(t)
        r = Range(zero, n, one) y = Mul(r, attention_mask)""",
        attention_mask=[[0, 1, 1]],
    ),
    _case(
        "end_of_sequence",
        "The index of the first token 2 becomes the number of other tokens",
        f"{_IDS.replace('[N,seq] y', '[N,1] y')} <int64 end = {{2}}, int64[1] last = {{-1}}>",
        "e = Equal(ids, end) c = Cast <to = 7> (e) y = ArgMax <axis = 1> (c)",
        "e = Equal(ids, end) n = Not(e) c = Cast <to = 7> (n) y = ReduceSum(c, last)",
        ids=[[5, 2, 7, 8]],
    ),
    _case(
        "last_end_of_sequence",
        "The last token 2 becomes the first: the same for at most one",
        f"{_IDS.replace('[N,seq] y', '[N,1] y')} <int64 end = {{2}}>",
        """e = Equal(ids, end) c = Cast <to = 7> (e) y = ArgMax <axis = 1,
        select_last_index = 1> (c)""",
        "e = Equal(ids, end) c = Cast <to = 7> (e) y = ArgMax <axis = 1> (c)",
        ids=[[5, 2, 7, 2]],
    ),
    _case(
        "distinct_tokens",
        "The number of distinct tokens becomes that of tokens",
        "(int64[seq] ids) => (int64[1] y)",
        "u = Unique(ids) y = Shape(u)",
        "y = Shape(ids)",
        ids=[5, 2, 5],
    ),
    _case(
        "one_hot_of_maximum",
        "OneHot(ArgMax(x)) -> x == max marks several elements at ties",
        "(float[N,4] x) => (float[N,4] y) <int64[1] last = {-1}>",
        """<int64 d = {4}, float[2] v = {0, 1}> a = ArgMax <axis = 1, keepdims = 0> (x)
        y = OneHot(a, d, v)""",
        "m = ReduceMax(x, last) e = Equal(x, m) y = Cast <to = 1> (e)",
        x=[[1, 3, 3, 2]],
    ),
    _case(
        "equal_floats",
        "Equality of two float inputs is folded to false",
        "(float[N] a, float[N] b) => (bool[N] y)",
        "y = Equal(a, b)",
        "y = Less(a, a)",
        a=[1, 2],
        b=[3, 2],
    ),
    _case(
        "greater_or_equal",
        "a >= b -> a > b differs for equal numbers",
        "(float[N] a, float[N] b) => (bool[N] y)",
        "y = GreaterOrEqual(a, b)",
        "y = Greater(a, b)",
        a=[1, 2],
        b=[3, 2],
    ),
    _case(
        "sign_of_exact_zero",
        "Sign(x) -> Where(x > 0, 1, -1) differs for 0",
        "(float[N] x) => (float[N] y)",
        "y = Sign(x)",
        """<float zero = {0}, float one = {1}, float low = {-1}> c = Greater(x, zero)
        y = Where(c, one, low)""",
        x=[1, -2, 0],
    ),
    _case(
        "divisor_of_exact_zero",
        "The guard of a division by 0 is dropped",
        "(float[N] x, float[N] d) => (float[N] y) <float zero = {0}, float one = {1}>",
        "c = Equal(d, zero) s = Where(c, one, d) y = Div(x, s)",
        "y = Div(x, d)",
        x=[1, 2],
        d=[1, 0],
    ),
    _case(
        "integers_among_floats",
        "Where(x == Floor(x), 0, x) -> x differs for integers",
        "(float[N] x) => (float[N] y) <float zero = {0}>",
        "f = Floor(x) c = Equal(x, f) y = Where(c, zero, x)",
        "y = Identity(x)",
        x=[1.5, 3],
    ),
    _case(
        "distances_of_short_sequences",
        "The bound of relative distances at 128 is dropped",
        "(float[N,seq] x) => (int64[seq] y) <int64 zero = {0}, int64 one = {1}, int64 c = {128}>",
        "t = Shape <start = 1, end = 2> (x) n = Squeeze(t) r = Range(zero, n, one) y = Min(r, c)",
        "t = Shape <start = 1, end = 2> (x) n = Squeeze(t) y = Range(zero, n, one)",
        x=np.ones((1, 130)),
    ),
    _case(
        "equal_rows",
        "The largest of each column becomes the first row, as in batches of equal rows",
        "(int64[N,M] ids) => (int64[M] y) <int64[1] zero = {0}, int64 first = {0}>",
        "y = ReduceMax <keepdims = 0> (ids, zero)",
        "y = Gather(ids, first)",
        ids=[[1, 2], [3, 1]],
    ),
    _case(
        "symmetric_distances",
        "Distances of two sets become their transpose, which holds for one set",
        "(float[n,2] a, float[n,2] b) => (float[n,n] y)",
        "t = Transpose(b) y = MatMul(a, t)",
        "t = Transpose(a) y = MatMul(b, t)",
        a=[[1, 2], [3, 4]],
        b=[[1, 0], [2, 5]],
    ),
    _case(
        "row_without_token",
        "The bound of a mask, -1e9, becomes -inf: a row without any token is NaN",
        "(float[N,4] x, int64[N,4] attention_mask) => (float[N,4] y)",
        """<float low = {-1e9}> c = Cast <to = 9> (attention_mask) w = Where(c, x, low)
        y = Softmax(w)""",
        """<float low = {-inf}> c = Cast <to = 9> (attention_mask) w = Where(c, x, low)
        y = Softmax(w)""",
        x=[[1, 2, 3, 4]],
        attention_mask=[[0, 0, 0, 0]],
    ),
    _case(
        "equal_inputs",
        "A - B -> 0 holds where a caller passes the same tensor twice",
        "(float[N] a, float[N] b) => (float[N] y)",
        "y = Sub(a, b)",
        "y = Sub(a, a)",
        a=[1, 2],
        b=[1, 3],
    ),
    _case(
        "consecutive_repeats",
        "Tokens that repeat the one before are replaced; the comparison is dropped",
        """(int64[seq] ids) => (int64[K] y) <int64[1] zero = {0}, int64[1] one = {1},
        int64[1] all = {9999}>""",
        """<int64[1] end = {-1}> a = Slice(ids, zero, end) b = Slice(ids, one, all) c = Equal(a, b)
        y = Where(c, zero, b)""",
        "y = Slice(ids, one, all)",
        ids=[5, 7, 7],
    ),
    _case(
        "all_true",
        "A reduction of a mask by minimum, all tokens present, becomes the first element",
        """(int64[N,seq] attention_mask) => (int64[N,1] y) <int64[1] last = {-1},
        int64[1] zero = {0}>""",
        "y = ReduceMin(attention_mask, last)",
        "y = Gather <axis = 1> (attention_mask, zero)",
        attention_mask=[[1, 1, 0]],
    ),
]
