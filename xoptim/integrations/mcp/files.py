"""The files of a server: its tools work on copies in a folder of their own, and their results are
moved into the served folder at the end.

A path is therefore opened once. A link that replaces a file while a tool works is not followed.
"""

import os
import re
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from xoptim.api.preparing import external_locations, read_proto
from xoptim.facts.advice import advising
from xoptim.facts.errors import ModelError, XoptimError
from xoptim.facts.words import shortened
from xoptim.integrations.mcp.arguments import ToolWords
from xoptim.system.confined import ConfinedFolder, Parts, Version
from xoptim.system.dependent import end_with_parent, run_module
from xoptim.system.files import MODEL_SUFFIXES

SCRATCH: Final = ".xopt-mcp-"
"""Beginning of the names of the folders in which tools work."""
CODE: Final = (
    "import sys; from xoptim.integrations.mcp.files import main; sys.exit(main(sys.argv[1:]))"
)
_SUFFIX: Final = ".onnx"
_MAX_NAMED: Final = 20  # files in the message about one that is missing
_MAX_FOLDERS: Final = 1000  # in which they are looked for


class McpError(XoptimError):
    """The server cannot be run, or a tool cannot do its task."""


@dataclass(frozen=True)
class Output:
    """A file that a tool writes."""

    path: Parts
    before: Version | None  # the version of the present file, which is replaced; None if missing


class _Written(NamedTuple):
    """A result of this server: the versions of the model and of the files with its weights."""

    model: Version
    weights: dict[Parts, Version]


