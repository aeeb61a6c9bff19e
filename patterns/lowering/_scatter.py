"""Elements replaced at constant positions, by Gather from the old and the new ones."""

from math import prod

import numpy as np

from xoptim.match import GraphView, Match, PatternRewriter

from ._flat import flat_positions, reshaped_back, rows_of
from ._lowering import _Lowering


class _LowerScatter(_Lowering):
    """A tensor with elements replaced at constant positions.

    Why: several providers have no kernel of the operator, which also depends on the order of
    threads where positions repeat.
    Refuses when:
    1. the axes that are indexed are not static, or a Reshape to the rows or back needs sizes at run
       time.
    2. a position is out of range, or repeated.
    3. the numbers are added or otherwise combined with the old ones.
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
