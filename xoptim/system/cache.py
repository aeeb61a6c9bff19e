"""The folder for files that may be deleted at any time."""

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from xoptim.system.reading import make_own_folder
from xoptim.system.temporary import write_file

_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def cache_folder() -> Path | None:
    """The folder for caches of this user: ``XDG_CACHE_HOME``, or the usual one of the system.

    ``None`` where there is no home. It may not exist yet.
    """
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(folder):
        return Path(folder, "xoptim")
    home = Path(os.path.expanduser("~"))
    if not home.is_absolute():
        return None
    if sys.platform == "win32":
        return home / "AppData" / "Local" / "xoptim" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "xoptim"
    return home / ".cache" / "xoptim"


def store(place: Path, contents: bytes) -> None:
    """Write a file atomically: readers meanwhile see the earlier one.

    Its folder becomes the user's alone: `xoptim.system.reading.read_own_file` reads from no other.
    Raises `OSError` where that is not possible; nothing is left behind then.
    """
    make_own_folder(place.parent)
    _clear(place)
    write_file(place, contents, syncs=False, mode=0o600)  # private with any umask


def _clear(place: Path) -> None:
    """Remove a link or a special file, and a file that other users may write: the new file would
    keep its permissions.
    """
    with suppress(FileNotFoundError):
        mode = place.lstat().st_mode
        if not stat.S_ISREG(mode) or mode & _WRITABLE_BY_OTHERS:
            place.unlink()
