"""Entries of the database, and the index from words to entries."""

import copy
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import Final, TypeAlias, TypeGuard

from xoptim.catalogue.query import Name, Query, Word, class_of
from xoptim.facts.dtypes import GRADES
from xoptim.facts.errors import UnknownPatternError
from xoptim.facts.words import abridged, suggestion
from xoptim.match.making import fault, metadata_of
from xoptim.match.rewrite import PHASES, STATUSES, ModelPass, Phase, Rewrite

logger = logging.getLogger("xoptim")
Order: TypeAlias = tuple[float, bool, int, str]
GLOBAL = "global"
"""The word for passes, which have it instead of their phase."""
POSITIONS: Final[Mapping[Phase, float]] = {
    "canonicalize": 1.0,
    "specialize": 2.0,
    "target": 50.0,
    "final": 100.0,
    "lower": 200.0,
}
"""The positions of the phases in a sequence, numbers as in Theano's ``optdb``.

Only the database uses them.
"""


def short(word: str) -> str:
    """A name without the suffix ``Pattern``, as `Rewrite.name` returns it."""
    return word.strip().removesuffix("Pattern")


def unknown(word: str, known: Iterable[str], where: str = "") -> str:
    """The message about an unknown word of a selection; ``where`` is the source of the word."""
    hint = suggestion(short(word), known, "`xopt list` shows all names")
    return f"{f'{where}: ' if where else ''}unknown pattern {abridged(word)}; {hint}"


@cache
def warn_once(message: str) -> None:
    """Log a warning, once per process."""
    logger.warning(message)


@dataclass(frozen=True)
class Entry:
    """A pattern in the database."""

    name: str  # the name under which it is registered
    item: Rewrite | type[Rewrite]  # the pattern, or its class
    words: frozenset[str] = frozenset()  # words that select it, other than names
    group: str = ""  # its group, if any
    position: float = 0.0  # place of the group, or of the pass, in the sequence

    @property
    def cls(self) -> type[Rewrite]:
        """The class of the pattern."""
        return class_of(self.item)

    @property
    def pattern(self) -> Rewrite:
        """The pattern, made at the first access."""
        return shared(self.item)

    @cached_property
    def order(self) -> Order:
        """Key to sort by: position, passes before patterns, priority, name."""
        return self.position, not is_pass(self.item), self.item.priority, self.item.name()

    @cached_property
    def names(self) -> tuple[str, str]:
        """The name under which it is registered, and its own name.

        Both are unique in the database.
        """
        return short(self.name), self.item.name()

    def is_called(self, word: str) -> bool:
        """Whether a word is its name, or a former one."""
        return short(word) in (
            *self.names,
            short(self.cls.__name__),
            *map(short, self.item.former_names),
        )


def is_pass(item: Rewrite | type[Rewrite]) -> TypeGuard[ModelPass | type[ModelPass]]:
    """Whether a rewrite or a class of rewrites runs over a whole model."""
    return issubclass(class_of(item), ModelPass)


def placed(item: ModelPass | type[ModelPass], position: float) -> ModelPass | type[ModelPass]:
    """A pass for a position of a sequence, or a copy of it in the first phase whose number is not
    smaller.
    """
    phase = next((phase for phase in PHASES if position <= POSITIONS[phase]), PHASES[-1])
    if item.phase == phase:
        return item
    moved = copy.copy(shared(item))
    vars(moved)["phase"] = phase
    return moved  # type: ignore[return-value]


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Entries in the order in which they run: by position, passes before patterns, by priority, by
    name.

    Within a position, a rewrite precedes those that its `before` names; where two rewrites name
    each other, one of them has to follow the other.
    """
    ranked = sorted(entries, key=lambda entry: entry.order)
    forward = [
        (entry, frozenset(map(short, entry.item.before))) for entry in ranked if entry.item.before
    ]
    if not forward:
        return ranked
    found: list[Entry] = []
    seen: set[str] = set()

    def place(entry: Entry) -> None:
        name = entry.item.name()
        if name not in seen:
            seen.add(name)
            for other, followers in forward:
                if name in followers and other.order[:2] == entry.order[:2]:
                    place(other)
            found.append(entry)

    for entry in ranked:
        place(entry)
    return found


_FOREIGN = "operators outside the standard domain"
LOWER = "lower"
_ASKED_FOR = ("extra", "deprecated", LOWER)
_SAFE = Query(["exact", "rounding"], exclude=_ASKED_FOR)
PRESETS: Final[dict[str, Query]] = {
    "default": _SAFE.excluding("onnxruntime"),
    "onnxruntime": _SAFE.requiring("onnxruntime"),
    "finite": Query(["finite"], exclude=_ASKED_FOR),
    "approximate": Query(["approximate"], exclude=_ASKED_FOR),
    "all": Query(STATUSES, exclude=(LOWER,)),
}
"""Named selections by the metadata of a pattern.

