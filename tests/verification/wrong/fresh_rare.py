"""Branches and bodies that are reached rarely; written without regard to the verification."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import choice, replaced

_part = partial(replaced, "fresh: rarely reached")
_LENGTH = "t = Shape <start = 1, end = 2> (x) n = Squeeze(t)"
_BOUNDS = "int64[1] a = {1}, int64[1] zero = {0}, int64[1] end = {99999}"


def _wave(*shape: int) -> np.ndarray:
    """Numbers of both signs."""
    return np.cos(np.arange(np.prod(shape), dtype=np.float64) * 0.7).reshape(shape)


CASES = [
    _part(
        "audio_beyond_thirty_seconds",
        "Of more than 3000 frames the first 3000 are kept; the last ones are",
        f"(float[N,T] x) => (float[N,M] y) <{_BOUNDS}, int64 most = {{3000}}, "
        "int64[1] whole = {3000}, int64[1] back = {-3000}>",
        f"""{_LENGTH} c = Greater(n, most)
        y = {choice("c", "Slice(x, @, a)", "Identity(x)", "float[N,M]")}""",
        "zero, whole",
        "back, end",
        x=_wave(1, 3010),
    ),
    _part(
        "window_padding_of_seven",
        "Rows are padded to a multiple of 7; 7 rows are added where no row is missing",
        "(float[N,T] x) => (float[N,1] y) <int64 seven = {7}, int64[3] before = {0, 0, 0}, "
        "int64[1] shape = {1}, int64[1] last = {-1}>",
        f"""{_LENGTH} r = Mod(n, seven) d = Sub(seven, r) e = Mod(d, seven) f = Reshape(@, shape)
        p = Concat <axis = 0> (before, f) q = Pad(x, p) y = ReduceMean(q, last)""",
        "e",
        "d",
        x=_wave(2, 14),
    ),
    _part(
        "rotary_of_long_contexts",
        "Positions from 4096 on take the long factors of a rotary embedding; they take the short",
        "(float[N,T,4] x, int64[N,T] position_ids) => (float[N,T,4] y) <int64 most = {4095}, "
        "float[4] short = {1, 0.1, 0.01, 0.001}, float[4] long = {1, 0.08, 0.005, 0.0002}, "
        "int64[1] last = {-1}>",
        f"""m = ReduceMax <keepdims = 0> (position_ids) c = Greater(m, most)
        f = {choice("c", "Identity(@)", "Identity(short)", "float[4]")}
        p = Cast <to = 1> (position_ids) u = Unsqueeze(p, last) g = Mul(u, f) k = Cos(g)
        y = Mul(x, k)""",
        "long",
        "short",
        x=_wave(1, 2, 4),
        position_ids=[[4099, 4100]],
    ),
    _part(
        "cache_beyond_a_window",
        "A cache of more than 96 tokens keeps the last 96; it keeps the first ones",
        f"(float[N,P] past, float[N,T] x) => (float[N,M] y) <{_BOUNDS}, int64 most = {{96}}, "
        "int64[1] window = {96}, int64[1] back = {-96}>",
        f"""k = Concat <axis = 1> (past, x) t = Shape <start = 1, end = 2> (k) n = Squeeze(t)
        c = Greater(n, most)
        y = {choice("c", "Slice(k, @, a)", "Identity(k)", "float[N,M]")}""",
        "back, end",
        "zero, window",
        past=_wave(1, 96),
        x=_wave(1, 3),
    ),
    _part(
        "more_than_twenty_detections",
        "Of more than 20 detections the best 20 are kept; the first 20 are",
        f"(float[N] x) => (float[K] y) <{_BOUNDS}, float limit = {{0.5}}, int64 most = {{20}}, "
        "int64[1] twenty = {20}>",
        f"""g = Greater(x, limit) d = Compress(x, g) t = Shape(d) n = Squeeze(t)
        c = Greater(n, most)
        y = {
            choice(
                "c",
                "v, i = TopK(d, twenty) w = Slice(d, zero, twenty); Identity(@)",
                "Identity(d)",
                "float[K]",
            )
        }""",
        "v",
        "w",
        x=np.linspace(0.6, 0.9, 24),
    ),
    _part(
        "one_frame_of_a_video",
        "A single frame has no motion, zeros; the frame itself is taken for its motion",
        f"(float[T,4] x) => (float[M,4] y) <{_BOUNDS}, int64 one = {{1}}, "
        "int64[1] minus = {-1}, int64[1] first = {1}, float none = {0}>",
        f"""t = Shape <start = 0, end = 1> (x) n = Squeeze(t) c = Equal(n, one)
        y = {
            choice(
                "c",
                "@",
                "p = Slice(x, zero, minus, zero) q = Slice(x, first, end, zero); Sub(q, p)",
                "float[M,4]",
            )
        }""",
        "Mul(x, none)",
        "Identity(x)",
        x=_wave(1, 4),
    ),
    _part(
        "translation_of_a_prompt",
        "A prompt that begins with 258 and has 159 as third token translates: logits are negated",
        "(int64[N,T] input_ids) => (int64[N,T] y) <int64[2] start = {0, 0}, int64[2] task = "
        "{0, 2}, int64 begin = {258}, int64 translate = {159}, int64 four = {4}>",
        f"""t = Shape <start = 1, end = 2> (input_ids) n = Squeeze(t)
        l = GreaterOrEqual(n, four) y = {
            choice(
                "l",
                "f = GatherND(input_ids, start) g = GatherND(input_ids, task) "
                "h = Equal(f, begin) i = Equal(g, translate) c = And(h, i); "
                + choice("c", "@(input_ids)", "Abs(input_ids)", "int64[N,T]"),
                "Identity(input_ids)",
                "int64[N,T]",
            )
        }""",
        "Neg",
        "Identity",
        input_ids=[[258, 1, 159, 7]],
    ),
    _part(
        "group_of_a_product",
        "A product has a group, group 7 a discount of 20 %; the discount is 25 %",
        "(float[N] x, int64 product) => (float[N] y) <int64[12] groups = "
        "{3, 1, 4, 1, 5, 9, 2, 6, 5, 7, 5, 8}, int64 seven = {7}, float less = {0.8}, "
        "float least = {0.75}>",
        f"""g = Gather(groups, product) c = Equal(g, seven)
        y = {choice("c", "Mul(x, @)", "Identity(x)", "float[N]")}""",
        "less",
        "least",
        x=[1, 2],
        product=9,
    ),
    _part(
        "panorama_of_three_to_one",
        "Images more than 3 times as wide as high are cut on the right; they are cut at the bottom",
        f"(float[H,W] x) => (float[A,B] y) <{_BOUNDS}, int64 three = {{3}}>",
        f"""s = Shape <start = 0, end = 1> (x) h = Mul(s, three) t = Shape <start = 1, end = 2> (x)
        g = Greater(t, h) c = Squeeze(g)
        y = {choice("c", "Slice(x, zero, @)", "Identity(x)", "float[A,B]")}""",
        "h, a",
        "s, zero",
        x=_wave(2, 7),
    ),
    _part(
        "groups_of_eight_channels",
        "A number of channels that 8 divides is normalized in groups of rows, else as a whole",
        "(float[C,8] x) => (float[C,8] y) <int64 eight = {8}, int64 none = {0}, "
        "int64[2] groups = {8, -1}, int64[2] other = {-1, 8}, int64[1] last = {-1}>",
        f"""s = Shape(x) t = Shape <start = 0, end = 1> (x) n = Squeeze(t) r = Mod(n, eight)
        c = Equal(r, none) y = {
            choice(
                "c",
                "p = Reshape(x, @) m = ReduceMean(p, last) d = Sub(p, m); Reshape(d, s)",
                "m = ReduceMean(x); Sub(x, m)",
                "float[C,8]",
            )
        }""",
        "groups",
        "other",
        x=_wave(16, 8),
    ),
    _part(
        "class_token_of_14_by_14",
        "196 patches and a class token lose the first token; they lose the last one",
        f"(float[N,T,2] x) => (float[N,M,2] y) <{_BOUNDS}, int64 tokens = {{197}}, "
        "int64[1] one = {1}, int64[1] minus = {-1}>",
        f"""{_LENGTH} c = Equal(n, tokens)
        y = {choice("c", "Slice(x, @, a)", "Relu(x)", "float[N,M,2]")}""",
        "one, end",
        "zero, minus",
        x=_wave(1, 197, 2),
    ),
    _part(
        "check_digits_of_97",
        "Digits whose weighted sum leaves 1 by 97 are valid and kept; nothing is valid",
        "(int64[N] digits) => (int64[N] y) <int64 by = {97}, int64 one = {1}, int64 zero = {0}, "
        "int64 never = {98}>",
        f"""t = Shape(digits) n = Squeeze(t) i = Range(zero, n, one) w = Add(i, one)
        m = Mul(digits, w) s = ReduceSum <keepdims = 0> (m) r = Mod(s, by) c = Equal(r, @)
        y = {choice("c", "Identity(digits)", "Sub(digits, digits)", "int64[N]")}""",
        "one",
        "never",
        digits=[8, 9, 7, 9, 3],
    ),
]
