"""Model Explorer: the original and the optimized model, which rewrite made each node, and where
each node runs.

``model-explorer model.onnx --extensions=xoptim.integrations.model_explorer`` opens both;
`save_node_data` writes files for ``--node_data_paths``, to see the same on other graphs.
"""

from xoptim.integrations.model_explorer.node_data import (
    node_data as node_data,
    save_node_data as save_node_data,
)

__all__ = ["node_data", "save_node_data"]
