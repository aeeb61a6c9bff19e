"""The record of an optimization, and the nodes of the optimized model that correspond to nodes of
the original.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from xoptim.engine.events import Event
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.rewrite import Rewrite
from xoptim.reporting.drawing import Drawing, draw
from xoptim.reporting.libraries import check_libraries


@dataclass(slots=True)
class RewriteStep:
    """The nodes that a rewrite removed and added; its name is empty when it is unknown."""

    name: str
    removed: Sequence[Node]
    added: Sequence[Node]
    rewrite: Rewrite | None = None


class Journal:
    """The record of the optimization of one model, which is drawn before any rewrite.

    ``folded`` are nodes whose results were computed ahead of time.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.before: Drawing = draw(model)
        self.steps: list[RewriteStep] = []
        self.folded: set[Node] = set()

    def __call__(self, event: Event) -> None:
        """Record an event.

        Events of other models, which a search for a wrong rewrite sends, are ignored.
        """
        if event.kind == "folded" and event.node is not None:
            self.folded.add(event.node)
        elif event.application is not None and event.application.graph.model is self.model:
            self.steps.append(
                RewriteStep(
                    event.pattern,
                    tuple(event.removed),
                    tuple(event.added),
                    event.application.pattern,
                )
            )


class Recorder:
    """Records all optimizations of one model: verification may repeat the optimization.

    Raises `MissingLibraryError` when a library of the report is not installed.
    """

    def __init__(self) -> None:
        check_libraries()
        self._journals: list[Journal] = []

    def loaded(self, model: Model) -> None:
        """Begin a journal; called when a model is loaded, before any rewrite."""
        self._journals.append(Journal(model))

    def listening(self, options: OptimizationOptions) -> OptimizationOptions:
        """The options, with a listener that writes the journal."""

        def listen(event: Event) -> None:
            if self._journals:
                self._journals[-1](event)
            if options.on_event is not None:
                options.on_event(event)

        return replace(options, on_event=listen)

    def of(self, model: Model) -> Journal:
        """The journal of a model."""
        return next(journal for journal in self._journals if journal.model is model)


def twins_of(before: Drawing, after: Drawing) -> dict[int, int]:
    """The nodes that are in both models: the same operator, attributes and constants, and results
    of one name.
    """
    keys = {_key(after, number): number for number in range(len(after.nodes))}
    pairs = {number: keys.get(_key(before, number), -1) for number in range(len(before.nodes))}
    return {number: twin for number, twin in pairs.items() if twin >= 0}


def _key(drawing: Drawing, number: int) -> tuple[object, ...]:
    """A key that is equal for twins; a node has no twin if an operand became a constant."""
    node = drawing.nodes[number]
    names = tuple(drawing.values[value][0] for value in node.outputs)
    kinds = [drawing.values[value][1] for value in node.inputs]
    constants = tuple(kind if kind.endswith(" constant") or " = " in kind else "" for kind in kinds)
    return node.op_type, node.attributes, constants, names


def steps_between(before: Drawing, after: Drawing, twins: dict[int, int]) -> list[RewriteStep]:
    """A step for each region that changed, in the order of the result.

    The metadata of the added nodes names the patterns.
    """
    sides = (before, set(twins)), (after, set(twins.values()))
    nodes = [
        [node for node, number in side.index.items() if number not in stayed]
        for side, stayed in sides
    ]
    groups = _Groups()
    for (side, _), changed in zip(sides, nodes, strict=True):
        names = {name for name, _ in (after if side is before else before).values}
        for node in changed:
            drawn = side.nodes[side.index[node]]
            results, operands = (
                [side.values[value][0] for value in values]
                for values in (drawn.outputs, drawn.inputs)
            )
            for name in (*results, *(name for name in operands if name not in names)):
                groups.join(id(node), name)
    steps: dict[object, tuple[list[Node], list[Node]]] = {}
    for place, changed in enumerate(nodes):
        for node in changed:
            steps.setdefault(groups.root(id(node)), ([], []))[place].append(node)
    regions = []
    for removed, added in steps.values():
        if not added:  # its readers tell why it is gone
            continue
        tags = dict.fromkeys(after.nodes[after.index[node]].tag for node in added)
        regions.append(RewriteStep(" + ".join(filter(None, tags)), removed, added))
    return regions


