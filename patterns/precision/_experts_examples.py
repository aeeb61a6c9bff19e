"""Examples of patterns that quantize mixtures of experts."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from xoptim.match import Example

from .._bits import packed

_LISTS: Final = (
    "int64[1] zero = {0}, int64[1] one = {1}, int64[1] minus = {-1}, int64[2] column = {-1, 1}, "
    "int64[2] tokens = {-1, 32}, int64[2,1] numbers = {0, 1}, float nought = {0}"
)
_GATED_LISTS: Final = (
    f"{_LISTS}, int64[1] two = {{2}}, int64[3] repeat = {{1, 2, 1}}, int64[2] choices = {{-1, 2}}, "
    "int64[2] sizes = {32, 32}, int64 count = {2}, float alpha = {1.5}, float beta = {1}, "
    "float least = {-320}, float most = {320}"
)
_FACTORS: Final = "u = Reshape(f, column) j = Reshape(i, minus) q = Equal(numbers, j)"
_SUM: Final = "h = Shape(x) z = Expand(nought, h) y = Scan"
_PLACES: Final = "n = NonZero(chosen) o = Squeeze(n, zero)"
_GATED: Final = (
    "p, i = TopK(s, two) f = Softmax(p) c = Unsqueeze(x, one) k = Expand(c, repeat) "
    f"r = Reshape(k, tokens) {_FACTORS} {_SUM} <num_scan_inputs = 4, body = expert "
    "(float[?,32] sum, float[32,64] first, float[64] bias, float[32,32] last, bool[?] chosen) "
    f"=> (float[?,32] new) {{ {_PLACES} xr = Gather(r, o) ur = Gather(u, o) "
    "a = Gemm(xr, first, bias) g, l = Split <axis = 1> (a, sizes) gc = Clip(g, , most) "
    "lc = Clip(l, least, most) t = Mul(gc, alpha) sg = Sigmoid(t) silu = Mul(gc, sg) "
    "lb = Add(lc, beta) gl = Mul(silu, lb) m = MatMul(gl, last) v = Mul(m, ur) "
    "d = Div(o, count) places = Unsqueeze(d, one) "
    'new = ScatterND <reduction = "add"> (sum, places, v) }> (z, v1, b, v2, q)'
)
_PLAIN: Final = (
    f"p, i = TopK(s, one) f = Sigmoid(p) {_FACTORS} {_SUM} <num_scan_inputs = 4, body = expert "
    "(float[?,32] sum, float[32,32] first, float[32] bias, float[32,32] last, bool[?] chosen) "
    f"=> (float[?,32] new) {{ {_PLACES} xr = Gather(x, o) ur = Gather(u, o) "
    "k = MatMul(xr, first) a = Add(k, bias) c = Relu(a) m = MatMul(c, last) v = Mul(m, ur) "
    "places = Unsqueeze(o, one) "
    'new = ScatterND <reduction = "none"> (sum, places, v) }> (z, v1, b, v2, q)'
)
_ZEROS: Final = "h = Shape(s) z = ConstantOfShape <value = float[1] {0}> (h)"
_GATED_ROUTING: Final = (
    "p, i = TopK(s, two) f = Softmax(p) c = Unsqueeze(x, one) u = Reshape(f, column) "
    f"m = Reshape(c, tokens) {_ZEROS} g = Reshape(u, choices) "
    "d = ScatterElements <axis = 1> (z, i, g)"
)
_PLAIN_ROUTING: Final = (
    "p, i = TopK(s, one) f = Sigmoid(p) u = Reshape(f, column) m = Reshape(x, tokens) "
    f"{_ZEROS} g = Reshape(u, column) d = ScatterElements <axis = 1> (z, i, g)"
)
_OPERANDS: Final = "(m, d, v1, v1s, b, v2, v2s, , , , , v1z, v2z, , d)"
_SWIGLU: Final = (
    'activation_type = "swiglu", swiglu_fusion = 1, activation_alpha = 1.5, '
    "activation_beta = 1.0, swiglu_limit = 320.0"
)
_INTERLEAVED: Final = [
    expert + gate + part for expert in (0, 64) for gate in range(32) for part in (0, 32)
]
"""The order of biases after gate and up projection are interleaved, for two experts."""


def examples_of(integers: Sequence[int], bits: int) -> tuple[Example, ...]:
    """Examples with two experts whose weights have the same 32 integers in each column."""
    zero = 1 << bits - 2
    column = packed(np.array([integers], np.uint8), bits)[0]
    attributes = (
        f"expert_weight_bits = {bits}, block_size = 32, accuracy_level = 4, weights_prepacked = 0"
    )

    def before(name: str, columns: int) -> str:
        matrix = np.repeat(np.array(integers) - zero, columns)
        return f"float[2,32,{columns}] {name} = {{{_text([*matrix, *matrix])}}}"

    def after(name: str, columns: int) -> str:
        count = 2 * columns
        return (
            f"uint8[2,{columns},{len(column)}] {name} = {{{_text([*column] * count)}}}, "
            f"float[2,{columns},1] {name}s = {{{_text([1] * count)}}}, "
            f"uint8[2,{columns},1] {name}z = {{{_text([zero] * count)}}}"
        )

    gated, plain = (
        f"agraph (float[t,32] x, float[t,2] s) => (float[t,32] y) <{lists}"
        for lists in (_GATED_LISTS, _LISTS)
    )
    biases = (
        f"float[2,64] b = {{{_text(number + 256 for number in numbers)}}}"
        for numbers in (range(128), _INTERLEAVED)
    )
    bias = f"float[2,32] b = {{{_text(range(256, 320))}}}"
    return Example.pairs(
        f"{gated}, {before('v1', 64)}, {next(biases)}, {before('v2', 32)}> {{ {_GATED} }}",
        f"{gated}, {after('v1', 64)}, {next(biases)}, {after('v2', 32)}> {{ {_GATED_ROUTING} "
        f"y = com.microsoft.QMoE <k = 2, {attributes}, {_SWIGLU}> {_OPERANDS} }}",
        f"{plain}, {before('v1', 32)}, {bias}, {before('v2', 32)}> {{ {_PLAIN} }}",
        f"{plain}, {after('v1', 32)}, {bias}, {after('v2', 32)}> {{ {_PLAIN_ROUTING} "
        f'y = com.microsoft.QMoE <k = 1, {attributes}, activation_type = "relu"> {_OPERANDS} }}',
        opset=21,
    )


def _text(numbers: Iterable[Any]) -> str:
    return ", ".join(map(str, numbers))
