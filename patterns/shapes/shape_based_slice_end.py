import numpy as np

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.operators.slicing import LAST_END


class ShapeBasedSliceEndPattern(EasyPatternOptimization):
    """Slice(x, start, size of x) → Slice(x, start, end)

    What: writes the largest integer as the end, if the model computes it as the size of x.
    Why: the nodes that compute the end become unused.
    Refuses when:
    1. the ends are constant already, or not all known to be numbers or the size of their axis.
    2. the axes are not constant, or a step is not known to be positive.
    """

    min_opset = 10
    derives = ("last",)

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        starts: Symbol,
        ends: Symbol,
        axes: Optional,
        steps: Optional,
    ) -> Symbol:
        return g.op.Slice(x, starts, ends, axes, steps)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, ends = g.try_infer_shape(m.x), g.info(m.ends).data
        # (1)
        if shape is None or ends is None or g.is_constant(m.ends) or g.try_infer_type(m.ends) != 7:
            return self.none(m.nodes[0], msg="the ends are constant already, or unknown")
        axes = g.get_ints(m.axes) if m.axes else list(range(len(ends)))
        steps = g.get_ints(m.steps) if m.steps else [1]
        if axes is None or steps is None or len(axes) != len(ends) or min(steps) < 1:  # (2)
            return self.none(
                m.nodes[0], msg="the axes are unknown, or a step is not known to be positive"
            )
        is_full = [end == shape[axis] for end, axis in zip(ends, axes, strict=True)]
        if not all(
            full or isinstance(end, int) for full, end in zip(is_full, ends, strict=True)
        ):  # (1)
            return self.none(m.nodes[0], msg="an end is neither a number nor the size of its axis")
        return m.derive(
            last=[LAST_END if full else end for full, end in zip(is_full, ends, strict=True)]
        )

    def apply_pattern(
        self, g: PatternRewriter, x: str, starts: str, last: list[int], axes: str, steps: str
    ) -> str:
        return g.op.Slice(x, starts, np.array(last, dtype=np.int64), axes, steps)

    examples = Example.only(
        "agraph (float[a,b] x, bool[b] z) => (float[a,c] y) <int64[1] one = {1}, int64[1] k = {0}> "
        "{ n = Size(z) e = Unsqueeze(n, k) y = Slice(x, one, e, one) }",
        "<int64[1] one = {1}, int64[1] e = {9223372036854775807}> { y = Slice(x, one, e, one) }",
    )