class _Groups:
    """Sets that are joined (Tarjan, *Efficiency of a Good But Not Linear Set Union Algorithm*,
    1975).
    """

    def __init__(self) -> None:
        self._parents: dict[object, object] = {}

    def root(self, item: object) -> object:
        """The representative of the set of an item."""
        while (parent := self._parents.setdefault(item, item)) != item:
            self._parents[item] = item = self._parents[parent]
        return item

    def join(self, item: object, other: object) -> None:
        """Join the sets of two items."""
        self._parents[self.root(item)] = self.root(other)


Fate: TypeAlias = Literal[0, 1, 2, 3, 4]
"""The fate of a node of the original: one of the constants below."""
KEPT: Final = 0
REWRITTEN: Final = 1
FOLDED: Final = 2
"""Computed ahead of time."""
UNREAD: Final = 3
"""No longer needed after a rewrite of its readers."""
REPLACED: Final = 4
"""Its readers read another result: an equal node's, or its operand."""


@dataclass(slots=True)
class Change:
    """A rewrite, as nodes of the two drawings.

    ``before`` are nodes of the original that it removed, or that were not needed after it.
    ``after`` are the nodes that replace them, or the readers of their results when nothing replaces
    them (``is_gone``).
    """

    name: str
    before: list[int]
    after: list[int]
    is_gone: bool = False


@dataclass(slots=True)
class Links:
    """The relation of two drawings."""

    fates: list[Fate]  # the fate of each node of the original
    # for each node of the original, its twin in the result, or the node that its readers read now;
    # -1 for none
    twins: list[int]
    step: list[int]  # the change that removed each node of the original, -1 for none
    # the change that made each node of the result, -1 for one that was there before
    made: list[int]
    changes: list[Change] = field(default_factory=list)  # the rewrites

    def to_json(self) -> dict[str, Any]:
        """All fields as the page's script reads them: each change is an array, to save space."""
        changes = [
            (change.name, change.before, change.after, int(change.is_gone))
            for change in self.changes
        ]
        return {
            "fates": self.fates,
            "twins": self.twins,
            "step": self.step,
            "made": self.made,
            "changes": changes,
        }


def _find_rewritten(links: Links) -> None:
    """Mark a replaced node as rewritten if a rewrite made its replacement."""
    for number, twin in enumerate(links.twins):
        if links.fates[number] != REPLACED or twin < 0 or links.made[twin] < 0:
            continue
        links.fates[number] = REWRITTEN
        links.step[number] = links.made[twin]
        links.twins[number] = -1


def link(
    before: Drawing,
    after: Drawing,
    steps: Sequence[RewriteStep],
    folded: Iterable[Node] = (),
    twins: dict[int, int] | None = None,
) -> Links:
    """Relate the drawings of the original and of the result by the rewrites, in order, and the
    nodes that were folded.

    For models whose rewrites are not recorded, ``twins`` are the unchanged nodes, by number; by
    default, these are the same objects in both.
    """
    is_recorded = twins is None
    if twins is None:
        pairs = ((node, number) for node, number in before.index.items() if node in after.index)
        twins = {number: after.index[node] for node, number in pairs}
    count = len(before.nodes)
    links = Links(
        [KEPT] * count,
        [twins.get(number, -1) for number in range(count)],
        [-1] * count,
        [-1] * len(after.nodes),
    )
    for place, step in enumerate(steps):
        for node in step.removed:
            if node in before.index and links.twins[before.index[node]] < 0:
                links.fates[before.index[node]], links.step[before.index[node]] = REWRITTEN, place
        for node in step.added:
            if node in after.index:
                links.made[after.index[node]] = place
    for node in folded:
        if node in before.index and links.twins[before.index[node]] < 0:
            links.fates[before.index[node]] = FOLDED
    _explain_rest(before, after, links)
    if not is_recorded:
        _find_rewritten(links)
    links.changes = _changes(before, after, steps, links)
    return links


