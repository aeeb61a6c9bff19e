"""Branches that compute parts of a Concat in the same way from one input, each with weights of its own."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from xoptim.facts.shapes import ELEMENTWISE
from xoptim.match import GraphView, Node, PatternRewriter

from ._folding import Array

_LONGEST: Final = 8
_Key = Callable[[GraphView, Node], Hashable]


class Branch(NamedTuple):
    """A row of nodes that ends at an operand of a Concat.

    Attributes:
        nodes: the nodes in the order in which they run; nothing else reads their results.
        key: what branches have in common that can be computed together.
        biases: the constant operand of each Add among the nodes.
    """

    nodes: tuple[Node, ...]
    key: Hashable
    biases: tuple[str, ...] = ()


def branch(g: GraphView, name: str, key: _Key) -> Branch | None:
    """The branch of an operand: elementwise operators, and sums with constants, after an operator that has a key.

    The key says what a node that begins a branch has in common with those that begin others; other nodes have none.
    """
    nodes: list[Node] = []
    steps: list[Hashable] = []
    biases: list[str] = []
    while len(nodes) < _LONGEST:
        node = g.node_before(name)
        if node is None or node.domain or not g.is_exclusive(name):
            return None
        nodes.insert(0, node)
        first = key(g, node)
        if first is not None:
            return Branch(tuple(nodes), (first, *steps), tuple(biases[::-1]))
        constants = [each for each in node.input if g.is_constant(each)]
        if node.op_type == "Add" and len(constants) == 1:
            biases += constants
            (name,) = (each for each in node.input if each not in constants)
        elif node.op_type in ELEMENTWISE and len(node.input) == 1:
            (name,) = node.input
        else:
            return None
        steps.append((node.op_type, frozen(node.attribute)))
    return None


def frozen(attributes: Mapping[str, Any], without: Sequence[str] = ()) -> Hashable:
    """Attributes that can be compared, in the order of their names."""
    given = sorted((name, value) for name, value in attributes.items() if name not in without)
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in given)


def alike(branches: Sequence[Branch | None]) -> tuple[slice, list[Branch]] | None:
    """The first branches side by side, two or more, that have one key, and their places."""
    start = 0
    for place in range(1, len(branches) + 1):
        first = branches[start]
        if place < len(branches) and first is not None and (other := branches[place]) is not None and other.key == first.key:
            continue
        if place - start > 1:
            return slice(start, place), [each for each in branches[start:place] if each is not None]
        start = place
    return None


def joint(
    part: slice, one: Branch, weight: Array, biases: Sequence[Array], own: int, g: PatternRewriter, *nodes: Node
) -> list[Node]:
    """One of some branches, with the weights and biases of all, and the Concat with its result in place of theirs.

    The first biases, ``own`` of them, are operands of the first node. There is no Concat where no other operand is left.
    """
    (first, *following), concat, rows = one.nodes, nodes[-1], iter(biases[own:])
    y = getattr(g.op, first.op_type)(first.input[0], weight, *biases[:own], **first.attribute)
    for each in following:
        y = g.op.Add(y, next(rows)) if each.op_type == "Add" else getattr(g.op, each.op_type)(y, **each.attribute)
    operands = [*concat.input[: part.start], y, *concat.input[part.stop :]]
    if len(operands) > 1:
        return [*g.created, g.make_node("Concat", operands, concat.output, **concat.attribute)]
    return [*g.created, g.make_node("Identity", operands, concat.output)]
