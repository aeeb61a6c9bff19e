"""Sums along a tensor full of one number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xoptim.facts.dims import SymbolicDim
from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Scalar,
    Symbol,
)

from .._folding import Array
from .._shapes import uniform_value


class ConstantOfShapeCumSumPattern(EasyPatternOptimization):
    """CumSum(ConstantOfShape(s, 1), k) → Expand([1, 2, 3, ...], s)

    What: counts ahead of time; the number may be moved, cast or resized first.
    Why: positions of images are counted in a mask that hides nothing: DETR and its relatives export this way.
    Refuses when:
    1. the tensor is not known to hold one number only, or it is a constant already.
    2. the size of the axis is not a number up to 4096, or another size does not follow from those of the inputs.
    3. a sum is not exact, so that it would depend on the order.
    """

    min_opset = 13

    def match_pattern(self, g: PatternBuilder, x: Symbol, axis: Scalar) -> Symbol:
        """In any direction."""
        return g.op.CumSum(x, axis, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Sum up along the axis alone."""
        node, axis = m.nodes[0], g.get_constant_scalar(m.axis)
        value, shape = uniform_value(g, m.x), g.try_infer_shape(m.x)
        if value is None or not shape or axis is None or g.is_constant(m.x):  # (1)
            return self.none(node, msg="the tensor is not known to hold one number")
        place = int(axis) % len(shape)
        size = shape[place]
        known = all(not isinstance(dim, SymbolicDim) or not dim.is_anonymous for dim in shape)
        if not isinstance(size, int) or not 0 < size <= 4096 or not known:  # (2)
            return self.none(node, msg="the axis is too long, or a size is unknown")
        line = np.full([size if i == place else 1 for i in range(len(shape))], value)
        sums = g.evaluate(node, [line, np.array(place, np.int64)])
        wide = g.evaluate(node, [line.astype(np.float64), np.array(place, np.int64)])
        if (
            not sums or not wide or not np.array_equal(sums[0].astype(np.float64), wide[0]) or np.abs(wide[0]).max() >= 2**52
        ):  # (3)
            return self.none(node, msg="a sum is not exact")
        return m.derive(sums=sums[0])

    def apply_pattern(self, g: PatternRewriter, x: str, sums: Array) -> str:
        """The other sizes are those of the tensor."""
        return g.op.Expand(sums, g.op.Shape(x))

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Rows of a batch."""
        return (
            Example(
                "agraph (float[b,3,2] x) => (float[b,3,2] y) <int64 k = {1}> "
                "{ s = Shape(x) c = ConstantOfShape <value = float[1] {1}> (s) y = CumSum(c, k) }",
                "agraph (float[b,3,2] x) => (float[b,3,2] y) <float[1,3,1] n = {1, 2, 3}> "
                "{ s = Shape(x) c = ConstantOfShape <value = float[1] {1}> (s) t = Shape(c) y = Expand(n, t) }",
            ),
        )
