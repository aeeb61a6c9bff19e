"""The source files of the project, parsed once."""

import ast
import gc
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("xoptim", "patterns", "cli", "tests", "examples", "benchmarks", "lab", "distribution")
with_mypy = pytest.mark.xdist_group("mypy")
"""Marks tests that run mypy with the settings of the repository: one after the other, they share
what it has read.
"""
in_one_process = pytest.mark.xdist_group("sources")
"""Marks files of tests that read all sources, so that one process parses them once for all of these
tests.
"""


@dataclass(frozen=True)
class Source:
    """A file.

    Attributes:
        path: relative to the root, with slashes.
        text: its content.
        tree: the parsed content.
    """

    path: str
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree, walked once for all tests."""
        return tuple(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        """Number of lines."""
        return len(self.text.splitlines())

    @property
    def package(self) -> str:
        """The package of the file, ``xoptim.match`` or ``tests.meta``.

        The module name for files directly in ``xoptim``.
        """
        parts = Path(self.path).with_suffix("").parts
        return ".".join(parts[:2])


def sources(*folders: str) -> tuple[Source, ...]:
    """The files of some folders (all that hold code by default), sorted within each."""
    return tuple(source for folder in folders or FOLDERS for source in _in(folder))


@cache
def _in(folder: str) -> tuple[Source, ...]:
    found = []
    # the trees stay, so that looking for garbage among them again and again would only take time
    gc.disable()
    try:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            found.append(Source(path.relative_to(ROOT).as_posix(), text, ast.parse(text)))
    finally:
        gc.freeze()
        gc.enable()
    return tuple(found)
