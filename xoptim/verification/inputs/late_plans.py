"""Plans of runs in which a Loop or a Scan makes many iterations."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import onnx

from xoptim.facts.dims import SymbolicDim
from xoptim.facts.dtypes import is_integer, numpy_dtype
from xoptim.facts.protos import every_node
from xoptim.graph.node import Node
from xoptim.verification.inputs.dims import InputSpec, Sizes
from xoptim.verification.inputs.feeding import Feeding, Planning, ReferenceRun, RunPlan
from xoptim.verification.inputs.sized import SizedModel
from xoptim.verification.inputs.work import iterations
from xoptim.verification.runs.session import Value

_LOOPS: Final = ("Loop", "Scan")
_COUNTS: Final = (40, 300)
"""Iterations: more than most warm-ups and caches have, and more than fit in a byte."""
_BEYOND: Final = 3  # iterations past a number that a model compares with
_MAX_COUNT: Final = 1 << 12
_MAX_WORK: Final = 1 << 29
"""Operations of a run."""


def has_loops(models: Iterable[onnx.ModelProto]) -> bool:
    """Whether a model has a Loop or a Scan, also in functions and subgraphs."""
    return any(
        node.op_type in _LOOPS
        for model in models
        for nodes in (model.graph.node, *(function.node for function in model.functions))
        for node in every_node(nodes)
    )


class LatePlans:
    """Plans for the loops of ``models``; none where there are no loops.

    ``work`` returns the operations of a run, without the iterations that an input decides.
    """

    def __init__(
        self, feeding: Feeding, models: Collection[SizedModel], work: Callable[[Sizes], int]
    ) -> None:
        self._feeding = feeding
        self._models = models
        self._work = work

    def plans(self, usual: ReferenceRun) -> Iterator[Planning]:
        """All plans, where ``usual`` is a run with a few iterations."""
        loops = [pair for model in self._models for pair in _loops(model)]
        if not loops:
            return
        specs = self._counted(usual)
        dims = frozenset().union(*(_dims(model, node) for model, node in loops))
        free = (dims & usual.sizes.keys()) - self._feeding.fixed.keys()
        for count in self._counts():
            if specs and self._work(usual.sizes) * count <= _MAX_WORK:
                yield self._planned(usual.sizes, {spec.name: spec for spec in specs}, count)
            sizes = self._feeding.assumptions.fitted(usual.sizes | dict.fromkeys(free, count))
            if free and self._work(sizes) <= _MAX_WORK:
                yield self._planned(sizes, {}, count)

    def _counts(self) -> list[int]:
        """Numbers of iterations: the usual ones, and one above the largest number of the models."""
        bounds = [number for number in self._feeding.landmarks.all if float(number).is_integer()]
        largest = max((int(n) for n in bounds if n <= _MAX_COUNT), default=0) + _BEYOND
        return sorted({*_COUNTS, max(largest, *_COUNTS)})

    def _counted(self, usual: ReferenceRun) -> list[InputSpec]:
        """The inputs that hold a number of iterations."""
        uses = self._feeding.uses
        return [
            spec
            for spec in self._feeding.random
            if uses[spec.name].kind == "count"
            and is_integer(spec.element_type)
            and _shape(usual.feeds[spec.name]) in ((), (1,))
        ]

    def _planned(self, sizes: Sizes, specs: dict[str, InputSpec], count: int) -> Planning:
        """Usual values at some sizes, and a number for some inputs."""

        def plan(_: Sizes, run: int, gentle: bool) -> RunPlan:
            usual = self._feeding.plan(sizes, run, gentle)
            values = {
                name: np.full(_shape(usual.feeds[name]), count, numpy_dtype(spec.element_type))
                for name, spec in specs.items()
            }
            return replace(usual, source="iterations", feeds={**usual.feeds, **values})

        return plan


def _shape(value: Value) -> tuple[int, ...]:
    """The shape of a tensor, ``(0,)`` for any other value."""
    return value.shape if isinstance(value, np.ndarray) else (0,)


def _loops(model: SizedModel) -> Iterable[tuple[SizedModel, Node]]:
    """The loops of a model, in functions and subgraphs as well."""
    graphs = model.graph.model.graphs() if model.graph is not None else ()
    return (
        (model, node)
        for graph in graphs
        for node in graph.nodes
        if node.op_type in _LOOPS and not node.domain
    )


def _dims(model: SizedModel, node: Node) -> frozenset[str]:
    """The dynamic dimensions that decide how many iterations a loop makes."""
    lengths = iterations(node)[-1:]  # without the batch size
    symbols = (symbol for dim in lengths if isinstance(dim, SymbolicDim) for symbol in dim.symbols)
    return model.dims(symbols) or frozenset()
