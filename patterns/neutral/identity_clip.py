import math

import numpy as np

from xoptim.facts.dtypes import is_float, is_integer, numpy_dtype
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class IdentityClipPattern(EasyPatternOptimization):
    """Clip(x) between the ends of its type → x

    What: drops a Clip whose bounds include every value.
    Why: it copies the whole tensor.
    Refuses when:
    1. the type is unknown, or a bound is inside the range of the type or not constant.
    2. a bound of floating-point numbers is left out: it then is the largest finite number, and cuts infinities.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Clip(x, min=g.capture("low", optional=True), max=g.capture("high", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        dtype = g.try_infer_type(m.x)
        if is_float(dtype):
            if m.low == -math.inf and m.high == math.inf:
                return True
            return self.none(m.nodes[0], msg="the bounds are finite or left out")  # (1) (2)
        ends = np.iinfo(numpy_dtype(dtype)) if is_integer(dtype) else None
        if ends is None or m.low not in (None, ends.min) or m.high not in (None, ends.max):  # (1)
            return self.none(m.nodes[0], msg="the bounds are inside the range of the type")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = (
        Example(
            "agraph (int64[a,b] x) => (int64[a,b] y) { t = Clip(x) y = Neg(t) }",
            "agraph (int64[a,b] x) => (int64[a,b] y) { y = Neg(x) }",
        ),
    )
