"""The optimizations of one model, and the report of the last one."""

from onnx import TensorProto

from xoptim import diagnose
from xoptim.diagnose.report import OptimizationReport
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import Optimizer
from xoptim.facts.dtypes import weakest
from xoptim.graph.model import Model
from xoptim.passes.cleanup import unused_inputs


class Optimizations:
    """Optimizes a model one or more times, and reports the last optimization.

    ``nodes_before`` of the report is the number of nodes before the first one.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._nodes_before = _count(model)
        self._last: Optimizer | None = None

    def start(self, options: OptimizationOptions) -> Optimizer:
        """An optimizer of the model, to which `report` refers from now on."""
        self._last = Optimizer(self._model, options)
        if options.debug.dump is not None:
            self._last.state.events.subscribe(
                diagnose.each.dump_to(options.debug.dump), ("applied",)
            )
        return self._last

    def report(self) -> OptimizationReport:
        """The report of the last optimization; it lists nothing when there was none."""
        after = _count(self._model)
        if self._last is None:
            return OptimizationReport([], {}, self._nodes_before, after, weakest([]))
        grades = self._last.grades()
        infos = (info for graph in self._model.graphs() for _, info in graph.all_known())
        # see `required_exactness`
        if any(info.dtype in (TensorProto.FLOAT16, TensorProto.BFLOAT16) for info in infos):
            grades.append("rounding")
        return OptimizationReport(
            rows=self._last.statistics.rows,
            applied=dict(sorted(self._last.state.counts.items())),
            nodes_before=self._nodes_before,
            nodes_after=after,
            exactness=weakest(grades),
            unfolded=self._last.folding.growth.unfolded(),
            repetitions=tuple(self._last.outlining.repetitions),
            unused_inputs=tuple(unused_inputs(self._model.graph)),
            dropped_inputs=tuple(self._last.dropping.dropped),
            unguarded=tuple(self._last.guards[1].dropped),
        )

    def forget(self) -> None:
        """Drop the last optimization, which holds parts of the model."""
        self._last = None


def _count(model: Model) -> int:
    return sum(len(nodes) for graph in model.graphs() for nodes in graph.types.values())
