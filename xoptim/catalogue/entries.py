"""Entries of the registry: rewrites with their words and their order, and the presets."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final, TypeAlias, TypeGuard

from xoptim.catalogue.query import Query, class_of
from xoptim.facts.dtypes import GRADES
from xoptim.facts.schema import KNOWN_DOMAINS
from xoptim.facts.words import abridged, suggestion
from xoptim.match.deferred import DeferredPattern
from xoptim.match.making import fault, metadata_of
from xoptim.match.rewrite import PHASES, STATUSES, ModelPass, Rewrite

logger = logging.getLogger("xoptim")
Order: TypeAlias = tuple[float, bool, int, str]
GLOBAL = "global"
"""The word that selects all passes; those have no phase."""
POSITIONS: Final[Mapping[str, float]] = {
    "canonicalize": 1.0,
    "specialize": 2.0,
    "target": 50.0,
    "final": 100.0,
    "lower": 200.0,
}
"""The positions of the phases, numbers as in Theano's ``optdb``."""


def short(word: str) -> str:
    """A name without the suffix ``Pattern``, as `Rewrite.name` returns it."""
    return word.strip().removesuffix("Pattern")


def unknown(word: str, known: Iterable[str], where: str = "", *, is_name: bool = False) -> str:
    """The message about an unknown word of a selection; ``where`` is the source of the word, and
    ``is_name`` says that only names of patterns are possible.
    """
    kinds = "pattern" if is_name else "pattern, tag or preset"
    advice = "`xopt list` shows the patterns"
    if not is_name:
        advice += ", `xopt list --tags` the tags and presets"
    hint = suggestion(short(word), known, advice)
    return f"{f'{where}: ' if where else ''}unknown {kinds} {abridged(word)}; {hint}"


@cache
def warn_once(message: str) -> None:
    """Log a warning, once per process."""
    logger.warning(message)


@dataclass(frozen=True)
class Entry:
    """A rewrite in the registry."""

    name: str  # the name under which it is registered
    item: Rewrite | type[Rewrite]  # the rewrite, or its class
    words: frozenset[str] = frozenset()  # words that select it, other than names
    group: str = ""  # its group, if any
    position: float = 0.0  # its place among phases and passes

    @property
    def cls(self) -> type[Rewrite]:
        """The class of the rewrite."""
        return class_of(loaded(self.item))

    @property
    def class_name(self) -> str:
        """The name of the class."""
        return class_name(self.item)

    @property
    def rewrite(self) -> Rewrite:
        """The rewrite, made at the first access."""
        return shared(loaded(self.item))

    @property
    def scheduled(self) -> Rewrite:
        """The rewrite as the engine runs it: not imported before it is tried."""
        return shared(self.item)

    @cached_property
    def order(self) -> Order:
        """Key to sort by: position, passes before patterns, priority, name."""
        return self.position, not is_pass(self.item), self.item.priority, self.item.name()

    @cached_property
    def names(self) -> frozenset[str]:
        """The name under which it is registered, and its own name.

        Both are unique in a registry.
        """
        return frozenset((short(self.name), self.item.name()))

    def is_called(self, word: str) -> bool:
        """Whether a word is its name, or a former one."""
        names = {*self.names, short(self.class_name), *map(short, self.item.former_names)}
        return short(word) in names


def loaded(item: Rewrite | type[Rewrite]) -> Rewrite | type[Rewrite]:
    """A rewrite, imported if it was deferred."""
    return item.loaded if isinstance(item, DeferredPattern) else item


def class_name(item: Rewrite | type[Rewrite]) -> str:
    """The name of the class of a rewrite."""
    return item.summary.class_name if isinstance(item, DeferredPattern) else class_of(item).__name__


