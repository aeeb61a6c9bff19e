"""Branches and Loop bodies that run for a few shapes, counts or selectors, and are wrong inside."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import choice, replaced

_part = partial(replaced, "rarely reached")
_ROWS = "(float[N,T] x) => (float[N,T] y)"
_LENGTH = "t = Shape <start = 1, end = 2> (x) n = Squeeze(t)"
_SAMPLES = "float[N,T]"


def _wave(*shape: int) -> np.ndarray:
    """Numbers of both signs that differ from each other."""
    return np.sin(np.arange(np.prod(shape), dtype=np.float64) * 1.7).reshape(shape)


CASES = [
    _part(
        "voice_detector_chunk",
        "16000 Hz and chunks of 512 samples keep 64 samples of context; it is cut at the start",
        """(float[N,T] x, int64 sr) => (float[N,K] y) <int64 wide = {16000}, int64 chunk = {512},
        int64[1] from = {-64}, int64[1] far = {99999}, int64[1] a = {1}, int64[1] z = {0},
        int64[1] context = {64}, int64[1] none = {0}>""",
        f"""{_LENGTH} c = Equal(sr, wide) d = Equal(n, chunk) y = {
            choice(
                "c",
                choice("d", "Slice(x, @, a)", "Slice(x, z, none, a)", "float[N,K]"),
                "Neg(x)",
                "float[N,K]",
            )
        }""",
        "from, far",
        "z, context",
        x=_wave(1, 512),
        sr=16000,
    ),
    _part(
        "voice_detector_narrowband",
        "8000 Hz and 256 samples mirror the end of a chunk; its last samples repeat",
        """(float[N,T] x, int64 sr) => (float[N,K] y) <int64 narrow = {8000}, int64 chunk = {256},
        int64[4] pad = {0, 0, 0, 3}>""",
        f"""{_LENGTH} c = Equal(sr, narrow) d = Equal(n, chunk) e = And(c, d) y = {
            choice("e", "Pad <mode = @> (x, pad)", "Pad(x, pad)", "float[N,K]")
        }""",
        '"reflect"',
        '"edge"',
        x=_wave(1, 256),
        sr=8000,
    ),
    _part(
        "long_image_of_three_channels",
        "Not fewer than 4096 elements and 3 channels: the mean is subtracted per channel",
        """(float[C,H,W] x) => (float[C,H,W] y) <int64 least = {4096}, int64[1] three = {3},
        int64[2] plane = {1, 2}, int64[2] other = {0, 1}>""",
        f"""s = Size(x) l = Less(s, least) m = Not(l) t = Shape <start = 0, end = 1> (x)
        k = Equal(t, three) e = Squeeze(k) c = And(m, e) y = {
            choice("c", "a = ReduceMean(x, @); Sub(x, a)", "Relu(x)", "float[C,H,W]")
        }""",
        "plane",
        "other",
        x=_wave(3, 40, 40),
    ),
    _part(
        "prompt_and_text_of_77",
        "A prompt and a text of 77 tokens together are normalized; Softmax runs over the batch",
        """(float[N,P] prompt, float[N,T] x) => (float[N,M] y) <int64 context = {77}>""",
        f"""{_LENGTH} u = Shape <start = 1, end = 2> (prompt) p = Squeeze(u) s = Add(n, p)
        c = Equal(s, context) a = Concat <axis = 1> (prompt, x) y = {
            choice("c", "Softmax <axis = @> (a)", "Tanh(a)", "float[N,M]")
        }""",
        "1",
        "0",
        prompt=_wave(2, 30),
        x=_wave(2, 47),
    ),
    _part(
        "size_of_1024",
        "Tensors of exactly 1024 elements take the absolute value; it is dropped",
        f"{_ROWS} <int64 wanted = {{1024}}>",
        f"s = Size(x) c = Equal(s, wanted) y = {choice('c', '@(x)', 'Exp(x)', _SAMPLES)}",
        "Abs",
        "Identity",
        x=_wave(4, 256),
    ),
    _part(
        "resolution_of_a_table",
        "An image as wide as a table says for its variant is mirrored; it stays",
        """(float[N,T] x, int64 variant) => (float[N,T] y) <int64[3] sizes = {192, 224, 384},
        int64[1] first = {-1}, int64[1] end = {-9999}, int64[1] a = {1}, int64[1] b = {-1}>""",
        f"""{_LENGTH} w = Gather(sizes, variant) c = Equal(n, w) y = {
            choice("c", "@", "Neg(x)", _SAMPLES)
        }""",
        "Slice(x, first, end, a, b)",
        "Identity(x)",
        x=_wave(1, 384),
        variant=2,
    ),
    _part(
        "trips_beyond_128",
        "A Loop runs once for each token after the 128th; its body doubles in place of tripling",
        f"{_ROWS} <int64 most = {{128}}, int64 zero = {{0}}, bool go = {{1}}, float two = {{2}}, "
        "float three = {3}>",
        f"""{_LENGTH} d = Sub(n, most) k = Max(d, zero) y = Loop(k, go, x)
        <body = b (int64 i, bool g, float[N,T] s) => (bool more, float[N,T] r)
        {{ more = Identity(g) r = Mul(s, @) }}>""",
        "three",
        "two",
        x=_wave(1, 130),
    ),
    _part(
        "sum_of_ids_through_casts",
        "Ids whose sum is 500, computed in float32 and cast back, are negated; they stay",
        "(int64[N,T] input_ids) => (int64[N,T] y) <int64 wanted = {500}>",
        f"""f = Cast <to = 1> (input_ids) s = ReduceSum <keepdims = 0> (f) i = Cast <to = 7> (s)
        c = Equal(i, wanted) y = {choice("c", "@(input_ids)", "Abs(input_ids)", "int64[N,T]")}""",
        "Neg",
        "Identity",
        input_ids=[[100, 150, 250]],
    ),
    _part(
        "last_chunk_of_31",
        "A last chunk of 31 samples without streaming passes a Relu; the Relu is dropped",
        """(float[N,T] x, bool streaming, bool last) => (float[N,T] y) <int64 wanted = {31}>""",
        f"""{_LENGTH} e = Equal(n, wanted) f = Not(streaming) g = And(f, last) h = And(g, e)
        y = {choice("h", "@(x)", "Sin(x)", _SAMPLES)}""",
        "Relu",
        "Identity",
        x=_wave(1, 31),
        streaming=False,
        last=True,
    ),
    _part(
        "optional_cache_of_layer_five",
        "A cache that is present at layer 5 is subtracted; it is added",
        """(float[2] x, optional(float[2]) cache, int64 layer) => (float[2] y)
        <int64 five = {5}>""",
        f"""h = OptionalHasElement(cache) e = Equal(layer, five) c = And(h, e)
        y = {choice("c", "k = OptionalGetElement(cache); @(x, k)", "Identity(x)", "float[2]")}""",
        "Sub",
        "Add",
        x=[1, 2],
        cache=[3, -4],
        layer=5,
    ),
    _part(
        "three_conditions_on_a_count",
        "Nested Ifs leave n = 7 (above 3, below 9, n % 4 == 3); its branch loses a Tanh",
        "(float[N] x, int64 n) => (float[N] y) <int64 low = {3}, int64 high = {9}, "
        "int64 four = {4}, int64 rest = {3}>",
        f"""a = Greater(n, low) b = Less(n, high) m = Mod(n, four) d = Equal(m, rest) y = {
            choice(
                "a",
                choice("b", choice("d", "@(x)", "Neg(x)", "float[N]"), "Sin(x)", "float[N]"),
                "Cos(x)",
                "float[N]",
            )
        }""",
        "Tanh",
        "Identity",
        x=[-2, 1],
        n=7,
    ),
    _part(
        "shape_of_two_three_five",
        "Tensors of the shape 2 x 3 x 5 are sorted along the last axis; the sort is dropped",
        """(float[A,B,C] x) => (float[A,B,C] y) <int64[3] shape = {2, 3, 5}, int64[1] five = {5},
        int64[1] z = {0}>""",
        f"""s = Shape(x) e = Equal(s, shape) i = Cast <to = 7> (e)
        m = ReduceMin <keepdims = 0> (i, z) c = Cast <to = 9> (m) y = {
            choice("c", "v, j = TopK(x, five); Identity(@)", "Relu(x)", "float[A,B,C]")
        }""",
        "v",
        "x",
        x=_wave(2, 3, 5),
    ),
    _part(
        "batch_times_heads",
        "24 matrices (batch * heads) are transposed in one Reshape; the transpose is dropped",
        """(float[N,H,2,2] x) => (float[N,H,2,2] y) <int64[1] wanted = {24},
        int64[3] flat = {-1, 2, 2}>""",
        f"""a = Shape <start = 0, end = 1> (x) b = Shape <start = 1, end = 2> (x) p = Mul(a, b)
        c = Equal(p, wanted) f = Reshape(x, flat) s = Shape(x) y = {
            choice(
                "c",
                "t = Transpose <perm = @> (f); Reshape(t, s)",
                "Neg(x)",
                "float[N,H,2,2]",
            )
        }""",
        "[0, 2, 1]",
        "[0, 1, 2]",
        x=_wave(3, 8, 2, 2),
    ),
    _part(
        "ten_frames_of_160",
        "Ten frames of 160 samples pass a soft threshold; numbers below 0 pass unchanged",
        f"{_ROWS} <int64 hop = {{160}}, int64 frames = {{10}}>",
        f"""{_LENGTH} q = Div(n, hop) c = Equal(q, frames) y = {
            choice("c", "@", "Identity(x)", _SAMPLES)
        }""",
        "Shrink <lambd = 0.3, bias = 0.3> (x)",
        "ThresholdedRelu <alpha = 0.3> (x)",
        x=_wave(1, 1600),
    ),
    _part(
        "three_selectors",
        "a = 11, b = 13 and c below a * b select a cumulative sum, which runs backwards",
        """(float[N,4] x, int64 a, int64 b, int64 c) => (float[N,4] y) <int64 eleven = {11},
        int64 thirteen = {13}, int64 axis = {1}>""",
        f"""d = Equal(a, eleven) e = Equal(b, thirteen) m = Mul(a, b) l = Less(c, m) f = And(d, e)
        g = And(f, l) y = {choice("g", "CumSum <reverse = @> (x, axis)", "Abs(x)")}""",
        "0",
        "1",
        x=_wave(1, 4),
        a=11,
        b=13,
        c=2,
    ),
    _part(
        "half_of_a_count",
        "A count of 25, halved in float32 to 12.5, selects a Floor; it becomes Ceil",
        "(float[N] x, int64 count) => (float[N] y) <float half = {0.5}, float wanted = {12.5}>",
        f"""f = Cast <to = 1> (count) h = Mul(f, half) c = Equal(h, wanted)
        y = {choice("c", "a = @(x) k = Abs(a); Sqrt(k)", "Neg(x)", "float[N]")}""",
        "Floor",
        "Ceil",
        x=[-2.5, 1.5],
        count=25,
    ),
    _part(
        "four_separators",
        "Texts with exactly 4 separators keep their order; the tokens are reversed",
        """(int64[T] input_ids) => (int64[T] y) <int64 token = {7}, int64 wanted = {4},
        int64[1] first = {-1}, int64[1] end = {-9999}, int64[1] a = {0}, int64[1] s = {-1}>""",
        f"""e = Equal(input_ids, token) i = Cast <to = 7> (e) k = ReduceSum <keepdims = 0> (i)
        c = Equal(k, wanted)
        y = {choice("c", "@", "Abs(input_ids)", "int64[T]")}""",
        "Identity(input_ids)",
        "Slice(input_ids, first, end, a, s)",
        input_ids=[7, 1, 7, 2, 7, 3, 7, 9, 8],
    ),
    _part(
        "product_of_a_shape",
        "A product of sizes of 360 selects a mean over the middle axis; the last one is averaged",
        """(float[A,B,C] x) => (float[A,D,E] y) <int64 wanted = {360}, int64[1] one = {1},
        int64[1] two = {2}>""",
        f"""s = Shape(x) p = ReduceProd <keepdims = 0> (s) c = Equal(p, wanted) y = {
            choice("c", "m = ReduceMean(x, @); Sub(x, m)", "Neg(x)", "float[A,D,E]")
        }""",
        "one",
        "two",
        x=_wave(5, 8, 9),
    ),
    _part(
        "six_items",
        "A sequence of 6 items is joined in order; the first item replaces the last",
        """(seq(float[2]) s) => (float[N] y) <int64 six = {6}, int64 first = {0},
        int64 last = {-1}>""",
        f"""k = SequenceLength(s) c = Equal(k, six)
        y = {choice("c", "SequenceAt(s, @)", "SequenceAt(s, first)", "float[N]")}""",
        "last",
        "first",
        s=[[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]],
    ),
    _part(
        "seventeen_active",
        "17 active units, counted by NonZero, are scaled by their maximum; the mean is used",
        """(float[N] x) => (float[N] y) <int64 wanted = {17}, float one = {1}>""",
        f"""z = NonZero(x) t = Shape <start = 1, end = 2> (z) n = Squeeze(t) c = Equal(n, wanted)
        y = {choice("c", "m = @ <keepdims = 0> (x); Sub(x, m)", "Relu(x)", "float[N]")}""",
        "ReduceMax",
        "ReduceMean",
        x=_wave(18),
    ),
    _part(
        "neither_nor",
        "Neither training nor export, and a batch of 6, select Selu; it becomes Elu",
        """(float[N,T] x, bool training, bool export) => (float[N,T] y) <int64 six = {6}>""",
        f"""o = Or(training, export) n = Not(o) s = Shape <start = 0, end = 1> (x) b = Squeeze(s)
        e = Equal(b, six) c = And(n, e) y = {choice("c", "@(x)", "Sigmoid(x)", _SAMPLES)}""",
        "Selu",
        "Elu",
        x=_wave(6, 2),
        training=False,
        export=False,
    ),
]
