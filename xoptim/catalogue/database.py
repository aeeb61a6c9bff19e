"""All patterns with their names, tags and positions: phases are a sequence, each of them a group that runs to a fixed point."""

from __future__ import annotations

import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from xoptim.catalogue.discovery import installed_patterns
from xoptim.catalogue.entries import Entry, Index, Order, Pattern, make_entry, shared
from xoptim.catalogue.query import Query
from xoptim.catalogue.words import short, unknown
from xoptim.facts.errors import UnknownPatternError
from xoptim.match.pattern import PHASES, Phase
from xoptim.match.whole_graph import PHASE_POSITIONS, GlobalRewriter

logger = logging.getLogger("xoptim")
AnyPattern = TypeVar("AnyPattern", bound="Pattern | type[Pattern]")


class Database(ABC):
    """What groups and sequences have in common: they answer queries."""

    def __init__(self) -> None:
        self._indexed: tuple[tuple[int, ...], Index] = ((), Index(()))
        self._version = 0
        self._own_names: set[str] = set()

    @abstractmethod
    def __iter__(self) -> Iterator[str]: ...

    @abstractmethod
    def _versions(self) -> tuple[int, ...]:
        """Changes when something is registered or unregistered."""

    @abstractmethod
    def _entries(self) -> Iterable[Entry]: ...

    def _names(self) -> Iterator[set[str]]:
        """All names that are taken."""
        yield self._own_names

    def index(self) -> Index:
        """Where words lead to."""
        versions = self._versions()
        if self._indexed[0] != versions:
            self._indexed = versions, Index(sorted(self._entries(), key=lambda entry: entry.order))
        return self._indexed[1]

    def entries(self) -> tuple[Entry, ...]:
        """All patterns, those of groups too, in the order in which they run."""
        return self.index().entries

    def find(self, word: str) -> list[Entry]:
        """The patterns that a word stands for: a preset or profile, a name, any other word, a former name, in this order.

        Raises:
            UnknownPatternError: when it is none of these; the message suggests the nearest one.
        """
        return self.index().find(word.strip())

    def named(self, word: str) -> list[Entry]:
        """The patterns with this name, class or former name, with or without the suffix ``Pattern``; empty if none."""
        return self.index().named(short(word))

    def names(self) -> set[str]:
        """All names."""
        return set(self.index().names)

    def words(self) -> dict[str, int]:
        """All words other than names, in alphabetical order, with the number of patterns that have them."""
        return {word: len(entries) for word, entries in sorted(self.index().words.items())}

    def query(self, query: Query) -> list[Pattern]:
        """The patterns that match a query, in the order in which they run: position, priority, name.

        Raises:
            UnknownPatternError: when nothing knows a word of it, or a group that has a subquery.
        """
        wanted = self.index().matching(query)
        return [entry.pattern for entry in self.entries() if entry.name in wanted]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return any(name == each for each in self)

    def _check_free(self, *names: str) -> None:
        for name in names:
            if any(name in taken for taken in self._names()):
                raise ValueError(f"the name {name!r} is taken; choose another, or unregister what has it")


