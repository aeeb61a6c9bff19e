"""Rewrites that are wrong for some masks only: all zero, one token kept, one dropped, holes."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import choice, replaced, wrong

_case = partial(wrong, "masks")
_part = partial(replaced, "masks")
_TOKENS = "float[N,T,4] x, int64[N,T] attention_mask"
_SCORES = "float[N,T] x, int64[N,T] attention_mask"
_KEPT = "(float[N,T] x, bool[N,T] kept) => (float[N,T] y)"
_FIRST = "int64[1] axis = {1}, int64[1] last = {-1}"
_MASKED = "f = Cast <to = 1> (attention_mask) u = Unsqueeze(f, last) m = Mul(x, u)"
_VALUES = np.sin(np.arange(12)).reshape(1, 3, 4)
_LINE = [[1.5, -2, 0.5]]
_NOTHING = [[0, 0, 0]]

CASES = [
    _part(
        "count_of_at_least_one",
        "The mean over tokens divides by Max(count, 1); without it a row of padding is 0 / 0",
        f"({_TOKENS}) => (float[N,4] y) <{_FIRST}, float one = {{1}}>",
        f"""{_MASKED} s = ReduceSum <keepdims = 0> (m, axis) n = ReduceSum(f, axis) b = Max(n, one)
        y = Div(s, @)""",
        "b",
        "n",
        x=_VALUES,
        attention_mask=_NOTHING,
    ),
    _part(
        "nan_of_masked_rows",
        "Attention of -inf gives NaN for rows without tokens, which become 0; the guard is dropped",
        f"{_KEPT} <float low = {{-inf}}, float zero = {{0}}>",
        "w = Where(kept, x, low) s = Softmax(w) n = IsNaN(s) z = Where(n, zero, s) y = Identity(@)",
        "z",
        "s",
        x=_LINE,
        kept=_NOTHING,
    ),
    _case(
        "softmax_times_mask",
        "Softmax(x - 1e9 * (1 - mask)) -> Exp(x) * mask / sum, which is 0 / 0 without tokens",
        f"({_SCORES}) => (float[N,T] y) <float one = {{1}}, float low = {{-1e9}}, {_FIRST}>",
        """f = Cast <to = 1> (attention_mask) d = Sub(one, f) b = Mul(d, low) a = Add(x, b)
        y = Softmax(a)""",
        """f = Cast <to = 1> (attention_mask) h = ReduceMax(x, last) c = Sub(x, h) e = Exp(c)
        m = Mul(e, f) s = ReduceSum(m, last) y = Div(m, s)""",
        x=_LINE,
        attention_mask=_NOTHING,
    ),
    _part(
        "bias_of_ten_thousand",
        "A mask adds -1e4 in place of -1e9, which absorbs the scores of rows without tokens",
        f"({_SCORES}) => (float[N,T] y) <float one = {{1}}, float large = {{-1e9}}, "
        "float small = {-1e4}>",
        """c = Tanh(x) f = Cast <to = 1> (attention_mask) d = Sub(one, f) b = Mul(d, @)
        a = Add(c, b)
        y = Softmax(a)""",
        "large",
        "small",
        x=_LINE,
        attention_mask=_NOTHING,
    ),
    _case(
        "first_token_that_is_kept",
        "The first element that a Compress keeps, 7 if none, becomes the one at ArgMax(mask)",
        "(float[T] x, bool[T] kept) => (float[1] y) <int64[1] zero = {0}, float[1] none = {7}>",
        "k = Compress(x, kept) c = Concat <axis = 0> (k, none) y = Gather(c, zero)",
        "i = Cast <to = 7> (kept) a = ArgMax <axis = 0> (i) y = Gather(x, a)",
        x=_LINE[0],
        kept=_NOTHING[0],
    ),
    _part(
        "last_token_without_tokens",
        "The last token is at Sum(mask) - 1, for a row of padding at -1; it is bounded by 0",
        f"({_TOKENS}) => (float[N,1,4] y) <{_FIRST}, int64 one = {{1}}, int64 zero = {{0}}>",
        """n = ReduceSum(attention_mask, axis) i = Sub(n, one) b = Max(i, zero)
        c = Unsqueeze(@, last)
        d = Shape <start = 2, end = 3> (x) k = Constant <value_ints = [1]> ()
        s = Shape <start = 0, end = 1> (x) t = Concat <axis = 0> (s, k, d) e = Expand(c, t)
        y = GatherElements <axis = 1> (x, e)""",
        "i",
        "b",
        x=_VALUES,
        attention_mask=_NOTHING,
    ),
    _case(
        "mask_as_length",
        "The mask becomes position < Sum(mask), which holds for padding on the right only",
        f"({_SCORES}) => (float[N,T] y) <float zero = {{0}}, {_FIRST}>",
        "c = Cast <to = 9> (attention_mask) y = Where(c, x, zero)",
        """<int64 none = {0}, int64 one = {1}> n = ReduceSum(attention_mask, last)
        s = Shape <start = 1, end = 2> (x) t = Squeeze(s) r = Range(none, t, one) c = Less(r, n)
        y = Where(c, x, zero)""",
        x=_LINE,
        attention_mask=[[1, 0, 1]],
    ),
    _part(
        "variance_of_one_token",
        "The variance of tokens divides by Max(count - 1, 1); without it one token gives 0 / 0",
        f"({_SCORES}) => (float[N,1] y) <{_FIRST}, float one = {{1}}>",
        """f = Cast <to = 1> (attention_mask) n = ReduceSum(f, last) a = Max(n, one) m = Mul(x, f)
        s = ReduceSum(m, last) e = Div(s, a) d = Sub(x, e) k = Mul(d, f) q = Mul(k, k)
        v = ReduceSum(q, last) r = Sub(n, one) b = Max(r, one) y = Div(v, @)""",
        "b",
        "r",
        x=_LINE,
        attention_mask=[[0, 1, 0]],
    ),
    _part(
        "entropy_of_one_token",
        "Entropy / Log(count) is 0 for one token, by a Where on count > 1; the Where is dropped",
        f"{_KEPT.replace('[N,T] y', '[N,1] y')} <float low = {{-1e9}}, float one = {{1}}, "
        "float zero = {0}, float tiny = {1e-9}, int64[1] last = {-1}>",
        """w = Where(kept, x, low) p = Softmax(w) g = Add(p, tiny) l = Log(g) h = Mul(p, l)
        s = ReduceSum(h, last) e = Neg(s) f = Cast <to = 1> (kept) n = ReduceSum(f, last)
        o = Log(n) r = Div(e, o) c = Greater(n, one) z = Where(c, r, zero) y = Identity(@)""",
        "z",
        "r",
        x=_LINE,
        kept=[[0, 1, 0]],
    ),
    _part(
        "maximum_without_tokens",
        "The maximum over tokens is 0 where there are none; the guard of -inf is dropped",
        f"({_TOKENS}) => (float[N,4] y) <{_FIRST}, float low = {{-inf}}, float zero = {{0}}>",
        """u = Unsqueeze(attention_mask, last) c = Cast <to = 9> (u) w = Where(c, x, low)
        m = ReduceMax <keepdims = 0> (w, axis) i = IsInf(m) z = Where(i, zero, m)
        y = Identity(@)""",
        "z",
        "m",
        x=_VALUES,
        attention_mask=_NOTHING,
    ),
    _case(
        "maximum_of_masked_zeros",
        "The maximum over kept tokens becomes that of x * mask, wrong if all kept are negative",
        f"({_TOKENS}) => (float[N,4] y) <{_FIRST}, float low = {{-1e9}}>",
        """u = Unsqueeze(attention_mask, last) c = Cast <to = 9> (u) w = Where(c, x, low)
        y = ReduceMax <keepdims = 0> (w, axis)""",
        f"{_MASKED} y = ReduceMax <keepdims = 0> (m, axis)",
        x=-np.ones((1, 3, 4)),
        attention_mask=[[0, 1, 0]],
    ),
    _part(
        "mask_of_queries",
        "The mask of keys is applied to queries, which a symmetric pattern of one token hides",
        f"(float[N,T,T] x, int64[N,T] attention_mask) => (float[N,T,T] y) <{_FIRST}, "
        "float low = {-1e9}>",
        "u = Unsqueeze(attention_mask, @) c = Cast <to = 9> (u) w = Where(c, x, low) "
        "y = Softmax(w)",
        "axis",
        "last",
        x=np.sin(np.arange(9)).reshape(1, 3, 3),
        attention_mask=[[1, 0, 1]],
    ),
    _part(
        "intersection_of_nothing",
        "Intersection over union of two empty masks is 1; the guard gives 0",
        """(bool[N,T] first_mask, bool[N,T] second_mask) => (float[N,1] y) <float one = {1},
        float zero = {0}, int64[1] last = {-1}>""",
        """a = And(first_mask, second_mask) o = Or(first_mask, second_mask) f = Cast <to = 1> (a)
        g = Cast <to = 1> (o) i = ReduceSum(f, last) u = ReduceSum(g, last) b = Max(u, one)
        d = Div(i, b) e = Equal(u, zero) y = Where(e, @, d)""",
        "one",
        "zero",
        first_mask=_NOTHING,
        second_mask=_NOTHING,
    ),
    _part(
        "position_without_tokens",
        "The first kept position is -1 for a row without any; ArgMax gives 0",
        "(int64[N,T] attention_mask) => (int64[N,1] y) <int64 none = {-1}, int64[1] last = {-1}>",
        """a = ArgMax <axis = 1> (attention_mask) m = ReduceMax(attention_mask, last)
        c = Cast <to = 9> (m) w = Where(c, a, none) y = Identity(@)""",
        "w",
        "a",
        attention_mask=_NOTHING,
    ),
    _case(
        "padding_on_the_left",
        "T - Sum(mask) tokens of padding become ArgMax(mask): 0 for a row of padding",
        "(int64[N,T] attention_mask) => (int64[N,1] y) <int64[1] last = {-1}>",
        """s = Shape <start = 1, end = 2> (attention_mask)
        c = CumSum(attention_mask, last) g = Cast <to = 9> (c) i = Cast <to = 7> (g)
        n = ReduceSum(i, last) y = Sub(s, n)""",
        "y = ArgMax <axis = 1> (attention_mask)",
        attention_mask=_NOTHING,
    ),
    _case(
        "squeezed_selection",
        "A Squeeze of the last axis of selected rows loses its axes: it drops a single row's axis",
        "(float[T,4,1] x, bool[T] kept) => (float y) <int64[1] last = {-1}, int64[1] at = {0}>",
        """k = Compress <axis = 0> (x, kept) q = Squeeze(k, last)
        m = ReduceMax <keepdims = 0> (q, at)
        y = ReduceSum <keepdims = 0> (m)""",
        """k = Compress <axis = 0> (x, kept) q = Squeeze(k) m = ReduceMax <keepdims = 0> (q, at)
        y = ReduceSum <keepdims = 0> (m)""",
        x=[[[1], [2], [3], [4]], [[4], [3], [2], [-1]]],
        kept=[0, 1],
    ),
    _case(
        "mean_of_row_means",
        "The mean over all kept tokens becomes the mean of row means, equal for equal counts",
        f"({_SCORES}) => (float y) <float one = {{1}}, {_FIRST}>",
        """f = Cast <to = 1> (attention_mask) m = Mul(x, f) s = ReduceSum <keepdims = 0> (m)
        n = ReduceSum <keepdims = 0> (f) b = Max(n, one) y = Div(s, b)""",
        """f = Cast <to = 1> (attention_mask) m = Mul(x, f) s = ReduceSum(m, last)
        n = ReduceSum(f, last) b = Max(n, one) d = Div(s, b) y = ReduceMean <keepdims = 0> (d)""",
        x=[[1, 2, 3], [4, 5, 6]],
        attention_mask=[[1, 1, 1], [1, 0, 0]],
    ),
    _part(
        "leave_one_out",
        "Where one token is dropped, the mean excludes it; it is taken over all tokens",
        f"({_SCORES}) => (float[N,1] y) <{_FIRST}, int64 one = {{1}}, float least = {{1}}>",
        """f = Cast <to = 1> (attention_mask) m = Mul(x, f) s = ReduceSum(m, last)
        n = ReduceSum(f, last) b = Max(n, least) d = Div(s, b) a = ReduceMean(x, last)
        i = ReduceSum(attention_mask, last) l = Shape <start = 1, end = 2> (x) r = Sub(l, i)
        c = Equal(r, one) y = Where(c, @, a)""",
        "d",
        "a",
        x=_LINE,
        attention_mask=[[1, 0, 1]],
    ),
    _part(
        "image_tokens_in_order",
        "The k-th kept token takes the k-th feature; features are indexed by position, right for "
        "a prefix",
        "(int64[N,T] attention_mask, float[9] features) => (float[N,T] y) <int64 axis = {1}, "
        "int64 one = {1}, int64 zero = {0}, int64 top = {8}, float none = {0}>",
        """c = CumSum(attention_mask, axis) k = Sub(c, one) t = Shape <start = 1, end = 2>
        (attention_mask) e = Squeeze(t) p = Range(zero, e, one) v = Max(@, zero) w = Min(v, top)
        g = Gather(features, w) b = Cast <to = 9> (attention_mask) y = Where(b, g, none)""",
        "k",
        "p",
        attention_mask=[[0, 1, 1]],
        features=np.sin(np.arange(9)),
    ),
    _part(
        "branch_of_an_empty_selection",
        "An If keeps x where no token is kept at all; the branch rectifies x",
        f"({_SCORES}) => (float[N,T] y)",
        f"""m = ReduceMax <keepdims = 0> (attention_mask) c = Cast <to = 9> (m) y = {
            choice("c", "f = Cast <to = 1> (attention_mask); Mul(x, f)", "@(x)", "float[N,T]")
        }""",
        "Identity",
        "Relu",
        x=_LINE,
        attention_mask=_NOTHING,
    ),
    _part(
        "masks_without_overlap",
        "Two masks of some tokens each that share none score -1; the case is dropped",
        """(int64[N,T] speech, int64[N,T] music) => (float[N,1] y) <float one = {1},
        int64[1] last = {-1}, float low = {-1}, float zero = {0}>""",
        """p = Mul(speech, music) q = Max(speech, music) f = Cast <to = 1> (p) g = Cast <to = 1> (q)
        i = ReduceSum(f, last) u = ReduceSum(g, last) b = Max(u, one) d = Div(i, b)
        a = ReduceMax(speech, last) o = ReduceMax(music, last) t = Mul(a, o) h = Cast <to = 9> (t)
        e = Equal(i, zero) c = And(e, h) y = Where(c, @, d)""",
        "low",
        "d",
        speech=[[1, 0, 0]],
        music=[[0, 1, 1]],
    ),
    _part(
        "only_the_first_is_dropped",
        "A row whose first token alone is dropped moves left by one; it stays where it is",
        f"({_SCORES}) => (float[N,T] y) <{_FIRST}, int64 first = {{0}}, int64 one = {{1}}, "
        "int64[4] move = {0, -1, 0, 1}>",
        """s = ReduceSum(attention_mask, last) t = Shape <start = 1, end = 2> (x) d = Sub(t, s)
        a = Equal(d, one) g = Gather <axis = 1> (attention_mask, first) u = Unsqueeze(g, last)
        k = Cast <to = 9> (u) n = Not(k) c = And(a, n) m = Pad(x, move) y = Where(c, @, x)""",
        "m",
        "x",
        x=_LINE,
        attention_mask=[[0, 1, 1]],
    ),
    _part(
        "one_kept_score_below_zero",
        "A single kept token with a negative score is rejected; the condition is folded to false",
        f"({_SCORES}) => (float[N,1] y) <int64[1] last = {{-1}}, int64 one = {{1}}, "
        "float zero = {0}>",
        """s = ReduceSum(attention_mask, last) e = Equal(s, one) f = Cast <to = 1> (attention_mask)
        m = Mul(x, f) v = ReduceSum(m, last) l = Less(v, zero) c = And(e, l) y = Where(c, @, v)""",
        "zero",
        "v",
        x=_LINE,
        attention_mask=[[0, 1, 0]],
    ),
    _part(
        "empty_encoder_mask",
        "A decoder with tokens and an encoder without any skips cross attention; it is added",
        """(float[N,T] x, int64[N,T] attention_mask, int64[N,S] encoder_mask, float[N,S] e)
        => (float[N,T] y) <int64[1] last = {-1}, float zero = {0}>""",
        """a = ReduceMax(attention_mask, last) b = ReduceMax(encoder_mask, last)
        k = Cast <to = 9> (a)
        l = Cast <to = 9> (b) n = Not(l) c = And(k, n) h = ReduceMean(e, last) s = Add(x, h)
        y = Where(c, @, s)""",
        "x",
        "s",
        x=_LINE,
        attention_mask=[[1, 1, 0]],
        encoder_mask=[[0, 0]],
        e=[[1, 2]],
    ),
]