def _explain_rest(before: Drawing, after: Drawing, links: Links) -> None:
    """Find the fates of nodes that no rewrite removed, readers before producers."""
    readers = before.readers()
    makers = after.producers()
    for number in reversed(range(len(before.nodes))):
        if links.fates[number] != KEPT or links.twins[number] >= 0:
            continue
        uses = [
            (reader, place)
            for value in before.nodes[number].outputs
            for reader, place in readers.get(value, ())
        ]
        kept = [
            (links.twins[reader], place) for reader, place in uses if links.fates[reader] == KEPT
        ]
        operands = [
            after.nodes[twin].inputs[place]
            for twin, place in kept
            if place < len(after.nodes[twin].inputs)
        ]
        if kept:
            links.fates[number] = REPLACED
            links.twins[number] = next((makers[value] for value in operands if value in makers), -1)
        else:
            links.fates[number] = UNREAD
            links.step[number] = max((links.step[reader] for reader, _ in uses), default=-1)


def _changes(
    before: Drawing, after: Drawing, steps: Sequence[RewriteStep], links: Links
) -> list[Change]:
    """The rewrites, with origins or successors in place of nodes that are in neither drawing."""
    removed_by = {node: place for place, step in enumerate(steps) for node in step.removed}
    made_by = {node: place for place, step in enumerate(steps) for node in step.added}
    origins: dict[int, list[int]] = {}
    for number, place in enumerate(links.step):
        if place >= 0:
            origins.setdefault(place, []).append(number)
    sources: list[dict[int, None]] = []
    for place, step in enumerate(steps):
        nodes = dict.fromkeys(origins.get(place, ()))
        for node in step.removed if not nodes else ():
            nodes.update(sources[made_by[node]] if made_by.get(node, place) < place else {})
        sources.append(nodes)
    results: list[dict[int, None]] = [{} for _ in steps]
    for place in reversed(range(len(steps))):
        for node in steps[place].added:
            if node in after.index:
                results[place][after.index[node]] = None
            elif removed_by.get(node, -1) > place:
                results[place].update(results[removed_by[node]])
    changes = [
        Change(step.name, sorted(left), sorted(right), not right)
        for step, left, right in zip(steps, sources, results, strict=True)
    ]
    readers, makers = before.readers(), before.producers()
    for change in changes:
        if change.is_gone:
            change.after = _around(before, change.before, links, results, readers, makers)
    return changes


def _around(
    before: Drawing,
    gone: Sequence[int],
    links: Links,
    results: Sequence[Mapping[int, None]],
    readers: Mapping[int, Sequence[tuple[int, int]]],
    makers: Mapping[int, int],
) -> list[int]:
    """The readers of nodes that are gone, or the nodes that replaced the readers, in the result.

    When none is left: the producers of their operands.
    """
    values = [value for number in gone for value in before.nodes[number].outputs]
    consumers = [reader for value in values for reader, _ in readers.get(value, ())]
    producers = [
        makers[value] for number in gone for value in before.nodes[number].inputs if value in makers
    ]
    return _successors(consumers, links, results) or _successors(producers, links, results)


def _successors(
    numbers: Iterable[int], links: Links, results: Sequence[Mapping[int, None]]
) -> list[int]:
    """The nodes of the result that are nodes of the original, or replaced them."""
    successors: set[int] = set()
    for number in numbers:
        if links.fates[number] == KEPT:
            successors.add(links.twins[number])
        elif links.fates[number] == REWRITTEN:
            successors.update(results[links.step[number]])
    return sorted(successors)
