"""What differs from a revision: the files, and the patterns that they make.

The environment variable ``CHANGED_SINCE`` names the revision. Without it, nothing differs.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = "xoptim.patterns"


@cache
def changed_files() -> frozenset[str]:
    """Paths below the root that differ from the revision, new files included.

    Raises:
        RuntimeError: git does not know the revision. A run that tested less would hide it.
    """
    revision = os.environ.get("CHANGED_SINCE", "")
    return files_since(ROOT, revision) if revision else frozenset()


def files_since(root: Path, revision: str) -> frozenset[str]:
    """The files of a working tree that differ from a revision."""
    commands = (
        ["diff", "--name-only", "--no-renames", "--relative", "-z", revision, "--"],
        ["ls-files", "--others", "--exclude-standard", "-z"],
    )
    paths: set[str] = set()
    for words in commands:
        done = subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"CHANGED_SINCE={revision}: {done.stderr.strip()}")
        paths.update(filter(None, done.stdout.split("\0")))
    return frozenset(paths)


def touches(*folders: str) -> bool:
    """Whether a file in one of these folders differs, or one of these files.

    Raises:
        ValueError: there is no such folder. It was renamed, and would never differ.
    """
    return _contain(folders, changed_files())


@cache
def _contain(folders: tuple[str, ...], paths: frozenset[str]) -> bool:
    for folder in folders:
        if not (ROOT / folder).exists():
            raise ValueError(f"there is no {folder}")
    return any(
        path == folder or path.startswith(f"{folder}/") for path in paths for folder in folders
    )


def is_touched(pattern: type) -> bool:
    """Whether the module of a pattern differs, or a module of the catalogue that it imports,
    directly or not; of a pass, a file of its package.
    """
    if not changed_files():
        return False
    name = pattern.__module__
    if name.startswith(f"{PATTERNS}."):
        return name in touched_modules(ROOT / "patterns", changed_files())
    path = sys.modules[name].__file__ or ""
    folder = Path(path).resolve().parent
    return folder.is_relative_to(ROOT) and touches(folder.relative_to(ROOT).as_posix())


def touched_modules(folder: Path, paths: Collection[str]) -> frozenset[str]:
    """The modules of the catalogue among changed files, and all that import one of them."""
    return _touched_modules(folder, frozenset(paths))


@cache
def _touched_modules(folder: Path, paths: frozenset[str]) -> frozenset[str]:
    imports = {
        _module(path.relative_to(folder)): frozenset(_imported(path, folder))
        for path in folder.rglob("*.py")
    }
    catalogue = f"{folder.name}/"
    touched = {
        _module(Path(path.removeprefix(catalogue))) for path in paths if path.startswith(catalogue)
    }
    while importers := {name for name, read in imports.items() if read & touched} - touched:
        touched |= importers
    return frozenset(touched & imports.keys())


def _module(path: Path) -> str:
    """The name of a module of the catalogue, by its path below the folder."""
    parts = path.with_suffix("").parts
    return ".".join((PATTERNS, *(part for part in parts if part != "__init__")))


def _imported(path: Path, folder: Path) -> Iterator[str]:
    """The modules of the catalogue that a file imports, and names that may be modules."""
    package = [PATTERNS, *path.relative_to(folder).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names)
