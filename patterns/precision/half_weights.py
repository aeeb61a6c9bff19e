from typing import Any, ClassVar, TypeAlias

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

from .._folding import constant

_FEWEST = 1024
"""Folding expands fewer numbers again."""
_Halves: TypeAlias = tuple[np.ndarray, list[int] | None]
"""Weights, and how they are transposed."""
_NUMBERS = np.arange(_FEWEST) % 7 - 3.5
_FLOATS = ", ".join(map(str, _NUMBERS))


def _examples(dtype: type) -> tuple[Example, ...]:
    """A product and a table; onnx.parser expects numbers of 16 bits as integers."""
    sums, rows = "agraph (float[n,256] x) => (float[n,4] y)", "agraph (int64[n] i) => (float[n,4] y)"
    halves = ", ".join(map(str, _NUMBERS.astype(dtype).view(np.uint16)))
    stored = f"<{np.dtype(dtype).name}[256,4] w = {{{halves}}}>"
    return Example.pairs(
        f"{sums} <float[256,4] w = {{{_FLOATS}}}> {{ y = MatMul(x, w) }}",
        f"{sums} {stored} {{ d = Cast <to = 1> (w) y = MatMul(x, d) }}",
        f"{rows} <float[256,4] w = {{{_FLOATS}}}> {{ y = Gather(w, i) }}",
        f"{rows} {stored} {{ r = Gather(w, i) y = Cast <to = 1> (r) }}",
        opset=13,
    )


class _HalfWeights(RoundingPattern, EasyPatternOptimization):
    """Weights in 16 bits. Refusals have the numbers of `Float16WeightsPattern`.

    Class attributes:
        dtype: the type of 16 bits.
        ends: between these, the largest number and those that count beside it keep all digits of the type.
    """

    phase = "target"
    min_opset = 13
    providers = ("cpu",)
    saves_time = False
    dtype: ClassVar[type]
    ends: ClassVar[tuple[float, float]]
    operand_types = {"w": (TensorProto.FLOAT,)}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional) -> Symbol:
        operator = g.choice("operator", "MatMul", "Gemm", "Conv", "ConvTranspose", "Gather")
        operands = {"MatMul": (x, w), "Gather": (w, x)}.get(operator, (x, w, b))
        return getattr(g.op, operator)(*operands, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        above = g.node_before(m.w)
        turn = permutation(g, above) if above is not None and above.op_type == "Transpose" else None
        name = above.input[0] if above is not None and turn else m.w  # a table has weights that are turned
        weights = constant(g, name)
        if weights.size < _FEWEST or g.node_before(name) is not None:  # (1)
            return self.none(m.nodes[0], msg="few numbers, or computed ones")
        if not self.ends[0] <= np.abs(weights).max() <= self.ends[1]:  # (2)
            return self.none(m.nodes[0], msg="numbers that 16 bits do not hold")
        return m.derive(halves=(weights.astype(self.dtype), turn))

    def apply_pattern(
        self, g: PatternRewriter, x: str, w: str, b: str, halves: _Halves, operator: str, attributes: dict[str, Any]
    ) -> str:
        stored, turn = g.make_initializer("", halves[0], source=w), halves[1]
        if turn:
            stored = g.op.Transpose(stored, perm=turn)
        if operator == "Gather":
            return g.op.Cast(g.op.Gather(stored, x, **attributes), to=TensorProto.FLOAT)
        operands = [x, g.op.Cast(stored, to=TensorProto.FLOAT), *([b] if b else [])]
        result: str = getattr(g.op, operator)(*operands, **attributes)
        return result


class Float16WeightsPattern(_HalfWeights):
    """MatMul(x, w) → MatMul(x, Cast(w16, to=FLOAT))

    What: stores constant weights in 16 bits, and so for Gemm, Conv, ConvTranspose, and a table from which Gather reads rows.
    Everything is computed in 32 bits; results change by about a thousandth of the largest one.
    Why: weights take half of the bytes, at no cost: onnxruntime casts them once, when it loads the model.
    Refuses when:
    1. the weights are not a constant of 32-bit floats with 1024 numbers or more.
    2. a number is not finite, or too large for 16 bits, or all are too small.
    """

    bits = 11
    tags = ("float16", "extra")
    dtype = np.float16
    ends = (2.0**-13, 65504.0)
    examples = _examples(np.float16)


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
    examples = _examples(ml_dtypes.bfloat16)
