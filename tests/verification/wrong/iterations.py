"""Loops and Scans whose results differ after a number of iterations only."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import replaced

_part = partial(replaced, "late iterations")
_NUMBERS = ", ".join(
    f"int64 {name} = {{{number}}}"
    for name, number in {
        "zero": 0,
        "one": 1,
        "two": 2,
        "four": 4,
        "five": 5,
        "seven": 7,
        "eight": 8,
        "ten": 10,
        "twelve": 12,
        "sixteen": 16,
        "twenty": 20,
        "many": 30,
    }.items()
)
_COUNTED = f"(int64 count, float[2] x) => (float[2] y) <{_NUMBERS}, bool go = {{1}}"
_ROWS = f"(float[T,2] x) => (float[T,2] y) <{_NUMBERS}, int64 start = {{0}}"
_START = [1, -2]
_STEPS = np.sin(np.arange(48)).reshape(24, 2)


def _loop(body: str, count: str = "count") -> str:
    """A Loop with a state ``s``, whose next one is ``r``; ``i`` is the iteration."""
    return f"""y = Loop({count}, go, x) <body = b (int64 i, bool g, float[2] s)
    => (bool more, float[2] r) {{ more = Identity(g) {body} }}>"""


def _scan(body: str, start: str = "start", state: str = "int64") -> str:
    """A Scan over rows ``e`` with the results ``r``, and a state ``k`` whose next one is ``m``."""
    return f"""end, y = Scan <num_scan_inputs = 1, body = b ({state} k, float[2] e)
    => ({state} m, float[2] r) {{ {body} }}> ({start}, x)"""


CASES = [
    _part(
        "state_saturates_at_16",
        "The sum of a Loop saturates at 16; the bound is dropped",
        f"{_COUNTED}, float most = {{16}}>",
        _loop("a = Abs(x) t = Add(s, a) r = @"),
        "Min(t, most)",
        "Identity(t)",
        count=25,
        x=_START,
    ),
    _part(
        "ring_of_eight",
        "A ring buffer writes at i % 8; after 8 iterations the last place is written",
        f"(int64 count) => (float[8] y) <{_NUMBERS}, bool go = {{1}}, "
        "float[8] empty = {0, 0, 0, 0, 0, 0, 0, 0}, int64[1] z = {0}>",
        """y = Loop(count, go, empty) <body = b (int64 i, bool g, float[8] s)
        => (bool more, float[8] r) { more = Identity(g) p = @ u = Unsqueeze(p, z)
        f = Cast <to = 1> (i) v = Unsqueeze(f, z) r = ScatterElements(s, u, v) }>""",
        "Mod(i, eight)",
        "Min(i, seven)",
        count=20,
    ),
    _part(
        "residual_of_layer_twelve",
        "Iteration 12 of a Loop over layers negates the state; it is an iteration like others",
        f"{_COUNTED}>",
        _loop("d = Add(s, x) c = Equal(i, @) n = Neg(d) r = Where(c, n, d)"),
        "twelve",
        "many",
        count=20,
        x=_START,
    ),
    _part(
        "position_that_wraps",
        "Positions wrap at 16; the embedding of position i is added",
        f"{_COUNTED}>",
        _loop("p = @ f = Cast <to = 1> (p) c = Sin(f) r = Add(s, c)"),
        "Mod(i, sixteen)",
        "Identity(i)",
        count=24,
        x=_START,
    ),
    _part(
        "warm_up_of_20",
        "A step size grows until iteration 20; it grows without end",
        f"{_COUNTED}, float by = {{0.05}}>",
        _loop("p = @ f = Cast <to = 1> (p) m = Mul(f, by) n = Mul(m, x) r = Add(s, n)"),
        "Min(i, twenty)",
        "Identity(i)",
        count=30,
        x=_START,
    ),
    _part(
        "exit_after_fifteen",
        "A Loop of 30 iterations stops where its state passes 15; it runs to the end",
        "(float x) => (float y) <int64 many = {30}, bool go = {1}, float most = {15}, "
        "float top = {1e9}, float one = {1}>",
        """u = Sigmoid(x) y = Loop(many, go, u) <body = b (int64 i, bool g, float s)
        => (bool more, float r) { r = Add(s, one) more = Less(r, @) }>""",
        "most",
        "top",
        x=1,
    ),
    _part(
        "reset_of_each_eighth",
        "Each eighth iteration starts again from x; the reset is dropped",
        f"{_COUNTED}>",
        _loop("d = Add(s, x) p = Mod(i, eight) c = Equal(p, @) r = Where(c, x, d)"),
        "seven",
        "eight",
        count=20,
        x=_START,
    ),
    _part(
        "other_weight_after_eight_rows",
        "Rows after the eighth have a factor of their own; they have the one of the first rows",
        f"{_ROWS}, float early = {{0.5}}, float late = {{-0.5}}>",
        _scan("c = Less(k, eight) w = Where(c, early, @) r = Mul(e, w) m = Add(k, one)"),
        "late",
        "early",
        x=_STEPS,
    ),
    _part(
        "window_of_six_rows",
        "A Scan subtracts the row of 6 iterations before, kept in its state; the row is 0",
        "(float[T,2] x) => (float[T,2] y) <float[6,2] empty = "
        "{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int64 z = {0}, int64[1] a = {1}, int64[1] b = {99}, "
        "int64[1] axis = {0}, float[2] none = {0, 0}>",
        _scan(
            """o = Gather(k, z) r = Sub(e, @) t = Slice(k, a, b, axis) u = Unsqueeze(e, axis)
            m = Concat <axis = 0> (t, u)""",
            "empty",
            "float[6,2]",
        ),
        "o",
        "none",
        x=_STEPS,
    ),
    _part(
        "total_of_at_most_twenty",
        "The cumulative total of a Scan is bounded by 20; the bound is dropped",
        "(float[T,2] x) => (float[T,2] y) <float[2] start = {0, 0}, float most = {20}>",
        _scan("a = Abs(e) s = Add(k, a) m = @ r = Identity(m)", state="float[2]"),
        "Min(s, most)",
        "Identity(s)",
        x=np.ones((24, 2)),
    ),
    _part(
        "penalty_before_iteration_ten",
        "A penalty applies before iteration 10; it applies always",
        f"{_COUNTED}, float penalty = {{0.25}}, float none = {{0}}>",
        _loop("c = Less(i, ten) p = Where(c, penalty, @) m = Sub(s, p) r = Tanh(m)"),
        "none",
        "penalty",
        count=20,
        x=_START,
    ),
    _part(
        "sign_after_sixteen",
        "Bit 4 of the iteration flips the sign of an update; the bit is taken for 0",
        f"{_COUNTED}>",
        _loop(
            "q = Div(i, sixteen) b = Mod(q, two) c = Equal(b, @) n = Sub(s, x) d = Add(s, x) "
            "r = Where(c, n, d)"
        ),
        "one",
        "two",
        count=24,
        x=_START,
    ),
    _part(
        "counter_of_a_byte",
        "A counter of 8 bits wraps after 256 iterations; it is one of 64 bits",
        f"{_COUNTED}>",
        _loop("w = Cast <to = @> (i) f = Cast <to = 1> (w) r = Add(x, f)"),
        "2",
        "7",
        count=260,
        x=_START,
    ),
    _part(
        "gate_opens_at_twenty",
        "A gate that opens at iteration 20 applies Relu to the state; it never opens",
        f"{_COUNTED}>",
        _loop("m = Neg(s) p = Add(m, x) l = Relu(p) c = Less(i, @) r = Where(c, p, l)"),
        "twenty",
        "many",
        count=24,
        x=_START,
    ),
    _part(
        "newton_of_eight_steps",
        "24 steps of Newton's square root become 8, which is enough for numbers near 1",
        "(float[2] x) => (float[2] y) <bool go = {1}, int64 long = {24}, int64 short = {8}, "
        "float half = {0.5}>",
        """z = Abs(x) e = Exp(z) y = Loop(@, go, e) <body = b (int64 i, bool g, float[2] s)
        => (bool more, float[2] r) { more = Identity(g) q = Div(e, s) t = Add(s, q)
        r = Mul(t, half) }>""",
        "long",
        "short",
        x=[14, 12],
    ),
    _part(
        "step_that_stops_doubling",
        "A backoff doubles up to iteration 10; it doubles without end",
        f"{_COUNTED}, float base = {{2}}>",
        _loop("p = @ f = Cast <to = 1> (p) w = Pow(base, f) a = Tanh(x) r = Mul(a, w)"),
        "Min(i, ten)",
        "Identity(i)",
        count=20,
        x=_START,
    ),
    _part(
        "history_of_eight",
        "A Loop keeps the last 8 items of a sequence; it keeps all",
        f"(int64 count) => (int64 y) <{_NUMBERS}, bool go = {{1}}>",
        """empty = SequenceEmpty <dtype = 7> () t = Loop(count, go, empty)
        <body = b (int64 i, bool g, seq(int64) s) => (bool more, seq(int64) r)
        { more = Identity(g) a = SequenceInsert(s, i) n = SequenceLength(a) c = Greater(n, @)
        r = If (c) <then_branch = p () => (seq(int64) u) { u = SequenceErase(a, zero) },
        else_branch = q () => (seq(int64) v) { v = Identity(a) }> } > y = SequenceLength(t)""",
        "eight",
        "many",
        count=20,
    ),
    _part(
        "patience_of_five",
        "A Loop ends after 5 iterations without a smaller loss; it never loses patience",
        "(float[24] losses) => (float y) <bool go = {1}, int64 many = {24}, int64 start = {0}, "
        "float top = {3.4e38}, int64 five = {5}, int64 never = {99}, int64 one = {1}>",
        """y, last = Loop(many, go, top, start) <body = b (int64 i, bool g, float s, int64 w)
        => (bool more, float r, int64 v) { l = Gather(losses, i) c = Less(l, s) r = Min(l, s)
        z = Sub(w, w) p = Add(w, one) v = Where(c, z, p) more = Less(v, @) }>""",
        "five",
        "never",
        losses=[5, 4, 3, 2, 1, *range(2, 20), 0],
    ),
    _part(
        "last_rows_of_a_reversed_scan",
        "A Scan from the end negates rows after the 16th it reads; none is negated",
        f"{_ROWS}>",
        _scan("c = Less(k, @) n = Neg(e) r = Where(c, e, n) m = Add(k, one)").replace(
            "num_scan_inputs = 1",
            "num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1]",
        ),
        "sixteen",
        "many",
        x=_STEPS,
    ),
    _part(
        "schedule_of_ten_entries",
        "A schedule of 10 factors keeps its last one; it starts again",
        f"{_COUNTED}, int64 last = {{9}}, float[10] factors = "
        "{1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1}>",
        _loop("p = @ w = Gather(factors, p) m = Mul(x, w) r = Add(s, m)"),
        "Min(i, last)",
        "Mod(i, ten)",
        count=20,
        x=_START,
    ),
    _part(
        "attention_sink_of_four",
        "After iteration 12 a cache drops tokens but for the first 4: it reads i - 8, not i - 4",
        f"{_COUNTED}>",
        _loop("""c = Less(i, twelve) a = Sub(i, @) p = Where(c, i, a) f = Cast <to = 1> (p)
        o = Cos(f) r = Add(s, o)"""),
        "eight",
        "four",
        count=20,
        x=_START,
    ),
]
