"""Copy names, metadata and remarks of removed nodes to the new nodes that replace them."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.graph.node import Node

TAG = "xoptim.pattern"
"""Key of the metadata of a node that names the pattern that made it."""


def inherit(added: Sequence[Node], removed: Sequence[Node], tag: str = "") -> None:
    """Record the origin of new nodes.

    The origin of a new node is the removed node that produced the same result, else the last one removed. The new node gets its
    metadata and its remark; its name when both have the same operator; else the scope of its name (``/encoder/layer.0/`` of
    ``/encoder/layer.0/Add``). Values that the pattern gave itself are kept.

    Args:
        added: new nodes, already in the graph.
        removed: nodes that they replace, in order.
        tag: name of the pattern, written into the metadata unless empty.
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
    """Whether the name is generated: the operator, or the operator with a number."""
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
