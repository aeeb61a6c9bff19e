"""Nodes that fail for some values of their operands."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np

from xoptim.facts.dims import is_nonnegative, is_nonzero
from xoptim.facts.dtypes import is_integer
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

_DIVIDING: Final = ("Div", "Mod")
_READING: Final = {
    ("", "Gather"): 1,
    ("", "GatherElements"): 1,
    ("", "GatherND"): 1,
    ("ai.onnx.ml", "ArrayFeatureExtractor"): 1,
    ("com.microsoft", "GatherBlockQuantized"): 1,
    ("com.microsoft", "GatherND"): 1,
    ("com.microsoft", "MRotaryEmbedding"): 6,
}
"""Operators that fail for an index out of range, with the number of reads at such an index.

MRotaryEmbedding reads two tables, each at three positions.
"""
_EMBEDDING: Final = ("com.microsoft", "EmbedLayerNormalization")
_INDICES: Final = (0, 1, 8)
"""Operands of an embedding that are indices."""


def fallible(graph: Graph) -> Counter[str]:
    """The number of nodes that fail for some values, by what fails.

    Those of subgraphs, which may never run, are counted apart.
    """
    kinds = Counter[str]()
    for inner in graph.all_graphs():
        suffix = "" if inner is graph else " in a subgraph"
        kinds.update({f"{kind}{suffix}": n for kind, n in _fallible_of(inner).items()})
    return kinds


def _fallible_of(graph: Graph) -> Counter[str]:
    kinds = Counter[str]()
    for node in graph.nodes:
        if not node.output:
            continue
        info = graph.info_of(node.output[0])
        key = node.domain, node.op_type
        if not node.domain and node.op_type in _DIVIDING and is_integer(info.dtype):
            divisors, stored = graph.info_of(node.input[1]).data, graph.tensor(node.input[1])
            is_safe = stored is not None and bool(stored.numpy().all())
            is_safe = is_safe or (divisors is not None and all(map(is_nonzero, divisors)))
            kinds["an integer division"] += not is_safe
        elif key == _EMBEDDING:
            names = [node.input[k] for k in _INDICES if k < len(node.input)]
            for kind in ("a read at an index", "a read at an index that must not be negative"):
                kinds[kind] += sum(map(bool, names))
        elif key in _READING:
            indices = graph.info_of(node.input[1]).data
            takes_negative = not node.domain
            is_known = indices is not None and node.op_type == "Gather"
            if not is_known and not _is_in_range(graph, node):
                kinds["a read at an index"] += _READING[key]
            if not takes_negative and not (indices and all(map(is_nonnegative, indices))):
                kinds["a read at an index that must not be negative"] += _READING[key]
    return kinds


def _is_in_range(graph: Graph, node: Node) -> bool:
    """Whether the indices of a Gather are computed from constants, and all in range."""
    if node.domain or node.op_type != "Gather":
        return False
    indices, shape = _constant(graph, node.input[1]), graph.info_of(node.input[0]).shape
    axis = node.get_attribute("axis", 0)
    if indices is None or not shape or not -len(shape) <= axis < len(shape):
        return False
    size = shape[axis]
    return isinstance(size, int) and bool(((indices >= -size) & (indices < size)).all())


def _constant(graph: Graph, name: str) -> np.ndarray[Any, Any] | None:
    """A constant of integers, or the constant before a Cast to integers."""
    producer = graph.producer(name)
    is_converted = producer is not None and (producer.domain, producer.op_type) == ("", "Cast")
    stored = graph.tensor(producer.input[0] if producer is not None and is_converted else name)
    array = None if stored is None else stored.numpy()
    is_plain = array is not None and is_integer(graph.info_of(name).dtype)
    return array.astype(np.int64) if array is not None and is_plain else None
