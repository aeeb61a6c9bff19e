"""Loops and Scans that differ after some iterations; written without regard to the verification."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import replaced

_part = partial(replaced, "fresh: late iterations")
_COUNTED = "(int64 count, float[2] x) => (float[2] y) <bool go = {1}"
_START = [1, -2]


def _loop(body: str, count: str = "count", state: str = "float[2]", start: str = "x") -> str:
    """A Loop with a state ``s``, whose next one is ``r``; ``i`` is the iteration."""
    return f"""y = Loop({count}, go, {start}) <body = b (int64 i, bool g, {state} s)
    => (bool more, {state} r) {{ more = Identity(g) {body} }}>"""


CASES = [
    _part(
        "dilations_of_a_wavenet",
        "Dilations are 1, 2, 4, 8 and 16, and start again; they double in all layers",
        "(int64 layers, float[64] x) => (float[64] y) <bool go = {1}, int64 five = {5}, "
        "int64 two = {2}, int64[1] one = {1}, int64[1] zero = {0}, int64[1] size = {64}, "
        "float half = {0.5}>",
        _loop(
            """e = @ d = Pow(two, e) f = Reshape(d, one) m = Min(f, size)
            p = Concat <axis = 0> (m, zero) q = Pad(s, p) c = Slice(q, zero, size)
            h = Mul(c, half) r = Add(s, h)""",
            "layers",
            "float[64]",
        ),
        "Mod(i, five)",
        "Identity(i)",
        layers=10,
        x=np.cos(np.arange(64)),
    ),
    _part(
        "global_layers_of_a_decoder",
        "Each sixth layer is global; the sixth is, and no later one",
        f"{_COUNTED}, int64 six = {{6}}, int64 five = {{5}}, float half = {{0.5}}, "
        "float tenth = {0.1}>",
        _loop(
            """k = @ c = Equal(k, five) m = ReduceMean(s) h = Mul(m, half) l = Mul(s, tenth)
            a = Sub(s, l) o = Add(a, h) r = Where(c, o, a)"""
        ),
        "Mod(i, six)",
        "Identity(i)",
        count=12,
        x=_START,
    ),
    _part(
        "decay_of_a_moving_average",
        "The decay (1 + i) / (10 + i) is bounded by 0.9; it is not",
        f"{_COUNTED}, float one = {{1}}, float ten = {{10}}, float most = {{0.9}}>",
        _loop(
            """f = Cast <to = 1> (i) a = Add(f, one) b = Add(f, ten) q = Div(a, b) w = Min(q, most)
            d = @ m = Mul(s, d) n = Sub(one, d) t = Sin(f) k = Mul(n, t) r = Add(m, k)"""
        ),
        "Identity(w)",
        "Identity(q)",
        count=160,
        x=_START,
    ),
    _part(
        "floor_of_a_temperature",
        "A temperature falls as Exp(-0.03 * i) to 0.5; it falls on",
        f"{_COUNTED}, float rate = {{-0.03}}, float least = {{0.5}}>",
        _loop(
            """f = Cast <to = 1> (i) m = Mul(f, rate) e = Exp(m) t = Max(e, least) d = @
            q = Div(s, d) r = Tanh(q)"""
        ),
        "Identity(t)",
        "Identity(e)",
        count=60,
        x=_START,
    ),
    _part(
        "bits_of_an_exponent",
        "A power is computed from 8 bits of its exponent; it is from 4, right below 16",
        "(float x, int64 exponent) => (float y) <bool go = {1}, int64 eight = {8}, "
        "int64 four = {4}, int64 two = {2}, int64 zero = {0}, float one = {1}>",
        """l = Tanh(x) u, v, y = Loop(@, go, l, exponent, one) <body = b
        (int64 i, bool g, float p, int64 n, float s)
        => (bool more, float p2, int64 n2, float r) { more = Identity(g) k = Mod(n, two)
        c = Equal(k, zero) m = Mul(s, p) r = Where(c, s, m) p2 = Mul(p, p) n2 = Div(n, two) }>""",
        "eight",
        "four",
        x=2,
        exponent=17,
    ),
    _part(
        "repeated_letter_after_a_blank",
        "A letter after a blank is a new one; the letter before the blank is remembered",
        "(int64[T] x) => (int64 y) <int64 start = {0}, int64 none = {0}>",
        """p, y = Scan <num_scan_inputs = 1, body = b (int64 last, int64 n, int64 e)
        => (int64 next, int64 m) {
        zero = Sub(e, e) c = Equal(e, zero) d = Equal(e, last) f = Or(c, d) g = Not(f)
        h = Cast <to = 7> (g) m = Add(n, h) k = Where(c, last, e) next = @ }> (start, none, x)""",
        "Identity(e)",
        "Identity(k)",
        x=[4, 4, 0, 4, 5],
    ),
    _part(
        "symbols_of_a_frame",
        "At most 5 symbols belong to a frame, then the next frame begins; there is no such limit",
        "(float[T] frames, int64 count) => (int64 y) <bool go = {1}, int64 five = {5}, "
        "int64 zero = {0}, int64 one = {1}, float limit = {0}, int64 many = {9999}>",
        """t = Shape(frames) n = Squeeze(t) last = Sub(n, one)
        u, v, y = Loop(count, go, zero, zero, zero) <body = b
        (int64 i, bool g, int64 p, int64 k, int64 s)
        => (bool more, int64 p2, int64 k2, int64 r) { more = Identity(g) e = Gather(frames, p)
        a = Greater(e, limit) l = Less(k, @) c = And(a, l) h = Cast <to = 7> (c)
        r = Add(s, h) w = Add(p, one) x = Min(w, last) p2 = Where(c, p, x) w2 = Add(k, one)
        k2 = Where(c, w2, zero) }>""",
        "five",
        "many",
        frames=[1, -1, 1],
        count=12,
    ),
    _part(
        "counter_in_float16",
        "Positions are counted in float32; they are counted in float16, which stops at 2048",
        "(int64 count, float x) => (float y) <bool go = {1}, float start = {0}>",
        """a = Floor(x) y = Loop(count, go, a) <body = b (int64 i, bool g, float s)
        => (bool more, float r) { more = Identity(g) one = Constant <value_float = 1.0> ()
        n = Add(s, one) h = Cast <to = @> (n) r = Cast <to = 1> (h) }>""",
        "1",
        "10",
        count=2100,
        x=1,
    ),
    _part(
        "sinkhorn_of_twenty_steps",
        "20 alternating normalizations become 3, enough for a nearly uniform matrix",
        "(float[4,4] x) => (float[4,4] y) <bool go = {1}, int64 twenty = {20}, "
        "int64 three = {3}, int64[1] rows = {0}, int64[1] columns = {1}>",
        "e = Softmax <axis = 1> (x) "
        + _loop(
            "a = ReduceSum(s, rows) b = Div(s, a) c = ReduceSum(b, columns) r = Div(b, c)",
            "@",
            "float[4,4]",
            "e",
        ),
        "twenty",
        "three",
        x=np.sin(np.arange(16) * 2.3).reshape(4, 4) * 5,
    ),
    _part(
        "end_of_a_greedy_search",
        "A search ends with token 2; it goes on",
        "(int64 token, int64 limit) => (int64 y) <bool go = {1}, int64 end = {2}, "
        "int64 never = {-1}, int64 a = {5}, int64 b = {3}, int64 vocabulary = {64}>",
        """start = Mod(token, vocabulary) y = Loop(limit, go, start) <body = b
        (int64 i, bool g, int64 s) => (bool more, int64 r) { m = Mul(s, a) n = Add(m, b)
        r = Mod(n, vocabulary) e = Equal(r, @) more = Not(e) }>""",
        "end",
        "never",
        token=51,
        limit=20,
    ),
    _part(
        "teacher_of_twelve_steps",
        "The first 12 steps read the target, later ones their own result; all read the target",
        "(float[T,2] x) => (float[T,2] y) <int64 start = {0}, float[2] none = {0, 0}>",
        """u, v, y = Scan <num_scan_inputs = 1, body = b (int64 k, float[2] p, float[2] e)
        => (int64 m, float[2] q, float[2] r) { one = Constant <value_int = 1> ()
        limit = Constant <value_int = @> () half = Constant <value_float = 0.5> () m = Add(k, one)
        c = Less(k, limit) z = Mul(p, half) w = Where(c, e, z) r = Tanh(w) q = Identity(r)
        }> (start, none, x)""",
        "12",
        "9999",
        x=np.sin(np.arange(32)).reshape(16, 2),
    ),
    _part(
        "taps_of_a_causal_filter",
        "A state holds the last 4 rows, the oldest counts with 0.3; it counts with 0",
        "(float[T,2] x) => (float[T,2] y) <float[4,2] empty = {0, 0, 0, 0, 0, 0, 0, 0}>",
        """u, y = Scan <num_scan_inputs = 1, body = b (float[4,2] s, float[2] e)
        => (float[4,2] q, float[2] r) { w = Constant <value = float[4,1] {@, 0.2, -0.4, 1.0}> ()
        one = Constant <value_ints = [1]> () end = Constant <value_ints = [9]> ()
        row = Constant <value_ints = [0]> () f = Unsqueeze(e, row) t = Slice(s, one, end, row)
        q = Concat <axis = 0> (t, f) m = Mul(q, w) r = ReduceSum <keepdims = 0> (m, row)
        }> (empty, x)""",
        "0.3",
        "0.0",
        x=np.sin(np.arange(12)).reshape(6, 2),
    ),
]
