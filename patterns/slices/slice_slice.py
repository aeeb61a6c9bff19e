from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._nodes import is_op
from .._selections import far
from ._spans import Span, composed, spans_by_axis

_KEYS = ("starts", "ends", "axes", "steps")


class SliceSlicePattern(EasyPatternOptimization):
    """Slice(Slice(x, ...), ...) → Slice(x, both)

    What: writes one Slice, with the axes of both. The spans of a common axis are composed.
    Why: each Slice copies its result.
    Refuses when:
    1. a bound or a step is not constant, or an axis is negative and the rank unknown.
    2. both slice one axis of dynamic size, and the composed span depends on this size.
    3. the intermediate result has consumers other than Slice.
    """

    interior = "keep"
    derives = ("spans",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        middle = g.op.Slice(
            x, **{key: g.capture(f"{key}_1", optional=key in ("axes", "steps")) for key in _KEYS}
        )
        return g.op.Slice(
            middle,
            **{key: g.capture(f"{key}_2", optional=key in ("axes", "steps")) for key in _KEYS},
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        middle = m.nodes[0].output[0]
        consumers = g.next_nodes(middle)
        # (3)
        if not g.is_used_only_by(middle, *consumers) or not all(
            is_op(consumer, "Slice") for consumer in consumers
        ):
            return self.none(m.nodes[0], msg="the first Slice has consumers other than Slice")
        shape = g.try_infer_shape(m.x)
        first, second = (spans_by_axis(shape, *(m[f"{key}_{i}"] for key in _KEYS)) for i in (1, 2))
        if first is None or second is None:  # (1)
            return self.none(
                m.nodes[1],
                msg="a bound is not constant, or an axis is negative and the rank unknown",
            )
        for axis, span in second.items():
            merged = (
                composed(None if shape is None else shape[axis], first[axis], span, far(g))
                if axis in first
                else span
            )
            if merged is None:  # (2)
                return self.none(
                    m.nodes[1], msg="the combined bounds depend on the size of the axis"
                )
            first[axis] = merged
        return m.derive(spans=first)

    def apply_pattern(self, g: PatternRewriter, x: str, spans: dict[int, Span]) -> str:
        starts, ends, steps = zip(*spans.values(), strict=True)
        return g.op.Slice(
            x,
            starts=starts,
            ends=ends,
            axes=tuple(spans),
            steps=None if set(steps) == {1} else steps,
        )

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[c,d] y) <int64[1] i = {1}, int64[1] j = {5}, "
        "int64[1] k = {0}, int64[1] l = {-1}> { t = Slice(x, i, j, k) y = Slice(t, k, l, i) }",
        "<int64[2] s = {1, 0}, int64[2] e = {5, -1}, int64[2] axes = {0, 1}> { "
        "y = Slice(x, s, e, axes) }",
        "agraph (float[a,b] x) => (float[a,c] y) <int64[1] i = {2}, int64[1] j = {8}, "
        "int64[1] k = {1}, int64[1] l = {4}> { t = Slice(x, i, j, k) y = Slice(t, k, l, k) }",
        "<int64[1] s = {3}, int64[1] e = {6}, int64[1] axes = {1}> { y = Slice(x, s, e, axes) }",
    )
