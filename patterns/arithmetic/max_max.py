from typing import Any

import numpy as np

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._folding import constant_pair


class MaxMaxPattern(EasyPatternOptimization):
    """Max(Max(x, a), b) → Max(x, the larger of a and b), and the same with Min

    What: compares with one constant.
    Why: one pass over the tensor less.
    Refuses when:
    1. something else reads the first result.
    2. a and b have different types, their combination is larger than both, or they contain NaN.
    3. (none: which zero is larger, +0 or -0, depends on the order, which is why the grade is ``rounding``.)
    """

    exactness = "rounding"
    min_opset = 8

    def match_pattern(self, g: PatternBuilder, x: Symbol, a: Constant, b: Constant) -> Symbol:
        return g.op.Max(g.op.Max(x, a), b) if g.option("max") else g.op.Min(g.op.Min(x, a), b)  # (1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        pair = constant_pair(g, m.a, m.b)
        if pair is None or any(np.any(array != array) for array in pair):  # (2)
            return self.none(m.nodes[1], msg="the constants do not make one")
        chosen = np.maximum(*pair) if m.max else np.minimum(*pair)
        return m.derive(constant=chosen.astype(numpy_dtype(g.get_type(m.a))))

    def apply_pattern(self, g: PatternRewriter, x: str, constant: np.ndarray, max: bool) -> Any:
        return g.op.Max(x, constant) if max else g.op.Min(x, constant)

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <float c = {1}, float d = {0.5}> { t = Max(c, x) y = Max(t, d) }",
            "<float c = {1}> { y = Max(x, c) }",
        ),
        Example(
            "agraph (float[a,2] x) => (float[a,2] y) <float[2] c = {1, -1}, float d = {0}> { t = Min(x, c) y = Min(t, d) }",
            "<float[2] c = {0, -1}> { y = Min(x, c) }",
        ),
    )
