"""Optimize a model by a list of passes, one of which runs the patterns; and navigators."""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

from xoptim.catalogue.selection import Item, select
from xoptim.engine.applier import Applier
from xoptim.engine.engine import Engine
from xoptim.engine.events import Statistics, show_log
from xoptim.engine.index import PatternIndex, index_of
from xoptim.engine.lowering import LowerOperatorSet, older_set
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.runner import run_passes
from xoptim.engine.state import State
from xoptim.facts.dtypes import GRADES, Exactness
from xoptim.graph.graph import Graph
from xoptim.graph.load import check_imports
from xoptim.graph.model import Model, watching
from xoptim.graph.node import Node
from xoptim.match.making import checked
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import PHASES, ModelPass, Rewrite, Step
from xoptim.passes.blocks.outlining import Outline
from xoptim.passes.cleanup import (
    DropUnreadResults,
    DropUnusedInputs,
    NoteMatMuls,
    RemoveIdentities,
    RemoveInitializers,
    RemoveUnused,
    inner_first,
    rounds_elsewhere,
    stored_operands,
)
from xoptim.passes.fold import FoldConstants, WriteExpanded
from xoptim.passes.growth import NoteGrowth, growth_of
from xoptim.passes.guards import NoteAssumptions, RemoveGuards, WriteGuards
from xoptim.passes.merge import MergeInitializers, MergeNodes
from xoptim.passes.opsets.lowering import check_target
from xoptim.passes.opsets.newest import RaiseOperatorSet
from xoptim.system.collection import collection_paused


class Navigator(ModelPass):
    """Visits each node once, and immediately applies the first pattern that matches there.

    Subgraphs are visited as well, inner ones first. A new node is visited in the same walk only if
    it comes after the next node of the walk. Nodes added at a new node are not visited, so that
    every walk ends. The optimizer repeats a navigator as long as anything changes.

    Args:
        *patterns: names, classes or instances of patterns.
        name: its name; by default its kind and the names of the patterns.
        **metadata: class attributes of `Rewrite`, such as ``phase``. The exactness is the weakest
            of the patterns unless given.

    Raises:
        TypeError: when there is no pattern, or one of them is a pass.
        UnknownPatternError: when a name is not known.
    """

    is_step = True  # its patterns are reported as in the rounds of the optimizer
    backwards: ClassVar[bool] = False

    def __init__(self, *patterns: Item, name: str = "", **metadata: Any) -> None:
        by_name: dict[str, PatternOptimization] = {}
        for pattern in (rewrite for item in patterns for rewrite in select(item)):
            if not isinstance(pattern, PatternOptimization):
                raise TypeError(
                    f"{pattern.name()} rewrites complete models; it cannot be applied at a single "
                    "node"
                )
            by_name[pattern.name()] = pattern
        if not by_name:
            raise TypeError(f"a {type(self).__name__} needs at least one pattern")
        self.patterns = tuple(by_name.values())
        title = name or f"{type(self).__name__.removesuffix('Navigator')}{''.join(by_name)}"
        weakest = max((p.exactness for p in self.patterns), key=GRADES.index)
        attributes = {"exactness": weakest, **checked(type(self), metadata)}
        # Set on the instance: instances of this class differ in name and metadata.
        vars(self).update(attributes, name=partial(str, title))

    def run(self, model: Model) -> int:
        """Visit the nodes of a model once, with default options; returns the number of rewrites."""
        state = State(model, OptimizationOptions())
        model.listeners.append(state.worklist)
        try:
            return self.run_in(model, state)
        finally:
            model.listeners.remove(state.worklist)

    def run_in(self, model: Model, state: State) -> int:
        """Visit the nodes once, as a part of an optimization; returns the number of rewrites."""
        return sum(self._walk_graph(Applier(graph, state)) for graph in inner_first(model))

    def _walk_graph(self, applier: Applier) -> int:
        graph = applier.graph
        index = index_of(
            tuple(p for p in self.patterns if applier.state.is_usable(p, graph.opsets.get("", 0))),
            (),
        )
        if not index.anchors_in(graph):
            return 0
        queue = list(graph.nodes if self.backwards else reversed(graph.nodes))
        """The nodes to be visited, the next one last."""
        new: list[Node] = []
        count = 0
        with watching(graph.model) as changes:
            while queue or new:
                node, is_new = self._next(graph, queue, new)
                if node is None:
                    break
                changes.inserted_nodes.clear()
                if _rewrite_at(applier, index, node):
                    count += 1
                    next_node = None if is_new else _last_node(graph, queue)
                    if next_node is not None:
                        added = [n for n in changes.added_nodes if n.graph is graph]
                        new += [n for n in added if self._is_before(next_node, n)]
        return count

    def _next(self, graph: Graph, queue: list[Node], new: list[Node]) -> tuple[Node | None, bool]:
        """The next node, and whether it was added during the walk."""
        new[:] = [node for node in new if node.graph is graph]
        next_node = _last_node(graph, queue)
        if new:
            first = (
                max(new, key=lambda n: n.label)
                if self.backwards
                else min(new, key=lambda n: n.label)
            )
            if next_node is None or self._is_before(first, next_node):
                new.remove(first)
                return first, True
        return (queue.pop() if next_node is not None else None), False

    def _is_before(self, first: Node, second: Node) -> bool:
        return first.label > second.label if self.backwards else first.label < second.label


