"""What the database knows about each pattern, and where words lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias, get_args

from xoptim.catalogue.query import Query
from xoptim.catalogue.words import short, unknown, warn_once
from xoptim.facts.dtypes import Exactness
from xoptim.facts.errors import UnknownPatternError
from xoptim.match.pattern import PHASES, PatternOptimization
from xoptim.match.whole_graph import GlobalRewriter

Pattern: TypeAlias = PatternOptimization
Order: TypeAlias = tuple[float, bool, int, str]
GLOBAL = "global"
"""The word for rewriters of whole models, which belong to no phase."""


@dataclass(frozen=True)
class Entry:
    """A pattern in the database.

    Attributes:
        name: what it is registered as.
        item: the pattern, or its class.
        tags: its tags, those given on registration among them.
        words: what it can be asked for by, other than names.
        group: the group it is in, if any.
        position: where in the sequence that is.
    """

    name: str
    item: Pattern | type[Pattern]
    tags: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    group: str = ""
    position: float = 0.0

    @property
    def cls(self) -> type[Pattern]:
        """The class of the pattern."""
        return self.item if isinstance(self.item, type) else type(self.item)

    @property
    def pattern(self) -> Pattern:
        """The pattern, made when it is asked for first."""
        return shared(self.item) if isinstance(self.item, type) else self.item

    @property
    def order(self) -> Order:
        """Key to sort by: position, rewriters of whole models before a phase, priority, name."""
        return self.position, not issubclass(self.cls, GlobalRewriter), self.item.priority, self.item.name()

    @property
    def is_offered(self) -> bool:
        """Whether it may be in a preset other than ``all``."""
        return "extra" not in self.tags and self.item.status != "deprecated"

    def is_called(self, word: str) -> bool:
        """Whether a word is its name."""
        return short(word) in (self.name, self.item.name(), short(self.cls.__name__), *self.item.former_names)


def _is_safe(entry: Entry) -> bool:
    return entry.is_offered and entry.item.exactness in ("exact", "rounding")


def _is_cheap(entry: Entry) -> bool:
    item = entry.item
    is_portable = "onnxruntime" not in entry.tags and not item.produces
    is_local = item.phase == "canonicalize" and not issubclass(entry.cls, GlobalRewriter)
    return entry.is_offered and item.exactness == "exact" and is_portable and is_local


PRESETS: dict[str, Callable[[Entry], bool]] = {
    "default": lambda entry: _is_safe(entry) and "onnxruntime" not in entry.tags,
    "onnxruntime": lambda entry: _is_safe(entry) and "onnxruntime" in entry.tags,
    "finite": lambda entry: entry.is_offered and entry.item.exactness == "finite",
    "approximate": lambda entry: entry.is_offered and entry.item.exactness == "approximate",
    "all": lambda entry: True,
}
"""Named selections. ``default`` makes standard operators only; ``onnxruntime`` adds what only that runtime has. All but
``all`` leave out what is deprecated or tagged ``extra``."""
PROFILES: dict[str, Callable[[Entry], bool]] = {"fast_compile": _is_cheap, "fast_run": _is_safe}
"""How much to spend. ``fast_compile``: what costs little, exact and portable patterns of the first phase; ``fast_run``:
everything safe, the presets ``default`` and ``onnxruntime``."""
NAMED = {**PRESETS, **PROFILES}
VOCABULARY = (*NAMED, *PHASES, GLOBAL, *set(get_args(Exactness)).difference(NAMED), "stable", "preview", "deprecated", "extra")
"""Words that are known even when no pattern has them."""

_INSTANCES: dict[type[Pattern], Pattern] = {}


def shared(cls: type[Pattern]) -> Pattern:
    """The one instance of a pattern: it has no state, and what is worked out about it once serves every model."""
    found = _INSTANCES.get(cls)
    if found is None:
        found = _INSTANCES[cls] = cls()
    return found


def make_entry(name: str, item: Pattern | type[Pattern], tags: Iterable[str] = ()) -> Entry:
    """An entry with its words.

    A tag that a pattern has by itself and that is the word of a preset or profile leaves the decision to their rules; given
    on registration, it decides.
    """
    given = frozenset(tags)
    if not all(isinstance(tag, str) for tag in given.union(item.tags)):
        raise TypeError(f"the tags of {name!r} must be words")
    entry = Entry(name, item, given.union(item.tags))
    kind = GLOBAL if issubclass(entry.cls, GlobalRewriter) else item.phase
    own = frozenset((kind, item.exactness, item.status, *entry.tags)).difference(NAMED)
    return replace(entry, words=own.union(given, (word for word, rule in NAMED.items() if rule(entry))))


class Index:
    """Where words lead to.

    Args:
        entries: the patterns, in running order.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self.names: dict[str, Entry] = {}
        self.classes: dict[str, list[Entry]] = {}
        self.former: dict[str, list[Entry]] = {}
        self.words: dict[str, list[Entry]] = {word: [] for word in VOCABULARY}
        for entry in self.entries:
            self.names[short(entry.name)] = self.names[entry.item.name()] = entry
            self.classes.setdefault(short(entry.cls.__name__), []).append(entry)
            for word in entry.words:
                self.words.setdefault(word, []).append(entry)
            for name in entry.item.former_names:
                self.former.setdefault(short(name), []).append(entry)

    def named(self, name: str) -> list[Entry]:
        """The patterns of a name, a class or a former name (that costs a warning); empty when there is none."""
        if name in self.names:
            return [self.names[name]]
        if name in self.classes:
            return self.classes[name]
        found = self.former.get(name, [])
        if found:
            warn_once(f"pattern {name!r} is called {' and '.join(repr(e.name) for e in found)} now; its old name may go")
        return found

    def find(self, word: str) -> list[Entry]:
        """The patterns that a word stands for: a preset or profile, a name, any other word, a former name, in this order."""
        name = short(word)
        if word in self.words and (word in NAMED or not (name in self.names or name in self.classes)):
            return self.words[word]
        found = self.named(name)
        if not found:
            raise UnknownPatternError(unknown(word, {*self.names, *self.words}))
        return found

    def matching(self, query: Query) -> set[str]:
        """Names of the patterns that a query wants."""

        def names(word: str) -> set[str]:
            return {entry.name for entry in self.find(word)}

        found = set[str]().union(*map(names, sorted(query.include)))
        for word in sorted(query.require):
            found &= names(word)
        for word in sorted(query.exclude):
            found -= names(word)
        return found
