import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._flat import flat_positions, rows_of, strides_of
from ._lowering import _Lowering


class LowerGatherNDPattern(_Lowering):
    """GatherND(x, i) → Gather(Reshape(x), positions)

    What: joins the axes that ``i`` indexes, also in com.microsoft.GatherND, and takes rows by their
    positions in the joined axis: a constant where ``i`` is one.
    Why: several providers have no kernel of GatherND.
    Refuses when:
    1. there are batch axes.
    2. the indexed axes are not static, the number of columns is unknown, or a Reshape to the rows
       needs sizes at run time.
    3. a constant position is out of range.
    """

    exactness = "exact"
    min_opset = 13
    derives = ("sizes", "target", "positions")

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        if g.option("microsoft"):
            return g.op.GatherND(x, i, domain="com.microsoft")
        return g.op.GatherND(x, i, batch_dims=0)  # (1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, taken = g.try_infer_shape(m.x), g.try_infer_shape(m.i)
        columns = taken[-1] if taken else None
        if shape is None or not isinstance(columns, int) or not columns:  # (2)
            return self.none(m.nodes[0], msg="the last dimension of the indices is unknown")
        target = rows_of(shape, columns)
        if target is None:  # (2)
            return self.none(m.nodes[0], msg="the indexed axes are not static")
        sizes = [size for size in shape[:columns] if isinstance(size, int)]
        places = g.get_computed_constant(m.i)
        if places is None:
            return m.derive(sizes=sizes, target=target, positions=None)
        positions = flat_positions(places, sizes)
        if positions is None:  # (3)
            return self.none(m.nodes[0], msg="an index is out of range")
        return m.derive(sizes=sizes, target=target, positions=positions)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        i: str,
        sizes: list[int],
        target: list[int],
        positions: np.ndarray | None,
    ) -> str:
        rows = x if len(sizes) == 1 else g.op.Reshape(x, shape=target)
        if positions is not None:
            return g.op.Gather(rows, positions)
        if len(sizes) == 1:
            return g.op.Gather(rows, g.op.Squeeze(i, axes=[-1]))
        # An index that is negative counts from the end of its axis, not of the joined one.
        ends = np.array(sizes, np.int64)
        counted = g.op.Where(g.op.Less(i, 0), g.op.Add(i, ends), i)
        scaled = g.op.Mul(counted, strides_of(sizes))
        return g.op.Gather(rows, g.op.ReduceSum(scaled, axes=[-1], keepdims=0))

    examples = Example.pairs(
        "agraph (float[2,3,n] x) => (float[2,n] y) <int64[2,2] i = {0, -1, 1, 1}> { "
        "y = GatherND(x, i) }",
        "<int64[2] s = {6, -1}, int64[2] p = {2, 4}> { t = Reshape(x, s) y = Gather(t, p) }",
        "agraph (float[2,3] x, int64[n,2] i) => (float[n] y) { y = GatherND(x, i) }",
        "<int64[1] s = {6}, int64 o = {0}, int64[2] n = {2, 3}, int64[2] k = {3, 1}, "
        "int64[1] l = {-1}> { t = Reshape(x, s) c = Less(i, o) e = Add(i, n) w = Where(c, e, i) "
        "m = Mul(w, k) a = ReduceSum <keepdims = 0> (m, l) y = Gather(t, a) }",
        "agraph (float[2,3] x, int64[n,1] i) => (float[n,3] y) { y = GatherND(x, i) }",
        "<int64[1] l = {-1}> { t = Squeeze(i, l) y = Gather(x, t) }",
        "agraph (float[2,n] x) => (float[2,n] y) <int64[2,1] i = {1, 0}> { "
        "y = com.microsoft.GatherND(x, i) }",
        "<int64[2] i = {1, 0}> { y = Gather(x, i) }",
        ranges=(("i", -2, 1),),
    )
