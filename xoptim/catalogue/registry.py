"""The registry: all rewrites by their names, with the words that select them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TypeVar

from xoptim.catalogue.discovery import (
    InstalledPattern,
    installed,
    installed_patterns,
    operator_packs,
    use_pack,
)
from xoptim.catalogue.entries import (
    POSITIONS,
    PRESETS,
    VOCABULARY,
    Entry,
    in_order,
    is_pass,
    make_entry,
    shared,
    short,
    unknown,
    warn_once,
)
from xoptim.catalogue.query import Item, Name, Query, Word, class_of
from xoptim.facts.advice import Advice
from xoptim.facts.errors import UnknownPatternError
from xoptim.match.pack_definitions import definition_patterns
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import Rewrite
from xoptim.operators.registry import OPERATORS

_LOGGER = logging.getLogger("xoptim")
_NONE: Mapping[str, Entry] = MappingProxyType({})
AnyRewrite = TypeVar("AnyRewrite", bound="Rewrite | type[Rewrite]")


class Registry:
    """Rewrites by unique names, in the order in which they run, and the queries about them.

    Attributes:
        groups: positions of the groups that entries may belong to, by name. A name of a group is
            not a name of a rewrite.
    """

    def __init__(self, groups: Mapping[str, float] = MappingProxyType({})) -> None:
        self.groups = dict(groups)
        self._entries: dict[str, Entry] = {}
        self._used: set[str] = set()
        self._index: _Index | None = None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._ordered.entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def _ordered(self) -> _Index:
        """The entries in order and by word; made again after a change."""
        if self._index is None:
            self._index = _Index(self._entries.values())
        return self._index

    # ---------------------------------------------------------------- changes

    def add(self, entry: Entry) -> None:
        """Add an entry; raises ``ValueError`` if one of its names is taken."""
        for name in entry.names:
            self.check_free(name)
        self._entries[entry.name] = entry
        self._used.update(entry.names)
        self._index = None

    def check_free(self, name: str) -> None:
        """Raise ``ValueError`` if a rewrite or a group has this name."""
        if name in self._used or name in self.groups:
            raise ValueError(
                f"the name {name!r} is taken; choose another, or unregister the other pattern"
            )

    def remove(self, entry: Entry) -> None:
        """Remove an entry."""
        del self._entries[entry.name]
        self._used.difference_update(entry.names)
        self._index = None

    # ---------------------------------------------------------------- questions

    def get(self, name: str) -> Entry | None:
        """The entry that was registered under a name."""
        return self._entries.get(name)

    def find(self, word: str) -> list[Entry]:
        """The entries that a word selects: a preset, a name, any other word, a former name.

        The first meaning that the word has counts. Raises `UnknownPatternError` when it has none;
        the message suggests the nearest word.
        """
        return self._ordered.find(word)

    def named(self, word: str) -> list[Entry]:
        """The entries with this name, class or former name, with or without the suffix
        ``Pattern``; empty if there are none.
        """
        try:
            return self._ordered.find(Name(word))
        except UnknownPatternError:
            return []

    def names(self) -> set[str]:
        """All names."""
        return set(self._ordered.names)

    def words(self) -> dict[str, int]:
        """All words other than names, in alphabetical order, with the number of entries that they
        select.
        """
        return {word: len(rows) for word, rows in sorted(self._ordered.words.items())}

    def query(self, query: Query) -> list[Entry]:
        """The entries that match a query, in the order in which they run.

        Raises `UnknownPatternError` when a word of it, or a group that has a subquery, is unknown.
        """
        if not query.is_of_words:
            return in_order(self._answer(query).values())
        answers = self._ordered.answers
        if query not in answers:
            answers[query] = tuple(in_order(self._answer(query).values()))
        return list(answers[query])

    def _answer(self, query: Query) -> dict[str, Entry]:
        """The entries that match a query, by the names of their rewrites."""
        answer: dict[str, Entry] = {}
        seen: dict[str, Entry] = {}
        for sign, atom in query.all_steps:
            entries = self._selected_by(sign, atom, seen)
            if sign == "+":
                seen |= entries
                answer = _joined(answer, entries, atom)
            elif sign == "&":
                answer = {name: entry for name, entry in answer.items() if name in entries}
            else:
                answer = {name: entry for name, entry in answer.items() if name not in entries}
        for group, subquery in query.subquery.items():
            self.check_group(group)
            answer = {name: entry for name, entry in answer.items() if entry.group != group}
            entries = self._answer(subquery)
            answer |= {name: entry for name, entry in entries.items() if entry.group == group}
        return answer

    def check_group(self, name: str) -> None:
        """Raise `UnknownPatternError` when no group has this name."""
        if name not in self.groups:
            names = ", ".join(sorted(self.groups)) or "none"
            raise UnknownPatternError(f"unknown group {name!r}; the groups are: {names}")

    def _selected_by(
        self, sign: str, atom: Item | Name, seen: Mapping[str, Entry]
    ) -> dict[str, Entry]:
        """The entries, by the names of their rewrites, that a part of a query selects.

        A name to remove may name an instance added before.
        """
        if isinstance(atom, Query):
            return self._answer(atom)
        if not isinstance(atom, (str, Name)):
            return {atom.name(): self._entry_of(shared(atom))}
        entries = self._ordered.find(atom, seen if sign == "-" else _NONE)
        if sign == "+":
            _warn_of_deprecated(entries, str(atom))
        return {entry.item.name(): entry for entry in entries}

    def _entry_of(self, rewrite: Rewrite) -> Entry:
        """The entry of a registered rewrite, else an entry made from its metadata."""
        for entry in self._ordered.names.get(rewrite.name(), ()):
            if entry.scheduled is rewrite or entry.rewrite is rewrite:
                return entry
        return Entry(rewrite.name(), rewrite, position=POSITIONS[rewrite.phase])


def _joined(
    answer: dict[str, Entry], entries: dict[str, Entry], atom: Item | Name
) -> dict[str, Entry]:
    """The entries selected so far, and those of another part of a query.

    A word keeps an instance that was selected before; a class or an instance replaces it.
    """
    if isinstance(atom, (str, Name, Query)):
        return {**entries, **answer}
    return {**answer, **entries}


def _warn_of_deprecated(entries: Iterable[Entry], word: str) -> None:
    """Warn once of each deprecated rewrite that is selected by its name."""
    for entry in entries:
        if entry.item.status == "deprecated" and entry.is_called(word):
            warn_once(f"pattern {entry.name!r} is deprecated: it may be removed in a later version")


class _Index:
    """The entries in order, and by each kind of word."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = in_order(entries)
        self.names: dict[str, list[Entry]] = {}
        self.classes: dict[str, list[Entry]] = {}
        self.words: dict[str, list[Entry]] = {word: [] for word in VOCABULARY}
        self.former: dict[str, list[Entry]] = {}
        # the entries of each query that was asked
        self.answers: dict[Query, tuple[Entry, ...]] = {}
        for entry in self.entries:
            _list(entry, self.names, {*entry.names})
            _list(entry, self.classes, [short(entry.class_name)])
            _list(entry, self.words, entry.words)
            _list(entry, self.former, {*map(short, entry.item.former_names)})

    def find(self, query: Word, instances: Mapping[str, Entry] = _NONE) -> list[Entry]:
        """The entries that a word selects, as `Registry.find` does.

        A `Name` matches names only. ``instances`` are entries by name that precede those of the
        registry.
        """
        is_name = isinstance(query, Name)
        name = query if isinstance(query, Name) else Name(query.strip())
        word, key_name = name.word, short(name.word)
        words = {} if is_name else self.words
        if word in PRESETS and word in words:
            return words[word]
        if key_name in instances:
            return [instances[key_name]]
        for table, key in ((self.names, key_name), (self.classes, key_name), (words, word)):
            if key in table:
                return table[key]
        entries = self.former.get(key_name)
        if not entries:
            if not is_name and word in operator_packs():
                advice = Advice("pack", word, "uses them")
                raise UnknownPatternError(f"pack {word!r} has operators, no patterns; {advice}")
            candidates = {*instances, *self.names, *words}
            raise UnknownPatternError(unknown(word, candidates, name.where, is_name=is_name))
        new_names = " and ".join(repr(entry.name) for entry in entries)
        warn_once(f"pattern {key_name!r} is now called {new_names}; the old name may be removed")
        return entries


