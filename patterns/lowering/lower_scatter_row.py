import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol, runs

from ._lowering import _Lowering


class LowerScatterRowPattern(_Lowering):
    """ScatterND(x, i, row) → Where(Equal([0, 1, ...], i), row, x)

    What: replaces the row at a position that is computed at run time, such as the next row of a
    cache. A negative position counts from the end.
    Why: several providers have no kernel of ScatterND.
    Refuses when:
    1. there is more than one new row, or a size is not known.
    2. the type is unknown, or the provider has no kernel of Where for the type.
    3. reduction is set: the new numbers are combined with the old ones.
    """

    exactness = "rounding"
    min_opset = 16
    priority = 1
    derives = ("rows",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol, row: Symbol) -> Symbol:
        return g.op.ScatterND(x, i, row, reduction="none")  # (3)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, length = g.try_infer_shape(m.x), None
        if shape:
            length = shape[0]
        is_one = g.try_infer_shape(m.i) == (1, 1)
        if shape is None or not is_one or not isinstance(length, int) or not length:  # (1)
            return self.none(m.nodes[0], msg="the update is not one row, or a dimension is unknown")
        if g.try_infer_shape(m.row) != (1, *shape[1:]):  # (1)
            return self.none(m.nodes[0], msg="the update is not one row, or a dimension is unknown")
        if not g.try_infer_type(m.x) or not runs(g, "Where", m.x):  # (2)
            return self.none(m.nodes[0], msg="no kernel of Where for this element type")
        rows = np.arange(length).reshape([-1] + [1] * (len(shape) - 1))
        return m.derive(rows=rows)

    def apply_pattern(self, g: PatternRewriter, x: str, i: str, row: str, rows: np.ndarray) -> str:
        place = g.op.Reshape(i, shape=[1])
        counted = g.op.Where(g.op.Less(place, 0), g.op.Add(place, len(rows)), place)
        return g.op.Where(g.op.Equal(rows, counted), row, x)

    examples = Example.pairs(
        "agraph (float[3,n] x, int64[1,1] i, float[1,n] r) => (float[3,n] y) { "
        "y = ScatterND(x, i, r) }",
        "<int64[1] s = {1}, int64 o = {0}, int64 l = {3}, int64[3,1] a = {0, 1, 2}> { "
        "p = Reshape(i, s) b = Less(p, o) c = Add(p, l) w = Where(b, c, p) e = Equal(a, w) "
        "y = Where(e, r, x) }",
        ranges=(("i", -3, 2),),
    )
