"""How many bytes folding may add to a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from xoptim.facts.words import byte_amount
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

LEAST: Final = 10**6
"""Bytes that folding may add to a model of any size."""
_SHARE: Final = 0.1
_SMALL: Final = 1 << 10
"""Bytes that a node may always add: sizes and single numbers are folded in any case."""
_LARGE: Final = 64
"""A result of more than this part of what may be added is large."""
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
    try:
        return byte_amount(str(choice), whole=size)
    except ValueError:
        raise ValueError(f"{choice!r}: a size such as 500kB, a share such as 10%, or `unlimited` is expected") from None


@dataclass(frozen=True, slots=True)
class Unfolded:
    """The nodes that were left unfolded because of the size of their results.

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
        size: bytes of the constants of the model as it was given.
        added: bytes that folding has added to it before.
    """

    def __init__(self, choice: int | str | None, size: int, added: int = 0) -> None:
        self.given = size
        """Bytes of the constants of the model as it was given."""
        self.added = added
        """Bytes that folding has added."""
        self.allowed = allowed_growth(choice, size)
        self.limit = None if self.allowed is None else size + self.allowed
        """Bytes that all constants of the model may have, ``None`` for any number."""
        self._spares_copies = choice is None
        self._refused: dict[Node, int] = {}
        self.is_sparing = False
        """Whether large results are postponed: many small constants let patterns do more than a large one of as many bytes."""
        self.has_postponed = False
        """Whether a result was refused meanwhile, which is asked for again when nothing is postponed."""
        self.oversized: set[Node] = set()
        """Nodes whose result was computed and is too large."""

    def admits(self, node: Node, more: int, copied: int = 0, *, postpones: bool = True) -> bool:
        """Whether a node may be replaced by its results.

        Args:
            node: the node.
            more: bytes that its results, and other results that are not stored yet, take beyond those that they replace.
            copied: bytes of a result when an operand of as many bytes stays in the model.
            postpones: whether a large result may wait; one that is computed already does not.
        """
        if postpones and self.is_sparing and self.allowed is not None and more > max(_SMALL, self.allowed // _LARGE):
            self.has_postponed = True
            return False
        is_copy = self._spares_copies and copied > _COPY
        if self.allowed is None or more <= _SMALL or (self.added + more <= self.allowed and not is_copy):
            self._refused.pop(node, None)
            return True
        self._refused[node] = more
        self.has_postponed |= self.is_sparing
        return False

    def add(self, size: int) -> None:
        """Count bytes that were added, or freed when the number is negative."""
        self.added += size

    def refuse(self, node: Node, more: int) -> None:
        """Count a node that stays because its result does not fit into the model."""
        self._refused[node] = more

    def unfolded(self) -> Unfolded | None:
        """The nodes that were refused and are still in the model, ``None`` when there is none."""
        left = {node: more for node, more in self._refused.items() if node.graph is not None}
        if not left or self.allowed is None:
            return None
        counts = Counter(node.op_type for node in left)
        return Unfolded(dict(sorted(counts.items())), sum(left.values()), self.allowed)


def freed(graph: Graph, nodes: Sequence[Node], pending: Mapping[str, int]) -> int:
    """Bytes of the constants that nothing reads any more when some nodes are gone.

    Args:
        graph: the graph of the nodes.
        nodes: the nodes.
        pending: bytes of further constants by name, which are not stored yet.
    """
    found = 0
    for name, uses in Counter(name for node in nodes for name in node.input if name).items():
        tensor = graph.initializers.get(name)
        if tensor is None and name not in pending:
            continue
        if graph.use_count(name) == uses and not graph.is_captured(name) and not graph.is_output(name):
            found += pending[name] if tensor is None else tensor.stored_bytes
    return found


def copied(graph: Graph, node: Node, size: int) -> int:
    """The size of a result, if an operand of this size stays in the model when the node is gone; else 0."""
    for name in filter(None, node.input):
        tensor = graph.initializers.get(name)
        if tensor is not None and tensor.stored_bytes == size and graph.use_count(name) > node.input.count(name):
            return size
    return 0
