"""Results that are linear in the constants of linear layers."""

from __future__ import annotations

from typing import Final, NamedTuple

from xoptim.facts.families import MOVING
from xoptim.match import GraphView, Node

from .._nodes import is_op

LINEAR: Final = MOVING - {"Identity"} | {"Neg"}
"""Operators that are linear in their first operand; the others are not numbers that are moved."""
_LARGEST: Final = 24
"""Most nodes that are followed."""


class Linear(NamedTuple):
    """Nodes whose result is multiplied by a number when constants are.

    Attributes:
        places: for each node, in the order of the graph, the operands in which its result is linear together.
        weights: the constant matrices that tensors are multiplied with.
        parameters: these, and the constants that are added.
    """

    places: dict[Node, range]
    weights: list[str]
    parameters: list[str]

    @property
    def nodes(self) -> list[Node]:
        """The nodes in order."""
        return list(self.places)

    def followed(self, node: Node, places: range) -> Linear:
        """With one node more."""
        return self._replace(places={**self.places, node: places})


def linear_above(g: GraphView, name: str, reader: Node) -> Linear | Node | None:
    """The nodes from linear layers down to a result; when it does not come from them alone, the first other node, if any.

    Only ``reader`` reads the result, and no node but those found reads a result in between.
    """
    found = _followed(g, name, Linear({}, [], []))
    if not isinstance(found, Linear):
        return found
    nodes = sorted(found.places, key=lambda node: node.label)
    inside = {output for node in nodes for output in node.output if output}
    read = next((output for output in inside if not g.is_used_only_by(output, reader, *nodes)), None)
    if read is not None:
        return g.node_before(read)
    # What a node multiplies with must stay as it is.
    factors = {each for node in nodes for place, each in enumerate(node.input) if place not in found.places[node]}
    if factors & inside:
        return nodes[-1]
    return found._replace(places={node: found.places[node] for node in nodes})


def _followed(g: GraphView, name: str, before: Linear) -> Linear | Node | None:
    """The nodes found before and those above a result; the first one, if any, that is not linear or one too many."""
    node = g.node_before(name)
    if node in before.places:
        return before
    if node is None or node.domain or len(before.places) == _LARGEST:
        return node
    if node.op_type in LINEAR or node.op_type == "RotaryEmbedding":
        return _followed(g, node.input[0], before.followed(node, range(1)))
    if node.op_type in ("Add", "Sub", "Concat"):
        found: Linear | Node | None = before.followed(node, range(len(node.input)))
        for operand in node.input:
            if isinstance(found, Linear) and g.is_constant(operand):
                found = found._replace(parameters=[*found.parameters, operand])
            elif isinstance(found, Linear):
                found = _followed(g, operand, found) or node
        return found
    if is_op(node, "MatMul") and g.is_constant(node.input[1]):
        weights = node.input[1]
        here = before.followed(node, range(1, 2))
        return here._replace(weights=[*here.weights, weights], parameters=[*here.parameters, weights])
    if node.op_type not in ("Mul", "Div", "MatMul"):
        return node
    sides = range(1 if node.op_type == "Div" else 2)
    tried = (_followed(g, node.input[side], before.followed(node, range(side, side + 1))) for side in sides)
    return next((found for found in tried if isinstance(found, Linear)), node)
