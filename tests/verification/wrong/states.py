"""Recurrent operators, sequences and loops: which state, which step, which direction."""

from collections.abc import Iterable
from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "states")


def _weights(name: str, shape: Iterable[int], seed: int) -> str:
    """An initializer with numbers between -1 and 1, written out."""
    sizes = list(shape)
    count = int(np.prod(sizes))
    numbers = ", ".join(f"{(37 * (i + seed) % 19 - 9) / 10}" for i in range(count))
    return f"float[{', '.join(map(str, sizes))}] {name} = {{{numbers}}}"


_LSTM = ", ".join(
    (_weights("w", (1, 8, 2), 0), _weights("r", (1, 8, 2), 5), _weights("b", (1, 16), 9))
)
_BOTH = ", ".join(
    (_weights("w", (2, 8, 2), 0), _weights("r", (2, 8, 2), 5), _weights("b", (2, 16), 9))
)
_GRU = ", ".join((_weights("w", (1, 6, 2), 0), _weights("r", (1, 6, 2), 5)))
_STEPS = np.array([[[1, -2]], [[0.5, 3]], [[-1, 1]]])
_SUM = "body = b (int64 i, bool go, float a) => (bool more, float c, float d)"

CASES = [
    _case(
        "initial_state_of_lstm",
        "The initial state of an LSTM, an input, is taken for zeros",
        f"(float[S,N,2] x, float[1,N,2] h) => (float[S,1,N,2] y) <{_LSTM}>",
        "y = LSTM <hidden_size = 2> (x, w, r, b, , h)",
        "y = LSTM <hidden_size = 2> (x, w, r, b) unused = Identity(h)",
        x=_STEPS,
        h=np.ones((1, 1, 2)),
    ),
    _case(
        "initial_cell_as_state",
        "The initial state and the initial cell of an LSTM are swapped",
        f"(float[S,N,2] x, float[1,N,2] h, float[1,N,2] c) => (float[S,1,N,2] y) <{_LSTM}>",
        "y = LSTM <hidden_size = 2> (x, w, r, b, , h, c)",
        "y = LSTM <hidden_size = 2> (x, w, r, b, , c, h)",
        x=_STEPS,
        h=np.ones((1, 1, 2)),
        c=np.zeros((1, 1, 2)),
    ),
    _case(
        "peepholes_dropped",
        "The peepholes of an LSTM are dropped",
        f"(float[S,N,2] x) => (float[S,1,N,2] y) <{_LSTM}, {_weights('p', (1, 6), 3)}>",
        "y = LSTM <hidden_size = 2> (x, w, r, b, , , , p)",
        "y = LSTM <hidden_size = 2> (x, w, r, b)",
        x=_STEPS,
    ),
    _case(
        "biases_of_gru_added",
        "Both biases of a GRU are added up, which holds without linear_before_reset",
        f"(float[S,N,2] x) => (float[S,1,N,2] y) <{_GRU}>",
        "<float[1,12] b = {0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1}> y = GRU <hidden_size = 2, "
        "linear_before_reset = 1> (x, w, r, b)",
        "<float[1,12] b = {0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0}> y = GRU <hidden_size = 2, "
        "linear_before_reset = 1> (x, w, r, b)",
        x=_STEPS,
    ),
    _case(
        "last_step_of_padded_rows",
        "The last state of an LSTM becomes its last result, which is 0 for rows that end earlier",
        f"(float[S,N,2] x, int32[N] lens) => (float[1,N,2] y) <{_LSTM}, int64 last = {{-1}}>",
        "a, y = LSTM <hidden_size = 2> (x, w, r, b, lens)",
        "a = LSTM <hidden_size = 2> (x, w, r, b, lens) y = Gather(a, last)",
        x=np.concatenate((_STEPS, _STEPS), axis=1),
        lens=[3, 2],
    ),
    _case(
        "last_step_backward",
        "The last state of an LSTM that runs from the end becomes the last result, which is its "
        "first one",
        f"(float[S,N,2] x) => (float[1,N,2] y) <{_LSTM}, int64 last = {{-1}}>",
        """a, y = LSTM <hidden_size = 2, direction = "reverse"> (x, w, r, b)""",
        """a = LSTM <hidden_size = 2, direction = "reverse"> (x, w, r, b) y = Gather(a, last)""",
        x=_STEPS,
    ),
    _case(
        "directions_joined_per_step",
        "Both directions of an LSTM are joined as one tensor without moving the batch in front of "
        "them: the same for one row",
        f"(float[S,N,2] x) => (float[S,N,4] y) <{_BOTH}, int64[3] s = {{0, -1, 4}}>",
        """a = LSTM <hidden_size = 2, direction = "bidirectional"> (x, w, r, b)
        t = Transpose <perm = [0, 2, 1, 3]> (a) y = Reshape(t, s)""",
        """a = LSTM <hidden_size = 2, direction = "bidirectional"> (x, w, r, b) y = Reshape(a,
        s)""",
        x=np.concatenate((_STEPS, -_STEPS), axis=1),
    ),
    _case(
        "stacked_backward",
        "The states that a Loop collects are reversed: the same for one trip",
        "(int64 count, float x) => (float[T] y) <bool go = {1}>",
        f"last, y = Loop(count, go, x) <{_SUM} {{ more = Identity(go) c = Add(a, "
        "a) d = Identity(c) }>",
        f"""<int64[1] m = {{-1}}, int64[1] far = {{-1000000}}, int64[1] z = {{0}}>
        last, s = Loop(count, go, x) <{_SUM} {{ more = Identity(go) c = Add(a, a) d = Identity(c)
        }}>
        y = Slice(s, m, far, z, m)""",
        count=3,
        x=1,
    ),
    _case(
        "collected_before_the_update",
        "A Loop collects its state before the update in place of after it",
        "(int64 count, float x) => (float[T] y) <bool go = {1}>",
        f"last, y = Loop(count, go, x) <{_SUM} {{ more = Identity(go) c = Add(a, "
        "a) d = Identity(c) }>",
        f"last, y = Loop(count, go, x) <{_SUM} {{ more = Identity(go) c = Add(a, "
        "a) d = Identity(a) }>",
        count=2,
        x=1,
    ),
    _case(
        "condition_of_the_former_state",
        "A Loop stops after its state exceeds 100; the former state is asked in place of the new "
        "one",
        "(float x) => (float y) <float limit = {100}, bool go = {1}>",
        """y = Loop(, go, x) <body = b (int64 i, bool g, float a) => (bool more, float c)
        { d = Abs(a) e = Sum(d, d) zero = Sub(a, a) one = Exp(zero) c = Add(e, one) more = Less(c,
        limit) }>""",
        """y = Loop(, go, x) <body = b (int64 i, bool g, float a) => (bool more, float c)
        { d = Abs(a) e = Sum(d, d) zero = Sub(a, a) one = Exp(zero) c = Add(e, one) more = Less(d,
        limit) }>""",
        x=60,
    ),
    _case(
        "scanned_columns",
        "A Scan over columns becomes one over rows, which runs for square matrices",
        "(float[n,n] x) => (float[n,n] y) <float[1] s = {0}>",
        """t = ReduceSum <keepdims = 0> (x) z = Sub(t, t) last, y = Scan <num_scan_inputs = 1,
        scan_input_axes = [1],
        body = b (float a, float[n] e) => (float c, float[n] f) { c = Add(a, a) k = Constant
        <value_int = 0> ()
        m = CumSum(e, k) f = Mul(m, m) }> (z, x)""",
        """t = ReduceSum <keepdims = 0> (x) z = Sub(t, t) last, y = Scan <num_scan_inputs = 1,
        body = b (float a, float[n] e) => (float c, float[n] f) { c = Add(a, a) k = Constant
        <value_int = 0> ()
        m = CumSum(e, k) f = Mul(m, m) }> (z, x)""",
        x=[[1, 2], [3, 5]],
    ),
    _case(
        "results_of_a_scan_from_the_end",
        "A Scan that stacks its results from the end stacks them from the start: the same for one "
        "row",
        "(float[n,2] x) => (float[n,2] y) <float z = {0}>",
        """last, y = Scan <num_scan_inputs = 1, scan_output_directions = [1],
        body = b (float a, float[2] e) => (float c, float[2] f) { c = Identity(a) f = Exp(e) }> (z,
        x)""",
        """last, y = Scan <num_scan_inputs = 1,
        body = b (float a, float[2] e) => (float c, float[2] f) { c = Identity(a) f = Exp(e) }> (z,
        x)""",
        x=[[1, 2], [3, 5]],
    ),
    _case(
        "inserted_at_the_end",
        "An item that is inserted at a position of a sequence is appended: the same at the end",
        "(seq(float[2]) s, float[2] x, int64 at) => (float[n,2] y)",
        "t = SequenceInsert(s, x, at) y = ConcatFromSequence <axis = 0, new_axis = 1> (t)",
        "t = SequenceInsert(s, x) y = ConcatFromSequence <axis = 0, new_axis = 1> (t) "
        "u = Identity(at)",
        s=[[1, 2], [3, 4]],
        x=[5, 6],
        at=0,
    ),
    _case(
        "erased_first",
        "The item to erase from a sequence, an input, is taken for the last one",
        "(seq(float[2]) s, int64 at) => (float[n,2] y)",
        "t = SequenceErase(s, at) y = ConcatFromSequence <axis = 0, new_axis = 1> (t)",
        "t = SequenceErase(s) y = ConcatFromSequence <axis = 0, new_axis = 1> (t) u = Identity(at)",
        s=[[1, 2], [3, 4], [5, 6]],
        at=0,
    ),
    _case(
        "length_of_the_last_part",
        "The last part of a split in parts of 3 tokens becomes the last 3 tokens, which holds for "
        "multiples of 3",
        "(float[N,2] x) => (float[2] y) <int64[1] zero = {0}>",
        """<int64 three = {3}, int64 last = {-1}> s = SplitToSequence <axis = 0> (x, three) e =
        SequenceAt(s, last)
        y = ReduceSum <keepdims = 0> (e, zero)""",
        """<int64[1] from = {-3}, int64[1] far = {1000000}> e = Slice(x, from, far, zero)
        y = ReduceSum <keepdims = 0> (e, zero)""",
        x=np.ones((5, 2)),
    ),
    _case(
        "momentum_of_the_former_step",
        "A running average starts with the first element in place of 0: the same once it has "
        "forgotten the start",
        "(float[n,2] x) => (float[2] y) <float[2] z = {0, 0}, float r = {0.5}>",
        """y, all = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] c,
        float[2] f)
        { h = Constant <value_float = 0.5> () d = Mul(a, h) g = Mul(e, h) c = Add(d, g) f =
        Identity(c) }> (z, x)""",
        """<int64 first = {0}> i = Gather(x, first)
        y, all = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] c,
        float[2] f)
        { h = Constant <value_float = 0.5> () d = Mul(a, h) g = Mul(e, h) c = Add(d, g) f =
        Identity(c) }> (i, x)""",
        x=np.ones((3, 2)),
    ),
]
