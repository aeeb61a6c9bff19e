"""The share of a large battery that ``make test`` runs: the same in each checkout of a tree.

Environment variables and make targets run the whole battery.
"""

from typing import Final
from zlib import crc32

PART: Final = 1
"""The part that runs, of as many as a battery is divided into."""


def is_in_share(name: str, parts: int) -> bool:
    """Whether a case belongs to the share, by its name: other cases do not change that."""
    return crc32(name.encode()) % parts == PART % parts
