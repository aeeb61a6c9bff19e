"""The hash that tells whether a model is done: of its content, of the options, and of the versions of the programs."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

from xoptim.batching.options import BatchOptions
from xoptim.catalogue.discovery import GROUP
from xoptim.engine.environment import read_environment
from xoptim.facts.errors import ModelError
from xoptim.graph.external_data import external_files
from xoptim.graph.load import read_proto


def versions() -> dict[str, str]:
    """The versions of the programs that determine a result: packages of patterns (xoptim among them), onnx, onnxruntime."""
    packs = {entry.dist.name: entry.dist.version for entry in entry_points(group=GROUP) if entry.dist is not None}
    return dict(sorted({**packs, "onnx": version("onnx"), "onnxruntime": version("onnxruntime")}.items()))


def inputs_of(model: Path) -> list[Path]:
    """The files of a model: its own, and the existing files of its external data.

    A model that cannot be read has its own file only: the command reports the reason.
    """
    try:
        data = external_files(read_proto(model), model.parent)
    except (ModelError, MemoryError, RecursionError):
        data = []
    return [model, *data]


def content_key(inputs: Iterable[Path], options: BatchOptions) -> str:
    """The hash of the content of files, of the options that determine the result, and of the versions.

    The limit of memory counts, since models that do not fit are validated otherwise. Raises OSError when a file cannot be read.
    """
    debug = read_environment()
    parts: list[Any] = [
        versions(),
        [*options.arguments],
        options.memory_limit,
        [*debug.drop, debug.keep, debug.step],
        [sha256(path) for path in inputs],
        [[str(path), *_contents(path)] for path in options.files],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def sha256(path: Path) -> str:
    """The hash of the content of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _contents(path: Path) -> Iterator[str]:
    """The hash of a file, or the names and hashes of the files in a folder; nothing when there is neither."""
    if path.is_file():
        yield sha256(path)
    for place, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            yield os.path.relpath(os.path.join(place, name), path)
            yield sha256(Path(place, name))
