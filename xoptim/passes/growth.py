"""The size budget of folding: bytes that it may add to a model, and constants that are written as
nodes to stay within it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.protos import replace_items
from xoptim.facts.words import byte_amount
from xoptim.graph.expanded import ExpandedTensor
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.walk import readers
from xoptim.match.rewrite import Step

LEAST: Final = 10**6
"""Bytes that folding may add to a model of any size."""
_SHARE: Final = 0.1
_SMALL: Final = 1 << 10
"""Bytes that a node may always add: shapes and scalars are folded in any case."""
_LARGE_FRACTION: Final = 64
"""A result of more than 1/64 of the allowed bytes is large."""
_MAX_COPY: Final = 1 << 16
"""By default, folding stores no second form of a larger constant (in bytes) that is still read."""
_MIN_NARROW: Final = 1024
"""From this many elements on, narrow types stay narrow, such as those of quantized weights."""
_MIN_NARROW_ALWAYS: Final = 2
"""The same limit if folding may add no bytes."""
_ENTRY: Final = "xoptim.growth"
"""Metadata key of a model with results that were too large to fold."""
_ENTRY_FORMAT: Final = re.compile(
    r"(\d{1,18}) bytes of constants given, (-?\d{1,18}) added, (\d{1,18}) in all"
)


def allowed_growth(choice: int | str | None, size: int) -> int | None:
    """Bytes that folding may add, ``None`` for no limit.

    A choice is a number of bytes, ``"500kB"``, ``"10%"`` (of ``size``, the bytes of the constants
    of the model) or ``"unlimited"``; ``None`` for 10% or 1 MB, whichever is more. Raises ValueError
    for any other choice.
    """
    if choice is None:
        return max(LEAST, int(_SHARE * size))
    if choice == "unlimited":
        return None
    try:
        return byte_amount(str(choice), whole=size)
    except ValueError:
        raise ValueError(
            f"{choice!r}: a size such as 500kB, a share such as 10%, or `unlimited` is expected"
        ) from None


@dataclass(frozen=True, slots=True)
class Unfolded(JsonResult):
    """Nodes that were not folded because of the size of their results.

    Attributes:
        operators: number of nodes by operator.
        size: bytes that folding them would add.
        allowed: bytes that folding may add.
        used: bytes by which the constants in the file exceed those of the original model.
        copies: number of nodes that were refused only because an operand of the same size stays.
    """

    __json__ = JsonForm("operators bytes=size allowed_bytes=allowed")
    operators: dict[str, int]
    size: int
    allowed: int
    used: int = 0
    copies: int = 0


class Growth:
    """Counts the bytes that folding adds to a model, up to `allowed_growth`."""

    def __init__(self, choice: int | str | None, size: int, added: int = 0) -> None:
        self.base = size  # bytes of the constants before the first optimization
        self.added = added  # bytes that folding has added, minus the bytes that it freed
        self.allowed = allowed_growth(choice, size)
        # Bytes that all constants of the model may have, ``None`` for any number
        self.limit = None if self.allowed is None else size + self.allowed
        self.no_copies = choice is None  # whether no large constant is also stored in another form
        # From how many elements on a narrow type stays narrow, ``None`` for never
        self.narrow = (
            _MIN_NARROW if self.no_copies else _MIN_NARROW_ALWAYS if self.allowed == 0 else None
        )
        self._refused: dict[Node, int] = {}
        self._copies: set[Node] = set()  # refused nodes that would fit
        self.used = 0  # bytes of the constants in the file, beyond those that were given
        # Whether large results are postponed: many small constants let more patterns match than a
        # large one of as many bytes
        self.postpones_large = False
        self.has_postponed = False  # whether a result was refused meanwhile
        self.oversized: set[Node] = set()  # nodes whose result was computed and is too large

    def admits(self, node: Node, delta: int, copied: int = 0, *, postpones: bool = True) -> bool:
        """Whether a node may be replaced by its results.

        ``delta``: bytes of its results, and of other results that are not stored yet, less the
        bytes of constants that become unused. ``copied``: the size of a result if an operand of the
        same size stays in the model. With ``postpones``, a large result may be postponed.
        """
        if (
            postpones
            and self.postpones_large
            and self.allowed is not None
            and delta > max(_SMALL, self.allowed // _LARGE_FRACTION)
        ):
            self.has_postponed = True
            return False
        is_copy = self.no_copies and copied > _MAX_COPY
        if (
            self.allowed is None
            or delta <= _SMALL
            or (self.added + delta <= self.allowed and not is_copy)
        ):
            self._refused.pop(node, None)
            return True
        self.refuse(node, delta)
        if self.added + delta <= self.allowed:
            self._copies.add(node)
        self.has_postponed |= self.postpones_large
        return False

    def refuse(self, node: Node, delta: int) -> None:
        """Count a node that stays because its result is too large."""
        self._refused[node] = delta
        self._copies.discard(node)

    def unfolded(self) -> Unfolded | None:
        """The nodes that were refused and are still in the model, ``None`` when there is none."""
        sizes = {node: delta for node, delta in self._refused.items() if node.graph is not None}
        if not sizes or self.allowed is None:
            return None
        return Unfolded(
            dict(sorted(Counter(node.op_type for node in sizes).items())),
            sum(sizes.values()),
            self.allowed,
            self.used,
            len(self._copies & sizes.keys()),
        )


def freed(graph: Graph, nodes: Sequence[Node], pending: Mapping[str, int]) -> int:
    """Bytes of the constants that become unused when some nodes are removed.

    ``pending`` has the sizes of constants that are not stored yet.
    """
    total = 0
    for name, uses in Counter(name for node in nodes for name in node.input if name).items():
        tensor = graph.initializers.get(name)
        if tensor is None and name not in pending:
            continue
        if (
            graph.use_count(name) == uses
            and not graph.is_captured(name)
            and not graph.is_output(name)
        ):
            total += pending[name] if tensor is None else tensor.stored_bytes
    return total


def copied(graph: Graph, node: Node, size: int) -> int:
    """``size`` if an operand of this size stays in the model when the node is removed, else 0."""
    for name in filter(None, node.input):
        tensor = graph.initializers.get(name)
        if (
            tensor is not None
            and tensor.stored_bytes == size
            and graph.use_count(name) > node.input.count(name)
        ):
            return size
    return 0


def stored_bytes(model: Model) -> int:
    """Bytes of the constants of a model; of a repeating constant, only the part that is kept."""
    return sum(
        tensor.stored_bytes for graph in model.graphs() for tensor in graph.initializers.values()
    )


def growth_of(model: Model, choice: int | str | None) -> Growth:
    """The budget of a model, less the bytes that earlier optimizations added."""
    size = stored_bytes(model)
    entry = next((item.value for item in model.shell.metadata_props if item.key == _ENTRY), "")
    match = _ENTRY_FORMAT.fullmatch(entry)
    initial, added, total = map(int, match.groups()) if match is not None else (size, 0, size)
    # The entry is ignored if the constants have changed since.
    return Growth(choice, initial, added) if total == size else Growth(choice, size)


class NoteGrowth(Step):
    """Writes the bytes that folding added into the metadata, if some results were too large.

    Without the entry, each further optimization would fold some more of these results.
    """

    title = "note_growth"

    def __init__(self, growth: Growth) -> None:
        self.growth = growth

    def run(self, model: Model) -> int:
        """Write the entry; returns 0, since nothing changes that is computed."""
        entries = model.shell.metadata_props
        replace_items(entries, [entry for entry in entries if entry.key != _ENTRY])
        if self.growth.unfolded() is not None:
            # Repeating constants are complete in the file.
            size = sum(
                tensor.nbytes for graph in model.graphs() for tensor in graph.initializers.values()
            )
            self.growth.used = max(0, size - self.growth.base)
            text = (
                f"{self.growth.base} bytes of constants given, {self.growth.added} added, {size} "
                "in all"
            )
            entries.add(key=_ENTRY, value=text)
        return 0


def write_expanded(model: Model, limit: int | None) -> dict[Node, int]:
    """Write repeating constants as nodes, the largest first, until the remaining constants, which
    are complete in the file, fit into ``limit`` bytes.

    Returns the nodes, and the bytes of their results.
    """
    candidates = [
        (tensor, graph, name)
        for graph in model.graphs()
        for name, tensor in graph.initializers.items()
        if isinstance(tensor, ExpandedTensor)
        and any(readers(graph, name))
        and not graph.is_output(name)
    ]
    if limit is None or not candidates:
        return {}
    budget = limit - stored_bytes(model)
    candidates.sort(key=lambda entry: entry[0].nbytes)
    sums = accumulate(tensor.nbytes - tensor.stored_bytes for tensor, _, _ in candidates)
    excess = [entry for entry, size in zip(candidates, sums, strict=True) if size > budget]
    excess.sort(key=lambda entry: (min(node.label for node in readers(*entry[1:])), entry[2]))
    return {tensor.write(graph, name): tensor.nbytes for tensor, graph, name in excess}
