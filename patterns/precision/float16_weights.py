from typing import Any

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
from xoptim.match.rounding import RoundingPattern

from .._folding import constant

_FEWEST = 1024
"""Folding expands fewer numbers again."""
_ENDS = (2.0**-13, 65504.0)
"""Between these, the largest number and those that count beside it keep all digits of 16 bits."""
_NUMBERS = np.arange(_FEWEST) % 7 - 3.5
_FLOATS = ", ".join(map(str, _NUMBERS))
_HALVES = ", ".join(map(str, _NUMBERS.astype(np.float16).view(np.uint16)))
"""The same numbers as onnx.parser expects them in 16 bits."""


class Float16WeightsPattern(RoundingPattern, EasyPatternOptimization):
    """MatMul(x, w) → MatMul(x, Cast(w16, to=FLOAT))

    What: stores constant weights in 16 bits, and so for Gemm, Conv, ConvTranspose, and a table from which Gather reads rows.
    Everything is computed in 32 bits; results change by about a thousandth of the largest one.
    Why: weights take half of the bytes, at no cost: onnxruntime casts them once, when it loads the model.
    Refuses when:
    1. the weights are not a constant of 32-bit floats with 1024 numbers or more.
    2. a number is not finite, or too large for 16 bits, or all are too small.
    """

    phase = "target"
    bits = 11
    min_opset = 13
    providers = ("cpu",)
    tags = ("float16", "extra")
    saves_time = False
    operand_types = {"w": (TensorProto.FLOAT,)}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional) -> Symbol:
        operator = g.choice("operator", "MatMul", "Gemm", "Conv", "ConvTranspose", "Gather")
        operands = {"MatMul": (x, w), "Gather": (w, x)}.get(operator, (x, w, b))
        return getattr(g.op, operator)(*operands, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        weights = constant(g, m.w)
        if weights.size < _FEWEST or g.node_before(m.w) is not None:  # (1)
            return self.none(m.nodes[0], msg="few numbers, or computed ones")
        if not _ENDS[0] <= np.abs(weights).max() <= _ENDS[1]:  # (2)
            return self.none(m.nodes[0], msg="numbers that 16 bits do not hold")
        return m.derive(half=weights.astype(np.float16))

    def apply_pattern(
        self, g: PatternRewriter, x: str, w: str, b: str, half: np.ndarray, operator: str, attributes: dict[str, Any]
    ) -> str:
        stored = g.make_initializer("", half, source=w)
        if operator == "Gather":
            return g.op.Cast(g.op.Gather(stored, x, **attributes), to=TensorProto.FLOAT)
        operands = [x, g.op.Cast(stored, to=TensorProto.FLOAT), *([b] if b else [])]
        result: str = getattr(g.op, operator)(*operands, **attributes)
        return result

    _sums = "agraph (float[n,256] x) => (float[n,4] y)"
    _rows = "agraph (int64[n] i) => (float[n,4] y)"
    examples = Example.pairs(
        f"{_sums} <float[256,4] w = {{{_FLOATS}}}> {{ y = MatMul(x, w) }}",
        f"{_sums} <float16[256,4] w = {{{_HALVES}}}> {{ d = Cast <to = 1> (w) y = MatMul(x, d) }}",
        f"{_rows} <float[256,4] w = {{{_FLOATS}}}> {{ y = Gather(w, i) }}",
        f"{_rows} <float16[256,4] w = {{{_HALVES}}}> {{ r = Gather(w, i) y = Cast <to = 1> (r) }}",
        opset=13,
    )