def _list(entry: Entry, table: dict[str, list[Entry]], words: Iterable[str]) -> None:
    """Enter an entry under some words."""
    for word in words:
        table.setdefault(word, []).append(entry)


_PRINCIPAL: list[tuple[Mapping[str, InstalledPattern], Registry]] = []


def registry() -> Registry:
    """The registry of all installed rewrites, with a group for the patterns of each phase.

    The registry is made on first use, and again after `xoptim.catalogue.discovery.refresh`.
    """
    patterns = installed()
    # Compared by identity: after `refresh`, `installed` returns another dictionary.
    if not _PRINCIPAL or _PRINCIPAL[0][0] is not patterns:
        _PRINCIPAL[:] = [(patterns, _registered(patterns))]
    return _PRINCIPAL[0][1]


def _registered(patterns: Mapping[str, InstalledPattern]) -> Registry:
    """A registry with these patterns.

    Patterns of a pack are in no preset but ``all``. The name of the pack selects them, unless that
    word has a meaning of its own.
    """
    result = Registry(POSITIONS)
    for name, (item, pack) in patterns.items():
        tags = ["extra"] if pack else []
        if pack not in ("", *VOCABULARY):
            tags.append(pack)
        try:
            result.add(entry_for(item, *tags))
        # a broken third-party pack must not break the optimizer
        except (TypeError, ValueError, UnknownPatternError) as error:
            _LOGGER.warning("pattern %s of %s is skipped: %s", name, item.__module__, error)
    _add_defined(result)
    return result


