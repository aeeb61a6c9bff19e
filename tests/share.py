"""The share of a large battery that ``make test`` runs: the same in each checkout of a tree.

With the environment variable ``BATTERIES=all``, all cases run. With ``CHANGED_SINCE=REV``, more
cases run than the share: all of the folders and patterns that differ from a revision, and a
`LARGER` share of all batteries where a file of the `FOUNDATION` differs.
"""

import os
from typing import Final
from zlib import crc32

from tests.changes import is_touched, touches

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


def is_whole(*folders: str) -> bool:
    """Whether all cases of a battery run.

    Args:
        folders: what the battery is about; all cases run when a file in one of them differs.
    """
    return os.environ.get("BATTERIES") == "all" or touches(*folders)


def is_in_share(name: str, parts: int, *folders: str) -> bool:
    """Whether a case belongs to the share, by its name: other cases do not change that."""
    return is_whole(*folders) or (crc32(name.encode()) - PART) % parts < _count()


def is_pattern_in_share(pattern: type, name: str, parts: int) -> bool:
    """Whether a case of a pattern runs: all do when its module differs."""
    return is_in_share(name, parts) or is_touched(pattern)


def shared_parts(count: int, step: int, *folders: str) -> list[int]:
    """The parts of a battery that run: one of ``step``, the first one among them."""
    return [part for part in range(count) if is_whole(*folders) or part % step < _count()]


def _count() -> int:
    return LARGER if touches(*FOUNDATION) else 1