class TopologicalNavigator(Navigator):
    """A `Navigator` that visits the producer of a result before its consumers."""


class ReverseNavigator(Navigator):
    """A `Navigator` that visits the consumers of a result before its producer."""

    backwards = True


def grades_of(rewrites: Iterable[Rewrite], counts: Container[str]) -> list[Exactness]:
    """Exactness of the rewrites that were applied, patterns of navigators included."""
    grades = [rewrite.exactness for rewrite in rewrites if rewrite.name() in counts]
    for navigator in rewrites:
        if isinstance(navigator, Navigator):
            grades += grades_of(navigator.patterns, counts)
    return grades


def _last_node(graph: Graph, queue: list[Node]) -> Node | None:
    """The last node of a queue that is still in the graph; removed nodes at its end are dropped."""
    while queue and queue[-1].graph is not graph:
        queue.pop()
    return queue[-1] if queue else None


def _rewrite_at(applier: Applier, index: PatternIndex, node: Node) -> bool:
    """Apply the first pattern that matches at a node, if any does."""
    for number in index.candidates(applier.graph, {node: 0}):
        pattern = index.patterns[number]
        with applier.state.refusals(pattern):
            if applier.apply_at(pattern, node):
                return True
        if node.graph is not applier.graph:
            break
    return False


ALTERNATIONS = 8
"""Maximal number of alternations of rewriting with folding and merging.

No known model needs more than a few.
"""
_LOWER: Final = "lower"
_JOINT_PHASES = ("canonicalize", "specialize")
"""Phases whose patterns reach a common fixed point, unless a pass runs between them."""


class Settle(Step):
    """Folds constants and merges nodes until nothing changes."""

    title = ""  # its passes are timed
    requires = ensures = ()  # the conditions of its passes are checked

    def __init__(self, passes: Sequence[ModelPass], merging: Sequence[ModelPass]) -> None:
        self.passes = passes
        self.merging = merging

    def run_in(self, model: Model, state: State) -> int:
        """Run the passes; returns the number of changes."""
        total = 0
        while True:
            settled = run_passes(self.passes, model, state)
            merged = run_passes(self.merging, model, state)
            total += settled + merged
            # Merging frees bytes that folding may then use, and subgraphs read results that are
            # folded in outer graphs.
            if not merged and not (settled and has_bodies(model)):
                return total


class Stage(NamedTuple):
    """Passes, and the patterns that are active after them: of this phase and of all earlier
    phases.
    """

    passes: list[ModelPass]
    patterns: list[PatternOptimization]


