from typing import Final

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._grids import counted_from_end
from .._nodes import is_op
from .._shapes import MIRRORED

_MIN_DIFFERENCES: Final = {"Greater": 1, "GreaterOrEqual": 0}
"""The smallest difference, column minus row, for which column > row or column >= row holds."""
_MAX_DIFFERENCES: Final = {"Less": -1, "LessOrEqual": 0}
"""The largest difference, column minus row, for which column < row or column <= row holds."""


class TriluMulPattern(PatternOptimization):
    """Trilu(x, k) · Cast(column > row) → Trilu(x, k), if column > row wherever Trilu keeps x

    What: drops a mask that is 1 inside the triangle. Outside, the product is 0 anyway.
    Why: saves a Cast, a comparison and a Mul of full size. torch computes the mask of a decoder
    twice.
    Refuses when:
    1. the operands are not a Trilu and a comparison of column and row indices, which count from 0.
    2. the shapes are not known to be equal.
    3. the triangle is not known to lie inside the mask.
    """

    anchors = ("Mul",)
    near = ("Trilu",)
    min_opset = 14

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        for name, mask in (tuple(node.input), tuple(node.input)[::-1]):
            triangle, cast = g.node_before(name), g.node_before(mask)
            if (
                triangle is None
                or cast is None
                or not is_op(triangle, "Trilu")
                or not is_op(cast, "Cast")
            ):
                continue
            comparison = g.node_before(cast.input[0])
            operator = self._column_row_comparison(g, comparison)
            if operator is None:  # (1)
                return self.none(cast, msg="the mask is not a comparison of row and column indices")
            # (2)
            if not g.same_shape(name, mask) or g.info(name).rank != g.info(node.output[0]).rank:
                return self.none(node, msg="the shapes are not known to be equal")
            k = (
                g.get_constant_scalar(triangle.input[1])
                if triangle.input[1:] and triangle.input[1]
                else 0
            )
            is_upper = g.get_attribute(triangle, "upper", 1)
            bound = (_MIN_DIFFERENCES if is_upper else _MAX_DIFFERENCES).get(operator)
            # (3)
            if not isinstance(k, int) or bound is None or (k < bound if is_upper else k > bound):
                return self.none(triangle, msg="the triangle is not known to lie inside the mask")
            return MatchResult(self, [triangle, comparison, cast, node], self._without_mask)
        return self.none(node, msg="the operands are not a Trilu and a mask")  # (1)

    def _without_mask(
        self, g: PatternRewriter, triangle: Node, comparison: Node, cast: Node, node: Node
    ) -> list[Node]:
        nodes = [] if g.is_used_only_by(cast.output[0], node) else [comparison, cast]
        if not nodes and not g.is_used_only_by(comparison.output[0], cast):
            nodes = [comparison]
        return [triangle, *nodes, g.make_node("Identity", triangle.output[:1], node.output)]

    @staticmethod
    def _column_row_comparison(g: GraphView, node: Node | None) -> str | None:
        """The operator with which a node compares column indices to row indices, or ``None``."""
        if node is None or node.op_type not in MIRRORED or node.domain:
            return None
        operators: dict[object, str] = {(-1, -2): node.op_type, (-2, -1): MIRRORED[node.op_type]}
        axes = tuple(counted_from_end(g, name, node.output[0]) for name in node.input)
        return operators.get(axes)

    examples = Example.pairs(
        "agraph (float[n,n] x, bool[n] z) "
        "=> (float[n,n] y) <int64 o = {0}, int64 e = {1}, int64[1] k = {1}> { s = Size(z) "
        "r = Range(o, s, e) c = Unsqueeze(r, k) b = Greater(r, c) m = Cast <to = 1> (b) "
        "t = Trilu(x, e) y = Mul(t, m) }",
        "<int64 e = {1}> { y = Trilu(x, e) }",
        "agraph (float[n,n] x, bool[n] z) "
        "=> (float[n,n] y) <int64 o = {0}, int64 e = {1}, int64[1] k = {1}> { s = Size(z) "
        "r = Range(o, s, e) c = Unsqueeze(r, k) b = GreaterOrEqual(c, r) m = Cast <to = 1> (b) "
        "t = Trilu <upper = 0> (x) y = Mul(m, t) }",
        "{ y = Trilu <upper = 0> (x) }",
    )
