"""Facts about the patterns of the built-in catalogue, cached, so that only the patterns that are
tried at a node of a model are imported.

The file is in a folder of the user's own next to Python's bytecode of the catalogue. Where a user
cannot write there, such as in an installation by root, or Python writes no bytecode, it is in the
user's folder for caches. It is used only if it is the user's own and undamaged, and no source file
has changed since it was written; without it, all patterns are imported.
"""

import hashlib
import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, Final

import onnx

from xoptim import facts, match, operators
from xoptim.catalogue.entries import shared
from xoptim.match.deferred import DeferredPattern, PatternSummary
from xoptim.match.making import metadata_of
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import Rewrite
from xoptim.system.cache import cache_folder, store
from xoptim.system.reading import read_own_file
from xoptim.system.versions import package_version

_FORMAT: Final = 2
"""Version of the contents of the file: the hash of a JSON text on the first line, then the text."""
_MAX_BYTES: Final = 1 << 24
_VERSIONS: Final = 4
"""Versions at the beginning of the list of sources."""
_PACKAGE: Final = "xoptim.patterns."


def cached_patterns(pack: Path, sources: list[Any]) -> list[type[Rewrite] | DeferredPattern] | None:
    """The rewrites of a pack, patterns deferred; ``None`` without a valid cache.

    ``sources`` are those that `sources_of` finds.
    """
    place = _place(pack)
    if place is None:
        return None
    try:
        digest, _, text = read_own_file(place, _MAX_BYTES).partition(b"\n")
        if digest != _digest(text):
            return None
        contents = json.loads(text)
        if contents["sources"] != sources or not _is_complete(pack, contents):
            return None
        passes = [_class(module, name) for module, name in contents["passes"]]
        return [*passes, *(DeferredPattern(_summary(row), _load) for row in contents["patterns"])]
    except (OSError, ValueError, TypeError, LookupError, AttributeError, ImportError):
        return None  # the file is damaged, or was never written
    except RecursionError:
        return None  # the file is nested too deeply


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _is_complete(pack: Path, contents: Mapping[str, Any]) -> bool:
    """Whether each module of a pack has a rewrite, except those whose names begin with ``_``.

    This is true of the complete catalogue.
    """
    rewrites = (*contents["passes"], *(row[2:4] for row in contents["patterns"]))
    modules = {module.partition(_PACKAGE)[2] for module, _ in rewrites}
    paths = (Path(path) for path, *_ in contents["sources"][_VERSIONS:])
    files = [path.relative_to(pack) for path in paths if path.is_relative_to(pack)]
    public = [path for path in files if not path.name.startswith("_")]
    return all(".".join(path.with_suffix("").parts) in modules for path in public)


def write_cache(pack: Path, sources: list[Any], classes: Iterable[type[Rewrite]]) -> None:
    """Store the facts about the rewrites of a pack; nothing is stored where that fails.

    ``sources`` were found before the classes were imported.
    """
    place = _place(pack)
    if place is None:
        return
    patterns: list[list[Any]] = []
    passes: list[tuple[str, str]] = []
    try:
        for cls in classes:
            if issubclass(cls, PatternOptimization):
                patterns.append(_row(cls))
            else:
                passes.append((cls.__module__, cls.__name__))
    except Exception:  # the code of a pattern may raise anything: an error where it is used
        return
    contents = {"sources": sources, "passes": passes, "patterns": patterns}
    text = json.dumps(contents, separators=(",", ":")).encode()
    with suppress(OSError):
        store(place, _digest(text) + b"\n" + text)


def _place(pack: Path) -> Path | None:
    """The file; ``None`` where there are no source files, or no folder for it."""
    source, tag = pack / "__init__.py", sys.implementation.cache_tag
    if not source.is_file():
        return None
    if tag is not None and not sys.dont_write_bytecode and os.access(pack, os.W_OK):
        return Path(cache_from_source(str(source))).parent / "facts" / f"patterns.{tag}.json"
    caches = cache_folder()
    return caches and caches / f"patterns-{zlib.crc32(os.fsencode(pack)):08x}.json"


def sources_of(pack: Path) -> list[Any]:
    """The values that determine the facts: versions, and the time and size of the source files."""
    versions = [_FORMAT, package_version("xoptim"), sys.implementation.cache_tag, onnx.__version__]
    engine = (*facts.__path__, *match.__path__, *operators.__path__)
    folders = (str(pack), *engine)
    assert len(versions) == _VERSIONS
    return [*versions, *(row for folder in folders for row in sorted(_files(folder)))]


def _files(folder: str) -> Iterator[list[Any]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                stat = entry.stat()
                yield [entry.path, stat.st_mtime_ns, stat.st_size]
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _files(entry.path)


def _row(cls: type[PatternOptimization]) -> list[Any]:
    """The facts about a pattern as a JSON list."""
    pattern = shared(cls)
    assert isinstance(pattern, PatternOptimization)
    metadata = {
        key: getattr(cls, key)
        for key in sorted(metadata_of(cls) - {"examples"})
        if getattr(cls, key) != getattr(PatternOptimization, key)
    }
    return [
        pattern.name(),
        pattern.family(),
        cls.__module__,
        cls.__name__,
        sorted(pattern.paths()),
        pattern.reach(),
        metadata,
    ]


def _summary(row: list[Any]) -> PatternSummary:
    name, family, module, class_name, paths, reach, metadata = row
    anchors = frozenset((_key(anchor), tuple(map(_key, path))) for anchor, path in paths)
    fields = {
        key: tuple(value) if isinstance(value, list) else value for key, value in metadata.items()
    }
    return PatternSummary(name, family, module, class_name, anchors, reach, fields)


def _key(pair: list[str]) -> tuple[str, str]:
    domain, op_type = pair
    return domain, op_type


def _load(summary: PatternSummary) -> PatternOptimization:
    pattern = shared(_class(summary.module, summary.class_name))
    assert isinstance(pattern, PatternOptimization)
    return pattern


def _class(module: str, name: str) -> type[Rewrite]:
    if not module.startswith(_PACKAGE):
        raise ValueError(f"{module} is not a part of the catalogue")
    cls: type[Rewrite] = getattr(import_module(module), name)
    return cls
