import math
from typing import Any

import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import COMPUTED, _Lowering, narrowed, widened


class LowerLRNPattern(_Lowering):
    """LRN(x) → x / (bias + alpha · AveragePool(x²)) ** beta

    What: averages the squares over ``size`` channels, padded with zeros, by pooling over an image
    whose rows are channels. 16-bit floats are computed in 32 bits. (The formula spreads NaN within
    the window only. ONNX Runtime's kernel spreads NaN to all later channels.)
    Why: many runtimes lack the operator.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    2. x does not have four axes, or the size of an axis after the first one is unknown or 0.
    3. the divisor may not be positive, or ``size`` is 1 or even.
    """

    min_opset = 11
    operand_types = {"x": COMPUTED}  # (1)
    derives = ("values", "dtype", "image", "back")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.LRN(x, size=g.capture("size"), attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, shape = m.nodes[0], g.try_infer_shape(m.x) or ()
        sizes = [dim for dim in shape[1:] if isinstance(dim, int) and dim > 0]
        if len(shape) != 4 or len(sizes) < 3:  # (2)
            return self.none(node, msg="the rank is not 4, or a dimension is unknown or 0")
        values = {name: g.get_attribute(node, name) for name in ("alpha", "beta", "bias")}
        # (3)
        if m.size < 2 or m.size % 2 == 0 or values["alpha"] < 0 or not 0.01 <= values["bias"] < 1e6:
            return self.none(node, msg="the divisor may not be positive, or size is 1 or even")
        image = [0, 1, sizes[0], math.prod(sizes[1:])]
        return m.derive(values=values, dtype=g.try_infer_type(m.x), image=image, back=[0, *sizes])

    def apply_pattern(self, g: PatternRewriter, x: str, size: int, dtype: int, **m: Any) -> str:
        wide, values = widened(g, x, dtype), m["values"]
        squares = g.op.Reshape(g.op.Mul(wide, wide), np.array(m["image"]))
        average = g.op.AveragePool(
            squares, kernel_shape=[size, 1], pads=[size // 2, 0] * 2, count_include_pad=1
        )
        average = g.op.Reshape(average, np.array(m["back"]))
        total = g.op.Add(g.op.Mul(average, values["alpha"]), values["bias"])
        return narrowed(g, g.op.Div(wide, g.op.Pow(total, values["beta"])), dtype)

    examples = Example.pairs(
        "agraph (float[n,3,4,5] x) => (float[n,3,4,5] y) { "
        "y = LRN <size = 5, alpha = 0.25, bias = 2.0> (x) }",
        "<int64[4] a = {0, 1, 3, 20}, int64[4] b = {0, 3, 4, 5}, float c = {0.25}, float d = {2}, "
        "float e = {0.75}> { f = Mul(x, x) g = Reshape(f, a) h = AveragePool <kernel_shape = [5, "
        "1], pads = [2, 0, 2, 0], count_include_pad = 1> (g) i = Reshape(h, b) j = Mul(i, c) k = "
        "Add(j, d) l = Pow(k, e) y = Div(x, l) }",
        "agraph (float[n,2,4,4] x) => (float[n,2,4,4] y) { y = LRN <size = 5, beta = 0.5> (x) }",
        "<int64[4] a = {0, 1, 2, 16}, int64[4] b = {0, 2, 4, 4}, float c = {1e-04}, float d = {1}, "
        "float e = {0.5}> { f = Mul(x, x) g = Reshape(f, a) h = AveragePool <kernel_shape = [5, "
        "1], pads = [2, 0, 2, 0], count_include_pad = 1> (g) i = Reshape(h, b) j = Mul(i, c) k = "
        "Add(j, d) l = Pow(k, e) y = Div(x, l) }",
    )
