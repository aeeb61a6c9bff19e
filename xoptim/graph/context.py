"""The interface through which the shape formulas read a node of a graph."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xoptim.facts.dims import ALL_SIZES, SIZES, Dim, SymbolicDim, fresh
from xoptim.facts.info import Info
from xoptim.graph.constants import EvaluationView
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.inference.values import INTEGERS

READ_LIMIT = 1 << 16
"""Constants of more bytes than this are not read to infer shapes."""
EXTERNAL_READ_LIMIT = 1 << 12
"""The same for constants in external files."""

InferBody = Callable[[Graph, "Sequence[Info | None] | None"], "list[Info]"]


class GraphNodeContext(EvaluationView):
    """Implements `xoptim.inference.registry.NodeContext`; made once per node."""

    __slots__ = ("_infer_body", "_names", "_seen_bodies", "graph", "inputs")

    def __init__(self, graph: Graph, node: Node, infer_body: InferBody) -> None:
        super().__init__(node, graph.opsets.get(node.domain, 0))
        self.graph = graph
        info_of = graph.info_of
        self.inputs: Sequence[Info | None] = [info_of(name) if name else None for name in node.input]
        self._names = node.input
        self._infer_body = infer_body
        self._seen_bodies: set[str] | None = None

    def input(self, index: int) -> Info | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def constant(self, index: int) -> np.ndarray | None:
        """Value of a constant input, ``None`` when it is not constant or too large to be read for its shape."""
        if index >= len(self._names) or not self._names[index]:
            return None
        tensor = self.graph.tensor(self._names[index])
        if tensor is None or tensor.nbytes > (EXTERNAL_READ_LIMIT if tensor.is_external else READ_LIMIT):
            return None
        return tensor.numpy()

    def data(self, index: int) -> tuple[Dim, ...] | None:
        info = self.input(index)
        return None if info is None or info.dtype not in INTEGERS else info.data

    def ints(self, index: int) -> list[int] | None:
        data = self.data(index)
        if data is not None:
            numbers = [d for d in data if type(d) is int]
            return numbers if len(numbers) == len(data) else None
        value = self.constant(index)
        if value is None or value.dtype.kind not in "iu":
            return None
        return [int(v) for v in value.ravel()]

    def fresh(self, *, nonnegative: bool = True) -> SymbolicDim:
        return fresh(nonnegative=nonnegative, limits=SIZES if self.assumes("addressable") else ALL_SIZES)

    def assumes(self, word: str) -> bool:
        return self.graph.model.assumptions.has(word)

    def body(self, name: str, inputs: Sequence[Info | None] | None = None) -> list[Info]:
        """Facts about the outputs of a subgraph, empty when there is no such subgraph."""
        body = self.node.bodies.get(name)
        if body is None:
            return []
        if self._seen_bodies is None:
            self._seen_bodies = set()
        self._seen_bodies.add(name)
        return self._infer_body(body, inputs)

    def unseen_bodies(self) -> Mapping[str, Graph]:
        """Subgraphs that no formula has inferred."""
        seen = self._seen_bodies or ()
        return {name: body for name, body in self.node.bodies.items() if name not in seen}
