"""Rewrites that are wrong for some lengths, counts or positions only."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "lengths")
_SEQ = "(float[N,seq] x) => (float[N,seq] y)"
_COUNTED = "t = Shape <start = 1, end = 2> (x) n = Squeeze(t) r = Range(zero, n, one)"
_NUMBERS = "int64 zero = {0}, int64 one = {1}"
_SCORES = "(float[N,seq,seq] x) => (float[N,seq,seq] y)"
_STATES = "(int64 count) => (float[1] y) <bool true = {1}, float[1] a = {1}, float[1] b = {1}>"

CASES = [
    _case(
        "window_of_attention",
        "The window of 64 of an attention is dropped",
        f"{_SCORES} <{_NUMBERS}, float low = {{-1e9}}, int64[1] first = {{1}}>",
        f"""<int64 w = {{64}}> {_COUNTED} u = Unsqueeze(r, first) d = Sub(u, r) c = Less(d, w)
        y = Where(c, x, low)""",
        "y = Identity(x)",
        x=np.ones((1, 66, 66)),
    ),
    _case(
        "window_off_by_one",
        "The window of 64 has 65 tokens",
        f"{_SCORES} <{_NUMBERS}, float low = {{-1e9}}, int64[1] first = {{1}}>",
        f"""<int64 w = {{64}}> {_COUNTED} u = Unsqueeze(r, first) d = Sub(u, r) c = Less(d, w)
        y = Where(c, x, low)""",
        f"""<int64 w = {{64}}> {_COUNTED} u = Unsqueeze(r, first) d = Sub(u, r)
        c = LessOrEqual(d, w) y = Where(c, x, low)""",
        x=np.ones((1, 66, 66)),
    ),
    _case(
        "scaled_beyond_the_training",
        "The scale of scores grows with the logarithm of lengths above 200; it is dropped",
        f"{_SEQ} <float base = {{200}}, float one = {{1}}>",
        """t = Shape <start = 1, end = 2> (x) f = Cast <to = 1> (t) d = Div(f, base) m = Max(d, one)
        l = Log(m) s = Add(l, one) y = Mul(x, s)""",
        "y = Identity(x)",
        x=np.ones((1, 300)),
    ),
    _case(
        "if_longer_than_300",
        "The branch for more than 300 tokens is dropped",
        f"{_SEQ} <int64 bound = {{300}}>",
        """t = Shape <start = 1, end = 2> (x) n = Squeeze(t) c = Greater(n, bound)
        y = If (c) <then_branch = e () => (float[N,seq] p) { p = Neg(x) },
        else_branch = f () => (float[N,seq] q) { q = Identity(x) }>""",
        "y = Identity(x)",
        x=np.ones((1, 301)),
    ),
    _case(
        "even_positions_of_five",
        "Every second token is taken by a list of indices that ends at 8",
        "(float[N,seq] x) => (float[N,M] y)",
        "<int64[1] z = {0}, int64[1] e = {99999}, int64[1] a = {1}, int64[1] s = {2}> "
        "y = Slice(x, z, e, a, s)",
        "<int64[1] z = {0}, int64[1] e = {9}, int64[1] a = {1}, int64[1] s = {2}> "
        "y = Slice(x, z, e, a, s)",
        x=np.ones((1, 12)),
    ),
    _case(
        "slices_merged_from_the_end",
        "x[2:][:-3] -> x[2:-1]: the ends of two slices are added up wrongly",
        "(float[seq] x) => (float[M] y)",
        """<int64[1] a = {2}, int64[1] e = {9999}, int64[1] z = {0}, int64[1] b = {-3}>
        s = Slice(x, a, e) y = Slice(s, z, b)""",
        "<int64[1] a = {2}, int64[1] b = {-1}> y = Slice(x, a, b)",
        x=np.arange(8),
    ),
    _case(
        "slices_of_short_sequences",
        "x[-4:][:2] -> x[-4:-2] holds for at least 4 tokens",
        "(float[seq] x) => (float[M] y)",
        """<int64[1] a = {-4}, int64[1] e = {9999}, int64[1] z = {0}, int64[1] b = {2}>
        s = Slice(x, a, e) y = Slice(s, z, b)""",
        "<int64[1] a = {-4}, int64[1] b = {-2}> y = Slice(x, a, b)",
        x=np.arange(3),
    ),
    _case(
        "steps_of_slices_merged",
        "x[::2][::3] -> x[::6] with the start of the second lost",
        "(float[seq] x) => (float[M] y) <int64[1] z = {0}, int64[1] e = {9999}, int64[1] a = {0}>",
        """<int64[1] f = {1}, int64[1] two = {2}, int64[1] three = {3}>
        s = Slice(x, z, e, a, two) y = Slice(s, f, e, a, three)""",
        "<int64[1] f = {1}, int64[1] six = {6}> y = Slice(x, f, e, a, six)",
        x=np.arange(9),
    ),
    _case(
        "last_chunk_is_short",
        "Chunks of 16 tokens: the last, shorter one is left as it is",
        f"{_SEQ} <int64[1] z = {{0}}, int64[1] chunk = {{16}}, int64[1] axis = {{1}}>",
        "y = Neg(x)",
        """t = Shape <start = 1, end = 2> (x) m = Mod(t, chunk) e = Sub(t, m) c = Less(t, chunk)
        k = Where(c, t, e) a = Slice(x, z, k, axis) b = Slice(x, k, t, axis) q = Neg(a)
        y = Concat <axis = 1> (q, b)""",
        x=np.ones((1, 20)),
    ),
    _case(
        "third_row_of_a_batch",
        "The third row of a batch is negated",
        "(float[N,4] x) => (float[N,4] y)",
        "y = Identity(x)",
        """<int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] last = {1}>
        t = Shape <start = 0, end = 1> (x) n = Squeeze(t) r = Range(zero, n, one) e = Equal(r, two)
        u = Unsqueeze(e, last) m = Neg(x) y = Where(u, m, x)""",
        x=np.ones((3, 4)),
    ),
    _case(
        "product_of_batch_and_length",
        "batch * seq becomes seq * seq, the same for as many rows as tokens",
        "(float[N,seq] x) => (float[M] y)",
        "<int64[1] f = {-1}> y = Reshape(x, f)",
        "t = Shape <start = 1, end = 2> (x) s = Mul(t, t) y = Reshape(x, s)",
        x=np.ones((2, 3)),
    ),
    _case(
        "mean_of_chunks",
        "The mean of a row becomes the mean of the means of its halves, equal for even lengths",
        "(float[N,seq] x) => (float[N,1] y) <int64[1] a = {1}>",
        "y = ReduceMean(x, a)",
        """<int64[1] z = {0}, int64[1] two = {2}, float half = {0.5}>
          t = Shape <start = 1, end = 2> (x)
        k = Add(t, a) m = Div(k, two) p = Slice(x, z, m, a) q = Slice(x, m, t, a)
        u = ReduceMean(p, a) v = ReduceMean(q, a) s = Add(u, v) y = Mul(s, half)""",
        x=[[1, 2, 9]],
    ),
    _case(
        "past_of_one_length",
        "The position of a new token is that of an empty past",
        """(float[N,past,4] cache, float[N,seq,4] x) => (float[N,seq,4] y)
        <int64 zero = {0}, int64 one = {1}, int64[1] last = {1}>""",
        """a = Shape <start = 1, end = 2> (cache) b = Shape <start = 1, end = 2> (x) e = Add(a, b)
        p = Squeeze(a) q = Squeeze(e) r = Range(p, q, one) f = Cast <to = 1> (r)
          u = Unsqueeze(f, last)
        y = Add(x, u)""",
        """b = Shape <start = 1, end = 2> (x) q = Squeeze(b) r = Range(zero, q, one)
        f = Cast <to = 1> (r) u = Unsqueeze(f, last) y = Add(x, u)""",
        cache=np.ones((1, 3, 4)),
        x=np.ones((1, 2, 4)),
    ),
    _case(
        "states_of_a_loop_in_order",
        "The states a, b = b, a + b of a Loop are updated one after the other",
        _STATES,
        """y, z = Loop(count, true, a, b) <body = l (int64 i, bool c, float[1] p, float[1] q)
        => (bool d, float[1] r, float[1] s) { d = Identity(c) r = Identity(q) s = Add(p, q) }>""",
        """y, z = Loop(count, true, a, b) <body = l (int64 i, bool c, float[1] p, float[1] q)
        => (bool d, float[1] r, float[1] s) { d = Identity(c) r = Identity(q) s = Add(r, q) }>""",
        count=3,
    ),
    _case(
        "invariant_of_a_loop",
        "A value that changes in the third trip is moved out of a Loop",
        "(int64 count, float[1] x) => (float[1] y) <bool true = {1}, float[1] a = {0}>",
        """<int64 two = {2}> y = Loop(count, true, a) <body = l (int64 i, bool c, float[1] p)
        => (bool d, float[1] r) { d = Identity(c) e = Less(i, two) n = Neg(x) w = Where(e, x, n)
        r = Add(p, w) }>""",
        """y = Loop(count, true, a) <body = l (int64 i, bool c, float[1] p)
        => (bool d, float[1] r) { d = Identity(c) r = Add(p, x) }>""",
        count=3,
        x=[1],
    ),
    _case(
        "trips_of_a_scan",
        "A Scan that multiplies becomes a power by the number of rows of the first one",
        "(float[N,4] x) => (float[4] y) <float[4] one = {1, 1, 1, 1}>",
        """y = Scan <num_scan_inputs = 1, body = s (float[4] p, float[4] r) => (float[4] q)
        { q = Mul(p, r) }> (one, x)""",
        """<int64 zero = {0}> t = Shape <start = 0, end = 1> (x) n = Squeeze(t)
          f = Cast <to = 1> (n)
        r = Gather(x, zero) y = Pow(r, f)""",
        x=[[1, 2, 3, 4], [1, 1, 1, 1]],
    ),
    _case(
        "lengths_of_sequences_dropped",
        "The lengths of the rows that a ReverseSequence reads are taken for the whole",
        "(float[N,4] x, int64[N] lens) => (float[N,4] y)",
        "y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, lens)",
        """<int64[1] s = {-1}, int64[1] e = {-99}, int64[1] a = {1}, int64[1] m = {-1}>
        y = Slice(x, s, e, a, m)""",
        x=[[1, 2, 3, 4]],
        lens=[2],
    ),
    _case(
        "total_of_cumulative_sum",
        "An exclusive CumSum becomes an inclusive one without its first element",
        "(float[N,seq] x) => (float[N,seq] y) <int64 a = {1}>",
        "y = CumSum <exclusive = 1> (x, a)",
        "c = CumSum(x, a) y = Sub(c, c)",
        x=[[1, 2, 3]],
    ),
    _case(
        "repeated_indices_added",
        "ScatterND of repeated indices, where the last wins, becomes one that adds",
        "(float[4] x, int64[N,1] index, float[N] u) => (float[4] y) <float zero = {0}>",
        "m = Mul(x, zero) y = ScatterND(m, index, u)",
        """m = Mul(x, zero) y = ScatterND <reduction = "add"> (m, index, u)""",
        x=[1, 1, 1, 1],
        index=[[1], [1]],
        u=[1, 1],
    ),
    _case(
        "bucket_of_far_distances",
        "Distances from 90 on share a bucket; all are taken for their own",
        f"(float[N,seq] x) => (float[seq] y) <{_NUMBERS}>",
        f"""<float bound = {{90}}, float s = {{0.1}}> {_COUNTED} f = Cast <to = 1> (r)
          m = Min(f, bound)
        y = Mul(m, s)""",
        f"<float s = {{0.1}}> {_COUNTED} f = Cast <to = 1> (r) y = Mul(f, s)",
        x=np.ones((1, 100)),
    ),
    _case(
        "sequence_of_two_items",
        "A sequence is joined from its first two items",
        "(float[N,4] x) => (float[N,4] y) <int64 one = {1}>",
        "s = SplitToSequence <axis = 0> (x, one) y = ConcatFromSequence <axis = 0> (s)",
        """<int64[1] z = {0}, int64[1] two = {2}> t = Shape <start = 0, end = 1> (x) m = Min(t, two)
        a = Slice(x, z, m) b = Slice(x, m, t) n = Neg(b) y = Concat <axis = 0> (a, n)""",
        x=np.ones((3, 4)),
    ),
]
