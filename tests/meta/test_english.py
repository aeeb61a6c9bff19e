"""Plain technical English: docstrings do not begin with a nominal "what", and no text personifies programs."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.meta.sources import ROOT, Source, in_one_process, sources

pytestmark = in_one_process

BANNED = (
    *(r"to blame", r"to and fro", r"turns? comes", r"(has|have|had|takes?) (its|their) turn", r"takes? turns", r"by surprise"),
    *(r"(is|are|was|were|be) told", r"nobody", r"somebody", r"whoever", r"wants", r"offers itself"),
    *(r"nothing knows", r"nothing is known", r"nothing can be said", r"(is|are) no (?!longer)\w+"),
)
"""Regular expressions of phrases that personify, that invert a negation, or that leave the subject out."""
PAGES = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))


def _docstrings(source: Source) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring of a file, those of attributes and constants included."""
    for node in source.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def _texts(source: Source) -> Iterator[tuple[int, str]]:
    """Line and text of each string and comment of a file, docstrings and the constant parts of f-strings included."""
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for number, line in enumerate(source.text.splitlines(), 1):
        yield number, line.partition("# ")[2]


def banned_in(text: str) -> str:
    """The first banned phrase in a text, empty when there is none. "There is no ..." is allowed."""
    words = re.sub(r"(?i)\bthere (is|are) no\b", "", " ".join(text.split()))
    found = re.search(rf"(?i)\b({'|'.join(BANNED)})\b", words)
    return found[0] if found else ""


def test_no_docstring_begins_with_what() -> None:
    nominal = [f"{s.path}:{line}" for s in sources() for line, text in _docstrings(s) if re.match(r"(?i)\s*what\b", text)]
    assert not nominal


def test_no_banned_phrase_in_code() -> None:
    others = [source for source in sources() if source.path != "tests/meta/test_english.py"]  # which lists the phrases
    found = [f"{s.path}:{line}: {phrase}" for s in others for line, text in _texts(s) if (phrase := banned_in(text))]
    assert not found


def test_no_banned_phrase_on_pages() -> None:
    found = {str(page.relative_to(ROOT)): banned_in(page.read_text(encoding="utf-8")) for page in PAGES}
    assert {page: phrase for page, phrase in found.items() if phrase} == {}


@pytest.mark.parametrize("text", ["the node to blame", "a Boolean is no integer", "they are no\nmatrices", "is told so"])
def test_banned_phrases_are_found(text: str) -> None:
    assert banned_in(text)


@pytest.mark.parametrize("text", ["there is no bias", "There are no axes.", "it is no longer read", "returns the shape"])
def test_other_phrases_are_not_found(text: str) -> None:
    assert not banned_in(text)
