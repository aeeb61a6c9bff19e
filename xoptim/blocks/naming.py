"""Names for a block, for its copies, and for the values inside of it."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.blocks.scopes import common, name_of, scope_of, scopes_of
from xoptim.graph.node import Node


class BlockNames:
    """The names of a block.

    They come from the scopes of its nodes: the innermost scope around all nodes of a copy. Where there are no scopes, or those
    of the copies have nothing in common, the block is named after its operators.

    Args:
        copies: the nodes of each copy.

    Attributes:
        title: a name for the block, an identifier.
        calls: a name for each copy.
    """

    def __init__(self, copies: Sequence[Sequence[Node]]) -> None:
        columns = [scopes_of(column) for column in zip(*copies, strict=True)]
        found = [common(row) or () for row in zip(*columns, strict=True)]
        own = name_of(found) if len(set(found)) == len(found) else ""
        around = common(scope_of(node) or None for copy in copies for node in copy) or ()
        self.title = own or "_".join(filter(None, (name_of([around]), _operators(copies[0]))))
        self.calls = ["/".join(scope) or self.title for scope in found]
        self._inside = _variants(".".join(found[0]), "/".join(found[0]))

    def short(self, name: str) -> str:
        """The name of a value or a node of the first copy without the scope of that copy."""
        for scope in self._inside:
            _, found, rest = name.partition(scope)
            if found and rest:
                return rest
        return name


def _variants(*scopes: str) -> list[str]:
    return [f"{scope}{end}" for scope in scopes if scope for end in ("/", ".")]


def _operators(nodes: Sequence[Node]) -> str:
    """The first operators of a block, and their number."""
    kinds = list(dict.fromkeys(node.op_type for node in nodes))
    return "_".join((*kinds[:3], str(len(nodes))))
