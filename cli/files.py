"""Files that a command line names: models to read, and files to write."""

import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click

from xoptim.api.preparing import LARGEST_FILE, download, hub_folder, is_hub_address
from xoptim.diagnose.explanation import shell_path, similar
from xoptim.system.files import MODEL_SUFFIXES, STANDARD_OUTPUT as STANDARD_OUTPUT
from xoptim.system.journal import ScratchFolder
from xoptim.system.reading import names_open_file
from xoptim.system.temporary import fault_of_place, place_of

from .options import option

_STREAM: Final = "xopt-stream-"
"""The beginning of the name of the folder to which a stream is copied."""
_CHUNK: Final = 1 << 20
"""Bytes to read from a stream at once."""
_STREAM_FOLDER: Final = re.compile(rf"(?<![^\s'\"`])[^\s'\"`]*{_STREAM}\w+[/\\]+")
"""The beginning of a path in a text, up to such a folder and the separator after it."""
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
"""The beginning of a URL."""


class ModelFile(click.Path):
    """A model to read; ``-`` means standard input.

    A stream is copied to a temporary file, which is removed when the command ends: the model is
    read more than once.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path of a file that exists."""
        if ctx is None or ctx.resilient_parsing or isinstance(value, Path):
            return Path(value)
        path = Path(value)
        if not value:
            raise click.UsageError("the name of the model is empty")
        if value == "-":
            if _STREAM in ctx.meta:
                raise click.UsageError("standard input can be read only once")
            if sys.stdin is None:
                raise click.UsageError("standard input is closed; give the file of the model")
            ctx.meta[_STREAM] = True
            return _copied(sys.stdin.buffer, ctx)
        if is_hub_address(value):
            return download(value)
        if _ADDRESS.match(value) and not path.exists():
            raise click.UsageError(f"{value!r} is a URL, not a file; download the model first")
        if path.is_fifo():
            if not names_open_file(path):  # opening it would wait for a writer
                raise click.UsageError(
                    f"cannot read {value!r}: it is a pipe, not a file; give - as MODEL, and "
                    f"`< {shell_path(value)}`"
                )
            with path.open("rb") as stream:
                return _copied(stream, ctx)
        if path.is_dir():
            meant = _meant(models_in(path))
            advice = (
                f"; `xopt batch {shell_path(value)} -o OUT` optimizes all models in it"
                if meant and ctx.info_name == "optimize"
                else ""
            )
            raise click.UsageError(f"cannot read {value!r}: Is a directory{meant}{advice}")
        if not path.exists() and not path.is_symlink():
            names = similar(path.name, [model.name for model in models_in(path.parent)], 3)
            raise click.UsageError(
                f"cannot read {value!r}: No such file or "
                f"directory{_meant(map(path.with_name, names))}"
            )
        return path


