import numpy as np

from xoptim.facts.dims import fresh
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

from .._deductions import merged_target
from ._movement import NEW, axes_after


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
        target = g.get_ints(m.shape) or []
        operator = "Squeeze" if m.squeeze else "Unsqueeze"
        places = axes_after(operator, m.axes, range(len(target)))
        if not target or not m.axes or places is None:  # (1)
            return self.none(m.nodes[1], msg="the axes are missing or out of range")
        if any(size != 1 for place, size in enumerate(target) if place not in places):  # (2)
            return self.none(m.nodes[1], msg="an axis is not known to have size 1")
        source = g.try_infer_shape(m.x) or [fresh() for _ in target]
        sizes = dict(enumerate(source))
        edited = merged_target(
            source,
            [sizes.get(place) for place in places],
            [1 if place == NEW else target[place] for place in places],
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
