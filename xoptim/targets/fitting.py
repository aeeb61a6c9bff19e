"""Fit a model to a target: write the nodes that its provider does not take with operators that it takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeAlias

import onnx

from xoptim.catalogue.database import database
from xoptim.catalogue.query import Query
from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import Optimizer
from xoptim.facts.operators import operator_label
from xoptim.facts.protos import every_node
from xoptim.facts.words import counted
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.match.easy import EasyPatternOptimization
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import Rewrite
from xoptim.targets.placement import PlacedNode, Placement
from xoptim.targets.target import Target

LONGEST: Final = 600.0
"""Seconds of a search by default."""
MOST_QUESTIONS: Final = 48
"""Most placements that are asked for."""
_LOWER: Final = "lower"
_TIDYING: Final = ("CastCast", "CastMovementCast")
"""Patterns that join what lowerings next to each other write."""
_DEPTH: Final = 4
"""Most lowerings in a row before the result is judged."""
Ask: TypeAlias = Callable[[onnx.ModelProto], Placement]
Key: TypeAlias = tuple[str, str]
"""Domain and name of an operator."""
Choice: TypeAlias = dict[Key, str]
"""The name of the lowering of each operator."""


@dataclass(frozen=True, slots=True)
class FittingStep:
    """A lowering that was applied.

    Attributes:
        pattern: its name.
        operator: the operator that it lowers, with the domain outside the standard one.
        count: how often it was applied.
        reason: why the target did not take the operator, where that is known.
    """

    pattern: str
    operator: str
    count: int
    reason: str = ""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.operator} by {self.pattern}, {counted(self.count, 'time')}{why}"

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {"pattern": self.pattern, "operator": self.operator, "count": self.count, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model that was fitted to a target.

    Attributes:
        model: the model; the given one where nothing helped.
        before: the placement of the given model.
        after: the placement of the result.
        steps: the lowerings that were applied.
        questions: how many placements were asked for.
        seconds: that the search took.
    """

    model: onnx.ModelProto
    before: Placement
    after: Placement
    steps: tuple[FittingStep, ...] = ()
    questions: int = 1
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """All fields but the model as JSON values."""
        return {
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "steps": [step.to_json() for step in self.steps],
            "questions": self.questions,
            "seconds": round(self.seconds, 3),
        }


def fit(
    model: onnx.ModelProto,
    ask: Ask,
    base_dir: Path | None = None,
    *,
    drop: Sequence[str] = (),
    seconds: float = LONGEST,
) -> Fitted:
    """Lower the nodes that a target does not take, as long as more nodes run there, in fewer parts.

    The search is greedy and bounded, and gives the same result for the same answers: it lowers all operators that the
    target does not take, in the order of the names, asks again, and undoes what did not help.

    Args:
        model: left unchanged but for nodes without a name, which get one.
        ask: gives the placement of a model.
        base_dir: folder of external data.
        drop: names of lowerings that may not be applied.
        seconds: after which the best result so far counts.
    """
    return _Search(model, ask, base_dir, drop, seconds).run()


@dataclass(slots=True)
class _Lowered:
    """A model after some lowerings.

    ``gone`` and ``made`` are the names of the nodes that each lowering took away and made, with what was lowered further;
    ``counts`` says how often each was applied to an operator.
    """

    model: onnx.ModelProto
    gone: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    made: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    counts: dict[tuple[Key, str], int] = field(default_factory=lambda: defaultdict(int))


