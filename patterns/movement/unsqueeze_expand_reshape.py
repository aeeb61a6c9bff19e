import numpy as np

from xoptim.facts.dims import Dim
from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._deductions import reshapes_as_inferred

_MAX_INDICES = 4096


class UnsqueezeExpandReshapePattern(EasyPatternOptimization):
    """Reshape(Expand(Unsqueeze(x))) → Gather(x, 0, 0, 1, 1, ...)

    What: repeats each index of an axis several times. Grouped-query attention repeats keys and
    values this way.
    Why: one node instead of three, measured 1.2 to 1.5 times as fast on onnxruntime's CPU provider.
    It runs last, so that patterns that recognize an attention match the three nodes.
    Refuses when:
    1. more than one axis is new or stretched, or the shapes are unknown.
    2. the Reshape does not merge the new axis with one neighbour.
    3. the size of the neighbour or the count is symbolic, or the neighbour is the last axis: copies
       of single elements are not faster.
    4. a computed size may be 0 at run time: Reshape reads a 0 as "copy the size of the operand".
    """

    phase = "target"
    priority = 9
    derives = ("axis", "places")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, stretched: Symbol, shape: Symbol
    ) -> Symbol:
        return g.op.Reshape(
            g.op.Expand(g.op.Unsqueeze(x, axes=g.capture("axes")), stretched), shape, attributes=ANY
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        before, between, after = map(g.try_infer_shape, (m.x, m.nodes[1].output[0], m.outputs[0]))
        if (
            before is None
            or between is None
            or after is None
            or not isinstance(m.axes, list)
            or len(m.axes) != 1
        ):
            # (1)
            return self.none(m.nodes[0], msg="the shapes are unknown, or several axes are inserted")
        if not reshapes_as_inferred(g, m.nodes[2]):  # (4)
            return self.none(
                m.nodes[2], msg="the target shape may contain a 0, which copies an input dimension"
            )
        new = m.axes[0] % (len(before) + 1)
        count: Dim = between[new] if len(between) == len(before) + 1 else 0
        if between != (*before[:new], count, *before[new:]):  # (1)
            return self.none(m.nodes[1], msg="the Expand changes more than the new axis")
        for axis in (new - 1, new):  # (2) (3)
            size = before[axis] if 0 <= axis < len(before) - 1 else None
            if (
                not isinstance(size, int)
                or not isinstance(count, int)
                or not 0 < size * count <= _MAX_INDICES
            ):
                continue
            if after == (*before[:axis], size * count, *before[axis + 1 :]):
                places = np.arange(size * count, dtype=np.int64)
                return m.derive(axis=axis, places=places // count if axis < new else places % size)
        return self.none(
            m.nodes[2], msg="the new axis is not merged with an adjacent axis of static size"
        )

    def apply_pattern(self, g: PatternRewriter, x: str, axis: int, places: np.ndarray) -> str:
        return g.op.Gather(x, places, axis=axis)

    examples = Example.only(
        "agraph (float[b,2,s,4] x) => (float[b,6,s,4] y) <int64[1] k = {2}, int64[5] e = {1, 1, "
        "3, 1, 1}, int64[4] t = {0, 6, -1, 4}> { u = Unsqueeze(x, k) v = Expand(u, e) "
        "y = Reshape(v, t) }",
        "<int64[6] i = {0, 0, 0, 1, 1, 1}> { y = Gather <axis = 1> (x, i) }",
    )
