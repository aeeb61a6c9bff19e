from math import prod

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import is_float, is_integer, numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol, runs

from ._lowering import _Lowering

_MAX_ELEMENTS = 1 << 16
"""Maximum number of elements of the constant."""


class LowerExpandPattern(_Lowering):
    """Expand(x, shape) → Mul(x, ones), or And(x, true) for Booleans

    What: broadcasts by an elementwise operator. A product with 1 keeps all numbers, also NaN and
    infinity.
    Why: several providers have no kernel of Expand.
    Refuses when:
    1. the shape is not constant, or has more than 65,536 elements.
    2. the provider has no kernel of Mul for the type.
    """

    min_opset = 8
    derives = ("ones", "is_truth")

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Symbol) -> Symbol:
        return g.op.Expand(x, shape)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        sizes, dtype = g.get_ints(m.shape), g.try_infer_type(m.x)
        if sizes is None or prod(sizes) > _MAX_ELEMENTS or min(sizes, default=1) < 0:  # (1)
            return self.none(m.nodes[0], msg="the shape is not constant, or large")
        is_truth = dtype == TensorProto.BOOL
        is_number = is_float(dtype) or is_integer(dtype)
        if not is_truth and not (is_number and runs(g, "Mul", m.x)):  # (2)
            return self.none(m.nodes[0], msg="no kernel of Mul for this element type")
        return m.derive(ones=np.ones(sizes, numpy_dtype(dtype)), is_truth=is_truth)

    def apply_pattern(self, g: PatternRewriter, x: str, ones: np.ndarray, is_truth: bool) -> str:
        return g.op.And(x, ones) if is_truth else g.op.Mul(x, ones)

    examples = Example.pairs(
        "agraph (float[n,1] x) => (float[n,3] y) <int64[2] s = {1, 3}> { y = Expand(x, s) }",
        "<float[1,3] o = {1, 1, 1}> { y = Mul(x, o) }",
        "agraph (bool[n,1] x) => (bool[2,n,1] y) <int64[3] s = {2, 1, 1}> { y = Expand(x, s) }",
        "<bool[2,1,1] o = {1, 1}> { y = And(x, o) }",
    )
