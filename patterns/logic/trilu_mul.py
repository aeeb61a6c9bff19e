from typing import Final

from xoptim.match import ANY, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._grids import counted_from_end
from .._nodes import is_op
from .._shapes import MIRRORED

_FIRST: Final = {"Greater": 1, "GreaterOrEqual": 0}
"""The least difference, column minus row, for which a comparison of the column with the row holds."""
_LAST: Final = {"Less": -1, "LessOrEqual": 0}
"""The largest one."""


class TriluMulPattern(EasyPatternOptimization):
    """Trilu(x, k) · Cast(column > row) → Trilu(x, k), when the comparison holds wherever Trilu keeps x

    What: drops a mask of positions, which Range counts, that is 1 inside of the triangle; outside, the product is 0 anyway.
    Why: saves a comparison, a conversion and a product of full size: torch computes the mask of a decoder twice.
    Refuses when:
    1. the operands are not a triangle and a comparison of columns with rows, counted from 0.
    2. the shapes are not known to be equal.
    3. the triangle is not known to lie inside of the mask.
    """

    min_opset = 14

    def match_pattern(self, g: PatternBuilder, triangle: Symbol, a: Symbol, b: Symbol) -> Symbol:
        comparison = getattr(g.op, g.choice("comparison", *MIRRORED))(a, b)
        return g.op.Mul(triangle, g.keep(g.op.Cast(g.keep(comparison), attributes=ANY)))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        (product, cast, _), trilu = m.nodes, g.node_before(m.triangle)
        # How the comparison compares the column with the row.
        operators: dict[object, str] = {(-1, -2): m.comparison, (-2, -1): MIRRORED[m.comparison]}
        operator = operators.get((counted_from_end(g, m.a), counted_from_end(g, m.b)))
        if not is_op(trilu, "Trilu") or operator is None:  # (1)
            return self.none(cast, msg="not a triangle and a comparison of columns with rows")
        if not g.same_shape(m.triangle, cast.output[0]) or g.info(m.triangle).rank != g.info(m.outputs[0]).rank:  # (2)
            return self.none(product, msg="the shapes are not known to be equal")
        k = g.get_constant_scalar(trilu.input[1]) if trilu.input[1:] and trilu.input[1] else 0
        is_upper = g.get_attribute(trilu, "upper", 1)
        bound = (_FIRST if is_upper else _LAST).get(operator)
        if not isinstance(k, int) or bound is None or (k < bound if is_upper else k > bound):  # (3)
            return self.none(trilu, msg="the triangle is larger than the mask")
        return True

    def apply_pattern(self, g: PatternRewriter, triangle: str) -> str:
        return triangle

    examples = Example.pairs(
        "agraph (float[n,n] x, bool[n] z) => (float[n,n] y) <int64 o = {0}, int64 e = {1}, int64[1] k = {1}> { s = Size(z) "
        "r = Range(o, s, e) c = Unsqueeze(r, k) b = Greater(r, c) m = Cast <to = 1> (b) t = Trilu(x, e) y = Mul(t, m) }",
        "<int64 e = {1}> { y = Trilu(x, e) }",
        "agraph (float[n,n] x, bool[n] z) => (float[n,n] y) <int64 o = {0}, int64 e = {1}, int64[1] k = {1}> "
        "{ s = Size(z) r = Range(o, s, e) c = Unsqueeze(r, k) b = GreaterOrEqual(c, r) m = Cast <to = 1> (b) "
        "t = Trilu <upper = 0> (x) y = Mul(m, t) }",
        "{ y = Trilu <upper = 0> (x) }",
    )
