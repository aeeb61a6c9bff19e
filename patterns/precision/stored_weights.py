from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import ml_dtypes
import numpy as np
from onnx import TensorProto

from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.match.quantization import FEWEST_STORED, StoringPattern
from xoptim.operators.axes import permutation

from .._folding import Array, constant
from ._quantization import BLOCK, is_quantizable, rows_to_int4, rows_to_int8

_SUMS = "agraph (float[n,256] x) => (float[n,4] y)"
_ROWS = "agraph (int64[n] i) => (float[n,4] y)"
_PART = "agraph (int64[1] b) => (float[m,4] y)"
_EVERYWHERE = "agraph (float[n,256,4] x) => (float[n,256,4] y)"
_ENDS = "int64[1] e = {256}, int64[1] a = {0}"
_INDICES = np.arange(FEWEST_STORED)
_INTEGERS = np.where(_INDICES % BLOCK, _INDICES * 37 % 255 - 127, 127)
_NUMBERS = _INTEGERS / 2


class _Weights(NamedTuple):
    """Constant weights to store in lower precision.

    Attributes:
        name: the name of the initializer.
        numbers: its values.
        perm: the permutation of the Transpose that follows, if there is one.
    """

    name: str
    numbers: Array
    perm: list[int] | None


def _texts(numbers: Array) -> str:
    """Numbers in the syntax of onnx.parser, which reads 16-bit floats as integers."""
    return ", ".join(map(str, numbers if numbers.dtype.itemsize != 2 else numbers.view(np.uint16)))


class _StoredWeights(StoringPattern, EasyPatternOptimization):
    """Weights that a runtime converts to float32 at load time.

    Refusals are numbered as in `Float16WeightsPattern`.
    """

    phase = "target"
    min_opset = 13
    providers = ("cpu",)
    operand_types = {"w": (TensorProto.FLOAT,)}  # (1)
    derives = ("weights",)

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        w: Constant,
        b: Optional,
        axes: Optional,
        steps: Optional,
    ) -> Symbol:
        operator = g.choice(
            "operator", "MatMul", "Gemm", "Conv", "ConvTranspose", "Gather", "Add", "Slice"
        )
        special = {
            "MatMul": (x, w),
            "Add": (x, w),
            "Gather": (w, x),
            "Slice": (w, x, b, axes, steps),
        }
        operands = special.get(operator, (x, w, b))
        return getattr(g.op, operator)(*operands, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        producer = g.node_before(m.w)
        perm = (
            permutation(g, producer)
            if producer is not None and producer.op_type == "Transpose"
            else None
        )
        # A MatMul reads tied embedding weights through a Transpose.
        name = producer.input[0] if producer is not None and perm else m.w
        # (1); weights that are stored in lower precision already have a producer as well
        if g.node_before(name) is not None:
            return self.none(m.nodes[0], msg="the weights are computed at run time")
        numbers = constant(g, name)
        if numbers.size < FEWEST_STORED:  # (1)
            return self.none(m.nodes[0], msg="the weights have fewer than 1024 elements")
        if not self.fits(numbers):  # (2)
            return self.none(m.nodes[0], msg="the lower precision cannot represent the weights")
        return m.derive(weights=_Weights(name, numbers, perm))

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        b: str,
        axes: str,
        steps: str,
        weights: _Weights,
        operator: str,
        attributes: dict[str, Any],
    ) -> str:
        if operator == "Gather":
            return self.rows(g, weights, x, attributes)
        floats, optional = self.floats(g, weights), [b, axes, steps]
        while optional and not optional[-1]:
            optional.pop()
        operands = [floats, x] if operator == "Slice" else [x, floats]
        result: str = getattr(g.op, operator)(*operands, *optional, **attributes)
        return result

    def floats(self, g: PatternRewriter, weights: _Weights) -> str:
        """The weights as float32."""
        return self.transposed(g, self.stored(g.op, _storing(g, weights), weights.numbers), weights)

    def rows(
        self, g: PatternRewriter, weights: _Weights, indices: str, attributes: dict[str, Any]
    ) -> str:
        """Rows of the weights as float32."""
        return g.op.Gather(self.floats(g, weights), indices, **attributes)

    def transposed(self, g: PatternRewriter, name: str, weights: _Weights) -> str:
        """The stored tensor in the order that the operator expects."""
        return g.op.Transpose(name, perm=weights.perm) if weights.perm else name


def _storing(g: PatternRewriter, weights: _Weights) -> Callable[[Array, str], str]:
    """A function that stores arrays, named after the weights."""
    return lambda array, suffix: g.make_initializer(
        "", array, source=f"{weights.name}_{suffix}" if suffix else weights.name
    )