class PatternGroup(Database):
    """Patterns that are applied together until none of them changes anything more.

    A pattern in a group must come to an end, and not undo what another one does.

    Args:
        phase: phase that all patterns must belong to, if any.
    """

    def __init__(self, phase: Phase | None = None) -> None:
        super().__init__()
        self.phase = phase
        self._registered: dict[str, Entry] = {}
        self._sequences: list[PatternSequence] = []

    def register(self, name: str, entry: Pattern | type[Pattern], *tags: str) -> None:
        """Add a pattern.

        Args:
            name: a word to ask for it by, beside the name that it has.
            entry: the pattern, or its class.
            *tags: words to ask for it by, beside the tags that it has.

        Raises:
            ValueError: when the name is taken, or the pattern belongs to another phase.
            TypeError: when it is no pattern that looks around a node.
        """
        cls = entry if isinstance(entry, type) else type(entry)
        if not issubclass(cls, Pattern):
            raise TypeError(f"a group holds patterns, not {entry!r}")
        if issubclass(cls, GlobalRewriter):
            raise TypeError(f"{name!r} rewrites whole models: register it in the sequence, at a position")
        if self.phase not in (None, entry.phase):
            raise ValueError(f"{name!r} belongs to the phase {entry.phase!r}, not to {self.phase!r}")
        for database in (self, *self._sequences):
            database._check_free(name, entry.name())
        self._registered[name] = make_entry(name, entry, tags)
        self._own_names |= {name, entry.name()}
        self._version += 1

    def unregister(self, name: str) -> None:
        """Take a pattern out.

        Raises:
            UnknownPatternError: when none is registered under that name.
        """
        if name not in self._registered:
            raise UnknownPatternError(unknown(name, self._registered))
        self._own_names -= {name, self._registered.pop(name).item.name()}
        self._version += 1

    def __getitem__(self, name: str) -> Pattern:
        return self._registered[name].pattern

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in self.entries())

    def _versions(self) -> tuple[int, ...]:
        return (self._version,)

    def _entries(self) -> Iterable[Entry]:
        return self._registered.values()


@dataclass(frozen=True)
class _Place:
    """A group in a sequence; its tags count for all patterns in it."""

    group: PatternGroup
    position: float
    tags: frozenset[str]


