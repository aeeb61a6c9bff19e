"""A branch or a Where that depends on a number; written without regard to the verification."""

from dataclasses import replace
from functools import partial

import numpy as np

from tests.verification.wrong.case import choice, replaced, wrong

_case = partial(wrong, "fresh: numbers")
_part = partial(replaced, "fresh: numbers")
_ROWS = "(float[N,4] x, int64 {name}) => (float[N,4] y)"
_LINE = [[1.5, -2, 0.5, 3]]

CASES = [
    _part(
        "last_step_without_noise",
        "The step 0 of a diffusion sampler adds no noise; noise is added at all steps",
        "(float[N,4] x, float[N,4] noise, int64 t) => (float[N,4] y) <int64 zero = {0}, "
        "float sigma = {0.1}>",
        f"""m = Mul(noise, sigma) a = Add(x, m) c = Greater(t, zero)
        y = {choice("c", "Identity(a)", "Identity(@)")}""",
        "x",
        "a",
        x=_LINE,
        noise=[[1, -1, 2, 1]],
        t=0,
    ),
    _part(
        "guidance_of_at_most_one",
        "A guidance scale of at most 1 disables guidance; the weaker guidance is applied",
        "(float[N,4] cond, float[N,4] uncond, float scale) => (float[N,4] y) <float one = {1}>",
        """d = Sub(cond, uncond) m = Mul(d, scale) a = Add(uncond, m) c = Greater(scale, one)
        w = Where(c, a, cond) y = Identity(@)""",
        "w",
        "a",
        cond=_LINE,
        uncond=[[1, 1, 1, 1]],
        scale=0.5,
    ),
    _part(
        "leap_year_of_2000",
        "Years that are multiples of 400 are leap years; the exception for centuries holds always",
        "(int64[N] year) => (int64[N] y) <int64 four = {4}, int64 hundred = {100}, "
        "int64 long = {400}, int64 zero = {0}, int64 common = {365}, int64 leap = {366}>",
        """a = Mod(year, four) b = Mod(year, hundred) c = Mod(year, long) d = Equal(a, zero)
        e = Equal(b, zero) f = Equal(c, zero) g = Not(e) h = And(d, g) i = Or(h, f)
        y = Where(@, leap, common)""",
        "i",
        "h",
        year=[1999, 2000, 2004],
    ),
    _part(
        "speaker_that_is_absent",
        "A speaker of -1 adds no embedding; index -1 adds the last row of the embedding",
        "(float[N,4] x, int64 speaker) => (float[N,4] y) <int64 zero = {0}, float none = {0}, "
        "float[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>",
        """e = Gather(w, speaker) c = Less(speaker, zero) v = Where(c, none, e)
        y = Add(x, @)""",
        "v",
        "e",
        x=_LINE,
        speaker=-1,
    ),
    _case(
        "box_cox_of_zero",
        "A Box-Cox transform with lambda 0 is the logarithm; the quotient is 0 / 0",
        "(float[N] x, float p) => (float[N] y) <float zero = {0}, float one = {1}, "
        "float tiny = {1e-6}>",
        f"""a = Abs(x) b = Add(a, tiny) c = Equal(p, zero)
        y = {choice("c", "Log(b)", "u = Pow(b, p) v = Sub(u, one); Div(v, p)", "float[N]")}""",
        "a = Abs(x) b = Add(a, tiny) u = Pow(b, p) v = Sub(u, one) y = Div(v, p)",
        x=[1, 2, 3],
        p=0,
    ),
    _part(
        "top_k_of_zero",
        "A top-k of 0 keeps all logits; it keeps one",
        "(float[N,6] x, int64 k) => (float[N,K] y) <int64 zero = {0}, int64 one = {1}, "
        "int64 all = {6}, int64[1] shape = {1}>",
        """c = Less(zero, k) m = Where(c, k, @) n = Min(m, all) r = Reshape(n, shape)
        y, i = TopK(x, r)""",
        "all",
        "one",
        x=[[1, 2, 3, 4, 5, 6]],
        k=0,
    ),
    _part(
        "orientation_six",
        "Orientation 6 of a photo is a rotation to the right; the image is rotated to the left",
        "(float[H,W] x, int64 orientation) => (float[A,B] y) <int64 six = {6}, int64 three = {3}, "
        "int64[1] from = {-1}, int64[1] to = {-9999}, int64[1] rows = {0}, int64[1] columns = {1}, "
        "int64[1] back = {-1}>",
        f"""c = Equal(orientation, six) d = Equal(orientation, three) y = {
            choice(
                "c",
                "t = Transpose(x); Slice(t, from, to, @, back)",
                choice(
                    "d",
                    "u = Slice(x, from, to, rows, back); Slice(u, from, to, columns, back)",
                    "Identity(x)",
                    "float[A,B]",
                ),
                "float[A,B]",
            )
        }""",
        "columns",
        "rows",
        x=[[1, 2, 3], [4, 5, 6]],
        orientation=6,
    ),
    _part(
        "luma_of_bt_709",
        "Colour matrix 1 is BT.709; it gets the weights of BT.601",
        "(float[N,3] x, int64 matrix) => (float[N,1] y) <int64 one = {1}, int64 nine = {9}, "
        "float[3,1] hd = {0.2126, 0.7152, 0.0722}, float[3,1] sd = {0.299, 0.587, 0.114}, "
        "float[3,1] wide = {0.2627, 0.678, 0.0593}>",
        """a = Equal(matrix, one) b = Equal(matrix, nine) v = Where(b, wide, sd)
        w = Where(a, @, v) y = MatMul(x, w)""",
        "hd",
        "sd",
        x=[[10, 200, 30]],
        matrix=1,
    ),
    _part(
        "first_port_that_is_free",
        "Ports below 1024 are reserved; port 1024 counts as reserved",
        "(int64[N] port, float[N] x) => (float[N] y) <int64 limit = {1024}, float zero = {0}>",
        "c = @(port, limit) y = Where(c, zero, x)",
        "Less",
        "LessOrEqual",
        port=[80, 1024],
        x=[1, 2],
    ),
    _case(
        "continuation_bytes",
        "Bytes of the form 10xxxxxx continue a character; all bytes from 128 on count as such",
        "(uint8[N] x) => (bool[N] y) <uint8 mask = {192}, uint8 mark = {128}>",
        "b = BitwiseAnd(x, mask) y = Equal(b, mark)",
        "y = GreaterOrEqual(x, mark)",
        x=[65, 195, 164],
    ),
    _part(
        "huber_of_other_delta",
        "The linear part of a Huber loss is d * |x| - d * d / 2; d * |x| - d / 2 holds for d = 1",
        "(float[N,4] x, float delta) => (float[N,4] y) <float half = {0.5}>",
        """a = Abs(x) q = Mul(x, x) s = Mul(q, half) p = Mul(delta, delta) h = Mul(@, half)
        l = Mul(a, delta) m = Sub(l, h) c = LessOrEqual(a, delta) y = Where(c, s, m)""",
        "p",
        "delta",
        x=_LINE,
        delta=0.5,
    ),
    _part(
        "night_rate_until_six",
        "Hours from 22 on and before 6 are cheap; the hours before 6 are lost",
        "(int64[N] hour, float[N] x) => (float[N] y) <int64 late = {22}, int64 early = {6}, "
        "float cheap = {0.5}>",
        """a = GreaterOrEqual(hour, late) b = Less(hour, early) c = Or(a, b) m = Mul(x, cheap)
        y = Where(@, m, x)""",
        "c",
        "a",
        hour=[3, 12, 23],
        x=[1, 2, 3],
    ),
    _part(
        "unit_of_fahrenheit",
        "Unit 2 is Fahrenheit, (x - 32) / 1.8; it becomes x / 1.8 - 32",
        f"{_ROWS.format(name='unit')} <int64 two = {{2}}, int64 one = {{1}}, "
        "float zero = {273.15}, float offset = {32}, float factor = {1.8}>",
        f"""a = Equal(unit, two) b = Equal(unit, one) y = {
            choice(
                "a",
                "u = Sub(x, offset) v = Div(u, factor) p = Div(x, factor) q = Sub(p, offset); "
                "Identity(@)",
                choice("b", "Sub(x, zero)", "Identity(x)"),
            )
        }""",
        "v",
        "q",
        x=[[212, 32, 68, 0]],
        unit=2,
    ),
    replace(
        _part(
            "interleaved_rotary_embedding",
            "Format 2 of a checkpoint interleaves a rotary embedding; it rotates halves",
            "(float[N,2,T,4] x, int64 format) => (float[N,2,T,4] y) <int64 two = {2}, "
            "float[8,2] cos = {1, 1, 0.5, 0.9, 0.3, 0.8, 0.1, 0.7, 1, 1, 0.5, 0.9, 0.3, 0.8, 0.1, "
            "0.7}, float[8,2] sin = {0, 0, 0.8, 0.4, 0.9, 0.6, 0.9, 0.7, 0, 0, 0.8, 0.4, 0.9, 0.6, "
            "0.9, 0.7}, int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, "
            "int64 seven = {7}>",
            f"""t = Shape(x) n = Shape <start = 0, end = 1> (x) l = Shape <start = 2, end = 3> (x)
            m = Squeeze(l) r = Range(zero, m, one) o = Min(r, seven) u = Unsqueeze(o, first)
            s = Concat <axis = 0> (n, l) p = Expand(u, s) c = Equal(format, two)
            y = {
                choice(
                    "c",
                    "RotaryEmbedding <interleaved = @> (x, cos, sin, p)",
                    "RotaryEmbedding(x, cos, sin, p)",
                    "float[N,2,T,4]",
                )
            }""",
            "1",
            "0",
            x=np.cos(np.arange(24)).reshape(1, 2, 3, 4),
            format=2,
        ),
        opset=23,
    ),
    _part(
        "model_of_the_evening",
        "From 18 hours on another regression applies; its intercept is that of the day",
        f"{_ROWS.format(name='hour').replace('[N,4] y', '[N,1] y')} <int64 evening = {{18}}>",
        f"""c = GreaterOrEqual(hour, evening) y = {
            choice(
                "c",
                "ai.onnx.ml.LinearRegressor <coefficients = [0.5, 1.0, -1.0, 2.0], "
                "intercepts = [@]> (x)",
                "ai.onnx.ml.LinearRegressor <coefficients = [1.0, 1.0, 0.0, 2.0], "
                "intercepts = [0.5]> (x)",
                "float[N,1]",
            )
        }""",
        "1.5",
        "0.5",
        x=_LINE,
        hour=20,
    ),
    _part(
        "activation_of_code_four",
        "Code 4 selects QuickGelu; it selects Gelu",
        f"{_ROWS.format(name='code')} <int64 four = {{4}}>",
        f"""c = Equal(code, four) y = {choice("c", "com.microsoft.@(x)", "Relu(x)")}""",
        "QuickGelu",
        "Gelu",
        x=_LINE,
        code=4,
    ),
]
