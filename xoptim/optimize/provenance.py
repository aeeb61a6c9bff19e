"""What new nodes take over from those whose place they take: name hints, metadata, remarks."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.graph.node import Node

TAG = "xoptim.pattern"
"""Metadata of a node that names the pattern that made it."""


def inherit(added: Sequence[Node], removed: Sequence[Node], tag: str = "") -> None:
    """Let new nodes remember where they come from.

    A new node follows the removed one that made the same result, else the last one removed: it gets its metadata and its
    remark; its name when it has the same operator; else the scope of its name (``/encoder/layer.0/`` of
    ``/encoder/layer.0/Add``), as far as the pattern gave none itself.

    Args:
        added: new nodes, already in the graph.
        removed: nodes that they replace, in order.
        tag: name of the pattern, which is written into the metadata unless empty.
    """
    makers = {name: node for node in removed for name in node.output}
    named: set[Node] = set()
    for node in added:
        origin = next((makers[name] for name in node.output if name in makers), removed[-1] if removed else None)
        if origin is not None:
            metadata = origin.metadata_props()
            if metadata:
                node.metadata = {**metadata, **(node.metadata or {})}
            node.doc_string = node.doc_string or origin.remark
            if origin.name and _is_made_up(node):
                _name_after(node, origin, named)
        if tag:
            node.metadata = {**(node.metadata or {}), TAG: tag}
        elif node.metadata:
            node.metadata.pop(TAG, None)


def _is_made_up(node: Node) -> bool:
    """Whether the name is the operator's with a number."""
    prefix, _, number = node.name.rpartition("_")
    return node.name == node.op_type or (prefix == node.op_type and number.isdecimal())


def _name_after(node: Node, origin: Node, named: set[Node]) -> None:
    assert node.graph is not None
    if node.op_type == origin.op_type and origin not in named:
        named.add(origin)
        node.name = origin.name
        return
    scope, slash, _ = origin.name.rpartition("/")
    if slash:
        node.name = node.graph.node_names.fresh(f"{scope}/{node.op_type}")
