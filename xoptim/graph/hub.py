"""Models of the Hugging Face Hub: ``hf://org/repo/folder/model.onnx@revision``."""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress
from pathlib import Path, PureWindowsPath
from typing import Final, NamedTuple
from urllib.parse import quote

from xoptim.facts.errors import ModelError
from xoptim.facts.lazy import lazy_module
from xoptim.graph.data_file import external_locations
from xoptim.graph.load import LARGEST_FILE, read_proto
from xoptim.system.cache import cache_folder
from xoptim.system.files import check_space
from xoptim.system.reading import check_own_file, make_own_folder

_hub = lazy_module("huggingface_hub")
_SCHEME: Final = "hf://"
_MAX_FILES: Final = 10_000
"""Maximal number of files of weights that are downloaded for a model."""
_BOOKKEEPING: Final = (".cache", ".huggingface")
"""Folders in a download where huggingface_hub notes what it has downloaded."""
_FORM: Final = re.compile(r"hf://([\w.-]+/[\w.-]+)/([^@]+?)(?:@([^@]+))?")


class HubFile(NamedTuple):
    """A file of a repository of the Hub."""

    repo: str  # organization and name
    file: str  # the path in the repository
    revision: str  # a branch, a tag or a commit; empty for the main branch


def is_hub_address(text: str) -> bool:
    """Whether a text is the address of a file of the Hub."""
    return text.startswith(_SCHEME)


def local_file(path: str | Path) -> Path:
    """The path of a local file; a file of the Hub is downloaded first."""
    return download(path) if isinstance(path, str) and is_hub_address(path) else Path(path)


def hub_file(address: str) -> HubFile:
    """The parts of an address; raises `ModelError` when it has another form."""
    match = _FORM.fullmatch(address)
    if match is None:
        raise ModelError(
            f"{address!r} is not an address of the Hub: hf://ORG/REPO/FILE.onnx, or with @REVISION "
            "at its end"
        )
    repo, file, revision = match.groups(default="")
    if not _is_inside(file) or _is_bookkeeping(file):
        raise ModelError(f"{address!r}: {file!r} is not a path in a repository")
    if any(not name.strip(".") for name in repo.split("/")):
        raise ModelError(f"{address!r}: {repo!r} is not the name of a repository")
    return HubFile(repo, file, revision)


def hub_folder() -> Path | None:
    """The folder for downloaded models; ``None`` where there is no home."""
    folder = cache_folder()
    return None if folder is None else folder / "hub"


def download(address: str) -> Path:
    """Download a model with the files of its weights, and return the file.

    Files that have not changed since an earlier download are not transferred again. Nothing is
    uploaded.

    Raises:
        ModelError: when the address is wrong, the file cannot be downloaded, or huggingface_hub is
            not installed.
    """
    remote = hub_file(address)
    folder = hub_folder()
    if folder is None:
        raise ModelError(
            f"cannot download {address!r}: no cache folder can be created; set XDG_CACHE_HOME"
        )
    # Not the cache of the Hub, where files are symbolic links: weights behind a link that leads
    # out of the folder of the model are refused.
    target = folder / remote.repo / _folder_name(remote.revision)
    try:
        make_own_folder(folder)
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(
            f"cannot download {address!r} to {error.filename!r}: {error.strerror}; set "
            "XDG_CACHE_HOME"
        ) from None
    model = _fetched(address, remote, remote.file, target, LARGEST_FILE)
    locations = external_locations(read_proto(model))
    if len(locations) > _MAX_FILES:
        raise ModelError(
            f"cannot download {address!r}: its weights are in {len(locations):,} files, more than "
            f"{_MAX_FILES:,}; download it with `hf download`"
        )
    for location in locations:
        file = _file_of(remote, location)
        if _is_inside(file):  # reading the model refuses other places
            _fetched(address, remote, file, target)
    return model


def _folder_name(revision: str) -> str:
    """A folder for a revision, which may be any text."""
    return quote(revision or "main", safe="").replace(".", "%2E")


def _file_of(remote: HubFile, location: str) -> str:
    """The path of external data in the repository.

    Raises `ModelError` when it is in a folder of huggingface_hub.
    """
    file = posixpath.normpath(posixpath.join(posixpath.dirname(remote.file), location))
    if _is_bookkeeping(file):
        raise ModelError(
            f"{remote.file!r} of {remote.repo!r}: its external data {file[:100]!r} is in a folder "
            "of huggingface_hub"
        )
    return file


def _is_bookkeeping(file: str) -> bool:
    """Whether huggingface_hub may have a file of that path in a download.

    A disk may ignore case, and a location may have the separators of another system.
    """
    return posixpath.normpath(file.replace("\\", "/")).split("/")[0].lower() in _BOOKKEEPING


def _is_inside(file: str) -> bool:
    """Whether a path is normalized, and leads to a file of the repository, also on Windows."""
    names = file.replace("\\", "/").split("/")
    is_relative = not PureWindowsPath(file).anchor and ".." not in names
    return is_relative and posixpath.normpath(file) == file


def _fetched(
    address: str, remote: HubFile, file: str, folder: Path, limit: int | None = None
) -> Path:
    """A file of the repository in a local folder; ``limit`` is its maximal number of bytes."""
    target = folder / file
    with suppress(OSError):
        if target.is_symlink() or not (target.is_file() or target.is_dir()):
            target.unlink()
    try:
        _check_size(remote, file, folder, limit)
        path = _hub.hf_hub_download(
            remote.repo, file, revision=remote.revision or None, local_dir=folder
        )
        check_own_file(Path(path))
    except ImportError:
        raise ModelError(f"{address!r} needs huggingface_hub: pip install 'xoptim[hub]'") from None
    # The errors of huggingface_hub are subclasses of these two; their first line is the reason.
    except (OSError, ValueError) as error:
        message = getattr(error, "strerror", None) or str(error)
        reason = message.strip().partition("\n")[0] or type(error).__name__
        raise ModelError(f"cannot download {file!r} of {remote.repo!r}: {reason}") from None
    return Path(path)


def _check_size(remote: HubFile, file: str, folder: Path, limit: int | None) -> None:
    """Raise `OSError` for a file that is too large, or does not fit on the disk.

    A file of unknown size is not checked: the download reports its errors.
    """
    if (folder / file).is_file():  # it is replaced only if it has changed
        return
    size: int | None = None
    with suppress(OSError, ValueError):
        url = _hub.hf_hub_url(remote.repo, file, revision=remote.revision or None)
        size = _hub.get_hf_file_metadata(url).size
    if size is None:
        return
    if limit is not None and size > limit:
        raise OSError(f"it has {size:,} bytes, more than {limit:,}")
    check_space(folder, size)
