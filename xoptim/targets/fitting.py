"""Fit a model to a target: replace the nodes that its provider does not take by operators that the
provider takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Final, TypeAlias

import onnx

from xoptim.catalogue.entries import loaded
from xoptim.catalogue.query import Query, class_of
from xoptim.catalogue.registry import registry
from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import Optimizer
from xoptim.facts.json_results import JsonForm, JsonResult, member, rounded_time
from xoptim.facts.operators import operator_label
from xoptim.facts.protos import every_node
from xoptim.facts.words import counted
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.match.easy import EasyPatternOptimization
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import Rewrite
from xoptim.targets.placement import PlacedNode, Placement
from xoptim.targets.tables import table_of
from xoptim.targets.target import FITTING_SECONDS, Target

MOST_QUESTIONS: Final = 48
"""Maximum number of placements that are asked for."""
_LOWER: Final = "lower"
_BY_SCHEME: Final = "precision"
"""The family of patterns that a quantization scheme chooses, whatever the target."""
_TIDYING: Final = ("CastCast",)
"""Patterns that merge what consecutive lowerings write.

CastMovementCast is none of them: it would undo the lowering of Booleans.
"""
_DEPTH: Final = 4
"""Maximum number of lowerings in a row before the result is judged."""
Ask: TypeAlias = Callable[[onnx.ModelProto], Placement]
Find: TypeAlias = Callable[[onnx.ModelProto, Placement, float], Collection[str]]
"""Returns the names of the nodes of the smallest part that does not compile, in order; none if no
part is known. The number limits the search, in seconds.
"""
Key: TypeAlias = tuple[str, str]
"""Domain and name of an operator."""
Choice: TypeAlias = dict[Key, list[str]]
"""The names of the lowerings of each operator, in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class FittingStep(JsonResult):
    """A lowering that was applied.

    Attributes:
        pattern: name of the lowering.
        operator: the operator that the lowering replaces.
        count: number of times that the lowering was applied.
        reason: the reason why the target did not take the operator, if known.
    """

    pattern: str
    operator: str  # with its domain, unless that is the standard one
    count: int
    reason: str = ""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.operator} by {self.pattern}, {counted(self.count, 'time')}{why}"


@dataclass(frozen=True, slots=True)
class Fitted(JsonResult):
    """A model that was fitted to a target.

    Attributes:
        model: the model; unchanged if nothing helped.
        before: the placement before.
        after: the placement of the result.
        steps: the lowerings that were applied.
        questions: number of placements that were asked for.
        seconds: duration, in seconds.
    """

    __json__ = JsonForm("before after steps questions", member("seconds", rounded_time))
    model: onnx.ModelProto
    before: Placement
    after: Placement
    steps: tuple[FittingStep, ...] = ()
    questions: int = 1
    seconds: float = 0.0


def fit(
    model: onnx.ModelProto,
    ask: Ask,
    base_dir: Path | None = None,
    *,
    find: Find | None = None,
    drop: Sequence[str] = (),
    avoid: Mapping[str, Collection[str]] | None = None,
    seconds: float = FITTING_SECONDS,
) -> Fitted:
    """Lower the nodes that a target does not take, as long as fewer nodes then run elsewhere, or
    the nodes that it takes form fewer parts.

    The search is greedy and bounded, and gives the same result for the same answers: it lowers all
    operators that the target does not take, in the order of the names, asks again, and undoes the
    lowerings that did not help. If a model does not compile, the search lowers the smallest part
    that does not compile, as long as a longer beginning of the model then compiles.

    Args:
        model: left unchanged, except that nodes without a name get one.
        ask: gives the placement of a model.
        base_dir: folder of external data.
        find: names the part of a model that does not compile; without it, all nodes of such a model
            are lowered.
        drop: names of lowerings that may not be applied.
        avoid: names of nodes at which a lowering may not be applied, by its name.
        seconds: after which the best result so far counts.
    """
    return _LoweringSearch(model, ask, base_dir, find, drop, avoid or {}, seconds).run()


