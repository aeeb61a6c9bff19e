"""The share of a large battery that ``make test`` runs: the same in each checkout of a tree.

With the environment variable ``BATTERIES=all``, all cases run.
"""

import os
from typing import Final
from zlib import crc32

PART: Final = 1
"""The part that runs, of as many as a battery is divided into."""


def is_whole() -> bool:
    """Whether all cases of all batteries run."""
    return os.environ.get("BATTERIES") == "all"


def is_in_share(name: str, parts: int) -> bool:
    """Whether a case belongs to the share, by its name: other cases do not change that."""
    return is_whole() or crc32(name.encode()) % parts == PART % parts


def shared_parts(count: int, step: int) -> list[int]:
    """The parts of a battery that run: one of ``step``, the first one among them."""
    return list(range(0, count, 1 if is_whole() else step))
