"""Branches that compute parts of a Concat in the same way."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from xoptim.match import GraphView, Node, PatternRewriter

from ._folding import Array
from ._operators import ELEMENTWISE

_MAX_NODES: Final = 8
_Key = Callable[[GraphView, Node], Hashable]


class Branch(NamedTuple):
    """A row of nodes that ends at an operand of a Concat.

    Attributes:
        nodes: the nodes in the order in which they run; nothing else reads their results.
        key: equal for branches that can be computed together.
        biases: the constant operand of each Add among the nodes.
    """

    nodes: tuple[Node, ...]
    key: Hashable
    biases: tuple[str, ...] = ()


def branch(g: GraphView, name: str, key: _Key) -> Branch | None:
    """The branch of an operand: an operator that has a key, then elementwise operators, and sums
    with constants.

    ``key`` returns the key of a node that can begin a branch, ``None`` for other nodes. Branches
    whose first nodes have equal keys may be computed together.
    """
    nodes: list[Node] = []
    steps: list[Hashable] = []
    biases: list[str] = []
    while len(nodes) < _MAX_NODES:
        node = g.node_before(name)
        if node is None or node.domain or not g.is_exclusive(name):
            return None
        nodes.insert(0, node)
        first = key(g, node)
        if first is not None:
            return Branch(tuple(nodes), (first, *steps), tuple(biases[::-1]))
        constants = [operand for operand in node.input if g.is_constant(operand)]
        if node.op_type == "Add" and len(constants) == 1:
            biases += constants
            (name,) = (operand for operand in node.input if operand not in constants)
        elif node.op_type in ELEMENTWISE and len(node.input) == 1:
            (name,) = node.input
        else:
            return None
        steps.append((node.op_type, frozen(node.attribute)))
    return None


def frozen(attributes: Mapping[str, Any], without: Sequence[str] = ()) -> Hashable:
    """Attributes that can be compared, in the order of their names."""
    items = sorted((name, value) for name, value in attributes.items() if name not in without)
    return tuple(
        (name, tuple(value) if isinstance(value, list) else value) for name, value in items
    )


def alike(branches: Sequence[Branch | None]) -> tuple[slice, list[Branch]] | None:
    """The first two or more adjacent branches that have the same key, and their places."""
    start = 0
    for place in range(1, len(branches) + 1):
        first = branches[start]
        if (
            place < len(branches)
            and first is not None
            and (following := branches[place]) is not None
            and following.key == first.key
        ):
            continue
        if place - start > 1:
            return slice(start, place), [
                branch for branch in branches[start:place] if branch is not None
            ]
        start = place
    return None


def joint(
    part: slice,
    one: Branch,
    weight: Array,
    biases: Sequence[Array],
    own: int,
    g: PatternRewriter,
    *nodes: Node,
) -> list[Node]:
    """One branch with the weights and biases of all, and the Concat, which reads its result in
    place of theirs.

    The first biases, ``own`` of them, are operands of the first node. There is no Concat where no
    other operand remains.
    """
    (first, *following), concat, rows = one.nodes, nodes[-1], iter(biases[own:])
    y = getattr(g.op, first.op_type)(first.input[0], weight, *biases[:own], **first.attribute)
    for node in following:
        y = (
            g.op.Add(y, next(rows))
            if node.op_type == "Add"
            else getattr(g.op, node.op_type)(y, **node.attribute)
        )
    operands = [*concat.input[: part.start], y, *concat.input[part.stop :]]
    if len(operands) > 1:
        return [*g.created, g.make_node("Concat", operands, concat.output, **concat.attribute)]
    return [*g.created, g.make_node("Identity", operands, concat.output)]
