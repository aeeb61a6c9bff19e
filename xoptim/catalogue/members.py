"""The members of groups and sequences, under unique names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xoptim.catalogue.entries import Entry, Index, Order
from xoptim.catalogue.words import short, unknown
from xoptim.facts.errors import UnknownPatternError

if TYPE_CHECKING:
    from xoptim.catalogue.database import PatternGroup


@dataclass(frozen=True)
class Place:
    """A group in a sequence; its tags apply to all patterns in it."""

    name: str
    group: PatternGroup
    position: float
    tags: frozenset[str]

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the place, and those of the patterns in its group."""
        return (self.name, *self.group.members.names)

    @property
    def order(self) -> Order:
        """Key to sort by, among the entries of passes."""
        return self.position, True, 0, self.name


class Members:
    """The patterns of a group, or the groups and passes of a sequence.

    Names are unique in a sequence with all its groups, and a group may be in several sequences.

    Attributes:
        by_name: the members.
        names: their names, without those in their groups.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Entry | Place] = {}
        self.names: set[str] = set()
        self._holders: list[Members] = []
        """The members of the sequences that hold this group."""
        self._index: Index | None = None

    def index(self) -> Index:
        """The index of words."""
        if self._index is None:
            self._index = Index(self.entries())
        return self._index

    def entries(self) -> Iterator[Entry]:
        """All patterns, those of groups too."""
        for name, member in self.by_name.items():
            if isinstance(member, Entry):
                yield member
            else:
                words = member.tags | {name}
                for entry in member.group.members.entries():
                    yield replace(entry, words=entry.words | words, group=name, position=member.position)

    def groups(self) -> dict[str, PatternGroup]:
        """The groups, by name."""
        return {name: member.group for name, member in self.by_name.items() if isinstance(member, Place)}

    def takes(self, name: str) -> bool:
        """Whether a name is taken, here or in a group."""
        return name in self.names or any(name in group.members.names for group in self.groups().values())

    def add(self, member: Entry | Place) -> None:
        """Add a member; raises ``ValueError`` if one of its names is taken here or in a sequence that holds this group."""
        held_by: Sequence[Members] = self._holders or [self]
        for name in member.names:
            if any(each.takes(name) for each in held_by):
                raise ValueError(f"the name {name!r} is taken; choose another, or unregister its owner")
        self.by_name[member.name] = member
        self.names.update(_own_names(member))
        if isinstance(member, Place):
            member.group.members.join(self)
        self.changed()

    def remove(self, name: str) -> None:
        """Remove a member, or one of a group; raises ``UnknownPatternError`` when there is none of this name."""
        holder, names = self, self.index().names
        if name not in self.by_name and short(name) in names:
            entry = names[short(name)][0]
            name, holder = entry.name, self.groups()[entry.group].members if entry.group else self
        if name not in holder.by_name:
            raise UnknownPatternError(unknown(name, self.by_name.keys() | names.keys()))
        holder.drop(name)

    def drop(self, name: str) -> None:
        """Remove a member."""
        member = self.by_name.pop(name)
        self.names.difference_update(_own_names(member))
        if isinstance(member, Place):
            member.group.members.leave(self)
        self.changed()

    def join(self, sequence: Members) -> None:
        """Record that a sequence holds this group."""
        self._holders.append(sequence)

    def leave(self, sequence: Members) -> None:
        """Record that a sequence does not hold this group any more."""
        self._holders.remove(sequence)

    def changed(self) -> None:
        """Drop the index, and those of the sequences that hold this group."""
        self._index = None
        for holder in self._holders:
            holder.changed()


def _own_names(member: Entry | Place) -> tuple[str, ...]:
    """The names of a member itself, without those in its group."""
    return (member.name,) if isinstance(member, Place) else member.names
