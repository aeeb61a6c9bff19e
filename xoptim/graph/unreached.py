"""Nodes of subgraphs that fail whenever they run: the subgraph is never run, and must stay loadable.

A branch may compute an invalid shape, such as two -1 for a Reshape. As long as the shape is computed, runtimes load the model.
They refuse it when the shape is stored, because they infer the shapes in all branches first.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from xoptim.facts.info import Info
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.inference.fallback import is_refused

_MOST_NODES: Final = 16  # whose shapes are inferred from one constant
_MOST_ELEMENTS: Final = 1024  # of a constant that is read for this


def is_refused_with(graph: Graph, values: Mapping[str, Tensor]) -> bool:
    """Whether a runtime would refuse to load the model if ``values``, some results of a graph, were stored (or read instead).

    In a graph that is not a subgraph, all nodes run, so that only nodes of its subgraphs may fail, and nodes that run with a
    shape that runtimes refuse to load.
    """
    if any(_is_unsolvable(reader, name, value) for name, value in values.items() for reader in graph.consumers(name)):
        return True
    pending = dict.fromkeys(_readers(graph, values))
    facts = {name: value.info() for name, value in values.items()} if pending else {}
    for _ in range(_MOST_NODES):
        node = min(pending, key=lambda reader: reader.label, default=None)
        if node is None:
            return False
        del pending[node]
        if node.graph is not None and not node.bodies:
            refused, results = _infer(node.graph, node, facts, values)
            if refused or _is_impossible_resize(node, values):
                return True
            facts |= {name: info for name, info in zip(node.output, results, strict=False) if name and info is not None}
            pending |= dict.fromkeys(_readers(node.graph, node.output))
    return False


def _readers(graph: Graph, names: Iterable[str]) -> Iterator[Node]:
    """The nodes of subgraphs that read some results of a graph."""
    for name in names:
        yield from graph.captures(name)
        yield from () if graph.parent is None else graph.consumers(name)


def _is_unsolvable(node: Node, name: str, shape: Tensor) -> bool:
    """Whether a Reshape has to solve for an axis beside one that it leaves empty; onnxruntime does so at run time only."""
    reads = node.op_type == "Reshape" and not node.domain and node.input[1] == name and node.attribute.get("allowzero", 0)
    return bool(reads) and {0, -1} <= set(shape.numpy().ravel().tolist())


def _is_impossible_resize(node: Node, values: Mapping[str, Tensor]) -> bool:
    """Whether the kernel of a Resize refuses a stored scale or size when the model is loaded."""
    if node.op_type not in ("Resize", "Upsample") or node.domain:
        return False
    numbers = [values[name].numpy() for name in node.input[1:] if name in values and values[name].size]
    return any(not (each > 0).all() for each in numbers[-1:])


def _infer(graph: Graph, node: Node, facts: Mapping[str, Info], values: Mapping[str, Tensor]) -> tuple[bool, list[Info | None]]:
    def constant(index: int) -> np.ndarray[Any, Any] | None:
        name = node.input[index]
        tensor = values.get(name) or graph.tensor(name)
        return None if tensor is None or tensor.size > _MOST_ELEMENTS else tensor.numpy()

    inputs = [facts.get(name) or graph.info_of(name) if name else None for name in node.input]
    return is_refused(node.to_proto(), graph.opsets.get(node.domain, 0), inputs, constant)
