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

from .._deductions import moved_zeros


class ReshapeSqueezePattern(EasyPatternOptimization):
    """Squeeze(Reshape(x, shape)) or Unsqueeze(Reshape(x, shape)) → Reshape(x, shape with those axes
    taken out or put in)

    What: reshapes to the final shape at once.
    Why: one node less.
    Refuses when:
    1. the target or the axes are not constant, there are none, or one is out of range.
    2. an axis that is taken out is not a 1 in the target.
    3. a 0 would move to a place where it copies another size.
    """

    min_opset = 5
    derives = ("target",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Constant) -> Symbol:
        middle = g.op.Reshape(x, shape)
        if g.option("squeeze"):
            return g.op.Squeeze(middle, axes=g.capture("axes"))
        return g.op.Unsqueeze(middle, axes=g.capture("axes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        target: list[int | None] = [*(g.get_ints(m.shape) or ())]
        rank = len(target) + (0 if m.squeeze else len(m.axes))
        axes = {normalized(axis, rank) for axis in m.axes}
        if None in axes or not axes or not target or len(axes) < len(m.axes):  # (1)
            return self.none(m.nodes[1], msg="the axes are missing or out of range")
        if m.squeeze and any(target[axis] != 1 for axis in axes if axis is not None):  # (2)
            return self.none(m.nodes[1], msg="an axis is not known to have size 1")
        rest = iter(range(len(target)))
        if m.squeeze:
            places: list[int | None] = [axis for axis in rest if axis not in axes]
        else:
            places = [None if axis in axes else next(rest) for axis in range(rank)]
        edited = moved_zeros(
            g.try_infer_shape(m.x),
            [(1, None) if p is None else (target[p] or 0, p) for p in places],
        )
        if edited is None:  # (3)
            return self.none(m.nodes[1], msg="a 0 in the target shape would copy another dimension")
        return m.derive(target=np.array(edited, dtype=np.int64))

    def apply_pattern(self, g: PatternRewriter, x: str, target: np.ndarray) -> str:
        return g.op.Reshape(x, target)

    examples = Example.pairs(
        "agraph (float[a,6] x) => (float[a,2,3] y) <int64[4] s = {0, 2, 1, 3}, "
        "int64[1] axes = {-2}> { t = Reshape(x, s) y = Squeeze(t, axes) }",
        "<int64[3] s = {0, 2, 3}> { y = Reshape(x, s) }",
        "agraph (float[a,6] x) => (float[1,b,3] y) <int64[2] s = {-1, 3}, int64[1] axes = {0}> "
        "{ t = Reshape(x, s) y = Unsqueeze(t, axes) }",
        "<int64[3] s = {1, -1, 3}> { y = Reshape(x, s) }",
    )
