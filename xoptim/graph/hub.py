"""Models of the Hugging Face Hub: ``hf://org/repo/folder/model.onnx@revision``."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Final, NamedTuple

from xoptim.facts.errors import ModelError
from xoptim.facts.lazy import lazy_module
from xoptim.graph.data_file import external_locations
from xoptim.graph.load import read_proto
from xoptim.system.cache import cache_folder

_hub = lazy_module("huggingface_hub")
_SCHEME: Final = "hf://"
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
    """The file of a path; that of an address is downloaded."""
    return download(path) if isinstance(path, str) and is_hub_address(path) else Path(path)


def hub_file(address: str) -> HubFile:
    """The parts of an address; raises `ModelError` when it has another form."""
    found = _FORM.fullmatch(address)
    if found is None:
        raise ModelError(
            f"{address!r} is not an address of the Hub: hf://ORG/REPO/FILE.onnx, or with @REVISION "
            "at its end"
        )
    repo, file, revision = found.groups(default="")
    if not _is_inside(file):
        raise ModelError(f"{address!r}: {file!r} is not a path in a repository")
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
    wanted = hub_file(address)
    folder = hub_folder()
    if folder is None:
        raise ModelError(
            f"cannot download {address!r}: no cache folder can be created; set XDG_CACHE_HOME"
        )
    # Not the cache of the Hub, where files are symbolic links: weights behind a link that leads
    # out of the folder of the model are refused.
    target = folder / wanted.repo / (wanted.revision or "main").replace("/", "--")
    model = _fetched(address, wanted, wanted.file, target)
    for location in external_locations(read_proto(model)):
        file = posixpath.normpath(posixpath.join(posixpath.dirname(wanted.file), location))
        if _is_inside(file):  # reading the model refuses other places
            _fetched(address, wanted, file, target)
    return model


def _is_inside(file: str) -> bool:
    """Whether a path leads to a file of the repository, in the shortest way."""
    is_relative = not posixpath.isabs(file) and not file.startswith("..")
    return is_relative and posixpath.normpath(file) == file


def _fetched(address: str, wanted: HubFile, file: str, folder: Path) -> Path:
    """A file of the repository in a local folder."""
    try:
        place = _hub.hf_hub_download(
            wanted.repo, file, revision=wanted.revision or None, local_dir=folder
        )
    except ImportError:
        raise ModelError(f"{address!r} needs huggingface_hub: pip install 'xoptim[hub]'") from None
    # its errors extend these; they explain themselves in their first line
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelError(f"cannot download {file!r} of {wanted.repo!r}: {reason}") from None
    return Path(place)
