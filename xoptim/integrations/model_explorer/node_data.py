"""Node data of Model Explorer: a text and a color for each node.

A node is found by its name, so that the data fits graphs that other adapters make of the same
model.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from xoptim.api.preparing import replace_file
from xoptim.integrations.model_explorer.graphs import OptimizedModel, ids_of
from xoptim.reporting import Drawing
from xoptim.targets import Placement, named, place

_COLORS: Final = (
    *("#a6cee3", "#b2df8a", "#fb9a99", "#fdbf6f", "#cab2d6", "#ffff99", "#8dd3c7", "#bebada"),
    *("#fccde5", "#ccebc5", "#ffed6f", "#d9d9d9"),
)
"""Colors of texts, in turn."""


def node_data(model: Any, target: str = "") -> dict[str, Any]:
    """The rewrite that removed or made each node, or the place at which each node runs.

    Args:
        model: a model as for `xoptim.optimize`, which is left unchanged; it is optimized by the
            default preset, and not verified.
        target: the target to ask for placements of the original and of the result; by default the
            data is about rewrites.

    Returns:
        Node data by the id of the graph: the name of the original's graph, and the same with
        `` (optimized)``.

    Raises:
        ModelError: when the model cannot be read.
        UnknownTargetError: when there is no such target.
        ProviderUnavailable: when its execution provider is not installed, or finds no device.
        PlacementError: when the provider gives no answer.
    """
    view = OptimizedModel.of(model)
    return placement_data(view, target) if target else rewrite_data(view)


def save_node_data(model: Any, path: str | Path, target: str = "") -> Path:
    """Write `node_data` to a file for ``model-explorer --node_data_paths``; returns its path.

    Raises:
        ModelError: also when the file cannot be written; others as `node_data`.
    """
    file = Path(path)
    replace_file(file, json.dumps(node_data(model, target), indent=1).encode())
    return file


def rewrite_data(view: OptimizedModel) -> dict[str, Any]:
    """The rewrite that removed a node of the original, or made a node of the result."""
    sides = (view.before, view.fates), (view.after, view.makers)
    both = [_by_id(drawing, texts) for drawing, texts in sides]
    colors = _colors({text for texts in both for text in texts.values()})
    return {
        graph: _data("rewrites", texts, colors)
        for graph, texts in zip(view.graph_ids, both, strict=True)
    }


def placement_data(view: OptimizedModel, target: str) -> dict[str, Any]:
    """The places at which the nodes of both models run on a target; raises as `node_data`."""
    device = named(target)
    data = {}
    for graph, proto in zip(view.graph_ids, (view.source.proto, view.result), strict=True):
        placement = place(proto, device, view.base_dir)
        texts = _places(placement)
        data[graph] = _data(f"placement on {target}", texts, _colors(set(texts.values())))
    return data


def _places(placement: Placement) -> dict[str, str]:
    """The place at which each node runs, as text by the name of the node; empty if the model does
    not compile.
    """
    if not placement.compiles:
        return {}
    texts = {}
    for node in placement.nodes:
        provider = node.provider.removesuffix("ExecutionProvider")
        if node.is_taken:
            texts[node.name] = f"partition {node.partition + 1}"
        elif provider:
            texts[node.name] = f"{provider}: {node.reason}" if node.reason else provider
        else:
            texts[node.name] = "computed ahead or merged"
    return texts


def _by_id(drawing: Drawing, texts: Mapping[int, str]) -> dict[str, str]:
    """Texts by the id of a node."""
    ids = ids_of(drawing)
    return {ids[number]: text for number, text in texts.items()}


def _colors(texts: set[str]) -> dict[str, str]:
    return {text: _COLORS[place % len(_COLORS)] for place, text in enumerate(sorted(texts))}


def _data(name: str, texts: Mapping[str, str], colors: Mapping[str, str]) -> dict[str, Any]:
    """The data of one graph; texts have neither a sum nor a mean."""
    return {
        "name": name,
        "hideInAggregatedStatsTable": True,
        "showExpandedSummaryOnGroupNode": True,
        "results": {key: {"value": text, "bgColor": colors[text]} for key, text in texts.items()},
    }