def is_pass(item: Rewrite | type[Rewrite]) -> TypeGuard[ModelPass | type[ModelPass]]:
    """Whether a rewrite or a class of rewrites runs over a whole model."""
    return issubclass(class_of(item), ModelPass)


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Entries in the order in which they run: by position, passes before patterns, by priority, by
    name.

    Within a position, a rewrite precedes those that its `before` names, and follows those that its
    `after` names; where two rewrites name each other, one of them has to follow the other.
    """
    ranked = sorted(entries, key=lambda entry: entry.order)
    followers = {entry.name: frozenset(map(short, entry.item.before)) for entry in ranked}
    forward = [entry for entry in ranked if followers[entry.name]]
    if not forward and not any(entry.item.after for entry in ranked):
        return ranked
    ordered: list[Entry] = []
    seen: set[str] = set()

    def place(entry: Entry) -> None:
        name = entry.item.name()
        if name not in seen:
            seen.add(name)
            preceding = frozenset(map(short, entry.item.after))
            leaders = [leader for leader in forward if name in followers[leader.name]]
            if preceding:
                leaders += [leader for leader in ranked if leader.item.name() in preceding]
            for leader in leaders:
                if leader.order[:2] == entry.order[:2]:
                    place(leader)
            ordered.append(entry)

    for entry in ranked:
        place(entry)
    return ordered


_FOREIGN = "operators outside the standard domain"
_CUSTOM = "operators that neither the standard nor ONNX Runtime has"
LOWER = "lower"
_ON_REQUEST = ("extra", "deprecated", LOWER, _CUSTOM)
_SAFE = Query(["exact", "rounding"], exclude=_ON_REQUEST)
PRESETS: Final[dict[str, Query]] = {
    "default": _SAFE.excluding("onnxruntime", _FOREIGN),
    "onnxruntime": _SAFE.requiring("onnxruntime"),
    "finite": Query(["finite"], exclude=_ON_REQUEST),
    "approximate": Query(["approximate"], exclude=_ON_REQUEST),
    "all": Query(STATUSES, exclude=(LOWER,)),
    "fast_compile": Query(["exact"], ["canonicalize"], ["onnxruntime", _FOREIGN, *_ON_REQUEST]),
    "fast_run": _SAFE,
}
"""Named selections by the metadata of rewrites.

``default`` makes standard operators only; ``onnxruntime`` adds operators that only that runtime
has. ``fast_compile`` is cheap: the exact and portable patterns of the first phase; ``fast_run`` is
all that is safe, ``default`` and ``onnxruntime``. All but ``all`` exclude patterns that are
deprecated, tagged ``extra``, or write custom operators; none has a pattern of the phase ``lower``,
which undoes what others do.
"""
VOCABULARY: Final = (*PRESETS, *PHASES, GLOBAL, *GRADES, *STATUSES, "extra")
"""Words that are valid even when no pattern has them."""

_INSTANCES: dict[type[Rewrite], Rewrite] = {}


def shared(item: Rewrite | type[Rewrite]) -> Rewrite:
    """A pattern, or the one instance of its class: it has no state, so data compiled from it is
    valid for every model.
    """
    if not isinstance(item, type):
        return item
    instance = _INSTANCES.get(item)
    if instance is None:
        instance = _INSTANCES[item] = item()
    return instance


def make_entry(
    name: str,
    item: Rewrite | type[Rewrite],
    tags: Iterable[str] = (),
    *,
    group: str = "",
    position: float = 0.0,
) -> Entry:
    """An entry with its words.

    The rules of a preset take precedence over a tag of the same name that the rewrite declares;
    such a tag given on registration takes precedence over the rules. Raises `TypeError` when a tag
    is not a word, or another attribute of the rewrite is invalid.
    """
    extra = frozenset(tags)
    if not all(isinstance(tag, str) for tag in extra.union(item.tags)):
        raise TypeError(f"the tags of {name!r} must be strings")
    for key in sorted(metadata_of(class_of(item))):
        if mistake := fault(key, getattr(item, key)):
            raise TypeError(f"{name!r}: {key} {mistake}")
    # Patterns of the phase ``lower`` undo others: their exactness and status do not select them.
    is_lowering = item.phase == LOWER and not is_pass(item)
    grades = () if is_lowering else (item.exactness, item.status)
    base = extra.union((GLOBAL if is_pass(item) else item.phase, *grades), item.tags)
    all_words = base | {_FOREIGN} if item.produces else base
    if not KNOWN_DOMAINS.issuperset(item.produces):
        all_words |= {_CUSTOM}
    presets = (word for word, query in PRESETS.items() if query.holds(all_words))
    words = base.difference(PRESETS).union(extra, presets)
    return Entry(name, item, words, group, position)