``default`` makes standard operators only; ``onnxruntime`` adds operators that only that runtime
has. All but ``all`` exclude patterns that are deprecated or tagged ``extra``; none has a pattern of
the phase ``lower``, which undoes what others do.
"""
PROFILES: Final[dict[str, Query]] = {
    "fast_compile": Query(["exact"], ["canonicalize"], ["onnxruntime", _FOREIGN, *_ASKED_FOR]),
    "fast_run": _SAFE,
}
"""Selections by cost.

``fast_compile``: cheap patterns, the exact and portable ones of the first phase; ``fast_run``: all
safe patterns, the presets ``default`` and ``onnxruntime``.
"""
NAMED: Final = {**PRESETS, **PROFILES}
VOCABULARY: Final = (*NAMED, *PHASES, GLOBAL, *GRADES, *STATUSES, "extra")
"""Words that are valid even when no pattern has them."""

_INSTANCES: dict[type[Rewrite], Rewrite] = {}


def shared(item: Rewrite | type[Rewrite]) -> Rewrite:
    """A pattern, or the one instance of its class: it has no state, so data compiled from it is
    valid for every model.
    """
    if not isinstance(item, type):
        return item
    found = _INSTANCES.get(item)
    if found is None:
        found = _INSTANCES[item] = item()
    return found


def make_entry(
    name: str, item: Rewrite | type[Rewrite], tags: Iterable[str] = (), position: float = 0.0
) -> Entry:
    """An entry with its words.

    The rules of a preset or profile take precedence over a tag of the same name that the pattern
    declares; such a tag given on registration takes precedence over the rules. Raises `TypeError`
    when a tag is not a word, or another attribute of the pattern is invalid.
    """
    given = frozenset(tags)
    if not all(isinstance(tag, str) for tag in given.union(item.tags)):
        raise TypeError(f"the tags of {name!r} must be words")
    for key in sorted(metadata_of(class_of(item))):
        if wrong := fault(key, getattr(item, key)):
            raise TypeError(f"{name!r}: {key} {wrong}")
    # What undoes other patterns is selected on purpose, and not by a word about its quality.
    grades = () if item.phase == LOWER and not is_pass(item) else (item.exactness, item.status)
    own = given.union((GLOBAL if is_pass(item) else item.phase, *grades), item.tags)
    said = own | {_FOREIGN} if item.produces else own
    member_of = (word for word, query in NAMED.items() if query.holds(said))
    return Entry(name, item, own.difference(NAMED).union(given, member_of), position=position)


class Index:
    """The index from words to patterns."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = in_order(entries)
        # the patterns of each query that was asked
        self.answers: dict[Query, tuple[Rewrite, ...]] = {}
        self.names: dict[str, list[Entry]] = {}
        self.classes: dict[str, list[Entry]] = {}
        self.words: dict[str, list[Entry]] = {word: [] for word in VOCABULARY}
        self.former: dict[str, list[Entry]] = {}
        for entry in self.entries:
            for table, words in (
                (self.names, {*entry.names}),
                (self.classes, {short(entry.cls.__name__)}),
                (self.words, entry.words),
                (self.former, {*map(short, entry.item.former_names)}),
            ):
                for word in words:
                    table.setdefault(word, []).append(entry)

    def find(self, asked: Word, own: Mapping[str, Entry] = MappingProxyType({})) -> list[Entry]:
        """The patterns that a word selects: a preset or profile, a name, a class name, any other
        word, a former name.

        The first meaning that the word has counts. A `Name` matches names only. ``own`` are
        patterns by name, which precede the patterns of the database. Raises `UnknownPatternError`
        when it has no meaning; the message suggests the nearest known word.
        """
        name = asked if isinstance(asked, Name) else Name(asked.strip())
        words = {} if asked is name else self.words
        word, called = name.word, short(name.word)
        if word in NAMED and word in words:
            return words[word]
        if called in own:
            return [own[called]]
        for table, key in ((self.names, called), (self.classes, called), (words, word)):
            if key in table:
                return table[key]
        found = self.former.get(called)
        if not found:
            raise UnknownPatternError(unknown(word, {*own, *self.names, *words}, name.where))
        warn_once(
            f"pattern {called!r} is called {' and '.join(repr(e.name) for e in found)} now; its "
            "old name may be removed"
        )
        return found
