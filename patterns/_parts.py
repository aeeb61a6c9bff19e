"""Branches before a Concat that compute its operands in the same way, and can be merged."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from xoptim.match import GraphView, Node, PatternRewriter

from ._folding import Array
from ._operators import ELEMENTWISE

_MAX_NODES: Final = 8
_Key = Callable[[GraphView, Node], Hashable]


class Branch(NamedTuple):
    """A chain of nodes that computes an operand of a Concat.

    Attributes:
        nodes: the nodes, in the order in which they run. No other node reads their results.
        key: equal for branches that can be merged.
        biases: the constant operand of each Add among the nodes.
    """

    nodes: tuple[Node, ...]
    key: Hashable
    biases: tuple[str, ...] = ()


def branch(g: GraphView, name: str, key: _Key) -> Branch | None:
    """The branch of an operand of a Concat, or ``None``.

    A branch starts with a node for which ``key`` returns a key, not ``None``. Elementwise operators
    and Adds of constants follow. Branches whose first nodes have equal keys may be merged.
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
    """Attributes as a hashable value, sorted by name."""
    items = sorted((name, value) for name, value in attributes.items() if name not in without)
    return tuple(
        (name, tuple(value) if isinstance(value, list) else value) for name, value in items
    )


def alike(branches: Sequence[Branch | None]) -> tuple[slice, list[Branch]] | None:
    """The first run of two or more adjacent branches with equal keys, with its slice of indices."""
    start = 0
    for index in range(1, len(branches) + 1):
        first = branches[start]
        if (
            index < len(branches)
            and first is not None
            and (following := branches[index]) is not None
            and following.key == first.key
        ):
            continue
        if index - start > 1:
            return slice(start, index), [
                branch for branch in branches[start:index] if branch is not None
            ]
        start = index
    return None


def joint(
    part: slice,
    template: Branch,
    weight: Array,
    biases: Sequence[Array],
    count: int,
    g: PatternRewriter,
    *nodes: Node,
) -> list[Node]:
    """The nodes of one branch instead of several, and the Concat.

    The Concat is dropped if no other operand remains.

    Args:
        part: the operands of the Concat that the branch replaces.
        template: one of the merged branches.
        weight: the concatenated weights of all branches.
        biases: the concatenated biases of all branches.
        count: number of biases that are operands of the first node; the others are added.
        g: writes the nodes.
        nodes: the matched nodes; the last one is the Concat.
    """
    (first, *following), concat, addends = template.nodes, nodes[-1], iter(biases[count:])
    y = getattr(g.op, first.op_type)(first.input[0], weight, *biases[:count], **first.attribute)
    for node in following:
        y = (
            g.op.Add(y, next(addends))
            if node.op_type == "Add"
            else getattr(g.op, node.op_type)(y, **node.attribute)
        )
    operands = [*concat.input[: part.start], y, *concat.input[part.stop :]]
    if len(operands) > 1:
        return [*g.created, g.make_node("Concat", operands, concat.output, **concat.attribute)]
    return [*g.created, g.make_node("Identity", operands, concat.output)]
