"""Words of messages: suggestions for those that do not exist, and numbers of things and bytes."""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import islice
from typing import Final

LONGEST: Final = 100
"""Maximal number of letters of a word that is compared with all others: the time grows with the
length.
"""


def abridged(word: str) -> str:
    """A word in quotation marks, without the end of one that is long."""
    return repr(word) if len(word) <= LONGEST else f"{word[:LONGEST]!r}..."


def shortened(text: str) -> str:
    """A text without the end of one that is long."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def shell_path(path: object) -> str:
    """A file as a word of a shell, which is no option, for a command in a message."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def quoted(path: object) -> str:
    """A path in quotation marks, as it is written: a backslash is not doubled.

    Control characters are escaped.
    """
    return repr(str(path)).replace("\\\\", "\\")


_MAX_LISTED: Final = 20


def listed(words: Collection[str]) -> str:
    """Words with commas in between: of many, the first ones; ``none`` when there is none."""
    text = ", ".join(islice(words, _MAX_LISTED))
    more = len(words) - _MAX_LISTED
    return f"{text}, ... ({more:,} more)" if more > 0 else text or "none"


_MOST_STEPS: Final = 2_000_000
"""Pairs of letters that are compared for one word: about half a second."""


def similar(word: str, known: Iterable[str], most: int = 1, one_of: int = 2) -> list[str]:
    """The known words that are similar to a word, the most similar first; ``most`` of them.

    At most one letter of ``one_of`` differs; the case of letters does not matter. Of very many
    words, those are compared that begin and end like it.
    """
    if len(word) > LONGEST:
        return []
    wanted = word.lower()
    length = len(wanted)
    candidates = [name for name in known if 2 * abs(len(name) - length) <= length]
    names = {name.lower(): name for name in sorted(candidates, reverse=True)}
    steps = {name: _distance(wanted, name) for name in _most_alike(wanted, names)}
    near = [name for name in steps if one_of * steps[name] <= length]
    near.sort(key=lambda name: steps[name])
    return [names[name] for name in near[:most]]


def _most_alike(word: str, names: Collection[str]) -> list[str]:
    """The names to compare with a word: all, or as many as there is time for."""
    count = _MOST_STEPS // max(1, 2 * len(word) ** 2)
    if len(names) <= count:
        return list(names)
    ends = {name: _shared(word, name) + _shared(word[::-1], name[::-1]) for name in names}
    chosen = nlargest(count, names, key=lambda name: ends[name])
    return sorted(chosen, reverse=True)


def _shared(a: str, b: str) -> int:
    """The number of letters with which both words begin."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((at for at, (x, y) in pairs if x != y), min(len(a), len(b)))


def suggestion(
    word: str, known: Iterable[str], otherwise: str, most: int = 1, one_of: int = 2
) -> str:
    """The question whether similar words, ``most`` of them, were meant.

    ``otherwise`` when no word is similar (`similar`).
    """
    near = similar(word, known, most, one_of)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else otherwise


def meant(word: str, known: Iterable[str]) -> str:
    """The end of a message about a word that does not exist: ``.

    Did you mean 'x'?``, or nothing.
    """
    near = suggestion(word, known, "")
    return f"; {near}" if near else ""


def counted(count: int, noun: str) -> str:
    """A number of things: ``1 node``, ``3 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _distance(a: str, b: str) -> int:
    """Minimal number of letters to add, drop or change between two words (Levenshtein)."""
    row = list(range(len(b) + 1))
    for x in a:
        corner, row[0] = row[0], row[0] + 1
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]


_MOST_DIGITS: Final = 19


def whole_number(text: str) -> int | None:
    """The number that a text of decimal digits writes.

    ``None`` for any other text, and from 2^63 on.
    """
    if len(text) > _MOST_DIGITS or not text.isascii() or not text.isdigit():
        return None
    number = int(text)
    return number if number < 1 << 63 else None


_DECIMAL: Final = {"kb": 10**3, "mb": 10**6, "gb": 10**9}
_UNITS: Final[Mapping[str, float]] = {
    "": 1,
    "b": 1,
    **_DECIMAL,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_MOST_BYTES: Final = 1 << 63
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(%|[a-z]*)", re.IGNORECASE)


def byte_amount(text: str, whole: int | None = None) -> int:
    """A number of bytes from a text such as ``500``, ``500 kB``, ``1.5GiB`` or, where ``whole`` is
    100 %, ``10%``.

    The case of letters does not matter. Raises `ValueError` for any other text.
    """
    found = _AMOUNT.fullmatch(text.strip()) if len(text) <= LONGEST else None
    unit = found[2].lower() if found else ""
    units = _UNITS if whole is None else {**_UNITS, "%": whole / 100}
    if found is None or unit not in units:
        raise ValueError(f"{abridged(text)}: a size such as 500kB or 4GB is expected")
    amount = float(found[1]) * units[unit]
    if amount >= _MOST_BYTES:
        raise ValueError(f"{abridged(text)}: a size below 2^63 bytes is expected")
    return int(amount)


def bytes_text(count: int) -> str:
    """A number of bytes with its unit."""
    return with_unit(count, ("B", "kB", "MB", "GB"))


def with_unit(number: float, units: Sequence[str]) -> str:
    """A number with one of some units, each a thousand times the one before.

    The first counts whole things.
    """
    for unit in units:
        if number < 1000 or unit == units[-1]:
            break
        number /= 1000
    return f"{number:.{0 if unit == units[0] else 1}f} {unit}".rstrip()
