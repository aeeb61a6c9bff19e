"""Prose that a native would write: phrases that betray a translation stay rare in docstrings, comments and pages."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.meta.sources import ROOT, Source, in_one_process, sources

pytestmark = in_one_process

ROOTS = (
    *("xoptim", "patterns", "cli", "benchmarks", "examples", "docs"),
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
)
"""Folders and pages whose prose is counted; of a folder its code, subfolders included, and the pages directly in it."""


class Phrase(NamedTuple):
    """A phrase, and the frequency up to which it passes.

    Attributes:
        form: a regular expression.
        most: occurrences in 100,000 words.
        better: a wording that usually says the same.
    """

    form: str
    most: int
    better: str


PHRASES = (
    Phrase(r"behind", 6, "after"),
    Phrase(r"stands?(?! for\b)|stand(?:s|ing)? for", 8, "is, means, replaces"),
    Phrase(r"(?:that|those) of", 20, "the noun again, or a genitive"),
    Phrase(r"so (?:many|much)", 2, "this many, that much"),
    Phrase(r"as far as", 3, "where, while, if"),
    Phrase(r"of (?:which|whose)", 6, "whose, or a second sentence"),
    Phrase(r"by (?:itself|themselves)|as a whole", 6, "alone, whole"),
    Phrase(r"must not be|need not", 6, "may not be, may be omitted"),
)
TITLE = re.compile(r"(?mi)^#+ what\b.*$")
"""A heading that a noun would say better."""


def _comments(source: Source) -> Iterator[str]:
    """The comments of a file."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def _docstrings(source: Source) -> Iterator[str]:
    """The docstrings of a file, and the strings that describe its attributes and constants."""
    for node in source.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def pages(*roots: str) -> list[Path]:
    """The pages among some roots, and directly in their folders."""
    found = [ROOT / root for root in roots]
    return [page for path in found for page in (sorted(path.glob("*.md")) if path.is_dir() else [path])]


@cache
def prose(*roots: str) -> str:
    """The docstrings, comments and pages of some roots."""
    folders = [root for root in roots if (ROOT / root).is_dir()]
    code = [text for source in sources(*folders) for text in (*_docstrings(source), *_comments(source))]
    return "\n".join([*code, *(page.read_text(encoding="utf-8") for page in pages(*roots))])


def frequency(phrase: Phrase, text: str) -> float:
    """Occurrences of a phrase in 100,000 words of a text."""
    words = len(re.findall(r"[A-Za-z']+", text))
    return len(re.findall(rf"(?i)\b(?:{phrase.form})\b", text)) * 1e5 / max(words, 1)


@pytest.mark.parametrize("phrase", PHRASES, ids=[phrase.form for phrase in PHRASES])
def test_phrases_are_rare(phrase: Phrase) -> None:
    text = prose(*ROOTS)
    places = [line.strip() for line in text.splitlines() if re.search(rf"(?i)\b(?:{phrase.form})\b", line)]
    assert frequency(phrase, text) <= phrase.most, (f"better: {phrase.better}", places)


def test_titles_do_not_begin_with_what() -> None:
    written = [path for path in pages(*ROOTS) if path.name != "payoff.md"]
    assert [title for path in written for title in TITLE.findall(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("what is left behind", [r"behind"]),
        (
            "It stands for the size of those of the others, so many as there are.",
            [PHRASES[1].form, PHRASES[2].form, PHRASES[3].form],
        ),
        ("a list of which one is read", [PHRASES[5].form]),
        ("that often, whose size, alone and whole, as much as needed", []),
    ],
)
def test_phrases_are_found(text: str, found: list[str]) -> None:
    assert [phrase.form for phrase in PHRASES if frequency(phrase, text)] == found


def test_a_frequency_counts_words() -> None:
    assert frequency(PHRASES[0], "one behind two three") == 25_000
    assert frequency(PHRASES[0], "") == 0
