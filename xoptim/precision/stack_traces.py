"""Stack traces that exporters write into the metadata of nodes."""

from typing import Final

import onnx

from xoptim.facts.protos import every_node, replace_items

_TRACES: Final = (
    "pkg.torch.onnx.class_hierarchy",
    "pkg.torch.onnx.fx_node",
    "pkg.torch.onnx.stack_trace",
)
"""Keys that torch writes for developers of its exporter; other keys have the names of modules."""


def remove_stack_traces(model: onnx.ModelProto) -> None:
    """Remove stack traces from nodes, in place.

    Otherwise, quantization copies them to each node that it adds, and they take more than half of
    small files.
    """
    for node in every_node(model.graph.node):
        kept = [entry for entry in node.metadata_props if entry.key not in _TRACES]
        if len(kept) < len(node.metadata_props):
            replace_items(node.metadata_props, kept)
