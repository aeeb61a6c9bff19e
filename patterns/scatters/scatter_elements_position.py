from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, Symbol

from .._nodes import axis_of, size_along
from .._shapes import uniform_value


class ScatterElementsPositionPattern(EasyPatternOptimization):
    """ScatterElements(x, 0, u) → u, if the axis has size 1

    What: reads the updates directly, since they replace all of x.
    Why: saves a copy. torch's exporters write ``out[:, :, i] = y`` with ScatterElements. In a
    decode step of linear attention, this axis has size 1.
    Refuses when:
    1. the axis is not known to have size 1, or the indices are not known to be 0.
    2. the updates are not known to have the shape of x, or reduction is set.
    """

    min_opset = 11
    before = {"ScatterElementsExpand": "it removes the ScatterElements"}

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol, u: Symbol) -> Symbol:
        return g.op.ScatterElements(x, i, u, axis=g.capture("axis"), reduction="none")  # (2)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, index = m.nodes[0], uniform_value(g, m.i)
        is_single = size_along(g, m.x, axis_of(g, node)) == 1
        if not is_single or index is None or index not in (0, -1):  # (1)
            return self.none(node, msg="the axis has other positions, or the indices are unknown")
        # (2)
        return g.same_shape(m.x, m.u) or self.none(node, msg="the updates have another shape")

    def apply_pattern(self, g: object, u: str) -> str:
        return u

    examples = Example.pairs(
        "agraph (float[a,1,b] x, float[a,1,b] u) => (float[a,1,b] y, int64[3] s) "
        "<int64[1] o = {0}> { s = Shape(u) i = Expand(o, s) "
        "t = ScatterElements <axis = 1> (x, i, u) y = Neg(t) }",
        "{ s = Shape(u) y = Neg(u) }",
        "agraph (float[3,1] x, float[3,1] u) => (float[3,1] y) <int64[3,1] i = {-1, -1, -1}> { "
        "t = ScatterElements <axis = -1> (x, i, u) y = Neg(t) }",
        "{ y = Neg(u) }",
    )
