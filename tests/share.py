"""The share of a large battery that ``make test`` runs: the same in each checkout of a tree.

With the environment variable ``BATTERIES=all``, all cases run. With ``CHANGED_SINCE=REV``, more
cases run than the share: all of the folders and patterns that differ from a revision, and a
`LARGER` share of all batteries where a file of the `FOUNDATION` differs.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from tests.changes import ROOT, is_touched, touches

PART: Final = 1
"""The part that runs, of as many as a battery is divided into."""
FOUNDATION: Final = (
    "xoptim/engine",
    "xoptim/facts",
    "xoptim/graph",
    "xoptim/match",
    "xoptim/operators",
    "xoptim/optimizing",
    "xoptim/passes",
    "xoptim/testing",
)
"""Packages that all patterns use: a mistake there shows in few cases of any battery."""
LARGER: Final = 4
"""How many parts run instead of one when the foundation differs."""
_SLOW_PARTS: Final = 6
_ALWAYS: Final = ("tests/meta", "tests/seeds")
"""Folders whose slow tests all run: documented commands, and interfaces that must keep working."""


def is_whole(*folders: str) -> bool:
    """Whether all cases of a battery run.

    Args:
        folders: what the battery is about; all cases run when a file in one of them differs.
    """
    return touches(*folders) or os.environ.get("BATTERIES") == "all"


def is_in_share(name: str, parts: int, *folders: str) -> bool:
    """Whether a case belongs to the share, by its name: other cases do not change that."""
    return is_whole(*folders) or (crc32(name.encode()) - PART) % parts < _count()


def is_pattern_in_share(pattern: type, name: str, parts: int) -> bool:
    """Whether a case of a pattern runs: all do when its module differs."""
    return is_in_share(name, parts) or is_touched(pattern)


def shared_parts(count: int, step: int, *folders: str) -> list[int]:
    """The parts of a battery that run: one of ``step``, the first one among them."""
    return [part for part in range(count) if is_whole(*folders) or part % step < _count()]


def is_slow_in_share(name: str, path: Path, module: Mapping[str, Any]) -> bool:
    """Whether a slow test runs: where its file or the package that it tests differs, in a file that
    chooses a share itself, and in `_ALWAYS`; of the others, one of `_SLOW_PARTS`.

    Args:
        name: of the test.
        path: of its file.
        module: what the file defines.
    """
    place = path.relative_to(ROOT).as_posix()
    chooses = any(getattr(each, "__module__", "") == __name__ for each in module.values())
    return (
        chooses
        or place.startswith(tuple(f"{folder}/" for folder in _ALWAYS))
        or is_in_share(name, _SLOW_PARTS, place, *packages_of(place))
    )


def packages_of(test: str) -> list[str]:
    """The package that a file of the tests is about, by its path; of patterns, their family."""
    folders = Path(test).parent.relative_to("tests").parts
    package = "/".join(folders if folders[:1] == ("patterns",) else folders[:1])
    places = (package, f"xoptim/{package}") if package else ()
    return [place for place in places if (ROOT / place).is_dir()][:1]


def _count() -> int:
    return LARGER if touches(*FOUNDATION) else 1
