"""Metadata of nodes that says where they come from."""

from typing import Final

import onnx

from xoptim.facts.protos import every_node, replace_items

_KEYS: Final = ("namespace", "pkg.torch.onnx.name_scopes")
"""What exporters write about the module of a node."""
_PREFIX: Final = "xoptim."


def keep_origins(model: onnx.ModelProto) -> None:
    """Remove all other metadata of nodes, in place.

    Stack traces, which torch writes, would be copied to each node that quantizes an operand.
    """
    for node in every_node(model.graph.node):
        kept = [each for each in node.metadata_props if _is_origin(each.key)]
        if len(kept) < len(node.metadata_props):
            replace_items(node.metadata_props, kept)


def _is_origin(key: str) -> bool:
    return key in _KEYS or key.startswith(_PREFIX)
