"""Nodes of subgraphs that fail whenever they run: the subgraph is never run, and must stay loadable.

A branch may compute an invalid shape, such as two -1 for a Reshape. As long as the shape is computed, runtimes load the model.
They refuse it when the shape is stored, because they infer the shapes in all branches first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from xoptim.facts.info import Info
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.inference.fallback import is_refused

_MOST_NODES: Final = 16  # whose shapes are inferred from one constant
_MOST_ELEMENTS: Final = 1024  # of a constant that is read for this


def is_refused_with(graph: Graph, values: Mapping[str, np.ndarray]) -> bool:
    """Whether a runtime would refuse to load a subgraph if some of its results were stored.

    Args:
        graph: the graph; in one that is not a subgraph, all nodes run, and nothing is refused for this reason.
        values: the results that would be stored.
    """
    if graph.parent is None:
        return False
    facts = {name: Tensor.from_array(value).info() for name, value in values.items()}
    pending = dict.fromkeys(reader for name in values for reader in graph.consumers(name))
    for _ in range(_MOST_NODES):
        node = min(pending, key=lambda reader: reader.label, default=None)
        if node is None:
            return False
        del pending[node]
        if node.graph is graph and not node.bodies:
            refused, results = _infer(graph, node, facts, values)
            if refused:
                return True
            facts |= {name: info for name, info in zip(node.output, results, strict=False) if name and info is not None}
            pending |= dict.fromkeys(reader for name in node.output for reader in graph.consumers(name))
    return False


def _infer(
    graph: Graph, node: Node, facts: Mapping[str, Info], values: Mapping[str, np.ndarray]
) -> tuple[bool, list[Info | None]]:
    def constant(index: int) -> np.ndarray | None:
        name = node.input[index]
        tensor = graph.tensor(name)
        return values[name] if name in values else None if tensor is None or tensor.size > _MOST_ELEMENTS else tensor.numpy()

    inputs = [facts.get(name) or graph.info_of(name) if name else None for name in node.input]
    return is_refused(node.to_proto(), graph.opsets.get(node.domain, 0), inputs, constant)
