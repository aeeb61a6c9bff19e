"""How many bytes folding may add to a model."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from xoptim.graph.node import Node

_UNITS: Final = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(%|[a-z]*)", re.IGNORECASE)
LEAST: Final = 10**6
"""Bytes that folding may add to a model of any size."""
_SHARE: Final = 0.1
_COPY: Final = 1 << 16
"""Bytes above which the default does not store a second form of a constant that stays."""


def allowed_growth(choice: int | str | None, size: int) -> int | None:
    """Bytes that folding may add.

    Args:
        choice: a number of bytes, ``"500kB"``, ``"10%"`` (of the constants of the model) or ``"unlimited"``; ``None`` for a
            tenth or 1 MB, whichever is more.
        size: bytes of the constants of the model.

    Returns:
        ``None`` for no limit.

    Raises:
        ValueError: the choice is none of these.
    """
    if choice is None:
        return max(LEAST, int(_SHARE * size))
    if choice == "unlimited":
        return None
    found = _AMOUNT.fullmatch(str(choice).strip())
    unit = found[2].lower() if found else ""
    if found is None or not (unit == "%" or unit in _UNITS):
        raise ValueError(f"{choice!r}: a size such as 500kB, a share such as 10%, or `unlimited` is expected")
    return int(float(found[1]) * (size / 100 if unit == "%" else _UNITS[unit]))


@dataclass(frozen=True, slots=True)
class Unfolded:
    """What was left unfolded because of its size.

    Attributes:
        operators: number of nodes by operator.
        size: bytes that folding them would add.
        allowed: bytes that folding may add.
    """

    operators: dict[str, int]
    size: int
    allowed: int

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {"operators": self.operators, "bytes": self.size, "allowed_bytes": self.allowed}


class Growth:
    """Counts the bytes that folding adds to a model, and refuses what exceeds the limit.

    Args:
        choice: see `allowed_growth`.
        size: bytes of the constants of the model.
    """

    def __init__(self, choice: int | str | None, size: int) -> None:
        self.allowed = allowed_growth(choice, size)
        self._spares_copies = choice is None
        self._added = 0
        self._refused: dict[Node, int] = {}
        self.oversized: set[Node] = set()
        """Nodes whose result was computed and is too large."""

    def admits(self, node: Node, more: int, copied: int = 0) -> bool:
        """Whether a node may be replaced by its results.

        Args:
            node: the node.
            more: bytes that its results, and other results that are not stored yet, take beyond those that they replace.
            copied: bytes of a result when an operand of as many bytes stays in the model.
        """
        is_copy = self._spares_copies and copied > _COPY
        if self.allowed is None or more <= 0 or (self._added + more <= self.allowed and not is_copy):
            self._refused.pop(node, None)
            return True
        self._refused[node] = more
        return False

    def add(self, size: int) -> None:
        """Count bytes that were added, or freed when the number is negative."""
        self._added += size

    def unfolded(self) -> Unfolded | None:
        """The nodes that were refused and are still in the model, ``None`` when there is none."""
        left = {node: more for node, more in self._refused.items() if node.graph is not None}
        if not left or self.allowed is None:
            return None
        counts = Counter(node.op_type for node in left)
        return Unfolded(dict(sorted(counts.items())), sum(left.values()), self.allowed)
