"""The optimizations of one model, and the report of the last one."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.diagnose.dump import dump_to
from xoptim.diagnose.report import OptimizationReport
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import Optimizer
from xoptim.facts.dtypes import weakest
from xoptim.graph.model import Model


class Session:
    """The optimizations of a model, which is as it was before the first of them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._nodes_before = _count(model)
        self._last: Optimizer | None = None

    def start(self, options: OptimizationOptions) -> Optimizer:
        """An optimizer of the model; `report` refers to it from now on."""
        self._last = Optimizer(self._model, options)
        if options.debug.dump is not None:
            self._last.state.events.subscribe(dump_to(options.debug.dump), ("applied",))
        return self._last

    def report(self) -> OptimizationReport:
        """The report of the last optimization; it lists nothing when there was none."""
        after = _count(self._model)
        if self._last is None:
            return OptimizationReport([], {}, self._nodes_before, after, weakest([]))
        used = self._last.grades()
        if self._has_half_precision():
            used.append("rounding")
        counts = dict(sorted(self._last.state.counts.items()))
        return OptimizationReport(
            rows=self._last.statistics.rows,
            applied=counts,
            nodes_before=self._nodes_before,
            nodes_after=after,
            exactness=weakest(used),
            unfolded=self._last.unfolded(),
            repetitions=tuple(self._last.repetitions),
            unused_inputs=tuple(self._last.unused_inputs()),
            dropped_inputs=tuple(self._last.dropped_inputs),
        )

    def forget(self) -> None:
        """Drop the last optimization, which holds parts of the model."""
        self._last = None

    def _has_half_precision(self) -> bool:
        """Whether a result is computed in 16 bits.

        Runtimes without such kernels insert casts to 32 bits, whose places depend on the neighbouring nodes, so that even
        a rewrite of equal bits may change how results are rounded.
        """
        infos = (info for graph in self._model.graphs() for _, info in graph.all_known())
        return any(info.dtype in (TensorProto.FLOAT16, TensorProto.BFLOAT16) for info in infos)


def _count(model: Model) -> int:
    """Number of nodes, subgraphs and functions included."""
    return sum(len(nodes) for graph in model.graphs() for nodes in graph.types.values())