def use_operators(*packs: str) -> None:
    """Use the custom operators that installed packs describe, until the process ends.

    Call it before the models are loaded. An operator with a definition has two patterns, in no
    preset but ``all``: ``LowerAcmeGlu`` writes the definition of ``acme::Glu``, and ``FuseAcmeGlu``
    recognizes it. Raises `UnknownPatternError` when no pack of a name describes operators, and
    `PatternError` when its operators cannot be used.
    """
    for pack in packs:
        use_pack(pack)
    if packs and _PRINCIPAL:
        _add_defined(_PRINCIPAL[0][1])


def _add_defined(result: Registry) -> None:
    """Add the patterns of custom operators with definitions."""
    for (domain, op_type), operator in OPERATORS.items():
        patterns = definition_patterns(domain, op_type) if operator.definition else []
        for pattern in patterns:
            if result.get(pattern.name()) is None:
                result.add(entry_for(pattern, "extra"))


def compile_patterns() -> None:
    """Import and compile all installed patterns, so that copies of this process need not."""
    registry()
    for item in installed_patterns().values():
        pattern = shared(item)
        if isinstance(pattern, PatternOptimization):
            with suppress(Exception):  # the optimization reports the error
                pattern.anchor_keys()


def entry_for(rewrite: Rewrite | type[Rewrite], *tags: str) -> Entry:
    """The entry of a rewrite in the principal registry.

    Raises `TypeError` when it is neither a pattern nor a pass, or has an invalid attribute.
    """
    name = rewrite.name() if issubclass(class_of(rewrite), Rewrite) else ""
    if is_pass(rewrite):
        return make_entry(name, rewrite, tags, position=POSITIONS.get(rewrite.phase, 0.0))
    if not issubclass(class_of(rewrite), PatternOptimization):
        raise TypeError(f"expected a pattern or its class, not {rewrite!r}")
    if rewrite.phase not in POSITIONS:
        names = ", ".join(sorted(POSITIONS))
        raise UnknownPatternError(f"unknown group {rewrite.phase!r}; the groups are: {names}")
    return make_entry(name, rewrite, tags, group=rewrite.phase, position=POSITIONS[rewrite.phase])


def register(rewrite: AnyRewrite, *tags: str) -> AnyRewrite:
    """Add a pattern or a pass to the installed ones.

    Selections with one of its words contain it from now on.

    Without further tags its name and its metadata select it: an exact pattern is in the preset
    ``default``, for example, unless it has the tag ``extra``. May decorate a class.

    Args:
        rewrite: the pattern or the pass, or its class.
        *tags: further words that select it. The name of a preset makes it a member.

    Returns:
        The argument.

    Raises:
        ValueError: when the name is taken.
        TypeError: when it is neither a pattern nor a pass, or has an invalid attribute.
    """
    registry().add(entry_for(rewrite, *tags))
    return rewrite