class ServedFiles:
    """The files of the served folder that tools read and write."""

    def __init__(self, root: Path) -> None:
        self.folder = ConfinedFolder(root)
        self._written: dict[Parts, _Written] = {}
        self._publishing = threading.Lock()

    def existing(self, path: str) -> Parts:
        """The components of the path of a file that exists; raises `McpError` for another path."""
        parts = self._parts(path)
        version = self._version(path, parts)
        if version is None:
            raise McpError(
                f"there is no file {_quoted(path)} in {self.folder.root}{self._choices()}"
            )
        return parts

    def output(self, path: str, *, overwrite: bool) -> Output:
        """A file to write.

        Raises `McpError` when it is no ``.onnx`` file, or when it exists, is not the unchanged
        result of an earlier call, and ``overwrite`` is not set.
        """
        parts = self._parts(path)
        if not parts[-1].endswith(_SUFFIX):
            raise McpError(f"the output {_quoted(path)} does not end in {_SUFFIX}")
        before = self._version(path, parts, is_output=True)
        result = self._written.get(parts)
        is_own = result is not None and result.model == before
        if before is not None and not is_own and not overwrite:
            raise McpError(
                f"{_quoted(path)} exists, and is not a result of this session; overwrite=true "
                "replaces it"
            )
        return Output(parts, before)

    def stage(self, models: Sequence[Parts], output: Output | None, scratch: Path) -> None:
        """Put models into the folder in which a tool works, and reserve the names of weights.

        Raises `McpError`.
        """
        try:
            for parts in dict.fromkeys(models):
                target = scratch.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                self.folder.stage(parts, target)
            if output is None:
                return
            target = scratch.joinpath(*output.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            for name in filter(_weights_of(target.name), self.folder.names(output.path[:-1])):
                target.with_name(name).touch()
        except OSError as error:
            raise McpError(self._text(error)) from error

    def publish(self, scratch: Path, output: Output, names: Sequence[str]) -> None:
        """Move the files that a tool has written into the served folder, the model last.

        Weights of an earlier result are removed unless another model names them. Raises
        `McpError`; nothing has changed then.
        """
        *folder, name = output.path
        weights = {(*folder, file) for file in names if _weights_of(name)(file)}
        versions: dict[Parts, Version] = {}
        with self._publishing:
            try:
                for parts in sorted(weights):
                    versions[parts] = self.folder.publish(scratch.joinpath(*parts), parts, None)
                model = self.folder.publish(
                    scratch.joinpath(*output.path), output.path, output.before
                )
            except OSError as error:
                for parts, version in versions.items():
                    self.folder.remove(parts, version)
                raise McpError(f"{self._text(error)}; nothing was written") from error
            old = self._written.get(output.path)
            self._written[output.path] = _Written(model, versions)
            for parts, version in (old.weights if old is not None else {}).items():
                with suppress(OSError):
                    if not self.folder.is_named(parts, MODEL_SUFFIXES):
                        self.folder.remove(parts, version)

    def _parts(self, path: str) -> Parts:
        try:
            return self.folder.parts(path)
        except ValueError as error:
            raise McpError(
                f"{_quoted(path)} is not a path in the folder of the server, {self.folder.root}: "
                f"{error}"
            ) from error

    def _version(self, path: str, parts: Parts, *, is_output: bool = False) -> Version | None:
        try:
            return self.folder.version(parts)
        except FileNotFoundError as error:
            if is_output:
                raise McpError(f"the folder of {_quoted(path)} does not exist") from error
            return None
        except OSError as error:
            raise McpError(
                f"{_quoted(path)} is not a path in the folder of the server, {self.folder.root}: "
                f"{error.strerror}"
            ) from error

    def _text(self, error: OSError) -> str:
        place = error.filename
        if place is None:  # such as a full disk
            return error.strerror or str(error)
        with suppress(ValueError, TypeError):
            place = Path(place).relative_to(self.folder.root)
        return f"{_quoted(str(place))}: {error.strerror or error}"

    def _choices(self) -> str:
        """The models in the folder, as the end of a sentence."""
        names = sorted(self._models())
        shown = names[:_MAX_NAMED]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        return f"; it has {', '.join(shown)}{more}" if shown else "; it has no models"

    def _models(self) -> list[str]:
        paths = []
        for place, folders, names in islice(os.walk(self.folder.root), _MAX_FOLDERS):
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths += [Path(place, name) for name in names if name.endswith(_SUFFIX)]
        return [
            path.relative_to(self.folder.root).as_posix()
            for path in paths
            if path.is_file() and not path.is_symlink()
        ]


def default_output(model: Parts) -> str:
    """The default output of a model."""
    return PurePath(*model[:-1], f"{PurePath(model[-1]).stem}.opt{_SUFFIX}").as_posix()


def word(parts: Parts) -> str:
    """A path as a word of a command line, which is no option."""
    return f"./{'/'.join(parts)}"


def _weights_of(name: str) -> Any:
    """Matches the names of files with weights that are written with a model."""
    return re.compile(rf"{re.escape(name)}(\.\d+)?\.data").fullmatch


def _quoted(path: str) -> str:
    return shortened(repr(path))


def main(words: Sequence[str]) -> int:
    """Put the weights of models into the current folder, and run a command line there.

    The words are the descriptor and the path of the served folder, the name of the tool, the number
    of models, their paths, and the command line. Returns the exit code, unless the command ends the
    process.
    """
    threading.Thread(target=end_with_parent, daemon=True).start()
    handle, root, tool, count, *arguments = words
    models, command = arguments[: int(count)], arguments[int(count) :]
    folder = ConfinedFolder(Path(root), int(handle))
    try:
        for model in models:
            _stage_weights(folder, Path(model))
    except OSError as error:
        place = f" {Path(error.filename).name!r}" if error.filename is not None else ""
        sys.stderr.write(f"xopt: error: external data{place}: {error.strerror or error}\n")
        return 2
    with advising(ToolWords(tool)):
        run_module(command)
    return 0


def _stage_weights(folder: ConfinedFolder, model: Path) -> None:
    """Put the external data of a model next to it; the command reports what is missing."""
    try:
        locations = external_locations(read_proto(model))
    except (ModelError, MemoryError, RecursionError):
        return
    for location in locations:
        # exporters on Windows separate folders by backslashes
        for name in dict.fromkeys((location, location.replace("\\", "/"))):
            with suppress(ValueError, FileNotFoundError):
                parts = folder.parts(str(folder.root / model.parent / name))
                target = Path(*parts)
                if not target.is_relative_to(model.parent):
                    continue  # the command refuses it
                if target.exists() and target.stat().st_size:
                    continue
                folder.version(parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)  # a name that is reserved
                folder.stage(parts, target)
