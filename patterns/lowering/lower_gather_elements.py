from math import prod

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._flat import element_coordinates, flat_positions, strides_of
from ._lowering import _Lowering


class LowerGatherElementsPattern(_Lowering):
    """GatherElements(x, i) → Gather(Reshape(x), i · stride + place)

    What: joins all axes, and takes the elements by their positions in the joined axis: a constant
    where ``i`` is one.
    Why: several providers have no kernel of GatherElements.
    Refuses when:
    1. a shape is not static, or a tensor is empty.
    2. a constant position is out of range.
    """

    exactness = "exact"
    min_opset = 11
    derives = ("sizes", "taken", "place", "positions")

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        return g.op.GatherElements(x, i, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        sizes, taken = g.static_shape(m.x), g.static_shape(m.i)
        if not sizes or not taken or not prod(sizes) or not prod(taken):  # (1)
            return self.none(m.nodes[0], msg="a shape is not static, or has a dimension of size 0")
        axis, places = m.axis % len(sizes), g.get_computed_constant(m.i)
        if places is None:
            return m.derive(sizes=sizes, taken=taken, place=axis, positions=None)
        positions = flat_positions(element_coordinates(places, axis), sizes)
        if positions is None:  # (2)
            return self.none(m.nodes[0], msg="an index is out of range")
        return m.derive(sizes=sizes, taken=taken, place=axis, positions=positions)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        i: str,
        sizes: tuple[int, ...],
        taken: tuple[int, ...],
        place: int,
        positions: np.ndarray | None,
    ) -> str:
        flat = g.op.Reshape(x, shape=[-1])
        if positions is not None:
            return g.op.Gather(flat, positions)
        # An index that is negative counts from the end of its axis, not of the joined one.
        wide = g.op.Cast(i, to=TensorProto.INT64)
        counted = g.op.Where(g.op.Less(wide, 0), g.op.Add(wide, sizes[place]), wide)
        others = element_coordinates(np.zeros(taken, np.int64), place)
        rest = np.asarray((others * strides_of(sizes)).sum(axis=-1))
        scaled = g.op.Mul(counted, int(strides_of(sizes)[place]))
        return g.op.Gather(flat, g.op.Add(scaled, rest))

    examples = Example.pairs(
        "agraph (float[2,3] x) => (float[2,2] y) <int64[2,2] i = {0, -1, 1, 1}> { "
        "y = GatherElements <axis = 1> (x, i) }",
        "<int64[1] s = {-1}, int64[2,2] p = {0, 2, 4, 4}> { t = Reshape(x, s) y = Gather(t, p) }",
        "agraph (float[2,3] x, int32[1,3] i) => (float[1,3] y) { y = GatherElements(x, i) }",
        "<int64[1] s = {-1}, int64 o = {0}, int64 n = {2}, int64 k = {3}, int64[1,3] q = {0, 1, "
        "2}> { t = Reshape(x, s) c = Cast <to = 7> (i) l = Less(c, o) e = Add(c, n) "
        "w = Where(l, e, c) m = Mul(w, k) a = Add(m, q) y = Gather(t, a) }",
        ranges=(("i", -2, 1),),
    )