class _Search:
    """One search for the model that a target takes."""

    def __init__(self, model: onnx.ModelProto, ask: Ask, base_dir: Path | None, drop: Sequence[str], seconds: float) -> None:
        self._began = perf_counter()
        self._seconds = seconds
        self._ask = ask
        self._base_dir = base_dir
        self._questions = 0
        self._lowerings = lowerings(drop)
        self._rejected: set[tuple[Key, str]] = set()
        self._reasons: dict[Key, str] = {}
        self._counts: dict[tuple[Key, str], int] = defaultdict(int)
        name_nodes(model)
        self._model = model

    def run(self) -> Fitted:
        """Search until nothing improves, or the time is up."""
        before = placement = self._place(self._model)
        while not self._is_over():
            choice = self._choice(_elsewhere(placement))
            if not choice:
                break
            found = self._tried(placement, choice)
            if found is not None:
                self._model, placement = found
        steps = tuple(
            FittingStep(pattern, operator_label(key[1], key[0]), count, self._reasons.get(key, ""))
            for (key, pattern), count in self._counts.items()
        )
        seconds = perf_counter() - self._began
        return Fitted(self._model, before, placement, steps, self._questions, seconds)

    def _is_over(self) -> bool:
        return self._questions >= MOST_QUESTIONS or perf_counter() - self._began > self._seconds

    def _place(self, model: onnx.ModelProto) -> Placement:
        self._questions += 1
        return self._ask(model)

    def _choice(self, left: Iterable[PlacedNode]) -> Choice:
        """The next lowering of each operator that is left."""
        found: Choice = {}
        for node in left:
            key = (node.domain, node.op_type)
            names = [name for name in self._lowerings.get(key, ()) if (key, name) not in self._rejected]
            if names:
                found.setdefault(key, names[0])
                self._reasons.setdefault(key, node.reason)
        return dict(sorted(found.items()))

    def _tried(self, before: Placement, choice: Choice) -> tuple[onnx.ModelProto, Placement] | None:
        """The model with some lowerings that help, and its placement; what does not help is not tried again."""
        lowered, placement = self._lower(before, choice)
        useless = {key for key, name in choice.items() if not lowered.gone[name]}
        self._rejected |= {(key, choice[key]) for key in useless}
        useful = {key: name for key, name in choice.items() if key not in useless}
        if not useful:
            return None
        if _cost(placement) < _cost(before):
            harmful = self._harmful(before, placement, lowered, useful)
            if not harmful:
                self._accept(lowered)
                return lowered.model, placement
            self._rejected |= {(key, useful[key]) for key in harmful}
            return None
        if len(useful) == 1:
            self._rejected |= set(useful.items())
            return None
        return self._tried_apart(before, useful)

    def _tried_apart(self, before: Placement, choice: Choice) -> tuple[onnx.ModelProto, Placement] | None:
        """Try lowerings one by one, as together they do not help."""
        for key, name in choice.items():
            if self._is_over():
                break
            found = self._tried(before, {key: name})
            if found is not None:
                return found
        return None

    def _harmful(self, before: Placement, after: Placement, lowered: _Lowered, choice: Choice) -> set[Key]:
        """The operators whose lowering made at least as many nodes that the target does not take as it took away.

        A lowering is judged for all its operators together: one may need the other.
        """
        was_left = {node.name for node in _elsewhere(before)}
        is_left = {node.name for node in _elsewhere(after)}
        harmful = {
            name for name in set(choice.values()) if len(lowered.gone[name] & was_left) <= len(lowered.made[name] & is_left)
        }
        return {key for key, name in choice.items() if name in harmful}

    def _lower(self, placement: Placement, choice: Choice) -> tuple[_Lowered, Placement]:
        """Lower the nodes that are left, and then what the replacements have that is not taken either."""
        lowered = _Lowered(self._model)
        origin: dict[str, str] = {}
        current = dict(choice)
        for _ in range(_DEPTH):
            left = _elsewhere(placement)
            at = _names_by_pattern(left, current)
            if not at or not self._apply(lowered, at, origin):
                break
            placement = self._place(lowered.model)
            made = {name for names in lowered.made.values() for name in names}
            inside = [node for node in _elsewhere(placement) if node.name in made]
            current = self._choice(inside)
            if self._is_over() or not current:
                break
        return lowered, placement

    def _apply(self, lowered: _Lowered, at: Mapping[str, Collection[str]], origin: dict[str, str]) -> bool:
        """Apply lowerings at some nodes; returns whether anything changed."""
        changed = False

        def record(application: Application) -> None:
            nonlocal changed
            if application.pattern.phase != _LOWER:
                return
            changed = True
            anchor, name = application.anchor, application.pattern.name()
            root = origin.get(anchor.name, name)
            new = [node for node in application.given if node not in application.matched]
            old = {node.name for node in application.matched if node not in application.given}
            lowered.gone[root] |= old - lowered.made[root]
            lowered.made[root] -= old
            lowered.made[root] |= {node.name for node in new}
            lowered.counts[(anchor.domain, anchor.op_type), name] += 1
            origin.update(dict.fromkeys((node.name for node in new), root))

        options = OptimizationOptions(patterns=Query([*at, *_TIDYING]), lower_at=at, on_application=record, tag_nodes=True)
        model = load_model(lowered.model, self._base_dir)
        Optimizer(model, options).run()
        if changed:
            lowered.model = export_model(model)
        model.dispose()
        return changed

    def _accept(self, lowered: _Lowered) -> None:
        for step, count in lowered.counts.items():
            self._counts[step] += count


def name_nodes(model: onnx.ModelProto) -> None:
    """Give a name to each node that has none, by which a placement and a lowering find it."""
    nodes = list(every_node(model.graph.node))
    taken = {node.name for node in nodes}
    for node in nodes:
        if node.name:
            continue
        number = len(taken)
        while (name := f"{node.op_type}_{number}") in taken:
            number += 1
        node.name = name
        taken.add(name)


def lowerings(drop: Sequence[str] = ()) -> dict[Key, list[str]]:
    """The names of the lowerings of each operator, those of a higher priority last."""
    found: dict[Key, list[str]] = defaultdict(list)
    for rewrite in database().query(Query([_LOWER])):
        if isinstance(rewrite, PatternOptimization) and rewrite.name() not in drop:
            for key in sorted(_operators(rewrite)):
                found[key].append(rewrite.name())
    return found


def lowered_by(name: str) -> set[Key]:
    """The operators that the lowering of a name takes away, none for other patterns."""
    return {key for key, names in lowerings().items() if name in names}


def unfit_for(rewrite: Rewrite | type[Rewrite], target: Target) -> str:
    """Why a pattern is left out when a model is optimized for a target, empty when it is used."""
    if rewrite.family() in target.families:
        return f"patterns of the family {rewrite.family()} hinder there"
    return OptimizationOptions(target=target.name).unfit_there(rewrite)


def _operators(pattern: PatternOptimization) -> set[Key]:
    """The operators that a lowering may take away."""
    keys = set(pattern.anchor_keys())
    if isinstance(pattern, EasyPatternOptimization):
        for start, others in pattern.paths():
            keys |= {start, *others}
    return {(key[0], key[1]) for key in keys}


def _names_by_pattern(left: Iterable[PlacedNode], choice: Choice) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for node in left:
        name = choice.get((node.domain, node.op_type))
        if name is not None:
            found[name].add(node.name)
    return dict(found)


def _elsewhere(placement: Placement) -> Iterator[PlacedNode]:
    """The nodes that a target does not run, those that compute shapes included."""
    yield from placement.left
    yield from placement.shapes


def _cost(placement: Placement) -> tuple[bool, int, int]:
    """The faults of a placement: whether it fails, how many nodes run elsewhere, and in how many parts the others run."""
    return not placement.compiles, len(placement.left) + len(placement.shapes), placement.partitions
