from collections.abc import Sequence
from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._deductions import reshapes_as_inferred
from .._nodes import is_op
from .._operators import BROADCASTING
from ._movement import VIEWS


class MovementsElementwisePattern(PatternOptimization):
    """Reshape(x) + Reshape(z) → Reshape(x + z)

    What: combines the tensors first, and moves the result. The same for Squeeze, Unsqueeze and
    Flatten, and for all broadcasting operators. Operands may also be scalar constants.
    Why: one node fewer, or more if a following node moves the result back.
    Refuses when:
    1. fewer than two operands are moved. Or another operand is not a scalar constant with at most
       as many axes as the tensors.
    2. another node reads a moved operand, whose movement would stay.
    3. the tensors are not known to have equal shapes before and after the movement, or to get the
       same new axes.
    4. a computed size may be 0 at run time: Reshape reads a 0 as "copy the size of the operand".
    """

    anchors = BROADCASTING
    near = VIEWS
    min_opset = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        moves = {
            place: n
            for place, name in enumerate(node.input)
            if is_op(n := g.node_before(name), *VIEWS)
        }
        if len(moves) < 2:
            return self.none(
                node, msg="fewer than two operands come from a Reshape, Transpose, ..."
            )
        if not all(g.is_used_only_by(node.input[place], node) for place in moves):  # (2)
            return self.none(node, msg="an operand has other consumers")
        nodes = list(dict.fromkeys(moves.values()))
        ranks = {g.info(n.input[0]).rank for n in nodes}
        rank = ranks.pop()
        # (3)
        if (
            ranks
            or rank is None
            or not (self._insert_alike(g, nodes) or self._have_equal_shapes(g, nodes))
        ):
            return self.none(
                node, msg="the operands are not known to be reshaped or transposed alike"
            )
        unmoved = [name for index, name in enumerate(node.input) if index not in moves]
        sizes = [g.info(name).rank for name in unmoved if g.get_constant_scalar(name) is not None]
        if len(sizes) < len(unmoved) or any(size is None or size > rank for size in sizes):  # (1)
            return self.none(node, msg="another operand is not a scalar")
        sources = [
            moves[index].input[0] if index in moves else name
            for index, name in enumerate(node.input)
        ]
        return MatchResult(self, [*nodes, node], partial(self._swapped, sources))

    @staticmethod
    def _insert_alike(g: GraphView, moves: Sequence[Node]) -> bool:
        """Whether all movements are Unsqueezes with the same axes.

        The shapes of the tensors may then differ, if their ranks are equal.
        """
        if not all(is_op(node, "Unsqueeze") for node in moves):
            return False
        axes = [g.get_argument(node, "axes") for node in moves]
        return isinstance(axes[0], list) and all(numbers == axes[0] for numbers in axes)

    @staticmethod
    def _have_equal_shapes(g: GraphView, moves: Sequence[Node]) -> bool:
        first = moves[0]
        for node in moves:
            if not g.same_shape(node.input[0], first.input[0]) or not g.same_shape(
                node.output[0], first.output[0]
            ):
                return False
        return all(reshapes_as_inferred(g, node) for node in moves)  # (4)

    def _swapped(self, sources: Sequence[str], g: PatternRewriter, *nodes: Node) -> list[Node]:
        move, node = nodes[0], nodes[-1]
        combined = g.make_node(node.op_type, sources, **node.attribute)
        return [
            combined,
            g.make_node(
                move.op_type, [combined.output[0], *move.input[1:]], node.output, **move.attribute
            ),
        ]

    examples = Example.pairs(
        "agraph (float[a,b,4] x, float[a,b,4] z) => (float[c,4] y) <int64[2] s = {-1, 4}> "
        "{ p = Reshape(x, s) q = Reshape(z, s) y = Add(p, q) }",
        "<int64[2] s = {-1, 4}> { t = Add(x, z) y = Reshape(t, s) }",
        "agraph (float[a,1] x, float[1,b] z) => (float[a,1,b] y) <int64[1] k = {1}> "
        "{ p = Unsqueeze(x, k) q = Unsqueeze(z, k) y = Mul(p, q) }",
        "<int64[1] k = {1}> { t = Mul(x, z) y = Unsqueeze(t, k) }",
        "agraph (bool[a,1,b] x, float[a,1,b] z) "
        "=> (float[a,b] y) <int64[1] k = {1}, float h = {0.5}> { p = Squeeze(x, k) "
        "q = Squeeze(z, k) y = Where(p, q, h) }",
        "<int64[1] k = {1}, float h = {0.5}> { t = Where(x, z, h) y = Squeeze(t, k) }",
    )