class Rewriting(Step):
    """Runs the rewrites of a selection phase by phase, until nothing changes."""

    title = ""

    def __init__(
        self, rewrites: Iterable[Rewrite], cleaning: Sequence[ModelPass], settle: Settle
    ) -> None:
        self.stages = staged(rewrites)
        self.cleaning = cleaning
        self.settle = settle

    def run_in(self, model: Model, state: State) -> int:
        """Clean and rewrite a model; returns the number of changes.

        Raises `BudgetError` when patterns undo each other.
        """
        engine = Engine(model, state)
        total = self._clean(model, state)
        for _ in range(ALTERNATIONS):
            total += self._run_stages(engine)
            # Rewriting a graph may leave unused nodes in outer graphs and subgraphs.
            cleaned = (
                self._clean(model, state) if state.options.max_iter < 0 and has_bodies(model) else 0
            )
            total += cleaned
            if not cleaned:
                break
        return total

    def _clean(self, model: Model, state: State) -> int:
        return run_passes((*self.cleaning, self.settle), model, state)

    def _run_stages(self, engine: Engine) -> int:
        """Run the stages, repeatedly while the first one with passes, or a later one, changes the
        model.
        """
        first = next(
            (index for index, stage in enumerate(self.stages) if stage.passes), len(self.stages)
        )
        total = 0
        for _ in range(ALTERNATIONS):
            changes = [self._run_stage(stage, engine) for stage in self.stages]
            total += sum(changes)
            if not any(changes[first:]) or engine.state.options.max_iter >= 0:
                break
        return total

    def _run_stage(self, stage: Stage, engine: Engine) -> int:
        """Run the passes of a stage, then its patterns to a fixed point with folding and merging.

        Returns the changes.
        """
        model, state = engine.model, engine.state
        total = run_passes(stage.passes, model, state)
        if total:
            run_passes([self.settle], model, state)
        changed = engine.run(stage.patterns)
        total += changed
        for _ in range(ALTERNATIONS):
            settled = run_passes([self.settle], model, state) if changed else 0
            changed = engine.confirm()
            total += changed + settled
            if not changed:
                break
        return total


def staged(rewrites: Iterable[Rewrite]) -> list[Stage]:
    """The rewrites of a selection as stages, in the order in which they run."""
    stages: list[Stage] = []
    active: list[PatternOptimization] = []
    of_phase: dict[str, Stage] = {phase: Stage([], []) for phase in PHASES}
    for rewrite in rewrites:
        stage = of_phase[rewrite.phase]
        if isinstance(rewrite, PatternOptimization):
            stage.patterns.append(rewrite)
        elif isinstance(rewrite, ModelPass):
            stage.passes.append(rewrite)
    for phase, (passes, patterns) in of_phase.items():
        active = [*active, *patterns]
        if stages and not passes and (phase in _JOINT_PHASES or not patterns):
            passes = stages.pop().passes
        stages.append(Stage(passes, active))
    return stages


def has_bodies(model: Model) -> bool:
    """Whether a model has subgraphs."""
    return any(graph.owner is not None for graph in model.graphs())


STEPS: Final[Mapping[str, type[ModelPass]]] = {
    "constant_folding": FoldConstants,
    "merge": MergeNodes,
    "remove_unused": RemoveUnused,
    "remove_identity": RemoveIdentities,
}
"""The steps of every optimization, by their names in `OptimizationOptions.drop`."""


