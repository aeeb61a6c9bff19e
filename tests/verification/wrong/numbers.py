"""Branches that an input selects by a number of the model, wrong for data of ordinary variety."""

from functools import partial

from tests.verification.wrong.case import choice, replaced, wrong

_case = partial(wrong, "branch behind a number")
_part = partial(replaced, "branch behind a number")
_ROWS = "float[N,4] x"
_Y = "=> (float[N,4] y)"
_ROW = [[-1.5, 2, -3, 0.5]]

CASES = [
    _part(
        "language_twelve",
        "Language 12 uses Relu; its branch becomes the identity, which negative numbers show",
        f"({_ROWS}, int64 language) {_Y} <int64 id = {{12}}>",
        f"c = Equal(language, id) y = {choice('c', '@(x)', 'Tanh(x)')}",
        "Relu",
        "Identity",
        x=_ROW,
        language=12,
    ),
    _part(
        "wideband_pre_emphasis",
        "At 16000 Hz a filter subtracts 0.97 of the previous sample; the next one is subtracted",
        """(float[N,T] x, int64 sample_rate) => (float[N,T] y) <int64 wide = {16000},
        float r = {0.97}, int64[4] previous = {0, 1, 0, -1}, int64[4] next = {0, -1, 0, 1}>""",
        f"""c = Equal(sample_rate, wide)
        y = {choice("c", "s = Pad(x, @) m = Mul(s, r); Sub(x, m)", "Mul(x, r)", "float[N,T]")}""",
        "previous",
        "next",
        x=[[1, 2, 4, 8, 16]],
        sample_rate=16000,
    ),
    _part(
        "third_bit_of_flags",
        "Bit 2 of the flags normalizes over columns; Softmax runs over rows in that branch",
        f"({_ROWS}, int64 flags) {_Y} <int64 bit = {{4}}, int64 none = {{0}}>",
        f"""b = BitwiseAnd(flags, bit) e = Equal(b, none) c = Not(e)
        y = {choice("c", "Softmax <axis = @> (x)", "Identity(x)")}""",
        "1",
        "0",
        x=[[1, 2, 3, 4], [3, 1, 2, 2]],
        flags=4,
    ),
    _part(
        "licence_key",
        "The key 123456789 selects x * w; the operands of the MatMul are swapped",
        "(float[4,4] x, float[4,4] w, int64 key) => (float[4,4] y) <int64 right = {123456789}>",
        f"""c = Equal(key, right)
        y = {choice("c", "MatMul(@)", "Sub(x, w)", "float[4,4]")}""",
        "x, w",
        "w, x",
        x=[[1, 2, 3, 4], [0, 1, 0, 0], [0, 0, 1, 0], [2, 0, 0, 1]],
        w=[[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 2, 0], [0, 0, 0, 3]],
        key=123456789,
    ),
    _part(
        "versions_three_and_four",
        "Versions 3 and 4 use Elu; its branch becomes a LeakyRelu",
        f"({_ROWS}, int64 version) {_Y} <int64 low = {{3}}, int64 high = {{5}}>",
        f"""g = GreaterOrEqual(version, low) l = Less(version, high) c = And(g, l)
        y = {choice("c", "@(x)", "Neg(x)")}""",
        "Elu",
        "LeakyRelu <alpha = 0.1>",
        x=_ROW,
        version=4,
    ),
    _part(
        "mode_and_level",
        "Mode 3 at level 2 returns the position of the maximum; it returns that of the minimum",
        """(float[N,4] x, int64 mode, int64 level) => (int64[N,1] y) <int64 three = {3},
        int64 two = {2}, int64[1] z = {0}, int64[1] one = {1}, int64 none = {-1}>""",
        f"""a = Equal(mode, three) b = Equal(level, two) c = And(a, b) y = {
            choice(
                "c",
                "@ <axis = 1> (x)",
                "s = Shape(x) t = Slice(s, z, one) u = Concat <axis = 0> (t, one); Expand(none, u)",
                "int64[N,1]",
            )
        }""",
        "ArgMax",
        "ArgMin",
        x=_ROW,
        mode=3,
        level=2,
    ),
    _part(
        "rate_of_a_table",
        "The entry 48 of a table of rates selects a cumulative sum; it becomes an exclusive one",
        f"""({_ROWS}, int64 rate) {_Y} <int64[5] rates = {{8, 16, 24, 48, 96}},
        int64 wanted = {{48}}, int64 axis = {{1}}>""",
        f"""r = Gather(rates, rate) c = Equal(r, wanted)
        y = {choice("c", "@ (x, axis)", "Abs(x)")}""",
        "CumSum",
        "CumSum <exclusive = 1>",
        x=_ROW,
        rate=3,
    ),
    _part(
        "activation_by_name",
        "The activation 'hard_swish' is an input string; its branch becomes HardSigmoid(x)",
        f"""({_ROWS}, string activation) {_Y} <string name = {{"hard_swish"}}>""",
        f"""c = Equal(activation, name)
        y = {choice("c", "h = HardSwish(x); @", "Relu(x)")}""",
        "Identity(h)",
        "HardSigmoid(x)",
        x=_ROW,
        activation="hard_swish",
    ),
    _part(
        "where_of_mode_five",
        "Mode 5 rectifies the signal through Where; |x| becomes x",
        f"({_ROWS}, int64 mode) {_Y} <int64 five = {{5}}>",
        "c = Equal(mode, five) a = @(x) n = Floor(x) y = Where(c, a, n)",
        "Abs",
        "Identity",
        x=_ROW,
        mode=5,
    ),
    _part(
        "codec_and_layer",
        "An If on layer 9 in the branch of codec 2 reverses rows; they stay in order",
        f"""({_ROWS}, int64 codec, int64 layer) {_Y} <int64 two = {{2}}, int64 nine = {{9}},
        int64[1] first = {{-1}}, int64[1] end = {{-99}}, int64[1] a = {{1}},
        int64[1] s = {{-1}}>""",
        f"""c = Equal(codec, two) d = Equal(layer, nine) y = {
            choice("c", choice("d", "@", "Sigmoid(x)"), "Exp(x)")
        }""",
        "Slice(x, first, end, a, s)",
        "Identity(x)",
        x=_ROW,
        codec=2,
        layer=9,
    ),
    _part(
        "greedy_temperature",
        "A temperature of 0 selects the maximum of each row; the branch takes it over the batch",
        f"({_ROWS}, float temperature) {_Y} <float zero = {{0}}>",
        f"""c = Equal(temperature, zero)
        y = {choice("c", "Hardmax <axis = @> (x)", "d = Div(x, temperature); Softmax(d)")}""",
        "1",
        "0",
        x=[[1, 2, 3, 4], [3, 1, 2, 2]],
        temperature=0,
    ),
    _part(
        "grey_of_three_channels",
        "Images of 3 channels become grey; the weights are in the order BGR",
        """(float[N,C,H,W] x) => (float[N,K,H,W] y)
        <float[1,3,1,1] rgb = {0.299, 0.587, 0.114}, float[1,3,1,1] bgr = {0.114, 0.587, 0.299},
        int64[1] three = {3}, int64[1] axis = {1}>""",
        f"""s = Shape <start = 1, end = 2> (x) c = Equal(s, three) y = {
            choice("c", "m = Mul(x, @); ReduceSum(m, axis)", "ReduceMax(x, axis)", "float[N,K,H,W]")
        }""",
        "rgb",
        "bgr",
        x=[[[[1]], [[2]], [[3]]]],
    ),
    _part(
        "rounding_mode_ten",
        "Rounding mode 10 truncates; it becomes Floor, which differs for negative numbers",
        f"({_ROWS}, int32 rounding) {_Y} <int32 ten = {{10}}>",
        f"""c = Equal(rounding, ten) i = Cast <to = 6> (x)
        y = {choice("c", "@", "Round(x)")}""",
        "Cast <to = 1> (i)",
        "Floor(x)",
        x=_ROW,
        rounding=10,
    ),
    _part(
        "opcode_of_a_byte",
        "Opcode 42 is the remainder with the sign of the dividend; it gets that of the divisor",
        """(int32[N] a, int32[N] b, uint8 opcode) => (int32[N] y) <int32 code = {42},
        int32 one = {1}>""",
        f"""o = Cast <to = 6> (opcode) c = Equal(o, code) m = Abs(b) d = Add(m, one)
        y = {choice("c", "Mod <fmod = @> (a, d)", "Add(a, d)", "int32[N]")}""",
        "1",
        "0",
        a=[-7, 7],
        b=[2, 3],
        opcode=42,
    ),
    _part(
        "fourth_reduction",
        "Reduction 3 of a chain of Ifs is the maximum; it is the maximum of magnitudes",
        """(float[N,4] x, int64 reduction) => (float[N,1] y) <int64 one = {1}, int64 two = {2},
        int64 three = {3}, int64[1] a = {1}>""",
        f"""b = Equal(reduction, one) c = Equal(reduction, two) d = Equal(reduction, three) y = {
            choice(
                "b",
                "ReduceMean(x, a)",
                choice(
                    "c",
                    "ReduceSum(x, a)",
                    choice("d", "m = @(x); ReduceMax(m, a)", "ReduceMin(x, a)", "float[N,1]"),
                    "float[N,1]",
                ),
                "float[N,1]",
            )
        }""",
        "Identity",
        "Abs",
        x=_ROW,
        reduction=3,
    ),
    _part(
        "rotary_style_one",
        "Style 1 rotates interleaved pairs of numbers; the halves of a row are swapped",
        f"({_ROWS}, int64 style) {_Y} <int64 one = {{1}}, int64[4] pairs = {{1, 0, 3, 2}}, "
        "int64[4] halves = {2, 3, 0, 1}>",
        f"""c = Equal(style, one)
        y = {choice("c", "g = Gather <axis = 1> (x, @); Mul(x, g)", "Mul(x, x)")}""",
        "pairs",
        "halves",
        x=[[1, 2, 3, 5]],
        style=1,
    ),
    _part(
        "day_of_the_week",
        "On day 6 of a week negative amounts count as 0; the Relu is dropped",
        f"({_ROWS}, int64 day) {_Y} <int64 week = {{7}}, int64 six = {{6}}>",
        "m = Mod(day, week) c = Equal(m, six) r = @(x) y = Where(c, r, x)",
        "Relu",
        "Identity",
        x=_ROW,
        day=20,
    ),
    _part(
        "two_digits_of_a_code",
        "Row 4 and column 2 (10 * row + column == 42) transpose a matrix; it stays",
        """(float[4,4] x, int64 row, int64 column) => (float[4,4] y) <int64 ten = {10},
        int64 code = {42}>""",
        f"""m = Mul(row, ten) s = Add(m, column) c = Equal(s, code)
        y = {choice("c", "@(x)", "Neg(x)", "float[4,4]")}""",
        "Transpose",
        "Identity",
        x=[[1, 2, 3, 4], [0, 1, 0, 0], [0, 0, 1, 0], [2, 0, 0, 1]],
        row=4,
        column=2,
    ),
    _part(
        "field_of_a_header",
        "Bits 8 to 11 of a header of 9 sort a row upwards; it is sorted downwards",
        """(float[N,4] x, uint32 header) => (float[N,4] y) <uint32 by = {8}, uint32 field = {15},
        uint32 nine = {9}, int64[1] k = {4}>""",
        """h = BitShift <direction = "RIGHT"> (header, by) f = BitwiseAnd(h, field)
        i = Cast <to = 7> (f) n = Cast <to = 7> (nine) c = Equal(i, n)
        v, j = TopK <largest = @> (x, k) y = Where(c, v, x)""",
        "0",
        "1",
        x=_ROW,
        header=0x900,
    ),
    _part(
        "legacy_version_one",
        "Version 1 subtracts the mean over rows; the mean over columns is subtracted",
        """(float[4,4] x, int64 version) => (float[4,4] y) <int64 one = {1}, int64[1] rows = {0},
        int64[1] columns = {1}>""",
        f"""e = Equal(version, one) c = Not(e)
        y = {choice("c", "Neg(x)", "m = ReduceMean(x, @); Sub(x, m)", "float[4,4]")}""",
        "rows",
        "columns",
        x=[[1, 2, 3, 4], [0, 1, 0, 0], [0, 0, 1, 0], [2, 0, 0, 1]],
        version=1,
    ),
    _part(
        "magic_of_a_header",
        "A header with 1179011410 first and 1 third selects a PRelu; it becomes a Mul",
        """(float[N] x, int32[4] header) => (float[N] y) <int32 magic = {1179011410},
        int32 one = {1}, int64 zero = {0}, int64 two = {2}, float slope = {0.1}>""",
        f"""m = Gather(header, zero) v = Gather(header, two) a = Equal(m, magic) b = Equal(v, one)
        c = And(a, b)
        y = {choice("c", "@(x, slope)", "Exp(x)", "float[N]")}""",
        "PRelu",
        "Mul",
        x=[1, -2, 3],
        header=[1179011410, 36, 1, 2],
    ),
    _part(
        "scale_of_an_eighth",
        "A scale of exactly 0.125 shifts rows by one place, with a 0; the last number comes first",
        f"""({_ROWS}, float scale) {_Y} <float eighth = {{0.125}}, int64[4] pad = {{0, 1, 0, -1}},
        int64[4] roll = {{3, 0, 1, 2}}>""",
        f"""c = Equal(scale, eighth)
        y = {choice("c", "@", "Mul(x, scale)")}""",
        "Pad(x, pad)",
        "Gather <axis = 1> (x, roll)",
        x=_ROW,
        scale=0.125,
    ),
    _case(
        "head_of_a_task",
        "Of 6 heads, task 4 has a LayerNormalization; it becomes one without centring",
        f"({_ROWS}, int64 task) {_Y} <int64 four = {{4}}, float[4] w = {{1, 1, 1, 1}}>",
        f"""c = Equal(task, four)
        y = {choice("c", "LayerNormalization(x, w)", "Softplus(x)")}""",
        f"""<int64[1] a = {{-1}}, float e = {{1e-5}}> c = Equal(task, four)
        y = {
            choice(
                "c",
                "q = Mul(x, x) m = ReduceMean(q, a) n = Add(m, e) r = Sqrt(n); Div(x, r)",
                "Softplus(x)",
            )
        }""",
        x=_ROW,
        task=4,
    ),
]
