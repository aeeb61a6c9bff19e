"""Decide which constants that repeat along axes are stored whole, and which are computed by a node."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from xoptim.engine.growth import Growth
from xoptim.graph.expanded import ExpandedTensor
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.walk import readers

_ENTRY: Final = "xoptim.growth"
"""Key of the metadata of a model in which results were left computed because of their size."""
_GROWN: Final = re.compile(r"(\d{1,18}) bytes of constants given, (-?\d{1,18}) added, (\d{1,18}) in all")


class _Kept(NamedTuple):
    """A constant of which a part is kept, the graph that holds it, and its name."""

    tensor: ExpandedTensor
    graph: Graph
    name: str


def stored_bytes(model: Model) -> int:
    """Bytes of the constants of a model; of those that repeat along axes, bytes of the part that is kept."""
    return sum(tensor.stored_bytes for graph in model.graphs() for tensor in graph.initializers.values())


def growth_of(model: Model, choice: int | str | None) -> Growth:
    """Count the bytes that folding adds to a model, those included that it added when the model was optimized before.

    Args:
        model: the model.
        choice: see `xoptim.engine.growth.allowed_growth`.
    """
    size = stored_bytes(model)
    entry = next((each.value for each in model.shell.metadata_props if each.key == _ENTRY), "")
    found = _GROWN.fullmatch(entry)
    given, added, noted = map(int, found.groups()) if found is not None else (size, 0, size)
    return Growth(choice, given, added) if noted == size else Growth(choice, size)  # else the constants have changed since


def note_growth(model: Model, growth: Growth) -> None:
    """Write into the metadata of a model how many bytes folding has added, if results were left computed because of their size.

    Without that, each optimization of the result would fold some more of them.
    """
    kept = [each for each in model.shell.metadata_props if each.key != _ENTRY]
    del model.shell.metadata_props[:]
    model.shell.metadata_props.extend(kept)
    if growth.unfolded() is not None:
        # As they are written: those of which a part is held are whole in the file.
        size = sum(tensor.nbytes for graph in model.graphs() for tensor in graph.initializers.values())
        text = f"{growth.given} bytes of constants given, {growth.added} added, {size} in all"
        model.shell.metadata_props.add(key=_ENTRY, value=text)


def write_expanded(model: Model, limit: int | None) -> dict[Node, int]:
    """Write constants of which a part is kept as nodes, the largest first, until the others fit whole into the model.

    Args:
        model: the model.
        limit: bytes that all its constants may have; ``None`` for any number.

    Returns:
        The nodes, and the bytes of their results. All other constants are stored whole when the model is exported.
    """
    kept = [
        _Kept(tensor, graph, name)
        for graph in model.graphs()
        for name, tensor in graph.initializers.items()
        if isinstance(tensor, ExpandedTensor) and graph.is_needed(name) and not graph.is_output(name)
    ]
    if limit is None or not kept:
        return {}
    room = limit - stored_bytes(model)
    large: set[tuple[Graph, str]] = set()
    for each in sorted(kept, key=lambda each: each.tensor.nbytes):
        more = each.tensor.nbytes - each.tensor.stored_bytes
        if large or more > room:
            large.add((each.graph, each.name))
        else:
            room -= more
    written = [each for each in kept if (each.graph, each.name) in large]
    written.sort(key=lambda each: (min(node.label for node in readers(each.graph, each.name)), each.name))
    return {tensor.write(graph, name): tensor.nbytes for tensor, graph, name in written}
