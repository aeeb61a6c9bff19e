"""Which operator a node is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from xoptim.match import Node, PatternRewriter


def is_op(node: Node | None, *op_types: str) -> TypeGuard[Node]:
    """Whether the node exists and is one of these operators of the standard domain."""
    return node is not None and not node.domain and node.op_type in op_types


def renamed(g: PatternRewriter, nodes: Sequence[Node], names: Mapping[str, str]) -> list[Node]:
    """Copies of nodes, with other names for some of the results that they read and write."""
    return [
        g.make_node(n.op_type, [names.get(i, i) for i in n.input], [names.get(o, o) for o in n.output], **n.attribute)
        for n in nodes
    ]


def replaced_by(
    op_type: str, *operands: str | np.ndarray | np.generic, outputs: Sequence[str] = (), **attributes: Any
) -> Callable[..., list[Node]]:
    """An ``apply`` that writes one operator for results, by default for those of the last node matched.

    Operands are results or constants; attributes may have become operands.
    """

    def apply(g: PatternRewriter, *nodes: Node) -> list[Node]:
        names = [each if isinstance(each, str) else g.make_initializer("", each) for each in operands]
        return [g.make_node_check_opset(op_type, names, outputs or nodes[-1].output, **attributes)]

    return apply