@dataclass(frozen=True, slots=True)
class _Standing:
    """The state that a search has reached with a model.

    Attributes:
        placement: of the model.
        failing: the names of the nodes that do not compile together, if they are known.
        rest: number of nodes from the last failing node on.
    """

    placement: Placement
    failing: frozenset[str] = frozenset()
    rest: int = 0

    @property
    def left(self) -> list[PlacedNode]:
        """The nodes that a target does not run, those that compute shapes included."""
        placement = self.placement
        left = [*placement.left, *placement.shapes]
        return [node for node in left if not self.failing or node.name in self.failing]

    @property
    def cost(self) -> tuple[bool, int, int, int]:
        """The faults, the worst first: whether compiling fails, and the numbers of nodes from the
        failure on, of nodes that run elsewhere, and of parts that the target runs.
        """
        placement = self.placement
        elsewhere = len(placement.left) + len(placement.shapes)
        return not placement.compiles, self.rest, elsewhere, placement.partitions


@dataclass(slots=True)
class _Lowered:
    """A model after some lowerings.

    ``gone`` and ``made`` are the names of the nodes that each lowering removed and made; further
    lowerings of its nodes count for it. ``applied`` are the lowerings of nodes of the original
    model. ``counts`` says how often each lowering was applied to an operator.
    """

    model: onnx.ModelProto
    gone: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    made: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    applied: set[tuple[Key, str]] = field(default_factory=set)
    counts: dict[tuple[Key, str], int] = field(default_factory=lambda: defaultdict(int))


