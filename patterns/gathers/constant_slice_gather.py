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
    """Gather(t, Slice(i, ...)) → Slice(t[i], ...) for a constant embedding t and constant indices i

    What: looks up the rows of all indices ahead of time, and slices these rows.
    Why: saves a node, and a Slice copies adjacent rows at once. Models with learned position
    embeddings store all position IDs, and slice them to the length of the sequence.
    Refuses when:
    1. the embedding has other consumers, is computed, or is stored in large external data. Or its
       numbers or the indices cannot be computed, or there are more indices than rows: the constant
       would grow.
    2. the axes of the Slice are not constant, or the number of its ends is unknown.
    3. an index is out of range.
    """

    min_opset = 10
    derives = ("rows", "slice_axes")

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
        shape, indices_shape, starts_shape = (
            g.static_shape(m.t),
            g.static_shape(m.i),
            g.static_shape(m.starts),
        )
        if not shape or not indices_shape or not g.is_stored(m.t) or not g.is_exclusive(m.t):  # (1)
            return self.none(
                m.nodes[1],
                msg="the data is computed, in more than 2 GiB of external data, or has other "
                "consumers",
            )
        axis = m.axis % len(shape)
        if math.prod(indices_shape) > shape[axis]:  # (1)
            return self.none(m.nodes[1], msg="the constant would grow")
        # Without the operand ``axes``, a Slice cuts as many first axes as it has starts.
        first_axes = list(range(starts_shape[0])) if starts_shape else None
        axes = g.get_ints(m.axes) if m.axes else first_axes
        if axes is None or starts_shape is None:  # (2)
            return self.none(m.nodes[0], msg="the axes are unknown")
        embedding, indices = g.get_computed_constant(m.t), g.get_computed_constant(m.i)
        if embedding is None or indices is None:  # (1)
            return self.none(m.nodes[1], msg="the data or the indices cannot be computed")
        if ((indices < -shape[axis]) | (indices >= shape[axis])).any():  # (3)
            return self.none(m.nodes[1], msg="an index is out of range")
        slice_axes = np.array(
            [axis + index_axis % len(indices_shape) for index_axis in axes],
            dtype=numpy_dtype(g.try_infer_type(m.starts)),
        )
        return m.derive(rows=np.take(embedding, indices, axis=axis), slice_axes=slice_axes)

    def apply_pattern(
        self, g: PatternRewriter, rows: Array, starts: str, ends: str, slice_axes: Array, steps: str
    ) -> str:
        return g.op.Slice(rows, starts, ends, slice_axes, steps)

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
