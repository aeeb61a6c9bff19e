from xoptim.match import Example, GraphView, Match, PatternBuilder
from xoptim.match.trace import Constant, Symbol

from ._scatter import _LowerScatter


class LowerScatterNDPattern(_LowerScatter):
    """ScatterND(x, i, updates) → Gather(Concat(x, updates), order)

    What: takes each row from the old or from the new ones; joins the indexed axes first where there
    are several.
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