class _BlockWeights(_StoredWeights):
    """Block-wise quantized weights."""

    priority = 2
    is_alternative = True

    @classmethod
    def fits(cls, numbers: Array) -> bool:
        return numbers.size % BLOCK == 0 and is_quantizable(numbers)


class Int8WeightsPattern(_BlockWeights):
    """MatMul(x, w) → MatMul(x, Reshape(Cast(w8, to=FLOAT) · Cast(s, to=FLOAT), shape))

    What: stores constant weights in 8 bits, with a scale for each 32 elements. The same for Gemm,
    Conv, ConvTranspose, an embedding that Gather or Slice reads, and the constant of an Add.
    The model computes in float32; results change by about a hundredth of the largest result.
    Why: weights take 0.27 of the bytes, at no cost in time: onnxruntime computes the float32
    weights once, at load time. Errors are about half of those with the other operand quantized
    as well.
    Refuses when:
    1. the weights are not a float32 constant of 1024 elements or more, in complete blocks of 32.
    2. a number is not finite, or too large.
    """

    bits = 8
    width = 8.5
    tags = ("int8", "int4", "extra")

    @classmethod
    def stored(cls, op: Any, store: Callable[[Array, str], str], numbers: Array) -> str:
        rows = rows_to_int8(numbers.reshape(-1, BLOCK))
        tensors = store(rows.integers, ""), store(rows.scales, "scales")
        floats = op.Mul(*(op.Cast(tensor, to=TensorProto.FLOAT) for tensor in tensors))
        return str(op.Reshape(floats, store(np.array(numbers.shape, np.int64), "shape")))

    @classmethod
    def widened(cls, numbers: Array) -> Array:
        rows = rows_to_int8(numbers.reshape(-1, BLOCK))
        floats = rows.integers.astype(np.float32) * rows.scales.astype(np.float32)
        return floats.reshape(numbers.shape)

    _float = f"<float[256,4] w = {{{_texts(_NUMBERS)}}}>"
    _int8 = (
        f"<int8[32,32] w = {{{_texts(_INTEGERS)}}}, "
        f"bfloat16[32,1] s = {{{', '.join(['16128'] * 32)}}}, int64[2] k = {{256, 4}}> {{ "
        "a = Cast <to = 1> (w) t = Cast <to = 1> (s) m = Mul(a, t) d = Reshape(m, k)"
    )
    examples = Example.pairs(
        f"{_SUMS} {_float} {{ y = MatMul(x, w) }}",
        f"{_SUMS} {_int8} y = MatMul(x, d) }}",
        f"{_ROWS} {_float} {{ y = Gather(w, i) }}",
        f"{_ROWS} {_int8} y = Gather(d, i) }}",
        opset=13,
    )


class Int4ConstantsPattern(_BlockWeights):
    """MatMul(x, w) → MatMul(x, Reshape((Cast(w4, to=FLOAT) - Cast(z, to=FLOAT)) · Cast(s,
    to=FLOAT), shape))

    What: as `Int8Weights` in 4 bits, with a scale and a zero point for each 32 elements. The model
    computes in float32; results change by about a tenth of the largest result.
    Why: weights take 0.15 of the bytes, at no cost in time: onnxruntime computes the float32
    weights once, at load time. `Int4Weights` would make some models slower, and supports fewer
    operators.
    Refuses when:
    1. the weights are not a float32 constant of 1024 elements or more, in complete blocks of 32.
    2. a number is not finite, or too large.
    """

    bits = 4
    width = 4.625
    min_opset = 21
    tags = ("int4", "extra")

    @classmethod
    def stored(cls, op: Any, store: Callable[[Array, str], str], numbers: Array) -> str:
        rows = rows_to_int4(numbers.reshape(-1, BLOCK))
        integers, zeros = (array.astype(ml_dtypes.uint4) for array in (rows.integers, rows.zeros))
        parts = store(integers, ""), store(zeros, "zeros"), store(rows.scales, "scales")
        wide, zero, scale = (op.Cast(part, to=TensorProto.FLOAT) for part in parts)
        return str(
            op.Reshape(
                op.Mul(op.Sub(wide, zero), scale), store(np.array(numbers.shape, np.int64), "shape")
            )
        )

    @classmethod
    def widened(cls, numbers: Array) -> Array:
        rows = rows_to_int4(numbers.reshape(-1, BLOCK))
        steps = rows.integers.astype(np.float32) - rows.zeros.astype(np.float32)
        return (steps * rows.scales.astype(np.float32)).reshape(numbers.shape)

    _nibbles = np.arange(FEWEST_STORED) % 16
    _numbers = f"<float[256,4] w = {{{_texts((_nibbles - 8) / 2)}}}>"
    _packed = ", ".join(map(str, _nibbles[::2] | _nibbles[1::2] << 4))
    _four = (
        f"<uint4[32,32] w = {{{_packed}}}, uint4[32,1] z = {{{', '.join(['136'] * 16)}}}, "
        f"bfloat16[32,1] s = {{{', '.join(['16128'] * 32)}}}, int64[2] k = {{256, 4}}> {{ "
        "a = Cast <to = 1> (w) b = Cast <to = 1> (z) t = Cast <to = 1> (s) c = Sub(a, b) "
        "m = Mul(c, t) d = Reshape(m, k)"
    )
    examples = Example.pairs(
        f"{_SUMS} {_numbers} {{ y = MatMul(x, w) }}",
        f"{_SUMS} {_four} y = MatMul(x, d) }}",
        opset=21,
    )


