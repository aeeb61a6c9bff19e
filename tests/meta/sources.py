"""The source files of the project, parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("xoptim", "patterns", "cli", "tests", "examples", "benchmarks")


class Source(NamedTuple):
    """A file.

    Attributes:
        path: relative to the root, with slashes.
        text: its content.
        tree: the parsed content.
    """

    path: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """Number of lines."""
        return len(self.text.splitlines())

    @property
    def room(self) -> str:
        """The package of the file, ``xoptim.match`` or ``tests.meta``; the module name for files directly in ``xoptim``."""
        parts = Path(self.path).with_suffix("").parts
        return ".".join(parts[:2])


def sources(*folders: str) -> tuple[Source, ...]:
    """The files of some folders (all that hold code by default), sorted within each."""
    return tuple(source for folder in folders or FOLDERS for source in _in(folder))


@cache
def _in(folder: str) -> tuple[Source, ...]:
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Source(path.relative_to(ROOT).as_posix(), text, ast.parse(text)))
    return tuple(found)