class Optimizer:
    """Optimizes a model in place."""

    def __init__(self, model: Model, options: OptimizationOptions) -> None:
        self.model = model
        self.options = options
        self.rewrites = options.scheduled(model.assumptions)
        self._target = older_set(model, options.opset)
        if self._target is not None:
            # Rewrites for newer sets would write operators that must be decomposed again.
            self.rewrites = [item for item in self.rewrites if _fits(item, self._target)]
        self.state = State(model, options)
        self.statistics = Statistics()
        self.state.events.subscribe(self.statistics, Statistics.kinds)
        if any(True for _ in options.with_verbosity(1, self.rewrites)):
            show_log()
        self._raising = RaiseOperatorSet(
            options.opset if self._target is None else None, options.provider
        )
        self.folding = FoldConstants(growth_of(model, options.max_growth), self.state.events.send)
        self.outlining = Outline()
        self.dropping = DropUnusedInputs()
        removing = RemoveGuards()
        self.guards = removing, WriteGuards(options.guard, removing)
        self._operands_before, self._matmul_notes = stored_operands(model), NoteMatMuls()
        self.passes = self._passes()  # the passes of `run`, in order

    def _passes(self) -> list[ModelPass]:
        options, growth = self.options, self.folding.growth
        unused, merge = options.remove_unused, options.merge
        cleaning = _wanted((RemoveUnused(), unused), (RemoveIdentities(), options.remove_identity))
        lowerings = [rewrite for rewrite in self.rewrites if rewrite.phase == _LOWER]
        main_rewrites = [rewrite for rewrite in self.rewrites if rewrite.phase != _LOWER]
        folding = _wanted(
            (self.folding, options.constant_folding),
            (DropUnreadResults(), unused),  # those whose readers were folded as well
            (MergeInitializers(), merge),
        )
        settle = Settle(folding, _wanted((MergeNodes(), merge)))
        rewriting = Rewriting(main_rewrites, cleaning, settle)
        return _wanted(
            (self.guards[0], True),
            (self._raising, options.opset is not None and self._target is None),
            (rewriting, True),
            *self._lowering(settle, rewriting),
            # After `rewriting`, which would fuse what lowerings decompose.
            (Rewriting(lowerings, cleaning, settle), bool(lowerings)),
            (RemoveInitializers(), unused),
            (WriteExpanded(growth, self.state.events.send), True),
            (self._matmul_notes, options.outline),
            (self.outlining, options.outline),
            (self.dropping, options.drop_unused_inputs),
            (self.guards[1], True),
            (NoteGrowth(growth), True),
            (NoteAssumptions(), True),
        )

    def _lowering(self, *again: Step) -> list[tuple[ModelPass, bool]]:
        return [] if self._target is None else [(LowerOperatorSet(self._target, *again), True)]

    def run(self) -> list[dict[str, Any]]:
        """Optimize the model; returns the rows of statistics.

        Raises:
            ModelError: when the model cannot be brought to the operator set of the options, or has
                standard operators without importing a version of them.
            BudgetError: when patterns undo each other, or remove a result that must stay
                (``PATTERNNOREMOVE``).
        """
        check_imports(self.model)
        if self._target is not None:
            check_target(self.model, self._target)
        self.model.listeners.append(self.state.worklist)
        try:
            with collection_paused():
                run_passes(self.passes, self.model, self.state)
        finally:
            self.model.listeners.remove(self.state.worklist)
        return self.statistics.rows

    def grades(self) -> list[Exactness]:
        """Exactness of each applied rewrite, and ``rounding`` if the runtime may choose other
        kernels.

        It may for another operator set, after folding stored floating-point tensors, or for a
        MatMul with a newly stored or computed operand.
        """
        grades = grades_of(self.rewrites, self.state.counts)
        after = self._matmul_notes.operands
        after = stored_operands(self.model) if after is None else after
        if (
            self._raising.has_raised
            or self._target is not None
            or self.folding.has_stored_floats
            or rounds_elsewhere(self._operands_before, after)
        ):
            grades.append("rounding")
        return grades


def _fits(rewrite: Rewrite, target: int) -> bool:
    """Whether a rewrite can run in an older operator set; lowerings always fit."""
    return rewrite.phase == _LOWER or rewrite.min_opset <= target


def _wanted(*passes: tuple[ModelPass, bool]) -> list[ModelPass]:
    return [item for item, is_wanted in passes if is_wanted]
