"""Files as they were at a revision of git. No program runs that the repository names: git converts
nothing, and large files are read from the local storage of Git LFS.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from xoptim.facts.errors import ModelError
from xoptim.graph.data_file import external_locations
from xoptim.graph.load import read_proto
from xoptim.system.git import git
from xoptim.system.journal import ScratchFolder

_POINTER: Final = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n"
)
"""The beginning of a file that stands for one in Git LFS."""
_MAX_POINTER: Final = 1024  # bytes, as Git LFS defines it


class Revision:
    """The files in a folder of a working tree, as of a commit.

    Raises `ModelError` when git is missing, the folder is not inside a working tree, or the
    revision, a branch, tag or commit, does not exist.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder
        self._storage = folder / _line(_git(folder, "rev-parse", "--git-common-dir")) / "lfs"
        message = f"there is no revision {name!r}"
        if name.startswith("-"):  # git would read it as an option
            raise ModelError(message)
        words = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        self._commit = _line(_git(folder, *words, message=message))

    def read(self, name: str) -> bytes | None:
        """The content of a file, by its path relative to the folder; ``None`` when there is none.

        Raises `ModelError` when it is a link or a folder, or its content is not on this machine.
        """
        message = f"the files of {self.name!r} cannot be read"
        words = ("ls-tree", "-z", self._commit, "--", name)
        entry = _git(self._folder, *words, message=message).partition(b"\t")[0].split()
        if not entry:
            return None
        mode, _, blob = map(bytes.decode, entry)
        if not mode.startswith("100"):
            raise ModelError(f"{name!r} is not a file at {self.name!r}")
        message = f"{name!r} at {self.name!r} is not on this machine; fetch it with git"
        content = _git(self._folder, "cat-file", "blob", blob, message=message)
        pointer = _POINTER.match(content) if len(content) <= _MAX_POINTER else None
        return content if pointer is None else self._stored(pointer[1].decode(), name)

    def _stored(self, digest: str, name: str) -> bytes:
        """The content of a file in Git LFS."""
        path = self._storage / "objects" / digest[:2] / digest[2:4] / digest
        try:
            content = path.read_bytes() if path.is_file() else b""
        except OSError:
            content = b""
        if hashlib.sha256(content).hexdigest() != digest:
            raise ModelError(
                f"{name!r} at {self.name!r} is in Git LFS, and not on this machine; run "
                "`git lfs fetch --all`"
            )
        return content


@contextmanager
def at_revision(model: Path, revision: str) -> Iterator[Path | None]:
    """A copy of a file in a working tree of git, with its external data, as of a revision.

    The copy exists until the block ends; ``None`` when the revision has no such file. Raises
    `ModelError`; see `Revision`.
    """
    former = Revision(model.resolve().parent, revision)
    content = former.read(model.name)
    if content is None:
        yield None
        return
    with ScratchFolder(prefix="xopt-") as name:
        inside = Path(name).resolve()
        copy = inside / model.name
        copy.write_bytes(content)
        for location in external_locations(read_proto(copy)):
            target = (inside / location).resolve()
            if target.is_relative_to(inside):  # others are refused when the model is read
                weights = former.read(Path(location).as_posix())
                if weights is None:
                    raise ModelError(f"{revision!r} has no file {location!r}")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(weights)
        yield copy


def file_bytes(model: Path) -> int:
    """Bytes of the file of a model, and of the files with its external data."""
    locations = {model.parent / location for location in external_locations(read_proto(model))}
    return sum(path.stat().st_size for path in (model, *locations))


def root_of(folder: Path) -> Path | None:
    """The top folder of the working tree of git around a folder, ``None`` outside of one."""
    try:
        return Path(_line(git(folder, "rev-parse", "--show-toplevel")))
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None


def _line(output: bytes) -> str:
    return os.fsdecode(output).removesuffix("\n")


def _git(
    folder: Path, *words: str, message: str = "the model is not inside a git working tree"
) -> bytes:
    try:
        return git(folder, *words)
    except FileNotFoundError as error:
        raise ModelError("git is not installed") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        raise ModelError(f"{message}{f' ({lines[-1]})' if lines else ''}") from error
