from xoptim.match import Example, GraphView, Match, PatternBuilder
from xoptim.match.trace import Constant, Symbol

from ._flat import element_coordinates
from ._scatter import _LowerScatter


class LowerScatterElementsPattern(_LowerScatter):
    """ScatterElements(x, i, updates) → Reshape(Gather(Concat(Reshape(x), Reshape(updates)), order))

    What: joins all axes, and takes each element from the old or from the new ones.
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
        if places is None or not places.size or not shape:  # (1)
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
