"""Types and quantization: casts in a chain, scales, zero points, saturation."""

from functools import partial

from tests.verification.wrong.case import wrong

_case = partial(wrong, "quantized")
_ROW = "(float[N,4] x) => (float[N,4] y)"
_BYTES = "(uint8[N,4] x) => (uint8[N,4] y) <float s = {0.1}>"
_SCALE = "float s = {0.1}"
_BLOCK = "(float[N,4] x) => (float[N,2] y)"

CASES = [
    _case(
        "relu_into_signed_quantization",
        "A Relu before a QuantizeLinear of int8 with a zero point of -100 is dropped",
        f"(float[N,4] x) => (int8[N,4] y) <{_SCALE}, int8 z = {{-100}}>",
        "r = Relu(x) y = QuantizeLinear(r, s, z)",
        "y = QuantizeLinear(x, s, z)",
        x=[[-1, 1, 2, 3]],
    ),
    _case(
        "clip_into_quantization",
        "A Clip at 25 before a QuantizeLinear that saturates at 25.5 is dropped",
        f"(float[N,4] x) => (uint8[N,4] y) <{_SCALE}, uint8 z = {{0}}>",
        "<float low = {0}, float high = {25}> c = Clip(x, low, high) y = QuantizeLinear(c, s, z)",
        "y = QuantizeLinear(x, s, z)",
        x=[[0, 1, 2, 30]],
    ),
    _case(
        "quantized_and_back",
        "DequantizeLinear and QuantizeLinear with zero points of 0 and 1 are taken for inverse",
        f"{_BYTES}",
        """<uint8 z = {0}, uint8 o = {1}> d = DequantizeLinear(x, s, z)
          y = QuantizeLinear(d, s, o)""",
        "y = Identity(x)",
        x=[[0, 1, 2, 3]],
    ),
    _case(
        "requantized_by_double",
        "A requantization from 0.1 to 0.2 becomes an integer division, which truncates",
        f"{_BYTES}",
        """<uint8 z = {0}, float t = {0.2}> d = DequantizeLinear(x, s, z)
        y = QuantizeLinear(d, t, z)""",
        "<uint8 two = {2}> y = Div(x, two)",
        x=[[3, 7, 2, 3]],
    ),
    _case(
        "maximum_by_other_scale",
        "Max of tensors with scales of 0.1 and 0.2 becomes a Max of their bytes",
        """(uint8[N,4] a, uint8[N,4] b) => (float[N,4] y) <float s = {0.1}, float t = {0.2},
        uint8 z = {0}>""",
        "d = DequantizeLinear(a, s, z) e = DequantizeLinear(b, t, z) y = Max(d, e)",
        "m = Max(a, b) y = DequantizeLinear(m, s, z)",
        a=[[0, 1, 2, 3]],
        b=[[0, 1, 2, 3]],
    ),
    _case(
        "axis_of_scales",
        "The scales of rows of square weights become those of columns",
        """(float[N,2] x) => (float[N,2] y) <int8[2,2] w = {100, 20, 30, 40}, float[2]
          s = {0.1, 0.2},
        int8[2] z = {0, 0}>""",
        "d = DequantizeLinear <axis = 0> (w, s, z) y = MatMul(x, d)",
        "d = DequantizeLinear <axis = 1> (w, s, z) y = MatMul(x, d)",
        x=[[1, 1]],
    ),
    _case(
        "padding_of_zero_point",
        "A quantized Conv pads with 0 in place of its zero point",
        """(uint8[N,1,L] x) => (int32[N,1,L] y) <uint8[1,1,3] w = {1, 2, 3}, uint8 z = {128}>""",
        "y = ConvInteger <pads = [1, 1]> (x, w, z)",
        """<int64[6] p = {0, 0, 1, 0, 0, 1}, uint8 o = {0}> q = Pad(x, p, o)
        y = ConvInteger(q, w, z)""",
        x=[[[128, 128, 128]]],
    ),
    _case(
        "sum_saturates",
        "The sum of two QuantizeLinear is computed without saturation of the first",
        f"{_ROW} <{_SCALE}, int8 z = {{0}}, float nine = {{9}}>",
        "a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) y = Sub(b, nine)",
        """<float t = {0.1}, int16 w = {0}> a = QuantizeLinear(x, t, w)
          b = DequantizeLinear(a, t, w)
        y = Sub(b, nine)""",
        x=[[13, 1, 2, 3]],
    ),
    _case(
        "rounding_of_halves",
        "QuantizeLinear rounds halves to even; Floor(x + 0.5) rounds them up",
        "(float[N,4] x) => (uint8[N,4] y)",
        "<float s = {1}, uint8 z = {0}> y = QuantizeLinear(x, s, z)",
        """<float half = {0.5}, float low = {0}, float high = {255}> a = Add(x, half) f = Floor(a)
        c = Clip(f, low, high) y = Cast <to = 2> (c)""",
        x=[[0.5, 1, 2.5, 3]],
    ),
    _case(
        "cast_through_integer",
        "Cast to int64 and to bool -> Cast to bool differs for fractions",
        "(float[N,4] x) => (bool[N,4] y)",
        "i = Cast <to = 7> (x) y = Cast <to = 9> (i)",
        "y = Cast <to = 9> (x)",
        x=[[0.5, 0, 2, 3]],
    ),
    _case(
        "cast_through_bytes",
        "Cast to int8 and to int64 -> the number itself",
        "(int64[N] x) => (int64[N] y)",
        "i = Cast <to = 3> (x) y = Cast <to = 7> (i)",
        "y = Identity(x)",
        x=[300],
    ),
    _case(
        "cast_of_signed_bytes",
        "Cast of int8 to uint8 and to int32 -> Cast to int32 differs for negative numbers",
        "(int8[N] x) => (int32[N] y)",
        "u = Cast <to = 2> (x) y = Cast <to = 6> (u)",
        "y = Cast <to = 6> (x)",
        x=[-1],
    ),
    _case(
        "cast_through_bfloat16",
        "A round trip through bfloat16 is dropped",
        _ROW,
        "b = Cast <to = 16> (x) y = Cast <to = 1> (b)",
        "y = Identity(x)",
        relative=1e-3,
        x=[[1.003, 1, 2, 3]],
    ),
    _case(
        "dynamic_range_without_zero",
        "The range of a DynamicQuantizeLinear does not include 0",
        _ROW,
        "q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)",
        """<float n = {255}, float low = {0}> a = ReduceMax <keepdims = 0> (x)
          b = ReduceMin <keepdims = 0> (x)
        d = Sub(a, b) s = Div(d, n) c = Sub(x, b) e = Div(c, s) r = Round(e) m = Mul(r, s)
          y = Add(m, b)""",
        x=[[101, 100.5, 100, 100.2]],
    ),
    _case(
        "blocks_of_two_rows",
        "A scale for each block of 2 rows becomes one for each pair of alternate rows",
        f"{_BLOCK} <int8[4,2] w = {{1, 2, 3, 4, 5, 6, 7, 8}}, float[2,2] s = {{0.1, 0.2, 0.3, "
        "0.4}>",
        "d = DequantizeLinear <axis = 0, block_size = 2> (w, s) y = MatMul(x, d)",
        """f = Cast <to = 1> (w) t = Concat <axis = 0> (s, s) d = Mul(f, t) y = MatMul(x, d)""",
        x=[[1, 2, 3, 4]],
    ),
    _case(
        "bits_shifted",
        "x * 4 -> a shift by 2, x / 4 -> a shift by 2 to the right, in uint8 after an overflow",
        "(uint8[N] x) => (uint8[N] y) <uint8 four = {4}>",
        "m = Mul(x, four) y = Div(m, four)",
        "y = Identity(x)",
        x=[200],
    ),
    _case(
        "saturated_float8",
        "A cast to float8 without saturation becomes one with it",
        _ROW,
        "q = Cast <to = 17, saturate = 0> (x) y = Cast <to = 1> (q)",
        "q = Cast <to = 17> (x) y = Cast <to = 1> (q)",
        x=[[1000, 1, 2, 3]],
    ),
]
