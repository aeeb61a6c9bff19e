"""The optimizations of one model, the report of the last one, and the matches that others took."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from onnx import TensorProto

from xoptim.diagnose.dump import dump_to
from xoptim.diagnose.explanation import Explanation
from xoptim.diagnose.report import OptimizationReport
from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import Optimizer
from xoptim.facts.dtypes import weakest
from xoptim.graph.model import Model
from xoptim.passes.cleanup import unused_inputs


class Takers:
    """A listener that remembers which rewrite removed each node first."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[int, str]] = {}

    def __call__(self, application: Application) -> None:
        """Remember a rewrite."""
        for node in set(application.matched) - set(application.given):
            for name in node.output:
                self._taken.setdefault(name, (application.number, application.pattern.name()))

    def explain(self, matches: Sequence[Explanation], left: Collection[str]) -> list[Explanation]:
        """The matches before the optimization that are gone, each with the rewrite that took one of its nodes first.

        ``left`` are the names of the results that are left after it.
        """
        found = []
        for match in matches:
            names = [name for place in match.matched for name in place.outputs if name]
            takers = sorted(self._taken[name] for name in names if name in self._taken)
            if any(name == match.pattern for _, name in takers):
                reason = "it was applied"
            elif takers:
                reason = f"{takers[0][1]} took a node of it"
            elif all(name in left for name in names):
                continue
            else:
                reason = "cleaning, folding or merging removed a node of it"
            found.append(replace(match, status="taken", reason=reason, progress=0.0, bindings=None))
        return found


def is_at(explanation: Explanation, at: str) -> bool:
    """Whether a node of a match has a name, a result of that name, or a position."""
    return any(at in (place.name, f"#{place.position}", *place.outputs) for place in explanation.matched)


class Optimizations:
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
        infos = (info for graph in self._model.graphs() for _, info in graph.all_known())
        if any(info.dtype in (TensorProto.FLOAT16, TensorProto.BFLOAT16) for info in infos):  # see `held_to`
            used.append("rounding")
        return OptimizationReport(
            rows=self._last.statistics.rows,
            applied=dict(sorted(self._last.state.counts.items())),
            nodes_before=self._nodes_before,
            nodes_after=after,
            exactness=weakest(used),
            unfolded=self._last.folding.growth.unfolded(),
            repetitions=tuple(self._last.outlining.found),
            unused_inputs=tuple(unused_inputs(self._model.graph)),
            dropped_inputs=tuple(self._last.dropping.dropped),
            unguarded=tuple(self._last.guards[1].left_out),
        )

    def forget(self) -> None:
        """Drop the last optimization, which holds parts of the model."""
        self._last = None


def _count(model: Model) -> int:
    return sum(len(nodes) for graph in model.graphs() for nodes in graph.types.values())