class OutputFile(click.Path):
    """A file to write; ``-`` means standard output."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if value == "":
            raise click.UsageError("the name of the file to write is empty")
        if value == "-" and sys.__stdout__ is None:
            raise click.UsageError("standard output is closed; give a file with -o FILE")
        if _ADDRESS.match(str(value)):
            raise click.UsageError(f"{value!r} is a URL, not a file; write a local file")
        return STANDARD_OUTPUT if value == "-" else Path(value)


MODEL: Final = ModelFile(path_type=Path)
OUTPUT: Final = OutputFile(path_type=Path)


def output_option(
    text: str = "File to write (default: MODEL.opt.onnx next to it).", **settings: Any
) -> Any:
    """The option ``--output``."""
    return option(text, "-o", "--output", type=OUTPUT, **settings)


def models_in(folder: Path) -> list[Path]:
    """The model files in a folder, sorted; an empty list for a path that is not a folder."""
    if not folder.is_dir():
        return []
    return sorted(
        path for path in folder.iterdir() if path.suffix in MODEL_SUFFIXES and path.is_file()
    )


def target_of(model: Path, output: Path | None, in_place: bool, *, streams: bool = False) -> Path:
    """The file of the result.

    ``streams`` allows standard output. Raises `click.UsageError`, before any work, when the file
    cannot be written.
    """
    if in_place and output is not None:
        raise click.UsageError("--in-place and --output exclude each other")
    if is_stream(model) and (in_place or output is None):
        raise click.UsageError(
            "MODEL is a stream: give a file to write with -o FILE"
            + (", or -o -" if streams else "")
        )
    is_from_hub = is_downloaded(model)
    if is_from_hub and in_place:
        raise click.UsageError("MODEL was downloaded: give a file to write with -o FILE")
    name = f"{model.stem}.opt.onnx"
    default = Path(name) if is_from_hub else model.with_name(name)
    target = model if in_place else output or checked_default(default)
    if (
        not in_place
        and target != STANDARD_OUTPUT
        and target.exists()
        and model.exists()
        and target.samefile(model)
    ):
        raise click.UsageError(f"{str(target)!r} is the input; use --in-place to overwrite it")
    return writable(target, streams=streams)


def checked_default(path: Path) -> Path:
    """Return ``path``, the default name of an output.

    Raises `click.UsageError` for a symbolic link, which may lead anywhere.
    """
    if path.is_symlink():
        raise click.UsageError(
            f"{str(path)!r} is a symbolic link; only -o FILE writes through a link, so name the "
            "file with -o"
        )
    return path


def check_derived(path: Path) -> None:
    """Raise, before any work, if a file next to the result cannot be written."""
    fault = fault_of_place(path)
    if fault:
        raise click.UsageError(f"cannot write {str(path)!r}: it {fault}")


def writable(target: Path, *, streams: bool = False) -> Path:
    """Return ``target``, the file to write.

    ``streams`` allows standard output. Raises `click.UsageError` when the file cannot be written.
    """
    if target == STANDARD_OUTPUT:
        if not streams:
            raise click.UsageError(
                "this command cannot write to standard output; give a file with -o FILE"
            )
        return target
    fault = fault_of_place(place_of(target))
    if fault:
        advice = "; give a file name" if target.is_dir() else ""
        raise click.UsageError(f"{str(target)!r} {fault}{advice}")
    if not target.parent.is_dir():
        raise click.UsageError(f"the folder {str(target.parent)!r} does not exist; create it first")
    return target


def check_folder(target: Path) -> None:
    """Raise, before any work, when the folder of the result is read-only.

    A result is first written to a temporary file in this folder.
    """
    if target != STANDARD_OUTPUT and not os.access(target.resolve().parent, os.W_OK):
        raise click.UsageError(
            f"cannot write {str(target)!r}: its folder is read-only; write somewhere else with -o "
            "FILE"
        )


def is_stream(model: Path) -> bool:
    """Whether a model was read from a stream."""
    return model.parent.name.startswith(_STREAM)


def is_downloaded(model: Path) -> bool:
    """Whether a model was downloaded from the Hub."""
    folder = hub_folder()
    return folder is not None and model.is_relative_to(folder)


def readable(text: str) -> str:
    """A text without the temporary folder of a stream, and with advice that fits a stream."""
    result = _STREAM_FOLDER.sub("", text)
    if result != text:
        result = result.replace(
            "put it next to the model", "a stream has no folder: give the file of the model"
        )
    return result


def readable_path(path: Path) -> str:
    """A path as `readable` text."""
    return readable(str(path))


def _copied(stream: Any, ctx: click.Context) -> Path:
    """A file with the contents of a stream, which exists until the command ends."""
    folder = ScratchFolder(prefix=_STREAM)
    # The root context ends after usage errors, too, and removes the folder.
    path = Path(ctx.find_root().with_resource(folder)) / "standard input"
    try:
        with path.open("wb") as copy:
            while (chunk := stream.read(_CHUNK)) and copy.tell() <= LARGEST_FILE:
                copy.write(chunk)
    except OSError as error:
        raise click.UsageError(
            f"cannot copy standard input to {tempfile.gettempdir()!r}: {error.strerror}"
        ) from error
    return path


def _meant(paths: Iterable[Path]) -> str:
    names = [repr(str(path)) for path in paths]
    return f" (did you mean {' or '.join(names[:3])}?)" if names else ""
