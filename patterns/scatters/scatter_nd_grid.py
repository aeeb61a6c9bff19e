from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._grids import grid_of
from .._nodes import replaced_by


class ScatterNDGridPattern(PatternOptimization):
    """ScatterND(x, all indices of x, updates) → updates

    What: recognizes indices that Range, Expand and Concat compute, up to the sizes of x.
    Why: the updates need not be copied. torch exports assignments to a whole tensor, such as
    ``cache[:] = x``, this way.
    Refuses when:
    1. the indices are not known to enumerate the first axes in order, or reduction is set.
    2. the shapes of x and the updates are not known to be equal.
    """

    anchors = ("ScatterND",)
    min_opset = 11

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        grid, shape = grid_of(g, node.input[1]), g.try_infer_shape(node.input[0])
        reduces = g.get_attribute(node, "reduction", "none") != "none"
        if grid is None or shape is None or shape[: len(grid.axes)] != grid.sizes or reduces:  # (1)
            return self.none(
                node,
                msg="the indices are not known to enumerate the first axes, or reduction is set",
            )
        if not g.same_shape(node.input[0], node.input[2]):  # (2)
            return self.none(node, msg="the updates are not known to have the shape of the data")
        return MatchResult(self, [node], replaced_by("Identity", node.input[2]))

    examples = Example.pairs(
        "agraph (float[a,b] x, float[a,b] u) "
        "=> (float[a,b] y) <int64 o = {0}, int64 e = {1}, int64[1] k = {-1}> { s = Shape(x) "
        "n = Gather(s, o) r = Range(o, n, e) i = Unsqueeze(r, k) t = ScatterND(x, i, u) "
        "y = Neg(t) }",
        "{ y = Neg(u) }",
        "agraph (float[a,1,b] x, float[a,1,b] u) "
        "=> (float[a,1,b] y) <int64 o = {0}, int64 e = {1}, int64[1] k = {-1}> { "
        "s = Shape <end = 2> (x) n = Gather(s, o) r = Range(o, n, e) v = Unsqueeze(r, k) "
        "i = Expand(v, s) f = Unsqueeze(i, k) z = Expand(o, s) h = Unsqueeze(z, k) "
        "t = Concat <axis = -1> (f, h) w = ScatterND(x, t, u) y = Neg(w) }",
        "{ y = Neg(u) }",
    )
