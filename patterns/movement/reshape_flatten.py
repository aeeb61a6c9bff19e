import math

import numpy as np

from xoptim.facts.shapes import normalized
from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class ReshapeFlattenPattern(EasyPatternOptimization):
    """Flatten(Reshape(x, shape), axis) → Reshape(x, two numbers)

    What: reshapes to the matrix at once.
    Why: one node less.
    Refuses when:
    1. the target is not constant, or the axis is out of range.
    2. neither the rows nor the columns are given by positive numbers.
    """

    min_opset = 5
    derives = ("target",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Constant) -> Symbol:
        return g.op.Flatten(g.op.Reshape(x, shape), axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        target = g.get_ints(m.shape) or []
        axis = m.axis if m.axis == len(target) else normalized(m.axis, len(target))
        if axis is None:  # (1)
            return self.none(
                m.nodes[1], msg="the target shape is unknown, or the axis is out of range"
            )
        parts = [
            -1 if any(size <= 0 for size in part) else math.prod(part)
            for part in (target[:axis], target[axis:])
        ]
        if parts == [-1, -1]:  # (2)
            return self.none(m.nodes[1], msg="neither the rows nor the columns are static")
        return m.derive(target=np.array(parts, dtype=np.int64))

    def apply_pattern(self, g: PatternRewriter, x: str, target: np.ndarray) -> str:
        return g.op.Reshape(x, target)

    examples = Example.only(
        "agraph (float[a,24] x) => (float[a,24] y) <int64[3] s = {0, 4, 6}> { t = Reshape(x, s) "
        "y = Flatten(t) }",
        "<int64[2] s = {-1, 24}> { y = Reshape(x, s) }",
    )
