"""The extensions of Model Explorer, which imports this module by the name of its package."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from dacite import from_dict
from model_explorer import (
    Adapter,
    AdapterMetadata,
    GetConfigEditorsResult,
    NodeDataProvider,
    NodeDataProviderFilter,
    NodeDataProviderMetadata,
    NodeDataProviderResult,
    config_editor,
    graph_builder,
    node_data_builder,
)

from xoptim.facts.errors import XoptimError
from xoptim.integrations.model_explorer.graphs import OptimizedModel
from xoptim.integrations.model_explorer.node_data import placement_data, rewrite_data
from xoptim.targets import every

_ADAPTER = "xoptim"
_FILTER = NodeDataProviderFilter(adapterIds=[_ADAPTER])


class OptimizedAdapter(Adapter):  # type: ignore[misc]  # the package has no types
    """Shows a model before and after its optimization, each node with the rewrite that removed or
    made it.
    """

    metadata = AdapterMetadata(
        id=_ADAPTER,
        name="ONNX, optimized by xoptim",
        description="The original, and the model that xoptim makes of it",
        fileExts=["onnx"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> dict[str, Any]:
        """The two graphs; ``settings`` are not used.

        Raises:
            ModelError: when the model cannot be read.
        """
        graphs = [from_dict(graph_builder.Graph, graph) for graph in _opened(model_path).graphs()]
        collections = [
            graph_builder.GraphCollection(label, [graph])
            for label, graph in zip(("original", "optimized"), graphs, strict=True)
        ]
        return {"graphCollections": collections}


class RewriteProvider(NodeDataProvider):  # type: ignore[misc]
    """The rewrite that removed or made each node."""

    metadata = NodeDataProviderMetadata(
        id="xoptim_rewrites",
        name="Rewrites of xoptim",
        description="Which rewrite removed or made each node",
        icon="auto_fix_high",
        filter=_FILTER,
    )

    def get_config_editors(self, provider_id: str) -> Any:
        """Nothing to choose."""
        return GetConfigEditorsResult(configEditors=[])

    def run(
        self, provider_id: str, model_path: str, graph_id: str, config_values: Any, graph: Any
    ) -> Any:
        """The data of one graph."""
        return _result(rewrite_data(_opened(model_path))[graph_id])


class PlacementProvider(NodeDataProvider):  # type: ignore[misc]
    """The execution provider that runs each node with a target."""

    metadata = NodeDataProviderMetadata(
        id="xoptim_placement",
        name="Placement on a target",
        description="Which nodes an execution provider takes, and why it leaves the others",
        icon="memory",
        filter=_FILTER,
    )

    def get_config_editors(self, provider_id: str) -> Any:
        """The choice of the target."""
        options = [config_editor.OptionItem(target.name, target.title) for target in every()]
        editor = config_editor.DropDownConfigEditor(
            id="target", label="Target", required=True, defaultValue="onnx", options=options
        )
        return GetConfigEditorsResult(configEditors=[editor])

    def run(
        self, provider_id: str, model_path: str, graph_id: str, config_values: Any, graph: Any
    ) -> Any:
        """The data of one graph, or the reason why there is none."""
        try:
            data = placement_data(_opened(model_path), config_values["target"])
        except XoptimError as error:
            return NodeDataProviderResult(error=str(error))
        return _result(data[graph_id])


def _result(data: dict[str, Any]) -> Any:
    """Node data as an object of the package ``model_explorer``."""
    results = {
        key: node_data_builder.NodeDataResult(**node) for key, node in data["results"].items()
    }
    result = node_data_builder.GraphNodeData(**{**data, "results": results})
    return NodeDataProviderResult(result=result)


def _opened(model_path: str) -> OptimizedModel:
    """A file, optimized; the adapter and the providers share it until the file changes."""
    state = Path(model_path).stat()
    return _optimized(model_path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=1)
def _optimized(model_path: str, _mtime: int, _size: int) -> OptimizedModel:
    return OptimizedModel.of(Path(model_path))
