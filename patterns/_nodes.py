"""Which operator a node is."""

from collections.abc import Callable
from typing import TypeGuard

from xoptim.match import Node, PatternRewriter


def is_op(node: Node | None, *op_types: str) -> TypeGuard[Node]:
    """Whether the node exists and is one of these operators of the standard domain."""
    return node is not None and not node.domain and node.op_type in op_types


def read_instead(name: str) -> Callable[..., list[Node]]:
    """An ``apply`` that makes another result replace the result of the only node matched."""

    def apply(g: PatternRewriter, node: Node) -> list[Node]:
        return [g.make_node("Identity", [name], node.output)]

    return apply
