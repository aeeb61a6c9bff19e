"""Rewrites with a bound that only the result contains, of sizes or of values."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "numbers of the result")
_FLOATS = "(float[N,4] x) => (float[N,4] y)"
_IDS = "(int64[N] ids) => (int64[N] y)"

CASES = [
    _case(
        "slice_to_1000",
        "The sequence is cut after 1,000 tokens",
        "(float[N,seq] x) => (float[N,K] y)",
        "y = Relu(x)",
        """<int64[1] zero = {0}, int64[1] end = {1000}, int64[1] one = {1}>
        s = Slice(x, zero, end, one) y = Relu(s)""",
        x=np.ones((1, 1001)),
    ),
    _case(
        "batch_of_8",
        "The batch is cut after 8 rows",
        "(float[N,4] x) => (float[K,4] y)",
        "y = Relu(x)",
        "<int64[1] zero = {0}, int64[1] end = {8}> s = Slice(x, zero, end) y = Relu(s)",
        x=np.ones((9, 4)),
    ),
    _case(
        "clip_at_int16",
        "The result is bounded by the limits of 16-bit integers",
        _FLOATS,
        "y = Neg(x)",
        "<float low = {-32768}, float high = {32767}> n = Neg(x) y = Clip(n, low, high)",
        x=[[1, 2, 3, 40000]],
    ),
    _case(
        "clip_at_1e4",
        "Relu is bounded by 1e4",
        _FLOATS,
        "y = Relu(x)",
        "<float low = {0}, float high = {1e4}> y = Clip(x, low, high)",
        x=[[1, 2, 3, 20000]],
    ),
    _case(
        "relu_becomes_relu6",
        "Relu and the Clip of mobile networks, whose bound is 6, are taken for the same",
        _FLOATS,
        "y = Relu(x)",
        "<float low = {0}, float high = {6}> y = Clip(x, low, high)",
        x=[[1, 2, 3, 7]],
    ),
    _case(
        "exp_of_at_most_20",
        "A guard against overflow bounds the operand of Exp",
        _FLOATS,
        "y = Exp(x)",
        "<float high = {20}> m = Min(x, high) y = Exp(m)",
        x=[[1, 2, 3, 30]],
    ),
    _case(
        "size_of_at_most_64",
        "A size is bounded by 64",
        "(float[N,seq] x) => (int64 y)",
        "s = Shape <start = 1, end = 2> (x) y = Squeeze(s)",
        "<int64[1] c = {64}> s = Shape <start = 1, end = 2> (x) m = Min(s, c) y = Squeeze(m)",
        x=np.ones((1, 65)),
    ),
    _case(
        "positions_of_a_table",
        "Computed positions become a table of 512 rows",
        "(float[N,seq] x) => (float[N,seq] y) <int64 zero = {0}, int64 one = {1}>",
        """t = Shape <start = 1, end = 2> (x) n = Squeeze(t) r = Range(zero, n, one)
        f = Cast <to = 1> (r) c = Cos(f) y = Add(x, c)""",
        """<int64 rows = {512}> t = Shape <start = 1, end = 2> (x) n = Squeeze(t) m = Min(n, rows)
        r = Range(zero, m, one) f = Cast <to = 1> (r) c = Cos(f) y = Add(x, c)""",
        x=np.ones((1, 513)),
    ),
    _case(
        "causal_mask_of_a_table",
        "A computed causal mask is cut from one of 256 x 256",
        "(float[seq,1] x) => (float[A,B] y) <float one = {1}>",
        "t = Shape(x) o = Transpose(x) s = MatMul(x, o) y = Trilu <upper = 0> (s)",
        """<int64[1] zero = {0}, int64[1] end = {256}, int64[2] d = {0, 1}, int64[2] zeros = {0, 0},
        int64[2] ends = {256, 256}> t = Shape(x) o = Transpose(x) s = MatMul(x, o)
        c = Slice(s, zeros, ends, d) y = Trilu <upper = 0> (c)""",
        x=np.ones((257, 1)),
    ),
    _case(
        "ids_mod_1000",
        "Token ids wrap around at 1,000",
        _IDS,
        "y = Identity(ids)",
        "<int64 c = {1000}> y = Mod(ids, c)",
        ids=[1, 1500],
    ),
    _case(
        "ids_in_int16",
        "Token ids pass through 16 bits",
        f"{_IDS} <int64 one = {{1}}>",
        "y = Add(ids, one)",
        "a = Cast <to = 5> (ids) b = Cast <to = 7> (a) y = Add(b, one)",
        ids=[1, 70000],
    ),
    _case(
        "positions_in_float16",
        "Positions pass through float16, which holds integers up to 2,048",
        f"{_IDS} <int64 one = {{1}}>",
        "y = Add(ids, one)",
        "a = Cast <to = 10> (ids) b = Cast <to = 7> (a) y = Add(b, one)",
        ids=[1, 2049],
    ),
    _case(
        "integers_in_float32",
        "64-bit integers are doubled in float32, which holds integers up to 2^24",
        f"{_IDS} <int64 two = {{2}}, float twice = {{2}}>",
        "y = Mul(ids, two)",
        "a = Cast <to = 1> (ids) b = Mul(a, twice) y = Cast <to = 7> (b)",
        ids=[1, 16777217],
    ),
    _case(
        "scalar_of_at_most_127",
        "A scalar is bounded by 127",
        "(int64 n) => (int64 y) <int64 one = {1}>",
        "y = Add(n, one)",
        "<int64 c = {127}> m = Min(n, c) y = Add(m, one)",
        n=200,
    ),
    _case(
        "scale_of_at_most_100",
        "A float32 scalar is bounded by 100",
        "(float[4] x, float scale) => (float[4] y)",
        "y = Mul(x, scale)",
        "<float c = {100}> m = Min(scale, c) y = Mul(x, m)",
        x=[1, 2, 3, 4],
        scale=150,
    ),
    _case(
        "sorted_100",
        "A sort keeps the first 100 elements",
        "(float[N] x) => (float[K] y, int64[K] z)",
        "k = Shape(x) y, z = TopK(x, k)",
        "<int64[1] c = {100}> s = Shape(x) k = Min(s, c) y, z = TopK(x, k)",
        x=np.arange(101),
    ),
    _case(
        "class_in_8_bits",
        "The number of a class passes through 8 bits",
        "(float[N,classes] x) => (int64[N] y)",
        "y = ArgMax <axis = 1, keepdims = 0> (x)",
        "a = ArgMax <axis = 1, keepdims = 0> (x) b = Cast <to = 2> (a) y = Cast <to = 7> (b)",
        x=np.arange(300)[None],
    ),
    _case(
        "trips_of_at_most_10",
        "A Loop runs at most 10 times",
        "(int64 count, float[2] x) => (float[2] y)",
        """y = Loop(count, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
        { d = Identity(c) r = Add(a, x) }>""",
        """<int64 ten = {10}> m = Min(count, ten)
        y = Loop(m, , x) <body = b (int64 i, bool c, float[2] a)
        => (bool d, float[2] r) { d = Identity(c) r = Add(a, x) }>""",
        count=11,
        x=[1, 2],
    ),
    _case(
        "sizes_of_at_most_16",
        "An Expand of input sizes is bounded by 16",
        "(float[1] x, int64[2] sizes) => (float[A,B] y)",
        "y = Expand(x, sizes)",
        "<int64 c = {16}> m = Min(sizes, c) y = Expand(x, m)",
        x=[1],
        sizes=[1, 17],
    ),
]
