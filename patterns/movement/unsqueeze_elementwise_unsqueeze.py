from functools import partial
from typing import NamedTuple

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._deductions import reshapes_as_inferred
from .._nodes import is_op, renamed
from .._operators import BROADCASTING, ELEMENTWISE
from .._shapes import inserted_ones

_MAX_OPERATORS = 8
"""Maximum number of operators in between."""


class _Insertion(NamedTuple):
    """Axes of size 1 that a node inserts.

    Attributes:
        behind: for each new axis, the number of axes of the operand after it.
        rank: the rank of the operand.
    """

    behind: list[int]
    rank: int


class UnsqueezeElementwiseUnsqueezePattern(PatternOptimization):
    """Unsqueeze(f(Unsqueeze(x), z)) → f(Unsqueeze(x), z)

    What: inserts all new axes at once, before the elementwise operators f. Their other operands
    broadcast to the new shape. The same for a Reshape that inserts axes of size 1.
    Why: saves a node. In torch's decoders, masks get one axis before they are combined, and another
    axis afterwards.
    Refuses when:
    1. a Reshape does not only insert axes of size 1, or a computed size may be 0 at run time. Or
       the last node inserts an axis before all others.
    2. an operator in between is not elementwise, another node reads a result in between, or another
       operand would need new axes as well.
    3. a consumer of the first result does not lead to the same new axes.
    """

    anchors = ("Reshape", "Unsqueeze")
    near = (*sorted(ELEMENTWISE), *BROADCASTING)
    phase = "target"
    priority = 9
    min_opset = 7
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        last = _insertion(g, node)
        if last is None or max(last.behind) == last.rank:  # (1)
            return self.none(
                node,
                msg="the node does not only insert axes of size 1, or inserts one at the front",
            )
        chain: list[Node] = []
        name = node.input[0]
        while len(chain) < _MAX_OPERATORS:
            producer = g.node_before(name)
            operand = None if producer is None else _operand(g, producer, last)
            if producer is None or operand is None or not (chain or g.is_exclusive(name)):  # (2)
                return self.none(
                    producer or node,
                    msg="a preceding operator is not elementwise, or broadcasts its operand",
                )
            chain.append(producer)
            first = g.node_before(operand)
            insertion = None if first is None else _insertion(g, first)
            if first is not None and insertion is not None:
                # (3)
                if not all(
                    _leads_to(g, reader, last) for reader in g.next_nodes(operand)
                ) or g.is_output(operand):
                    return self.none(
                        first, msg="the result of the first Unsqueeze has other consumers"
                    )
                return MatchResult(
                    self,
                    [*chain[::-1], node],
                    partial(self._joined, operand, first, _joint(insertion, last)),
                )
            if not g.is_exclusive(operand):  # (2)
                return self.none(producer, msg="an intermediate result is read elsewhere")
            name = operand
        return self.none(node, msg="too many operators in between")

    def _joined(
        self, operand: str, first: Node, axes: list[int], g: PatternRewriter, *nodes: Node
    ) -> list[Node]:
        *chain, last = nodes
        names = {
            name: g.unique_name(name)
            for name in (operand, *(node.output[0] for node in chain[:-1]))
        }
        moved = g.make_node_check_opset("Unsqueeze", [first.input[0]], names[operand], axes=axes)
        return [moved, *renamed(g, chain, {**names, chain[-1].output[0]: last.output[0]})]

    examples = Example.pairs(
        "agraph (bool[s,s] c, bool[b,s] m) "
        "=> (bool[b,1,s,s] y) <int64[3] i = {0, 1, -1}, int64[4] j = {0, 1, 0, -1}> { "
        "r = Reshape(m, i) a = And(c, r) y = Reshape(a, j) }",
        "<int64[2] k = {1, 2}> { r = Unsqueeze(m, k) y = And(c, r) }",
        "agraph (float[a] x, float[b] z) "
        "=> (float[a,1,1,b] y) <int64[1] i = {1}, int64[2] j = {1, 2}> { r = Unsqueeze(x, i) "
        "t = Mul(r, z) u = Neg(t) y = Unsqueeze(u, j) }",
        "<int64[3] i = {1, 2, 3}> { r = Unsqueeze(x, i) t = Mul(r, z) y = Neg(t) }",
    )


def _insertion(g: GraphView, node: Node) -> _Insertion | None:
    """The axes of size 1 that a node inserts; ``None`` if it does more, or may do more."""
    if not is_op(node, "Reshape", "Unsqueeze") or not all(map(g.is_constant, node.input[1:])):
        return None
    source, result = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    ones = None if source is None or result is None else inserted_ones(source, result)
    if source is None or result is None or ones is None or not reshapes_as_inferred(g, node):
        return None
    return _Insertion(
        [sum(place > axis and place not in ones for place in range(len(result))) for axis in ones],
        len(source),
    )


def _operand(g: GraphView, node: Node, last: _Insertion) -> str | None:
    """The only operand of an elementwise operator that needs all the new axes.

    ``None`` if another operand needs one of them.
    """
    if node.domain or len(node.output) != 1 or node.op_type not in (*BROADCASTING, *ELEMENTWISE):
        return None
    ranks = {name: g.info(name).rank for name in node.input if name}
    needing = [name for name, rank in ranks.items() if rank is None or rank > min(last.behind)]
    rank = ranks[needing[0]] if len(needing) == 1 else None
    return needing[0] if rank is not None and rank > max(last.behind) else None


def _leads_to(g: GraphView, node: Node, last: _Insertion) -> bool:
    """Whether elementwise operators lead from a node to the same new axes, and nowhere else."""
    for _ in range(_MAX_OPERATORS):
        following = g.next_nodes(node.output[0]) if _operand(g, node, last) is not None else []
        if len(following) != 1 or g.is_output(node.output[0]):
            return False
        node = following[0]
        insertion = _insertion(g, node)
        if insertion is not None:
            return insertion == last
    return False


def _joint(first: _Insertion, last: _Insertion) -> list[int]:
    """The axes of the final result that the first and the last node insert."""
    # ``last.behind`` counts axes of the first result. Some of them are new as well: they are
    # subtracted, so that all counts are of axes of the original tensor.
    new_axes = sorted(
        (first.rank + len(first.behind) - axis for axis in _axes_of(first.behind, first.rank)),
        reverse=True,
    )
    return _axes_of(
        [
            *first.behind,
            *(count - sum(axis <= count for axis in new_axes) for count in last.behind),
        ],
        first.rank,
    )


def _axes_of(behind: list[int], rank: int) -> list[int]:
    """The new axes of the result, from the number of axes of the operand after each of them.

    ``rank`` is the rank of the operand.
    """
    return [rank - count + position for position, count in enumerate(sorted(behind, reverse=True))]
