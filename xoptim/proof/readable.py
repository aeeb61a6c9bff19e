"""Normal forms as people read them."""

from __future__ import annotations

import re
from typing import Final

from xoptim.proof.indices import UNNAMED

_INPUT: Final = re.compile(r"input\.(?P<name>[^()]*?)\.\d+\(")
_CONSTANT: Final = re.compile(r"constant\.\w+\[[\d, ]*\]:(?P<name>[0-9a-f]+)\(")
_POINTWISE: Final = re.compile(r"pointwise\.(?P<name>\w+)\.[^ ]*?\.\((?:\d+,? ?)*\)\.\d+\(")
_WHOLE: Final = re.compile(r"whole\.(?P<name>\w+)\..*?\.\((?:(?:True|False),? ?)*\)\.\d+\.\d+\(")
_INDEX: Final = re.compile(r"[#@&][\w.]*\w")
_LETTERS: Final = {"#": "i", "@": "k", "&": "p"}
"""Names of indices: of the output, of a sum, and of an operand that is read as a whole."""


def readable_sides(sides: tuple[str, str]) -> tuple[str, str]:
    """Both sides of a proof, with short names of indices and operators.

    ``x[i0, k0]`` is an element of input ``x``, ``c8e16cd[i0]`` one of a constant, and
    ``sum[k0<4]`` the sum over ``k0`` from 0 to 3 of the product that follows.
    """
    first, second = map(_without_kinds, sides)
    names: dict[str, str] = {}
    for token in sorted({*_INDEX.findall(first), *_INDEX.findall(second)}):
        count = sum(name[0] == token[0] for name in names)
        names[token] = f"{_LETTERS[token[0]]}{count}"
    first, second = (_INDEX.sub(lambda match: names[match[0]], x) for x in (first, second))
    return first, second


def _without_kinds(text: str) -> str:
    text = text.replace(UNNAMED, "")
    text = _WHOLE.sub(lambda match: f"{match['name']}(", text)
    text = _POINTWISE.sub(lambda match: f"{match['name']}(", text)
    text = _bracketed(text, _INPUT, "")
    return _bracketed(text, _CONSTANT, "c")


def _bracketed(text: str, pattern: re.Pattern[str], prefix: str) -> str:
    """The text with ``name[...]`` in place of what the pattern matches, up to its parenthesis."""
    parts: list[str] = []
    position = 0
    while (match := pattern.search(text, position)) is not None:
        end = _closing(text, match.end())
        parts += [text[position : match.start()], f"{prefix}{match['name']}["]
        parts += [text[match.end() : end], "]"]
        position = end + 1
    return "".join([*parts, text[position:]])


def _closing(text: str, start: int) -> int:
    """The position of the parenthesis that closes one before ``start``."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if not depth:
            return position
    return len(text)
