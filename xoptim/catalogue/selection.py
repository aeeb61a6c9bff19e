"""Which patterns run: ``"default+onnxruntime-Gelu"``, lists of names, classes and instances."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from xoptim.catalogue.discovery import installed_patterns
from xoptim.facts.errors import UnknownPatternError
from xoptim.match.pattern import PHASES, PatternOptimization

Pattern: TypeAlias = PatternOptimization
Item: TypeAlias = "str | Pattern | type[Pattern]"
Selection: TypeAlias = "Item | Sequence[Item] | None"

_SAFE = ("exact", "rounding")


def _is_offered(cls: type[Pattern]) -> bool:
    return "extra" not in cls.tags and cls.status != "deprecated"


PRESETS: dict[str, Callable[[type[Pattern]], bool]] = {
    "default": lambda cls: _is_offered(cls) and cls.exactness in _SAFE and "onnxruntime" not in cls.tags,
    "onnxruntime": lambda cls: _is_offered(cls) and cls.exactness in _SAFE and "onnxruntime" in cls.tags,
    "finite": lambda cls: _is_offered(cls) and cls.exactness == "finite",
    "approximate": lambda cls: _is_offered(cls) and cls.exactness == "approximate",
    "all": lambda cls: True,
}
"""Named selections. ``default`` makes standard operators only; ``onnxruntime`` adds what only that runtime has. All but
``all`` leave out what is deprecated or tagged ``extra``."""


def select(selection: Selection, drop: Iterable[str] = ()) -> list[Pattern]:
    """The patterns of a selection, in the order in which they are tried: phase, priority, name.

    Args:
        selection: ``None`` for none; a text of presets, tags and names, with or without the suffix ``Pattern``, joined by
            ``+`` or ``,`` (add) and ``-`` (take away); a class or an instance; or a sequence of all these.
        drop: names to leave out in any case.

    Raises:
        UnknownPatternError: when a word is none of these; the message suggests the nearest one.
        TypeError: when something else is among them.
    """
    chosen: dict[str, Pattern] = {}
    if selection is None:
        return []
    for item in [selection] if isinstance(selection, (str, type, Pattern)) else selection:
        if isinstance(item, str):
            _apply_text(item, chosen)
        elif isinstance(item, Pattern):
            chosen[item.name()] = item
        elif isinstance(item, type) and issubclass(item, Pattern):
            chosen[item.name()] = _shared(item)
        else:
            raise TypeError(f"a name, a class or an instance of a pattern is expected, not {item!r}")
    names = [_short(word) for word in drop]
    check_names(names, chosen)
    for name in names:
        chosen.pop(name, None)
    return sorted(chosen.values(), key=lambda p: (PHASES.index(p.phase), p.priority, p.name()))


_INSTANCES: dict[type[Pattern], Pattern] = {}


def _shared(cls: type[Pattern]) -> Pattern:
    """The one instance of a pattern: it has no state, and what is worked out about it once serves every model."""
    found = _INSTANCES.get(cls)
    if found is None:
        found = _INSTANCES[cls] = cls()
    return found


def _apply_text(text: str, chosen: dict[str, Pattern]) -> None:
    sign = "+"
    for token in map(str.strip, re.split(r"([+,-])", text)):
        if token in ("+", ",", "-"):
            sign = "-" if token == "-" else "+"
        elif sign == "-" and _short(token) in chosen:
            del chosen[_short(token)]
        elif token:
            for cls in resolve(token):
                if sign == "-":
                    chosen.pop(cls.name(), None)
                else:
                    chosen.setdefault(cls.name(), _shared(cls))


def resolve(word: str) -> list[type[Pattern]]:
    """The patterns that a preset, a tag or a name stands for.

    Raises:
        UnknownPatternError: when it is none of these.
    """
    patterns = installed_patterns()
    if word in PRESETS:
        return [cls for cls in patterns.values() if PRESETS[word](cls)]
    name = _short(word)
    if name in patterns:
        return [patterns[name]]
    tagged = [cls for cls in patterns.values() if word in cls.tags]
    if not tagged:
        raise UnknownPatternError(_unknown(word, {*patterns, *PRESETS, *(t for cls in patterns.values() for t in cls.tags)}))
    return tagged


def check_names(words: Iterable[str], extra: Iterable[str] = (), where: str = "") -> None:
    """Make sure that each word is the name of an installed pattern or one of ``extra``.

    Args:
        words: the names.
        extra: names of patterns that are not installed.
        where: what the words come from, for the message.

    Raises:
        UnknownPatternError: when one is not.
    """
    known = {*installed_patterns(), *extra}
    for word in words:
        if _short(word) not in known:
            raise UnknownPatternError((f"{where}: " if where else "") + _unknown(word, known))


def _short(word: str) -> str:
    return word.strip().removesuffix("Pattern")


def _unknown(word: str, known: Iterable[str]) -> str:
    lower = {name.lower(): name for name in sorted(known, reverse=True)}
    wanted = _short(word).lower()
    near = min(lower, key=lambda name: _distance(wanted, name), default="")
    hint = f"did you mean {lower[near]!r}?" if 2 * _distance(wanted, near) <= len(wanted) else "`xopt list` shows all names"
    return f"unknown pattern {word!r}; {hint}"


def _distance(a: str, b: str) -> int:
    """Fewest letters to add, drop or change to get from one word to the other (Levenshtein)."""
    row = list(range(len(b) + 1))
    for x in a:
        corner, row[0] = row[0], row[0] + 1
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]
