"""The passes that run other passes: folding and merging until nothing changes, and the selected patterns and passes."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xoptim.engine.engine import Engine
from xoptim.engine.runner import run_passes
from xoptim.engine.state import State
from xoptim.graph.model import Model
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import PHASES, ModelPass, Rewrite, Step

ALTERNATIONS = 8
"""Maximal number of alternations of rewriting with folding and merging; no known model needs more than a few."""
_TOGETHER = ("canonicalize", "specialize")
"""Phases whose patterns reach a common fixed point, unless a pass runs between them."""


class Settle(Step):
    """Folds, with the passes that help it, and merges until nothing changes."""

    title = ""  # the passes in it are timed
    requires = ensures = ()  # they are checked for each of the passes

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
            # A result may fit into the model after merging, and subgraphs read what is folded around them.
            if not merged and not (settled and has_bodies(model)):
                return total


class Stage(NamedTuple):
    """Passes, and the patterns that are active after them: of their phase and of all earlier phases."""

    passes: list[ModelPass]
    patterns: list[PatternOptimization]


class Rewriting(Step):
    """Runs the rewrites of a selection, given in the order in which they run, phase by phase, until nothing changes."""

    title = ""

    def __init__(self, rewrites: Iterable[Rewrite], cleaning: Sequence[ModelPass], settle: Settle) -> None:
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
            # Rewriting a graph may leave something to clean in the graphs around it, and in its subgraphs.
            cleaned = self._clean(model, state) if state.options.max_iter < 0 and has_bodies(model) else 0
            total += cleaned
            if not cleaned:
                break
        return total

    def _clean(self, model: Model, state: State) -> int:
        return run_passes((*self.cleaning, self.settle), model, state)

    def _run_stages(self, engine: Engine) -> int:
        """Run the stages, and again as long as the passes of the selection have something new to see."""
        first = next((place for place, stage in enumerate(self.stages) if stage.passes), len(self.stages))
        total = 0
        for _ in range(ALTERNATIONS):
            changes = [self._run_stage(stage, engine) for stage in self.stages]
            total += sum(changes)
            if not any(changes[first:]) or engine.state.options.max_iter >= 0:
                break
        return total

    def _run_stage(self, stage: Stage, engine: Engine) -> int:
        """Run the passes of a stage, then its patterns to a fixed point with folding and merging; returns the changes."""
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
        if stages and not passes and (phase in _TOGETHER or not patterns):
            passes = stages.pop().passes
        stages.append(Stage(passes, active))
    return stages


def has_bodies(model: Model) -> bool:
    """Whether a model has subgraphs."""
    return any(graph.owner is not None for graph in model.graphs())
