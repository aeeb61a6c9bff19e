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
from xoptim.match.axes import permutation
from xoptim.match.rounding import RoundingPattern

from .._folding import Array, constant
from ._rounding import is_roundable, rows_to_int8

_FEWEST = 1024
"""Folding expands fewer numbers again."""
_BLOCK = 32
_SUMS = "agraph (float[n,256] x) => (float[n,4] y)"
_ROWS = "agraph (int64[n] i) => (float[n,4] y)"
_PART = "agraph (int64[1] b) => (float[m,4] y)"
_EVERYWHERE = "agraph (float[n,256,4] x) => (float[n,256,4] y)"
_ENDS = "int64[1] e = {256}, int64[1] a = {0}"
_PLACES = np.arange(_FEWEST)
_INTEGERS = np.where(_PLACES % _BLOCK, _PLACES * 37 % 255 - 127, 127)
_NUMBERS = _INTEGERS / 2


class _Weights(NamedTuple):
    """Constant weights that are stored with fewer bits.

    Attributes:
        name: of the initializer.
        numbers: its floats.
        turn: how they are transposed afterwards; ``None`` where they are not.
    """

    name: str
    numbers: Array
    turn: list[int] | None


def _texts(numbers: Array) -> str:
    """Numbers as onnx.parser expects them, which reads 16-bit numbers as integers."""
    return ", ".join(map(str, numbers if numbers.dtype.itemsize != 2 else numbers.view(np.uint16)))