class _Float16Weights(_StoredWeights):
    """Weights in float16 or bfloat16."""

    dtype: ClassVar[type]
    ends: ClassVar[tuple[float, float]]
    """Limits of the largest magnitude: beyond them, weights overflow or lose digits."""

    width = 16

    @classmethod
    def fits(cls, numbers: Array) -> bool:
        return bool(cls.ends[0] <= np.abs(numbers).max() <= cls.ends[1])

    @classmethod
    def stored(cls, op: Any, store: Callable[[Array, str], str], numbers: Array) -> str:
        return str(op.Cast(store(numbers.astype(cls.dtype), ""), to=TensorProto.FLOAT))

    @classmethod
    def widened(cls, numbers: Array) -> Array:
        return numbers.astype(cls.dtype).astype(np.float32)

    def rows(
        self, g: PatternRewriter, weights: _Weights, indices: str, attributes: dict[str, Any]
    ) -> str:
        halves = self.transposed(
            g, _storing(g, weights)(weights.numbers.astype(self.dtype), ""), weights
        )
        return g.op.Cast(g.op.Gather(halves, indices, **attributes), to=TensorProto.FLOAT)


def _float16_examples(dtype: type) -> tuple[Example, ...]:
    floats, stored = (
        f"<{np.dtype(kind).name}[256,4] w = {{{_texts(_NUMBERS.astype(kind))}}}>".replace(
            "float32", "float"
        )
        for kind in (np.float32, dtype)
    )
    return Example.pairs(
        f"{_SUMS} {floats} {{ y = MatMul(x, w) }}",
        f"{_SUMS} {stored} {{ d = Cast <to = 1> (w) y = MatMul(x, d) }}",
        f"{_ROWS} {floats} {{ y = Gather(w, i) }}",
        f"{_ROWS} {stored} {{ r = Gather(w, i) y = Cast <to = 1> (r) }}",
        f"{_EVERYWHERE} {floats} {{ y = Add(x, w) }}",
        f"{_EVERYWHERE} {stored} {{ d = Cast <to = 1> (w) y = Add(x, d) }}",
        f"{_PART} {floats[:-1]}, {_ENDS}> {{ y = Slice(w, b, e, a) }}",
        f"{_PART} {stored[:-1]}, {_ENDS}> {{ d = Cast <to = 1> (w) y = Slice(d, b, e, a) }}",
        opset=13,
    )


class Float16WeightsPattern(_Float16Weights):
    """MatMul(x, w) → MatMul(x, Cast(w16, to=FLOAT))

    What: stores constant weights in float16. The same for Gemm, Conv, ConvTranspose, an embedding
    that Gather or Slice reads, and the constant of an Add. The model computes in float32; results
    change by about a thousandth of the largest result.
    Why: weights take half of the bytes, at no cost: onnxruntime casts them once, at load time.
    Refuses when:
    1. the weights are not a float32 constant of 1024 elements or more.
    2. a number is not finite, or too large for float16, or all are too small.
    """

    bits = 11
    tags = ("float16", "extra")
    dtype = np.float16
    ends = (2.0**-13, 65504.0)
    examples = _float16_examples(np.float16)


class Bfloat16WeightsPattern(_Float16Weights):
    """MatMul(x, w) → MatMul(x, Cast(w16, to=FLOAT)), w16 in bfloat16

    What: as `Float16Weights` in bfloat16, which has the range of float32, and fewer digits than
    float16. The model computes in float32; results change by about a hundredth of the largest
    result.
    Why: weights of any magnitude take half of the bytes, at no cost. onnxruntime has no CPU kernels
    that compute in bfloat16.
    Refuses when:
    1. the weights are not a float32 constant of 1024 elements or more.
    2. a number is not finite, or near the limits of the type.
    """

    bits = 8
    tags = ("bfloat16", "extra")
    dtype = ml_dtypes.bfloat16
    ends = (2.0**-100, 2.0**100)
    examples = _float16_examples(ml_dtypes.bfloat16)
