"""Models as they were at a revision of git."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xoptim.facts.errors import ModelError
from xoptim.graph.data_file import external_locations
from xoptim.graph.load import read_proto
from xoptim.system.journal import ScratchFolder


@contextmanager
def at_revision(model: Path, revision: str) -> Iterator[Path | None]:
    """A copy of a file in a working tree of git, with its external data, as of a revision: a
    branch, tag or commit.

    It exists until the block ends, and is ``None`` when the revision has no such file. Filters of
    git run, so that a file in large-file storage has its contents. Raises `ModelError` when git is
    missing, the file is not inside a working tree, or the revision does not exist.
    """
    folder = model.resolve().parent
    _git(folder, "rev-parse", "--git-dir")
    _git(
        folder,
        "rev-parse",
        "--verify",
        "--quiet",
        f"{revision}^{{commit}}",
        missing=f"there is no revision {revision!r}",
    )
    if not _git(folder, "ls-tree", revision, "--", model.name):
        yield None
        return
    with ScratchFolder(prefix="xopt-") as name:
        inside = Path(name).resolve()
        copy = inside / model.name
        copy.write_bytes(_contents(folder, revision, model.name))
        for location in external_locations(read_proto(copy)):
            target = (inside / location).resolve()
            if target.is_relative_to(inside):  # others are refused when the model is read
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(_contents(folder, revision, location))
        yield copy


def _contents(folder: Path, revision: str, name: str) -> bytes:
    place = f"{revision}:./{Path(name).as_posix()}"
    return _git(
        folder, "cat-file", "--filters", place, missing=f"{revision!r} has no file {name!r}"
    )


def _git(
    folder: Path, *words: str, missing: str = "the model is not inside a git working tree"
) -> bytes:
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, check=True
        ).stdout
    except FileNotFoundError as error:
        raise ModelError("git is not installed") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise ModelError(f"{missing}{f' ({said[-1]})' if said else ''}") from error
