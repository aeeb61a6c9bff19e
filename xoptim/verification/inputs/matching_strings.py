"""Strings that match a regular expression, and strings that match it but for one character."""

import itertools
import re
import string
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

try:  # Python's own parser is not a public module
    from re import _constants, _parser  # type: ignore[attr-defined]
except ImportError:  # then no strings are made from patterns
    _constants = _parser = None

_MAX_PATTERN: Final = 1000
"""Characters of a pattern that is read."""
_MAX_LENGTH: Final = 256
"""Characters of a string."""
_MAX_CHOICES: Final = 12
"""Strings for one part of a pattern."""
_MAX_MISSED: Final = 24
"""Characters of a match that are changed one by one."""
_UNBOUNDED: Final = 3  # further repetitions, beyond the minimum, if a pattern sets no maximum
_CANDIDATES: Final = "a-Z0 _.x~é" + string.ascii_letters + string.digits + string.punctuation
"""Characters for a negated set, one of each kind first."""
_POSIX: Final = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "0-9A-Za-z",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
    "[:space:]": r"\s",
    "[:word:]": r"\w",
    "[:xdigit:]": "0-9A-Fa-f",
    "[:punct:]": "!-/:-@",
}
"""Classes of characters that RE2 has and Python lacks."""
_FORMS: Final = ((r"\z", r"\Z"), (r"\C", "."))
"""Further forms of RE2, and Python's forms for them."""
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": "07",
    "CATEGORY_NOT_DIGIT": "a-",
    "CATEGORY_SPACE": " \t",
    "CATEGORY_NOT_SPACE": "a.",
    "CATEGORY_WORD": "aZ0_",
    "CATEGORY_NOT_WORD": "- ",
}
_ESCAPES: Final = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
_Item: TypeAlias = tuple[Any, Any]
"""An operation of Python's parsed form (as a string: its name), and its operand."""


class _UnsupportedError(Exception):
    """A form that RE2 lacks, or of which no string is made."""


def matches(pattern: str) -> list[str]:
    """Strings that match a regular expression of RE2.

    Each alternative is taken. Optional parts are absent and present. Repeated parts occur the
    minimal number of times, once more, and the maximal number of times. Empty for a pattern that
    Python does not read.
    """
    if _parser is None or len(pattern) > _MAX_PATTERN:
        return []
    try:
        return _of_items(list(_parsed(pattern)))
    except Exception:  # the private form may change; Python may not read a pattern of RE2
        return []


def near_misses(text: str) -> Iterator[str]:
    """A string with one character added at an end, removed, replaced, doubled, or in the other
    case.
    """
    yield from (text + "x", "-" + text, text + " ")
    places = range(min(len(text), _MAX_MISSED))
    yield from (text[:place] + text[place + 1 :] for place in places)
    yield from (text[:place] + _other_than(text[place]) + text[place + 1 :] for place in places)
    yield from (text[: place + 1] + text[place:] for place in places)
    yield from (text[:place] + text[place].swapcase() + text[place + 1 :] for place in places)


def _other_than(character: str) -> str:
    return "x" if character != "x" else "-"


def probing_strings(pattern: str, limit: int) -> list[str]:
    """Matches of a pattern, then near misses of the first match, then of all others in turn."""
    matching = matches(pattern)
    first, *others = map(near_misses, matching) if matching else ((),)
    rows = itertools.zip_longest(*others)
    mixed = (text for row in rows for text in row if text is not None)
    return list(dict.fromkeys(itertools.islice(itertools.chain(matching, first, mixed), limit)))


def _parsed(pattern: str) -> Iterable[_Item]:
    for name, characters in _POSIX.items():
        pattern = pattern.replace(name, characters)
    for re2_form, python_form in _FORMS:
        pattern = pattern.replace(re2_form, python_form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about sets, which Python may read otherwise one day
        items: Iterable[_Item] = _parser.parse(pattern)
    return items


def _of_items(items: Sequence[_Item]) -> list[str]:
    """Strings for parts that follow each other: the first ones of all parts, then another one of
    each part.
    """
    choices = [_choices(item) for item in items]
    if not all(choices):
        return []
    usual = [options[0] for options in choices]
    texts = ["".join(usual)]
    rows: list[list[str]] = []
    for place, options in enumerate(choices):
        rows.append(
            ["".join((*usual[:place], option, *usual[place + 1 :])) for option in options[1:]]
        )
    mixed = (text for row in itertools.zip_longest(*rows) for text in row if text is not None)
    texts += mixed
    texts.append("".join(options[-1] for options in choices))
    return [text for text in dict.fromkeys(texts) if len(text) <= _MAX_LENGTH]


def _choices(item: _Item) -> list[str]:
    """Strings that match one part of a pattern."""
    operation, operand = item
    make = _MAKERS.get(str(operation))
    if make is None:
        raise _UnsupportedError
    return list(dict.fromkeys(make(operand)))[:_MAX_CHOICES]


def _branches(operand: tuple[Any, Sequence[Iterable[_Item]]]) -> list[str]:
    """Strings of all alternatives, the first one of each before further ones."""
    rows = [_of_items(list(branch)) for branch in operand[1]]
    return [text for row in itertools.zip_longest(*rows) for text in row if text is not None]


def _group(operand: tuple[Any, int, int, Iterable[_Item]]) -> list[str]:
    return _of_items(list(operand[-1]))


def _repeated(operand: tuple[int, int, Iterable[_Item]]) -> list[str]:
    low, high, items = operand
    options = _of_items(list(items))
    if not options:
        return []
    limit = low + _UNBOUNDED if high == _constants.MAXREPEAT else int(high)
    usual = max(low, min(1, limit))
    counts = dict.fromkeys((usual, low, min(low + 1, limit), limit))
    longest = max(map(len, options))
    fitting = [count for count in counts if count * longest <= _MAX_LENGTH]
    texts = [options[0] * count for count in fitting]
    texts += [option * usual for option in options[1:]]
    if limit > 1:
        length = max(2, usual)
        texts.append("".join(itertools.islice(itertools.cycle(options), length)))
    return texts


def _set(operand: Sequence[_Item]) -> list[str]:
    """A few characters of a set: the ends of ranges, and characters that it lists."""
    is_negated = bool(operand) and str(operand[0][0]) == "NEGATE"
    if is_negated:
        return [c for c in _CANDIDATES if not any(_has(item, c) for item in operand[1:])][:3]
    characters: list[str] = []
    for operation, value in operand:
        if str(operation) == "RANGE":
            characters += [chr(value[0]), chr(value[1])]
        elif str(operation) == "LITERAL":
            characters.append(chr(value))
        else:
            characters += _CATEGORIES.get(str(value), "")
    return characters


def _has(item: _Item, character: str) -> bool:
    """Whether a part of a set has a character."""
    operation, value = item
    if str(operation) == "RANGE":
        return bool(value[0] <= ord(character) <= value[1])
    if str(operation) == "LITERAL":
        return bool(ord(character) == value)
    return re.fullmatch(_ESCAPES.get(str(value), "."), character) is not None


def _other(code: int) -> list[str]:
    return [character for character in "a-" if ord(character) != code]


_MAKERS: Final[dict[str, Callable[[Any], list[str]]]] = {
    "LITERAL": lambda code: [chr(code)],
    "NOT_LITERAL": _other,
    "ANY": lambda _: ["x", "-", "é"],
    "IN": _set,
    "BRANCH": _branches,
    "SUBPATTERN": _group,
    "MAX_REPEAT": _repeated,
    "MIN_REPEAT": _repeated,
    "AT": lambda _: [""],
}