class _LoweringSearch:
    def __init__(
        self,
        model: onnx.ModelProto,
        ask: Ask,
        base_dir: Path | None,
        find: Find | None,
        drop: Sequence[str],
        avoid: Mapping[str, Collection[str]],
        seconds: float,
    ) -> None:
        self._began = perf_counter()
        self._avoid = avoid
        self._seconds = seconds
        self._ask = ask
        self._find = find
        self._base_dir = base_dir
        self._questions = 0
        self._lowerings = lowerings(drop)
        self._rejected: set[tuple[Key, str]] = set()  # lowerings that did not help
        self._idle: set[tuple[Key, str]] = set()  # lowerings that do not apply to the model now
        self._reasons: dict[Key, str] = {}
        self._counts: dict[tuple[Key, str], int] = defaultdict(int)
        name_nodes(model)
        self._model = model

    def run(self) -> Fitted:
        """Search until nothing improves, or the time is up."""
        initial = standing = self._place(self._model)
        while not self._is_over():
            choice = self._choice(standing.left)
            if not choice:
                break
            result = self._tried(standing, choice)
            if result is not None:
                lowered, standing = result
                self._accept(lowered)
        steps = tuple(
            FittingStep(pattern, operator_label(key[1], key[0]), count, self._reasons.get(key, ""))
            for (key, pattern), count in self._counts.items()
        )
        seconds = perf_counter() - self._began
        return Fitted(
            self._model, initial.placement, standing.placement, steps, self._questions, seconds
        )

    def _is_over(self) -> bool:
        return self._questions >= MOST_QUESTIONS or perf_counter() - self._began > self._seconds

    def _place(self, model: onnx.ModelProto) -> _Standing:
        self._questions += 1
        placement = self._ask(model)
        if placement.compiles:
            return _Standing(placement)
        seconds = self._seconds - (perf_counter() - self._began)
        if self._find is None or seconds <= 0:
            return _Standing(placement, rest=len(placement.nodes))
        names = self._find(model, placement, seconds)
        ends = [index for index, node in enumerate(placement.nodes) if node.name in names]
        if not ends:
            return _Standing(placement, rest=len(placement.nodes))
        return _Standing(placement, frozenset(names), len(placement.nodes) - ends[-1])

    def _choice(self, left: Iterable[PlacedNode]) -> Choice:
        """The lowerings to try on each operator that the target leaves."""
        choice: Choice = {}
        exclusions = self._rejected | self._idle
        for node in left:
            key = (node.domain, node.op_type)
            names = [name for name in self._lowerings.get(key, ()) if (key, name) not in exclusions]
            if names:
                choice.setdefault(key, names)
                self._reasons.setdefault(key, node.reason)
        return dict(sorted(choice.items()))

    def _tried(self, before: _Standing, choice: Choice) -> tuple[_Lowered, _Standing] | None:
        """The model with those lowerings of a choice that help, and its state.

        Lowerings that do not help are not tried again.
        """
        lowered, after = self._lower(before, choice)
        applied = lowered.applied
        if not applied:
            self._idle |= {(key, name) for key, names in choice.items() for name in names}
            return None
        if after.cost < before.cost:
            # A part that does not compile says nothing about its single nodes.
            harmful = self._harmful(before, after, lowered) if after.placement.compiles else set()
            if not harmful:
                return lowered, after
            self._rejected |= {(key, name) for key, name in applied if name in harmful}
            # The harmful lowerings may still be what makes the others help.
            retry = None if self._is_over() else self._tried(before, self._choice(before.left))
            return (lowered, after) if retry is None or after.cost < retry[1].cost else retry
        if len(applied) == 1:
            self._rejected |= applied
            return None
        return self._tried_apart(before, applied)

    def _tried_apart(
        self, before: _Standing, applied: set[tuple[Key, str]]
    ) -> tuple[_Lowered, _Standing] | None:
        """Try lowerings that do not help together one by one; a single one operator by operator."""
        names = sorted({name for _, name in applied})
        parts = [
            {key: [name] for key, pattern in sorted(applied) if pattern == name} for name in names
        ]
        if len(names) == 1:
            parts = [{key: [name]} for key, name in sorted(applied)]
        for part in parts:
            if self._is_over():
                break
            result = self._tried(before, part)
            if result is not None:
                return result
        return None

    def _harmful(self, before: _Standing, after: _Standing, lowered: _Lowered) -> set[str]:
        """The lowerings that made at least as many nodes that the target does not take as they
        removed.
        """
        was_left = {node.name for node in before.left}
        is_left = {node.name for node in after.left}
        names = {name for _, name in lowered.applied}
        return {
            name
            for name in names
            if len(lowered.gone[name] & was_left) <= len(lowered.made[name] & is_left)
        }

    def _lower(self, standing: _Standing, choice: Choice) -> tuple[_Lowered, _Standing]:
        """Lower the nodes that are left, then the nodes of their replacements that the target does
        not take either.
        """
        lowered = _Lowered(self._model)
        origin: dict[str, str] = {}
        current = dict(choice)
        for _ in range(_DEPTH):
            at = self._names_by_pattern(standing.left, current)
            if not at or not self._apply(lowered, at, origin):
                break
            standing = self._place(lowered.model)
            new_names = {name for names in lowered.made.values() for name in names}
            new_nodes = [node for node in standing.left if node.name in new_names]
            current = self._choice(new_nodes)
            if self._is_over() or not current:
                break
        return lowered, standing

    def _names_by_pattern(self, left: Iterable[PlacedNode], choice: Choice) -> dict[str, set[str]]:
        nodes: dict[str, set[str]] = defaultdict(set)
        for node in left:
            for name in choice.get((node.domain, node.op_type), ()):
                if node.name not in self._avoid.get(name, ()):
                    nodes[name].add(node.name)
        return dict(nodes)

    def _apply(self, lowered: _Lowered, at: Mapping[str, set[str]], origin: dict[str, str]) -> bool:
        """Apply lowerings at some nodes; returns whether anything changed."""
        changed = False

        def record(application: Application) -> None:
            nonlocal changed
            if application.pattern.phase != _LOWER:
                return
            changed = True
            anchor, name = application.anchor, application.pattern.name()
            root = origin.get(anchor.name, name)
            new_nodes = [node for node in application.given if node not in application.matched]
            old_names = {node.name for node in application.matched if node not in application.given}
            lowered.gone[root] |= old_names - lowered.made[root]
            lowered.made[root] -= old_names
            lowered.made[root] |= {node.name for node in new_nodes}
            lowered.counts[(anchor.domain, anchor.op_type), name] += 1
            if anchor.name not in origin:
                lowered.applied |= {
                    ((node.domain, node.op_type), name)
                    for node in application.matched
                    if node.name in at[name]
                }
            # A replacement that reuses a name is not lowered before the target was asked about it.
            for names in at.values():
                names -= old_names
            origin.update(dict.fromkeys((node.name for node in new_nodes), root))

        options = OptimizationOptions(
            patterns=Query([*at, *_TIDYING]), lower_at=at, on_application=record, tag_nodes=True
        )
        model = load_model(lowered.model, self._base_dir)
        Optimizer(model, options).run()
        if changed:
            # Lowerings come last in a run: another run merges what they have just written.
            Optimizer(model, replace(options, patterns=Query(_TIDYING), lower_at={})).run()
            lowered.model = export_model(model)
        model.dispose()
        return changed

    def _accept(self, lowered: _Lowered) -> None:
        self._model = lowered.model
        self._idle.clear()
        for step, count in lowered.counts.items():
            self._counts[step] += count


