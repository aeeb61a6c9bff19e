"""All rewrites with their names, tags and positions: a sequence of phases, each a group that runs
to a fixed point.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from xoptim.catalogue.discovery import installed_patterns
from xoptim.catalogue.entries import (
    POSITIONS,
    Entry,
    Index,
    Order,
    in_order,
    is_pass,
    make_entry,
    placed,
    shared,
    short,
    unknown,
    warn_once,
)
from xoptim.catalogue.query import Item, Name, Query, class_of
from xoptim.facts.errors import UnknownPatternError
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import PHASES, ModelPass, Phase, Rewrite

logger = logging.getLogger("xoptim")
AnyRewrite = TypeVar("AnyRewrite", bound="Rewrite | type[Rewrite]")


@dataclass(frozen=True)
class Place:
    """A group in a sequence; its tags apply to all patterns in it."""

    name: str
    group: PatternGroup
    position: float
    tags: frozenset[str]

    @property
    def order(self) -> Order:
        """Key to sort by, among the entries of passes."""
        return self.position, True, 0, self.name


class Database:
    """The base of groups and sequences: stores patterns by unique names, and evaluates queries.

    A group may be in several sequences. Names are unique in a sequence with all its groups.
    """

    def __init__(self) -> None:
        # the patterns, or the groups and passes, by name
        self.members: dict[str, Entry | Place] = {}
        self.taken: set[str] = set()  # their names, without the names in their groups
        self.holders: list[Database] = []  # the sequences that hold this group
        self._index: Index | None = None

    def index(self) -> Index:
        """The index of words."""
        if self._index is None:
            self._index = Index(self.registered())
        return self._index

    def registered(self) -> Iterator[Entry]:
        """All patterns, in groups too, in the order in which they were registered."""
        for name, member in self.members.items():
            if isinstance(member, Entry):
                yield member
            else:
                words = member.tags | {name}
                for entry in member.group.registered():
                    yield replace(
                        entry, words=entry.words | words, group=name, position=member.position
                    )

    def entries(self) -> tuple[Entry, ...]:
        """All patterns, in groups too, in the order in which they run."""
        return tuple(self.index().entries)

    def find(self, word: str) -> list[Entry]:
        """The patterns that a word selects: a preset or profile, a name, any other word, a former
        name, in this order.

        Raises `UnknownPatternError` when it is none of these; the message suggests the nearest one.
        """
        return self.index().find(word)

    def named(self, word: str) -> list[Entry]:
        """The patterns with this name, class or former name, with or without the suffix
        ``Pattern``; empty if none.
        """
        try:
            return self.index().find(Name(word))
        except UnknownPatternError:
            return []

    def names(self) -> set[str]:
        """All names."""
        return set(self.index().names)

    def words(self) -> dict[str, int]:
        """All words other than names, in alphabetical order, with the number of patterns that they
        select.
        """
        return {word: len(entries) for word, entries in sorted(self.index().words.items())}

    def group(self, name: str) -> PatternGroup:
        """A group by name; raises UnknownPatternError when no group has that name."""
        groups = self._groups()
        if name not in groups:
            raise UnknownPatternError(
                f"unknown group {name!r}; there are: {', '.join(sorted(groups)) or 'none'}"
            )
        return groups[name]

    def query(self, query: Query) -> list[Rewrite]:
        """The patterns that match a query, in the order in which they run
        (`xoptim.catalogue.entries.in_order`).

        Raises `UnknownPatternError` when a word of it, or a group that has a subquery, is unknown.
        """
        answers = self.index().answers if query.is_of_words else {}
        if query not in answers:
            answers[query] = tuple(
                entry.pattern for entry in in_order(self._answer(query).values())
            )
        return list(answers[query])

    def unregister(self, name: str) -> None:
        """Remove a group, a pass, or a pattern, which may be in a group.

        Raises `UnknownPatternError` when no entry is registered under this name.
        """
        holder: Database = self
        names = self.index().names
        if name not in self.members and short(name) in names:
            entry = names[short(name)][0]
            name, holder = entry.name, self._groups()[entry.group] if entry.group else self
        if name not in holder.members:
            raise UnknownPatternError(unknown(name, self.members.keys() | names.keys()))
        holder.drop(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.members, key=lambda name: self.members[name].order))

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, name: object) -> bool:
        return name in self.members

    def __getitem__(self, name: str) -> Rewrite | PatternGroup:
        member = self.members[name]
        return member.pattern if isinstance(member, Entry) else member.group

    # ---------------------------------------------------------------- members

    def enter(self, member: Entry | Place) -> None:
        """Add a member.

        Raises ``ValueError`` if one of its names is taken here or in a sequence that holds this
        group.
        """
        inside = member.group.taken if isinstance(member, Place) else ()
        for name in (*_names(member), *inside):
            if any(each.takes(name) for each in self.holders or [self]):
                raise ValueError(
                    f"the name {name!r} is taken; choose another, or unregister its owner"
                )
        self.members[member.name] = member
        self.taken.update(_names(member))
        if isinstance(member, Place):
            member.group.holders.append(self)
        self.changed()

    def drop(self, name: str) -> None:
        """Remove a member."""
        member = self.members.pop(name)
        self.taken.difference_update(_names(member))
        if isinstance(member, Place):
            member.group.holders.remove(self)
        self.changed()

    def takes(self, name: str) -> bool:
        """Whether a name is taken, here or in a group."""
        return name in self.taken or any(name in group.taken for group in self._groups().values())

    def changed(self) -> None:
        """Drop the index, and the indexes of the sequences that hold this group."""
        self._index = None
        for holder in self.holders:
            holder.changed()

    def _groups(self) -> dict[str, PatternGroup]:
        return {
            name: member.group for name, member in self.members.items() if isinstance(member, Place)
        }

    # ---------------------------------------------------------------- the answer to a query

    def _answer(self, query: Query) -> dict[str, Entry]:
        """The patterns that match a query, by name."""
        chosen: dict[str, Entry] = {}
        seen: dict[str, Entry] = {}
        for sign, atom in query.all_steps:
            found = self._stand_for(sign, atom, seen)
            if sign == "+":
                seen |= found
                # A word keeps the instance that was chosen before; a class or an instance replaces
                # it.
                chosen = (
                    {**found, **chosen}
                    if isinstance(atom, (str, Name, Query))
                    else {**chosen, **found}
                )
            else:
                chosen = {
                    name: each for name, each in chosen.items() if (name in found) is (sign == "&")
                }
        for group, asked in query.subquery.items():
            self.group(group)  # raises for an unknown group
            chosen = {name: each for name, each in chosen.items() if each.group != group}
            chosen |= {
                name: each for name, each in self._answer(asked).items() if each.group == group
            }
        return chosen

    def _stand_for(
        self, sign: str, atom: Item | Name, seen: Mapping[str, Entry]
    ) -> dict[str, Entry]:
        """The patterns, by name, that a part of a query selects.

        A name to remove may name an instance added before.
        """
        if isinstance(atom, Query):
            return self._answer(atom)
        if not isinstance(atom, (str, Name)):
            return {atom.name(): self._entry_of(shared(atom))}
        found = self.index().find(atom, seen if sign == "-" else {})
        for entry in found:
            if sign == "+" and entry.item.status == "deprecated" and entry.is_called(str(atom)):
                warn_once(
                    f"pattern {entry.name!r} is deprecated: it may be removed in a later version"
                )
        return {entry.item.name(): entry for entry in found}

    def _entry_of(self, pattern: Rewrite) -> Entry:
        """The entry of a registered pattern, else an entry made from its metadata."""
        found = self.index().names.get(pattern.name(), ())
        return next(
            (e for e in found if e.pattern is pattern),
            Entry(pattern.name(), pattern, position=POSITIONS[pattern.phase]),
        )


class PatternGroup(Database):
    """Patterns that are applied together until none of them changes the graph.

    A pattern in a group must terminate, must not undo the rewrites of another one, and belongs to
    the ``phase``, if any.
    """

    def __init__(self, phase: Phase | None = None) -> None:
        super().__init__()
        self.phase = phase

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
        self.enter(make_entry(name, entry, tags))


class PatternSequence(Database):
    """Groups and passes in the order of their positions."""

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
                f"the position of {name!r} is a number, not {position!r}; tags come after it"
            )
        if isinstance(entry, PatternGroup):
            self.enter(Place(name, entry, position, frozenset(tags)))
            return
        if not is_pass(entry):
            raise TypeError(
                f"{entry!r} matches at a node: put it in a group, or wrap it in a navigator"
            )
        self.enter(make_entry(name, placed(entry, position), tags, position))

    def add(self, rewrite: Rewrite | type[Rewrite], *tags: str) -> None:
        """Add a pattern or a pass as `xoptim.register` does to the principal database."""
        if is_pass(rewrite):
            self.enter(make_entry(rewrite.name(), rewrite, tags, POSITIONS.get(rewrite.phase, 0.0)))
        elif issubclass(class_of(rewrite), PatternOptimization):
            group = self.group(rewrite.phase)
            group.register(rewrite.name(), rewrite, *tags)  # type: ignore[arg-type]
        else:
            raise TypeError(f"a pattern or its class is expected, not {rewrite!r}")


def _names(member: Entry | Place) -> tuple[str, ...]:
    """The names of a member, without the names in its group."""
    return (member.name,) if isinstance(member, Place) else member.names


_PRINCIPAL: list[tuple[Mapping[str, Any], PatternSequence]] = []


def database() -> PatternSequence:
    """The principal database: a group for each phase, and the passes, with all installed rewrites.

    It is built on first use, and again after ``installed_patterns.cache_clear()``.
    """
    installed = installed_patterns()
    # Compared by identity: `installed_patterns` is cached and returns a new dictionary after its
    # cache is cleared.
    if not _PRINCIPAL or _PRINCIPAL[0][0] is not installed:
        _PRINCIPAL[:] = [(installed, _principal(installed))]
    return _PRINCIPAL[0][1]


def _principal(patterns: Mapping[str, type[Rewrite]]) -> PatternSequence:
    made = PatternSequence()
    for phase in PHASES:
        made.register(phase, PatternGroup(phase), POSITIONS[phase])
    for name, cls in patterns.items():
        try:
            made.add(cls)
        # a broken third-party pack must not break the optimizer
        except (TypeError, ValueError, UnknownPatternError) as error:
            logger.warning("pattern %s of %s is left out: %s", name, cls.__module__, error)
    return made


def register(rewrite: AnyRewrite, *tags: str) -> AnyRewrite:
    """Add a pattern or a pass to the principal database.

    Selections with one of its words contain it from now on.

    Without further tags its name and its metadata select it: an exact pattern is in the preset
    ``default``, for example, unless it has the tag ``extra``. May decorate a class.

    Args:
        rewrite: the pattern or the pass, or its class. A pattern goes into the group of its phase,
            a pass before it.
        *tags: further words that select it. The name of a preset or profile makes it a member.

    Returns:
        The argument.

    Raises:
        ValueError: when the name is taken.
        TypeError: when it is neither a pattern nor a pass, or has an invalid attribute.
    """
    database().add(rewrite, *tags)
    return rewrite
