"""The models of a batch, and the files of their results."""

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from xoptim.batching.record import BatchError

_SUFFIX: Final = ".onnx"
"""Beginning of the suffixes of models: ``.onnx``, and the text forms ``.onnxtxt``, ``.onnxtext`` and ``.onnxjson``."""


def find_models(source: str | Path | Sequence[str | Path], output: Path) -> dict[str, Path]:
    """The models that a source names, by the path of their result relative to the folder of the batch, in order.

    Raises `BatchError` when there is no model, when two have one result, or when a result would replace a model.

    Args:
        source: a folder, which is searched with the folders in it (hidden ones excepted); a pattern of paths such as
            ``models/**/*.onnx``; a text file with a path a line (``#`` begins a comment), relative to the current folder; or
            the paths of models. Folders and patterns do not find what is in ``output``.
        output: the folder of the batch.
    """
    if isinstance(source, (str, Path)):
        base, paths = _found(str(source), output)
    else:
        base, paths = _listed([Path(path) for path in source])
    if not paths:
        raise BatchError(f"there is no model in {str(source)!r}")
    models: dict[str, Path] = {}
    for path in paths:
        absolute = Path(os.path.abspath(path))
        if not absolute.is_relative_to(base):
            raise BatchError(f"{str(path)!r} is outside {str(base)!r}; name the models by a pattern without '..' after '*'")
        name = _result_of(absolute.relative_to(base)).as_posix()
        if name in models:
            raise BatchError(f"{str(models[name])!r} and {str(path)!r} have the same result, {name!r}")
        models[name] = path
    originals = {os.path.realpath(path) for path in paths}
    for name, path in models.items():
        if os.path.realpath(output / name) in originals:
            raise BatchError(f"the result of {str(path)!r} would replace a model; write into another folder")
    return models


def _found(source: str, output: Path) -> tuple[Path, list[Path]]:
    """The folder to which the results are relative, and the models."""
    path = Path(source)
    if path.is_dir():
        return Path(os.path.abspath(path)), sorted(_walked(path, output))
    if path.is_file():
        return _listed([path] if path.suffix.startswith(_SUFFIX) else _lines(path))
    if not glob.has_magic(source):
        raise BatchError(f"{source!r} is neither a folder, nor a file that lists models, nor a pattern such as 'models/*.onnx'")
    fixed = list(path.parts[: next(index for index, part in enumerate(path.parts) if glob.has_magic(part))])
    found = [Path(text) for text in glob.glob(source, recursive=True)]
    own = os.path.realpath(output)
    inside = [path for path in found if path.is_file() and not Path(os.path.realpath(path.parent)).is_relative_to(own)]
    return Path(os.path.abspath(Path(*fixed))), sorted(inside)


def _walked(folder: Path, output: Path) -> Iterator[Path]:
    own = os.path.realpath(output)
    for place, folders, names in os.walk(folder):
        inside = Path(place)
        folders[:] = [n for n in folders if not n.startswith(".") and os.path.realpath(inside / n) != own]
        yield from (inside / n for n in names if not n.startswith(".") and Path(n).suffix.startswith(_SUFFIX))


def _lines(path: Path) -> list[Path]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BatchError(f"cannot read a list of models from {str(path)!r}: {error}") from error
    return [Path(line) for line in lines if line and not line.startswith("#")]


def _listed(paths: list[Path]) -> tuple[Path, list[Path]]:
    """The innermost folder around all of these models, and the models, each once."""
    if not paths:
        return Path.cwd(), []
    base = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    return Path(base), list({os.path.abspath(path): path for path in paths}.values())


def _result_of(path: Path) -> Path:
    return path.with_suffix(_SUFFIX) if path.suffix.startswith(_SUFFIX) else path.with_name(f"{path.name}{_SUFFIX}")
