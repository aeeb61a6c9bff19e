"""Groups and sequences of rewrites as in Theano, and the installed rewrites as one sequence.

Each is a view of registries (`xoptim.catalogue.registry`): a `PatternGroup` is an
``EquilibriumDB``, a `PatternSequence` is a ``SequenceDB``, and `database` is ``optdb``.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

from xoptim.catalogue.extending import (
    POSITIONS,
    Entry,
    Query,
    Registry,
    class_of,
    is_pass,
    make_entry,
    registry,
    shared,
    short,
    unknown,
)
from xoptim.facts.errors import UnknownPatternError
from xoptim.match import PatternOptimization
from xoptim.match.extending import PHASES, ModelPass, Phase, Rewrite


class Database(ABC):
    """The base of groups and sequences: a set of rewrites that answers queries."""

    @property
    @abstractmethod
    def registry(self) -> Registry:
        """The rewrites, by name and word."""

    def entries(self) -> tuple[Entry, ...]:
        """All rewrites, also in groups, in the order in which they run."""
        return tuple(self.registry)

    def query(self, query: Query) -> list[Rewrite]:
        """The rewrites that match a query, in the order in which they run.

        Raises `UnknownPatternError` when a word of it, or a group that has a subquery, is unknown.
        """
        return [entry.rewrite for entry in self.registry.query(query)]

    def find(self, word: str) -> list[Entry]:
        """The rewrites that a word selects (`xoptim.catalogue.registry.Registry.find`)."""
        return self.registry.find(word)

    def named(self, word: str) -> list[Entry]:
        """The rewrites with this name, class or former name; empty if there are none."""
        return self.registry.named(word)

    def names(self) -> set[str]:
        """All names."""
        return self.registry.names()

    def words(self) -> dict[str, int]:
        """All words other than names, with the number of rewrites that they select."""
        return self.registry.words()


@dataclass(frozen=True)
class Holder:
    """A registry that contains the patterns of a group."""

    registry: Registry
    group: str  # the name of the group there; empty in its own registry
    position: float = 0.0
    tags: frozenset[str] = frozenset()  # tags of all patterns of the group

    def entry(self, entry: Entry) -> Entry:
        """An entry of the group as it is in this registry."""
        words = entry.words | self.tags | ({self.group} if self.group else set())
        return replace(entry, words=words, group=self.group, position=self.position)


class PatternGroup(Database):
    """Patterns that are applied together until none of them changes the graph.

    A pattern in a group must terminate, must not undo the rewrites of another one, and belongs to
    the ``phase``, if any. A group may be in several sequences.
    """

    def __init__(self, phase: Phase | None = None, *, holder: Holder | None = None) -> None:
        self.phase = phase
        self.holders = [Holder(Registry(), "") if holder is None else holder]

    @property
    def registry(self) -> Registry:
        """The patterns of the group."""
        first = self.holders[0]
        if not first.group:
            return first.registry
        result = Registry()
        for entry in first.registry:
            if entry.group == first.group:
                result.add(entry)
        return result

    def register(
        self, name: str, entry: PatternOptimization | type[PatternOptimization], *tags: str
    ) -> None:
        """Add a pattern.

        Args:
            name: a word that selects it, besides its own name.
            entry: the pattern, or its class.
            *tags: words that select it, besides its own tags.

        Raises:
            ValueError: when the name is taken, or the pattern belongs to another phase.
            TypeError: when it is not a pattern that matches at a node, or its metadata are invalid.
        """
        if is_pass(entry):
            raise TypeError(
                f"{name!r} rewrites whole models: register it in the sequence, at a position"
            )
        if not issubclass(class_of(entry), PatternOptimization):
            raise TypeError(f"a group holds patterns, not {entry!r}")
        if self.phase not in (None, entry.phase):
            raise ValueError(
                f"{name!r} belongs to the phase {entry.phase!r}, not to {self.phase!r}"
            )
        new_entry = make_entry(name, entry, tags)
        for holder in self.holders:
            for free_name in new_entry.names:
                holder.registry.check_free(free_name)
        for holder in self.holders:
            holder.registry.add(holder.entry(new_entry))

    def unregister(self, name: str) -> None:
        """Remove a pattern.

        Raises `UnknownPatternError` when none is registered under this name.
        """
        patterns = self.registry
        target = patterns.get(name) or next(iter(patterns.named(name)), None)
        if target is None:
            raise UnknownPatternError(unknown(name, patterns.names(), is_name=True))
        for holder in self.holders:
            entry = holder.registry.get(target.name)
            assert entry is not None
            holder.registry.remove(entry)

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in self.registry)

    def __len__(self) -> int:
        return len(self.registry)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.registry.get(name) is not None

    def __getitem__(self, name: str) -> Rewrite:
        entry = self.registry.get(name)
        if entry is None:
            raise KeyError(name)
        return entry.rewrite


class PatternSequence(Database):
    """Groups and passes in the order of their positions.

    Without an argument it is empty; with a registry, it has its rewrites and groups.
    """

    def __init__(self, shown: Registry | None = None) -> None:
        self._registry = Registry() if shown is None else shown
        self._groups: dict[str, PatternGroup] = {}
        for name, position in self._registry.groups.items():
            phase = next((phase for phase in PHASES if phase == name), None)
            holder = Holder(self._registry, name, position)
            self._groups[name] = PatternGroup(phase, holder=holder)

    @property
    def registry(self) -> Registry:
        """All rewrites, those in groups included."""
        return self._registry

    def group(self, name: str) -> PatternGroup:
        """A group by name; raises `UnknownPatternError` when no group has that name."""
        self._registry.check_group(name)
        return self._groups[name]

    def register(
        self,
        name: str,
        entry: PatternGroup | ModelPass | type[ModelPass],
        position: float,
        *tags: str,
    ) -> None:
        """Add a group, or a pass.

        Args:
            name: a word that selects it.
            entry: the group or the pass. A pass is copied if its position is in another phase than
                its own.
            position: a pass runs in the first phase whose number in `POSITIONS` is not smaller;
                passes of one phase run in the order of their positions.
            *tags: words that select it; the tags of a group select everything in it.

        Raises:
            ValueError: when the name is taken.
            TypeError: when it is a pattern that matches at a node, or not a rewrite.
        """
        if isinstance(position, str):
            raise TypeError(
                f"the position of {name!r} must be a number, not {position!r}; tags follow it"
            )
        if isinstance(entry, PatternGroup):
            self._add_group(name, entry, Holder(self._registry, name, position, frozenset(tags)))
            return
        if not is_pass(entry):
            raise TypeError(
                f"{entry!r} matches at a node: put it in a group, or wrap it in a navigator"
            )
        item = _placed(entry, position)
        self._registry.add(make_entry(name, item, tags, position=position))

    def _add_group(self, name: str, group: PatternGroup, holder: Holder) -> None:
        entries = group.entries()
        for new_name in (name, *(word for entry in entries for word in entry.names)):
            self._registry.check_free(new_name)
        self._registry.groups[name] = holder.position
        self._groups[name] = group
        group.holders.append(holder)
        for entry in entries:
            self._registry.add(holder.entry(entry))

    def unregister(self, name: str) -> None:
        """Remove a group, a pass, or a pattern, which may be in a group.

        Raises `UnknownPatternError` when no entry is registered under this name.
        """
        if name in self._groups:
            self._remove_group(name)
            return
        target = self._registry.get(name) or next(iter(self._registry.named(short(name))), None)
        if target is None:
            names = self._groups.keys() | self._registry.names()
            raise UnknownPatternError(unknown(name, names, is_name=True))
        if target.group:
            self._groups[target.group].unregister(target.name)
        else:
            self._registry.remove(target)

    def _remove_group(self, name: str) -> None:
        group = self._groups.pop(name)
        patterns = group.entries()
        for entry in [entry for entry in self._registry if entry.group == name]:
            self._registry.remove(entry)
        group.holders = [
            holder for holder in group.holders if holder.registry is not self._registry
        ]
        if not group.holders:  # the group keeps its patterns
            own = Holder(Registry(), "")
            for entry in patterns:
                own.registry.add(own.entry(entry))
            group.holders = [own]
        del self._registry.groups[name]

    def _passes(self) -> Iterator[Entry]:
        return (entry for entry in self._registry if not entry.group)

    def __iter__(self) -> Iterator[str]:
        groups = [((self._registry.groups[name], True, 0, name), name) for name in self._groups]
        passes = [(entry.order, entry.name) for entry in self._passes()]
        return (name for _, name in sorted([*groups, *passes]))

    def __len__(self) -> int:
        return len(self._groups) + sum(1 for _ in self._passes())

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __getitem__(self, name: str) -> Rewrite | PatternGroup:
        if name in self._groups:
            return self._groups[name]
        entry = self._registry.get(name)
        if entry is None or entry.group:
            raise KeyError(name)
        return entry.rewrite


def _placed(item: ModelPass | type[ModelPass], position: float) -> ModelPass | type[ModelPass]:
    """A pass for a position of a sequence, or a copy of it in the first phase whose number is not
    smaller.
    """
    phase = next((phase for phase in PHASES if position <= POSITIONS[phase]), PHASES[-1])
    if item.phase == phase:
        return item
    duplicate = copy.copy(shared(item))
    vars(duplicate)["phase"] = phase
    return duplicate  # type: ignore[return-value]


_PRINCIPAL: list[PatternSequence] = []


def database() -> PatternSequence:
    """The installed rewrites as a sequence: a group for each phase, and the passes."""
    if not _PRINCIPAL or _PRINCIPAL[0].registry is not registry():
        _PRINCIPAL[:] = [PatternSequence(registry())]
    return _PRINCIPAL[0]
