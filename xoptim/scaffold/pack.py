"""Start a package of patterns: its metadata, its first pattern, and a test that runs the whole harness."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from xoptim.scaffold.new_pattern import write_pattern

_PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{project}"
version = "0.1.0"
description = "Patterns for xoptim"
requires-python = ">=3.11"
dependencies = ["xoptim"]

[project.optional-dependencies]
test = ["pytest"]

[project.entry-points."xoptim.patterns"]
{entry} = "{package}"

[tool.setuptools]
packages = ["{package}"]
"""
_PACKAGE = '"""Patterns of {project}. Every module of the package is searched."""\n'
_TEST = '''"""Every pattern of the package passes the harness: its examples, their numbers, and models that almost match."""

from __future__ import annotations

import pytest
import {package}

from xoptim import PatternOptimization
from xoptim.testing import check_example, check_near_misses, patterns_of

PATTERNS = [found for found in patterns_of({package}) if issubclass(found, PatternOptimization)]


def test_there_are_patterns() -> None:
    assert PATTERNS


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name())
def test_examples_and_near_misses(pattern: type[PatternOptimization]) -> None:
    for example in pattern.examples:
        check_example(pattern, example)
        check_near_misses(pattern, example)
'''


def write_pack(class_name: str, folder: Path, model: str = "", nodes: str = "") -> list[Path]:
    """Write a package with one pattern in a new folder, which gives the project its name.

    Args:
        class_name: name of the pattern class, which ends with ``Pattern``.
        folder: the folder, which must not exist.
        model: see `write_pattern`.
        nodes: see `write_pattern`.

    Returns:
        The files written.

    Raises:
        ValueError: a name is not valid.
        FileExistsError: the folder exists.
        XoptimError: the nodes cannot be a pattern.
    """
    project = folder.resolve().name
    package = re.sub(r"[^a-z0-9]+", "_", project.lower()).strip("_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", package):
        raise ValueError(f"{project!r}: a folder is expected whose name can be that of a package, such as acme-patterns")
    names = {"project": project, "package": package, "entry": package.removesuffix("_patterns") or package}
    texts = {
        folder / "pyproject.toml": _PROJECT.format(**names),
        folder / package / "__init__.py": _PACKAGE.format(**names),
        folder / "tests" / "test_patterns.py": _TEST.format(**names),
    }
    with tempfile.TemporaryDirectory() as draft:  # nothing is written when the pattern cannot be
        pattern = write_pattern(class_name, Path(draft), model, nodes)
        texts[folder / package / pattern.name] = pattern.read_text(encoding="utf-8")
    folder.mkdir(parents=True)
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)