class _StoredWeights(RoundingPattern, EasyPatternOptimization):
    """Weights that are made floats when a runtime loads the model. Refusals have the numbers of `Float16WeightsPattern`."""

    phase = "target"
    min_opset = 13
    providers = ("cpu",)
    time = 1.0
    operand_types = {"w": (TensorProto.FLOAT,)}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional, axes: Optional, steps: Optional) -> Symbol:
        operator = g.choice("operator", "MatMul", "Gemm", "Conv", "ConvTranspose", "Gather", "Add", "Slice")
        special = {"MatMul": (x, w), "Add": (x, w), "Gather": (w, x), "Slice": (w, x, b, axes, steps)}
        operands = special.get(operator, (x, w, b))
        return getattr(g.op, operator)(*operands, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        above = g.node_before(m.w)
        turn = permutation(g, above) if above is not None and above.op_type == "Transpose" else None
        name = above.input[0] if above is not None and turn else m.w  # a table has weights that are turned
        if g.node_before(name) is not None:  # (1), without computing all weights that are stored so already
            return self.none(m.nodes[0], msg="computed numbers")
        numbers = constant(g, name)
        if numbers.size < _FEWEST:  # (1)
            return self.none(m.nodes[0], msg="few numbers")
        if not self.fits(numbers):  # (2)
            return self.none(m.nodes[0], msg="numbers that fewer bits do not hold")
        return m.derive(weights=_Weights(name, numbers, turn))

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
        floats, others = self.floats(g, weights), [b, axes, steps]
        while others and not others[-1]:
            others.pop()
        operands = [floats, x] if operator == "Slice" else [x, floats]
        result: str = getattr(g.op, operator)(*operands, *others, **attributes)
        return result

    def fits(self, numbers: Array) -> bool:
        """Whether such numbers can be stored."""
        raise NotImplementedError

    def floats(self, g: PatternRewriter, weights: _Weights) -> str:
        """The weights as 32-bit floats."""
        raise NotImplementedError

    def rows(self, g: PatternRewriter, weights: _Weights, places: str, attributes: dict[str, Any]) -> str:
        """Rows of the weights as 32-bit floats."""
        return g.op.Gather(self.floats(g, weights), places, **attributes)

    def turned(self, g: PatternRewriter, name: str, weights: _Weights) -> str:
        """The stored tensor in the order that the operator expects."""
        return g.op.Transpose(name, perm=weights.turn) if weights.turn else name


class Int8WeightsPattern(_StoredWeights):
    """MatMul(x, w) → MatMul(x, Reshape(Cast(w8, to=FLOAT) · Cast(s, to=FLOAT), shape))

    What: stores constant weights in 8 bits, with a scale for each 32 numbers, and so for Gemm, Conv, ConvTranspose, a table of
    which Gather or Slice read rows, and the constant of an Add. Everything is computed in 32 bits; results change by about a
    hundredth of the largest one.
    Why: weights take 0.27 of the bytes, at no cost in time: onnxruntime computes them once, when it loads the model. Results
    err about half as much as where the other operand is rounded too.
    Refuses when:
    1. the weights are not a constant of 32-bit floats with 1024 numbers or more, in whole blocks of 32.
    2. a number is not finite, or too large.
    """

    bits = 8
    tags = ("int8", "int4", "extra")
    priority = 2
    is_alternative = True

    def fits(self, numbers: Array) -> bool:
        return numbers.size % _BLOCK == 0 and is_roundable(numbers)

    def floats(self, g: PatternRewriter, weights: _Weights) -> str:
        found = rows_to_int8(weights.numbers.reshape(-1, _BLOCK))
        integers = g.make_initializer("", found.integers, source=weights.name)
        scales = g.make_initializer("", found.scales, source=f"{weights.name}_scales")
        numbers = g.op.Mul(*(g.op.Cast(each, to=TensorProto.FLOAT) for each in (integers, scales)))
        return self.turned(g, g.op.Reshape(numbers, [*weights.numbers.shape]), weights)

    _float = f"<float[256,4] w = {{{_texts(_NUMBERS)}}}>"
    _int8 = (
        f"<int8[32,32] w = {{{_texts(_INTEGERS)}}}, bfloat16[32,1] s = {{{', '.join(['16128'] * 32)}}}, "
        "int64[2] k = {256, 4}> { a = Cast <to = 1> (w) t = Cast <to = 1> (s) m = Mul(a, t) d = Reshape(m, k)"
    )
    examples = Example.pairs(
        f"{_SUMS} {_float} {{ y = MatMul(x, w) }}",
        f"{_SUMS} {_int8} y = MatMul(x, d) }}",
        f"{_ROWS} {_float} {{ y = Gather(w, i) }}",
        f"{_ROWS} {_int8} y = Gather(d, i) }}",
        opset=13,
    )


class _HalfWeights(_StoredWeights):
    """Weights in 16 bits.

    Class attributes:
        dtype: the type of 16 bits.
        ends: between these, the largest number and those that count beside it keep all digits of the type.
    """

    dtype: ClassVar[type]
    ends: ClassVar[tuple[float, float]]

    width = 16

    def fits(self, numbers: Array) -> bool:
        return bool(self.ends[0] <= np.abs(numbers).max() <= self.ends[1])

    def floats(self, g: PatternRewriter, weights: _Weights) -> str:
        return g.op.Cast(self._halves(g, weights), to=TensorProto.FLOAT)

    def rows(self, g: PatternRewriter, weights: _Weights, places: str, attributes: dict[str, Any]) -> str:
        return g.op.Cast(g.op.Gather(self._halves(g, weights), places, **attributes), to=TensorProto.FLOAT)

    def _halves(self, g: PatternRewriter, weights: _Weights) -> str:
        return self.turned(g, g.make_initializer("", weights.numbers.astype(self.dtype), source=weights.name), weights)


def _half_examples(dtype: type) -> tuple[Example, ...]:
    """A product, and a table."""
    given, stored = (
        f"<{np.dtype(each).name}[256,4] w = {{{_texts(_NUMBERS.astype(each))}}}>".replace("float32", "float")
        for each in (np.float32, dtype)
    )
    return Example.pairs(
        f"{_SUMS} {given} {{ y = MatMul(x, w) }}",
        f"{_SUMS} {stored} {{ d = Cast <to = 1> (w) y = MatMul(x, d) }}",
        f"{_ROWS} {given} {{ y = Gather(w, i) }}",
        f"{_ROWS} {stored} {{ r = Gather(w, i) y = Cast <to = 1> (r) }}",
        f"{_EVERYWHERE} {given} {{ y = Add(x, w) }}",
        f"{_EVERYWHERE} {stored} {{ d = Cast <to = 1> (w) y = Add(x, d) }}",
        f"{_PART} {given[:-1]}, {_ENDS}> {{ y = Slice(w, b, e, a) }}",
        f"{_PART} {stored[:-1]}, {_ENDS}> {{ d = Cast <to = 1> (w) y = Slice(d, b, e, a) }}",
        opset=13,
    )


class Float16WeightsPattern(_HalfWeights):
    """MatMul(x, w) → MatMul(x, Cast(w16, to=FLOAT))

    What: stores constant weights in 16 bits, and so for Gemm, Conv, ConvTranspose, a table of which Gather or Slice read rows,
    and the constant of an Add. Everything is computed in 32 bits; results change by about a thousandth of the largest one.
    Why: weights take half of the bytes, at no cost: onnxruntime casts them once, when it loads the model.
    Refuses when:
    1. the weights are not a constant of 32-bit floats with 1024 numbers or more.
    2. a number is not finite, or too large for 16 bits, or all are too small.
    """

    bits = 11
    tags = ("float16", "extra")
    dtype = np.float16
    ends = (2.0**-13, 65504.0)
    examples = _half_examples(np.float16)


class Bfloat16WeightsPattern(_HalfWeights):
    """MatMul(x, w) → MatMul(x, Cast(w16, to=FLOAT)), w16 in bfloat16

    What: stores constant weights in bfloat16, as `Float16Weights` does in float16: with the range of 32 bits, and fewer digits.
    Everything is computed in 32 bits; results change by about a hundredth of the largest one.
    Why: weights take half of the bytes, at no cost, as large or small as they are. No processor has kernels of onnxruntime
    that compute in bfloat16.
    Refuses when:
    1. the weights are not a constant of 32-bit floats with 1024 numbers or more.
    2. a number is not finite, or near the ends of the range.
    """

    bits = 8
    tags = ("bfloat16", "extra")
    dtype = ml_dtypes.bfloat16
    ends = (2.0**-100, 2.0**100)
    examples = _half_examples(ml_dtypes.bfloat16)
