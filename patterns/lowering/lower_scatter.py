"""Updates at constant positions, by a Gather from the old and the new elements."""

from math import prod

import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Symbol

from ._flat import element_coordinates, flat_positions, reshaped_back, rows_of
from ._lowering import _Lowering


class _LowerScatter(_Lowering):
    """A tensor with elements replaced at constant positions.

    Why: several providers have no kernel of the operator.
    Refuses when:
    1. the axes that are indexed are not static. Or a Reshape to the rows or back needs sizes at run
       time.
    2. a position is out of range, or repeated: the result then depends on the order of threads.
    3. reduction is set: the new numbers are combined with the old ones.
    """

    exactness = "exact"
    min_opset = 16
    derives = ("rows", "added", "order", "back")

    def checked(self, g: GraphView, m: Match, columns: int, coordinates: np.ndarray) -> bool | None:
        shape = g.try_infer_shape(m.x)
        target = rows_of(shape, columns)
        back = None if shape is None else reshaped_back(shape)
        if shape is None or target is None or back is None:  # (1)
            return self.none(m.nodes[0], msg="a shape is not static")
        sizes = [size for size in shape[:columns] if isinstance(size, int)]
        positions = flat_positions(coordinates, sizes)
        if positions is None or len(np.unique(positions)) < positions.size:  # (2)
            return self.none(m.nodes[0], msg="an index is out of range, or repeated")
        order = np.arange(prod(sizes))
        order[positions.reshape(-1)] = prod(sizes) + np.arange(positions.size)
        joined = columns > 1
        added = g.info(m.updates).rank != len(target)
        return m.derive(
            rows=target if joined else None,
            added=[positions.size, *target[1:]] if joined or added else None,
            order=order,
            back=back if joined else None,
        )

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        updates: str,
        rows: list[int] | None,
        added: list[int] | None,
        order: np.ndarray,
        back: list[int] | None,
    ) -> str:
        old = g.op.Reshape(x, shape=rows) if rows else x
        new = g.op.Reshape(updates, shape=added) if added else updates
        result = g.op.Gather(g.op.Concat(old, new, axis=0), order)
        return g.op.Reshape(result, shape=back) if back else result


class LowerScatterNDPattern(_LowerScatter):
    """ScatterND(x, i, updates) → Gather(Concat(x, updates), order)

    What: gathers each row from the old or from the new rows. If several axes are indexed, they are
    joined first.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Constant, updates: Symbol) -> Symbol:
        return g.op.ScatterND(x, i, updates, reduction="none")  # (3)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        places = g.get_computed_constant(m.i)
        if places is None or not places.size:  # (1)
            return self.none(m.nodes[0], msg="the indices are not constant")
        return self.checked(g, m, places.shape[-1], places)

    examples = Example.pairs(
        "agraph (float[4,n] x, float[2,n] u) => (float[4,n] y) <int64[2,1] i = {3, 1}> { "
        "y = ScatterND(x, i, u) }",
        "<int64[4] o = {0, 5, 2, 4}> { c = Concat <axis = 0> (x, u) y = Gather(c, o) }",
        "agraph (float[2,3,4] x, float[2,4] u) "
        "=> (float[2,3,4] y) <int64[2,2] i = {0, -1, 1, 0}> { y = ScatterND(x, i, u) }",
        "<int64[2] s = {6, 4}, int64[2] t = {2, 4}, int64[3] b = {2, 3, 4}, int64[6] o = {0, 1, "
        "6, 7, 4, 5}> { p = Reshape(x, s) q = Reshape(u, t) c = Concat <axis = 0> (p, q) "
        "r = Gather(c, o) y = Reshape(r, b) }",
    )


class LowerScatterElementsPattern(_LowerScatter):
    """ScatterElements(x, i, updates) → Reshape(Gather(Concat(Reshape(x), Reshape(updates)), order))

    What: joins all axes, and gathers each element from the old or from the new elements.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Constant, updates: Symbol) -> Symbol:
        return g.op.ScatterElements(
            x,
            i,
            updates,
            axis=g.capture("axis"),
            reduction="none",  # (3)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        places, shape = g.get_computed_constant(m.i), g.static_shape(m.x)
        if places is None or not places.size or not shape or places.ndim != len(shape):  # (1)
            return self.none(
                m.nodes[0], msg="the indices are not constant, or a shape is not static"
            )
        coordinates = element_coordinates(places, m.axis % len(shape))
        return self.checked(g, m, len(shape), coordinates)

    examples = Example.pairs(
        "agraph (float[2,3] x, float[2,1] u) => (float[2,3] y) <int64[2,1] i = {2, -3}> "
        "{ y = ScatterElements <axis = 1> (x, i, u) }",
        "<int64[1] s = {6}, int64[1] t = {2}, int64[2] b = {2, 3}, int64[6] o = {0, 1, 6, 7, 4, "
        "5}> { p = Reshape(x, s) q = Reshape(u, t) c = Concat <axis = 0> (p, q) r = Gather(c, o) "
        "y = Reshape(r, b) }",
        "agraph (int64[4] x, int64[2] u) => (int64[4] y) <int64[2] i = {2, 0}> { "
        "y = ScatterElements(x, i, u) }",
        "<int64[4] o = {5, 1, 4, 3}> { c = Concat <axis = 0> (x, u) y = Gather(c, o) }",
    )