class PatternSequence(Database):
    """Groups and rewriters of whole models, one after the other by position."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, _Place] = {}
        self._rewriters: dict[str, Entry] = {}

    def register(
        self, name: str, entry: PatternGroup | GlobalRewriter | type[GlobalRewriter], position: float, *tags: str
    ) -> None:
        """Add a group, or a rewriter of whole models.

        Args:
            name: a word to ask for it by.
            entry: the group or the rewriter. A rewriter that is to run elsewhere than where it says is copied.
            position: a rewriter runs before the first phase whose number in `PHASE_POSITIONS` is not smaller.
            *tags: words to ask for it by; those of a group count for all that is in it.

        Raises:
            ValueError: when the name is taken.
            TypeError: when it is a plain pattern, or no pattern at all.
        """
        if isinstance(position, str):
            raise TypeError(f"the position of {name!r} is a number, not {position!r}; tags come after it")
        if isinstance(entry, PatternGroup):
            self._check_free(name, *entry._own_names)
            self._places[name] = _Place(entry, position, frozenset(tags))
            self._own_names.add(name)
            entry._sequences.append(self)
        else:
            if not issubclass(entry if isinstance(entry, type) else type(entry), GlobalRewriter):
                raise TypeError(f"{entry!r} looks around a node: put it in a group, or wrap it in a navigator")
            self._check_free(name, entry.name())
            if entry.position != position:
                entry = copy.copy(shared(entry) if isinstance(entry, type) else entry)  # type: ignore[assignment]
                vars(entry)["position"] = position
            self._rewriters[name] = replace(make_entry(name, entry, tags), position=position)
            self._own_names |= {name, entry.name()}
        self._version += 1

    def unregister(self, name: str) -> None:
        """Take out a group, a rewriter, or a pattern of one of the groups.

        Raises:
            UnknownPatternError: when nothing is registered under that name.
        """
        entry = self.index().names.get(short(name))
        if name in self._places:
            self._places.pop(name).group._sequences.remove(self)
            self._own_names.remove(name)
        elif entry is None:
            raise UnknownPatternError(unknown(name, {*self._places, *self.index().names}))
        elif entry.group:
            self._places[entry.group].group.unregister(entry.name)
        else:
            del self._rewriters[entry.name]
            self._own_names -= {entry.name, entry.item.name()}
        self._version += 1

    def group(self, name: str) -> PatternGroup:
        """A group by name.

        Raises:
            UnknownPatternError: when there is none of that name.
        """
        if name not in self._places:
            groups = ", ".join(sorted(self._places)) or "none"
            raise UnknownPatternError(f"unknown group {name!r}; there are: {groups}")
        return self._places[name].group

    def order(self, pattern: Pattern) -> Order:
        """Key that sorts patterns as they run: where they are registered, else where they say."""
        entry = self.index().names.get(pattern.name())
        if entry is not None and entry.pattern is pattern:
            return entry.order
        position = pattern.position if isinstance(pattern, GlobalRewriter) else PHASE_POSITIONS[pattern.phase]
        return Entry(pattern.name(), pattern, position=position).order

    def query(self, query: Query) -> list[Pattern]:
        """The patterns that match a query, in the order in which they run: position, priority, name.

        Raises:
            UnknownPatternError: when nothing knows a word of it, or a group that has a subquery.
        """
        index = self.index()
        wanted = index.matching(query)
        for name in query.subquery:
            self.group(name)
        instead = {name: index.matching(each) for name, each in query.subquery.items()}
        return [entry.pattern for entry in index.entries if entry.name in instead.get(entry.group, wanted)]

    def __getitem__(self, name: str) -> PatternGroup | Pattern:
        return self._places[name].group if name in self._places else self._rewriters[name].pattern

    def __iter__(self) -> Iterator[str]:
        positions = [(place.position, True, name) for name, place in self._places.items()]
        positions += [(entry.position, False, name) for name, entry in self._rewriters.items()]
        return (name for _, _, name in sorted(positions))

    def _names(self) -> Iterator[set[str]]:
        yield self._own_names
        yield from (place.group._own_names for place in self._places.values())

    def _versions(self) -> tuple[int, ...]:
        return (self._version, *(place.group._version for place in self._places.values()))

    def _entries(self) -> Iterable[Entry]:
        yield from self._rewriters.values()
        for name, place in self._places.items():
            words = place.tags | {name}
            for entry in place.group.entries():
                yield replace(entry, words=entry.words | words, group=name, position=place.position)


_PRINCIPAL: list[tuple[Mapping[str, Any], PatternSequence]] = []


def database() -> PatternSequence:
    """The principal database: a group for each phase, and the rewriters of whole models, with all that is installed.

    Made on first use, and anew when patterns are looked up anew (``installed_patterns.cache_clear()``).
    """
    installed = installed_patterns()
    if not _PRINCIPAL or _PRINCIPAL[0][0] is not installed:
        _PRINCIPAL[:] = [(installed, _principal(installed))]
    return _PRINCIPAL[0][1]


def _principal(patterns: Mapping[str, type[Pattern]]) -> PatternSequence:
    made = PatternSequence()
    for phase in PHASES:
        made.register(phase, PatternGroup(phase), PHASE_POSITIONS[phase])
    for name, cls in patterns.items():
        try:
            if issubclass(cls, GlobalRewriter):
                made.register(name, cls, cls.position)
            else:
                made.group(cls.phase).register(name, cls)
        except (TypeError, ValueError, UnknownPatternError) as error:  # a broken third-party pack must not break the optimizer
            logger.warning("pattern %s of %s is left out: %s", name, cls.__module__, error)
    return made


def register(pattern: AnyPattern, *tags: str, position: float | None = None) -> AnyPattern:
    """Add a pattern to the principal database; selections that ask for one of its words find it from now on.

    Without further tags it is asked for by its name and by what it says about itself: an exact pattern is in the preset
    ``default``, for example, unless it has the tag ``extra``. May decorate a class.

    Args:
        pattern: the pattern, or its class. It goes into the group of its phase, a rewriter of whole models into the sequence.
        *tags: further words to ask for it by. That of a preset or profile makes it a member.
        position: where in the sequence, for rewriters of whole models.

    Returns:
        What was given.

    Raises:
        ValueError: when the name is taken.
        TypeError: when it is no pattern, or a plain one with a position.
    """
    cls = pattern if isinstance(pattern, type) else type(pattern)
    if not issubclass(cls, Pattern):
        raise TypeError(f"a pattern or the class of one is expected, not {pattern!r}")
    if issubclass(cls, GlobalRewriter) or position is not None:
        place: float = getattr(pattern, "position", 0.0) if position is None else position
        database().register(pattern.name(), pattern, place, *tags)  # type: ignore[arg-type]
    else:
        database().group(pattern.phase).register(pattern.name(), pattern, *tags)
    return pattern
