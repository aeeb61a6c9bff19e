"""Texts in messages: suggestions for unknown words, numbers of things and bytes."""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import islice
from typing import Final

MAX_LENGTH: Final = 100
"""Maximal length of a word that is compared with other words, or shown in full."""


def abridged(word: str) -> str:
    """A word in quotation marks, cut off when it is long."""
    return repr(word) if len(word) <= MAX_LENGTH else f"{word[:MAX_LENGTH]!r}..."


def shortened(text: str) -> str:
    """A text, cut off when it is long."""
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}..."


def shell_path(path: object) -> str:
    """A path quoted for a shell command in a message, so that it is not read as an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def quoted(path: object) -> str:
    """A path in quotation marks: control characters are escaped, backslashes are not doubled."""
    return repr(str(path)).replace("\\\\", "\\")


_MAX_LISTED: Final = 20


def listed(words: Collection[str]) -> str:
    """Words separated by commas, at most the first `_MAX_LISTED`; ``none`` without words."""
    text = ", ".join(islice(words, _MAX_LISTED))
    more = len(words) - _MAX_LISTED
    return f"{text}, ... ({more:,} more)" if more > 0 else text or "none"


_MAX_COMPARISONS: Final = 2_000_000
"""Maximal number of pairs of letters that are compared for one word: about half a second."""


def similar(word: str, words: Iterable[str], most: int = 1, one_of: int = 2) -> list[str]:
    """The words that are most similar to a word, at most ``most``, the best first.

    At most one letter in ``one_of`` differs; case does not matter. If there are very many words,
    only those with the longest common prefixes and suffixes are compared.
    """
    if len(word) > MAX_LENGTH:
        return []
    target = word.lower()
    length = len(target)
    candidates = [name for name in words if 2 * abs(len(name) - length) <= length]
    names = {name.lower(): name for name in sorted(candidates, reverse=True)}
    distances = {name: _distance(target, name) for name in _most_alike(target, names)}
    matches = [name for name in distances if one_of * distances[name] <= length]
    matches.sort(key=lambda name: distances[name])
    return [names[name] for name in matches[:most]]


def _most_alike(word: str, names: Collection[str]) -> list[str]:
    """The names to compare with a word: all, or as many as there is time for."""
    count = _MAX_COMPARISONS // max(1, 2 * len(word) ** 2)
    if len(names) <= count:
        return list(names)
    shared = {name: _in_common(word, name) + _in_common(word[::-1], name[::-1]) for name in names}
    closest = nlargest(count, names, key=lambda name: shared[name])
    return sorted(closest, reverse=True)


def _in_common(a: str, b: str) -> int:
    """Length of the common prefix."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((at for at, (x, y) in pairs if x != y), min(len(a), len(b)))


def suggestion(
    word: str, words: Iterable[str], default: str, most: int = 1, one_of: int = 2
) -> str:
    """``did you mean 'x' or 'y'?`` with the `similar` words, or ``default`` without any."""
    matches = similar(word, words, most, one_of)
    return f"did you mean {' or '.join(map(repr, matches))}?" if matches else default


def meant(word: str, words: Iterable[str]) -> str:
    """The end of a message about an unknown word: ``; did you mean 'x'?``, or nothing."""
    question = suggestion(word, words, "")
    return f"; {question}" if question else ""


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


_MAX_DIGITS: Final = 19


def whole_number(text: str) -> int | None:
    """The number in a text of decimal digits, ``None`` for any other text and from 2^63 on."""
    if len(text) > _MAX_DIGITS or not text.isascii() or not text.isdigit():
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
_BYTE_LIMIT: Final = 1 << 63
_AMOUNT: Final = re.compile(r"(\d+|\d+\.\d+(?=\s*[%a-z]))\s*(%|[a-z]*)", re.IGNORECASE)
"""A number and its unit. Only a whole number of bytes may lack it: 0.1 may be meant as 10 %."""


def byte_amount(text: str, whole: int | None = None) -> int:
    """A number of bytes from a text such as ``500``, ``500 kB`` or ``1.5GiB``; with ``whole``, the
    bytes of 100 %, also ``10%``.

    The case of letters does not matter. Raises `ValueError` for any other text.
    """
    match = _AMOUNT.fullmatch(text.strip()) if len(text) <= MAX_LENGTH else None
    unit = match[2].lower() if match else ""
    units = _UNITS if whole is None else {**_UNITS, "%": whole / 100}
    if match is None or unit not in units:
        raise ValueError(f"{abridged(text)}: a size such as 500kB or 4GB is expected")
    amount = float(match[1]) * units[unit]
    if amount >= _BYTE_LIMIT:
        raise ValueError(f"{abridged(text)}: a size below 2^63 bytes is expected")
    return int(amount)


def bytes_text(count: int) -> str:
    """A number of bytes with its unit."""
    return with_unit(count, ("B", "kB", "MB", "GB"))


def with_unit(number: float, units: Sequence[str]) -> str:
    """A number with the unit that fits, each unit a thousand times the one before.

    A number in the first unit has no decimals.
    """
    for unit in units:
        if number < 1000 or unit == units[-1]:
            break
        number /= 1000
    return f"{number:.{0 if unit == units[0] else 1}f} {unit}".rstrip()
