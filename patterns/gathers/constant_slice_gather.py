import math

import numpy as np

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.trace import Constant, Optional, Symbol

from .._folding import Array


class ConstantSliceGatherPattern(EasyPatternOptimization):
    """Gather(t, Slice(i, ...)) → Slice(t[i], ...) for a constant table t and constant positions i

    What: looks all positions up ahead of time, and takes the part of the rows.
    Why: saves a node, and a Slice copies rows that follow each other at once. Models that learn a
    row for each position keep a constant with the numbers of all positions, and take as many of
    them as there are words.
    Refuses when:
    1. the table is used elsewhere, computed or in an external file, or would grow.
    2. the axes are not constant, or the number of ends is unknown.
    3. a position lies outside of the table.
    """

    min_opset = 10
    derives = ("rows", "places")

    def match_pattern(
        self,
        g: PatternBuilder,
        t: Constant,
        i: Constant,
        starts: Symbol,
        ends: Symbol,
        axes: Optional,
        steps: Optional,
    ) -> Symbol:
        return g.op.Gather(t, g.op.Slice(i, starts, ends, axes, steps), axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, positions, count = g.static_shape(m.t), g.static_shape(m.i), g.static_shape(m.starts)
        if not shape or not positions or not g.is_stored(m.t) or not g.is_exclusive(m.t):  # (1)
            return self.none(
                m.nodes[1], msg="the data is computed, in external data, or has other consumers"
            )
        axis = m.axis % len(shape)
        if math.prod(positions) > shape[axis]:  # (1)
            return self.none(m.nodes[1], msg="the constant would grow")
        axes = g.get_ints(m.axes) if m.axes else list(range(count[0])) if count else None
        if axes is None or count is None:  # (2)
            return self.none(m.nodes[0], msg="the axes are unknown")
        table, indices = g.get_computed_constant(m.t), g.get_computed_constant(m.i)
        # (3)
        if (
            table is None
            or indices is None
            or ((indices < -shape[axis]) | (indices >= shape[axis])).any()
        ):
            return self.none(m.nodes[1], msg="an index is out of range")
        places = np.array(
            [axis + each % len(positions) for each in axes],
            dtype=numpy_dtype(g.try_infer_type(m.starts)),
        )
        return m.derive(rows=np.take(table, indices, axis=axis), places=places)

    def apply_pattern(
        self, g: PatternRewriter, rows: Array, starts: str, ends: str, places: Array, steps: str
    ) -> str:
        return g.op.Slice(rows, starts, ends, places, steps)

    examples = Example.pairs(
        "agraph (bool[b] x) => (float[1,c,2] y) <float[4,2] t = {1, 2, 3, 4, 5, 6, 7, 8}, "
        "int64[1,3] i = {2, 3, 1}, int64[1] o = {0}, int64[1] e = {1}> { n = Shape(x) "
        "p = Slice(i, o, n, e) y = Gather(t, p) }",
        "<float[1,3,2] t = {5, 6, 7, 8, 3, 4}, int64[1] o = {0}, int64[1] e = {1}> { n = Shape(x) "
        "y = Slice(t, o, n, e) }",
        "agraph (bool[b] x) => (float[2,c] y) <float[2,3] t = {1, 2, 3, 4, 5, 6}, "
        "int64[2] i = {2, -3}, int64[1] o = {0}> { n = Shape(x) p = Slice(i, o, n) "
        "y = Gather <axis = 1> (t, p) }",
        "<float[2,2] t = {3, 1, 6, 4}, int64[1] o = {0}, int64[1] e = {1}> { n = Shape(x) "
        "y = Slice(t, o, n, e) }",
    )