def name_nodes(model: onnx.ModelProto) -> None:
    """Give a name to each node that has none, by which a placement and a lowering find it."""
    nodes = list(every_node(model.graph.node))
    names = {node.name for node in nodes}
    for node in nodes:
        if node.name:
            continue
        number = len(names)
        while (name := f"{node.op_type}_{number}") in names:
            number += 1
        node.name = name
        names.add(name)


def lowerings(drop: Sequence[str] = ()) -> dict[Key, list[str]]:
    """The names of the lowerings of each operator, by ascending priority."""
    by_operator: dict[Key, list[str]] = defaultdict(list)
    for entry in registry().query(Query([_LOWER])):
        rewrite = entry.rewrite
        if isinstance(rewrite, PatternOptimization) and rewrite.name() not in drop:
            for key in sorted(_operators(rewrite)):
                by_operator[key].append(rewrite.name())
    return by_operator


def lowered_by(name: str) -> set[Key]:
    """The operators that the lowering of a name removes, none for other patterns."""
    return {key for key, names in lowerings().items() if name in names}


def unfit_for(rewrite: Rewrite | type[Rewrite], target: Target) -> str:
    """The reason why a pattern is dropped when a model is optimized for a target, empty when the
    pattern is used.
    """
    if rewrite.family() in target.families:
        return f"patterns of the family {rewrite.family()} make models slower there"
    if reason := OptimizationOptions(target=target.name).unfit_there(rewrite):
        return reason
    if is_for_others(rewrite, target) and rewrite.family() != _BY_SCHEME:
        return f"it is for {' and '.join(rewrite.providers)} only"
    return lacking_operator(rewrite, target)


def lacking_operator(rewrite: Rewrite | type[Rewrite], target: Target) -> str:
    """The reason why the table of a target does not fit a pattern: in each example, the pattern
    writes an operator that is not in the table. Empty where it fits, or where there is no table.
    """
    table = table_of(target.name)
    if table is None:
        return ""
    examples = [
        sorted(labels - table.operators.keys()) for labels in _written_by(class_of(loaded(rewrite)))
    ]
    if not examples or not all(examples):
        return ""
    return f"it writes {examples[0][0]}, which {target.name} lacks"


@cache
def _written_by(rewrite: type[Rewrite]) -> list[set[str]]:
    """The operators that a pattern writes in each of its examples, other than those it matches.

    Empty for an example with metadata, which is not the text of a graph alone.
    """
    written: list[set[str]] = []
    for example in rewrite.examples:
        try:
            written.append(_operators_in(example.after) - _operators_in(example.before))
        except onnx.parser.ParseError:
            written.append(set())
    return written


def _operators_in(text: str) -> set[str]:
    """The labels of the operators in the text of a graph."""
    nodes = every_node(onnx.parser.parse_graph(text).node)
    return {operator_label(node.op_type, node.domain) for node in nodes}


def is_for_others(rewrite: Rewrite | type[Rewrite], target: Target) -> bool:
    """Whether a pattern is for execution providers other than the provider of a target."""
    provider = OptimizationOptions(target=target.name).provider_for(rewrite)
    return bool(rewrite.providers) and provider not in rewrite.providers


def _operators(pattern: PatternOptimization) -> set[Key]:
    """The operators that a lowering may remove."""
    keys = set(pattern.anchor_keys())
    if isinstance(pattern, EasyPatternOptimization):
        for start, path in pattern.paths():
            keys |= {start, *path}
    return {(key[0], key[1]) for key in keys}
