"""The memory budget of folding: bytes that it may add to a model, and constants that are computed
in place of stored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from xoptim.facts.protos import replace_items
from xoptim.facts.words import byte_amount
from xoptim.graph.expanded import ExpandedTensor
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.walk import readers
from xoptim.match.rewrite import Step

if TYPE_CHECKING:
    from xoptim.passes.json_types import UnfoldedJson

LEAST: Final = 10**6
"""Bytes that folding may add to a model of any size."""
_SHARE: Final = 0.1
_SMALL: Final = 1 << 10
"""Bytes that a node may always add: sizes and single numbers are folded in any case."""
_LARGE: Final = 64
"""A result of more than this part of what may be added is large."""
_COPY: Final = 1 << 16
"""Bytes above which the default does not store a second form of a constant that stays."""
_MANY: Final = 1024
"""This many numbers of a narrow type are not stored in a wider one.

`Float16Weights` and `Int8Weights` make no fewer.
"""
_SEVERAL: Final = 2
"""The same where folding may add nothing: scales of few constants stay in 16 bits too."""
_ENTRY: Final = "xoptim.growth"
"""Key of the metadata of a model in which results were left computed because of their size."""
_GROWN: Final = re.compile(
    r"(\d{1,18}) bytes of constants given, (-?\d{1,18}) added, (\d{1,18}) in all"
)


def allowed_growth(choice: int | str | None, size: int) -> int | None:
    """Bytes that folding may add, ``None`` for no limit.

    ``size`` is the bytes of the constants of the model.

    A choice is a number of bytes, ``"500kB"``, ``"10%"`` (of the constants of the model) or
    ``"unlimited"``; ``None`` for a tenth or 1 MB, whichever is more. Raises ValueError for any
    other choice.
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
class Unfolded:
    """The nodes that were left unfolded because of the size of their results."""

    operators: dict[str, int]  # number of nodes by operator
    size: int  # bytes that folding them would add
    allowed: int  # bytes that folding may add

    def to_json(self) -> UnfoldedJson:
        """All fields as JSON values."""
        return {"operators": self.operators, "bytes": self.size, "allowed_bytes": self.allowed}


class Growth:
    """Counts the bytes that folding adds to a model, and refuses what exceeds the limit (see
    `allowed_growth`).
    """

    def __init__(self, choice: int | str | None, size: int, added: int = 0) -> None:
        self.given = size  # bytes of the constants of the model as it was given
        self.added = added  # bytes that folding has added; those that it freed are subtracted
        self.allowed = allowed_growth(choice, size)
        # Bytes that all constants of the model may have, ``None`` for any number
        self.limit = None if self.allowed is None else size + self.allowed
        self.spares = choice is None  # whether what is stored once, or in a narrow type, stays so
        # How many numbers of a narrow type are not stored in a wider one, ``None`` where any are
        self.narrow = _MANY if self.spares else _SEVERAL if self.allowed == 0 else None
        self._refused: dict[Node, int] = {}
        # Whether large results are postponed: many small constants let patterns do more than a
        # large one of as many bytes
        self.is_sparing = False
        # whether a result was refused meanwhile, which is asked for again when nothing is postponed
        self.has_postponed = False
        self.oversized: set[Node] = set()  # nodes whose result was computed and is too large

    def admits(self, node: Node, more: int, copied: int = 0, *, postpones: bool = True) -> bool:
        """Whether a node may be replaced by its results.

        ``more`` is the bytes that its results, and others that are not stored yet, take beyond
        those that they replace; ``copied`` the bytes of a result when an operand of as many bytes
        stays in the model. With ``postpones`` a large result may wait; one that is computed already
        does not.
        """
        if (
            postpones
            and self.is_sparing
            and self.allowed is not None
            and more > max(_SMALL, self.allowed // _LARGE)
        ):
            self.has_postponed = True
            return False
        is_copy = self.spares and copied > _COPY
        if (
            self.allowed is None
            or more <= _SMALL
            or (self.added + more <= self.allowed and not is_copy)
        ):
            self._refused.pop(node, None)
            return True
        self._refused[node] = more
        self.has_postponed |= self.is_sparing
        return False

    def refuse(self, node: Node, more: int) -> None:
        """Count a node that stays because its result does not fit into the model."""
        self._refused[node] = more

    def unfolded(self) -> Unfolded | None:
        """The nodes that were refused and are still in the model, ``None`` when there is none."""
        left = {node: more for node, more in self._refused.items() if node.graph is not None}
        if not left or self.allowed is None:
            return None
        return Unfolded(
            dict(sorted(Counter(node.op_type for node in left).items())),
            sum(left.values()),
            self.allowed,
        )


def freed(graph: Graph, nodes: Sequence[Node], pending: Mapping[str, int]) -> int:
    """Bytes of the constants that nothing reads any more when some nodes are gone.

    ``pending`` constants are not stored yet.
    """
    found = 0
    for name, uses in Counter(name for node in nodes for name in node.input if name).items():
        tensor = graph.initializers.get(name)
        if tensor is None and name not in pending:
            continue
        if (
            graph.use_count(name) == uses
            and not graph.is_captured(name)
            and not graph.is_output(name)
        ):
            found += pending[name] if tensor is None else tensor.stored_bytes
    return found


def copied(graph: Graph, node: Node, size: int) -> int:
    """The size of a result, if an operand of this size stays in the model when the node is gone;
    else 0.
    """
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
    """Bytes of the constants of a model; of those that repeat along axes, bytes of the part that is
    kept.
    """
    return sum(
        tensor.stored_bytes for graph in model.graphs() for tensor in graph.initializers.values()
    )


def growth_of(model: Model, choice: int | str | None) -> Growth:
    """Count the bytes that folding adds to a model, those included that it added when the model was
    optimized before.
    """
    size = stored_bytes(model)
    entry = next((each.value for each in model.shell.metadata_props if each.key == _ENTRY), "")
    found = _GROWN.fullmatch(entry)
    given, added, noted = map(int, found.groups()) if found is not None else (size, 0, size)
    # else the constants have changed since
    return Growth(choice, given, added) if noted == size else Growth(choice, size)


class NoteGrowth(Step):
    """Writes into the metadata of a model how many bytes folding has added, if it left results
    computed because of their size.

    Without that, each optimization of the result would fold some more of them.
    """

    title = "note_growth"

    def __init__(self, growth: Growth) -> None:
        self.growth = growth

    def run(self, model: Model) -> int:
        """Write the entry; returns 0, since nothing changes that is computed."""
        entries = model.shell.metadata_props
        replace_items(entries, [each for each in entries if each.key != _ENTRY])
        if self.growth.unfolded() is not None:
            # As they are written: partly held constants are whole in the file.
            size = sum(
                tensor.nbytes for graph in model.graphs() for tensor in graph.initializers.values()
            )
            text = (
                f"{self.growth.given} bytes of constants given, {self.growth.added} added, {size} "
                "in all"
            )
            entries.add(key=_ENTRY, value=text)
        return 0


def write_expanded(model: Model, limit: int | None) -> dict[Node, int]:
    """Write partly kept constants as nodes, the largest first, until the others fit whole into
    ``limit`` bytes.

    Returns the nodes, and the bytes of their results. All other constants are stored whole when the
    model is exported.
    """
    kept = [
        (tensor, graph, name)
        for graph in model.graphs()
        for name, tensor in graph.initializers.items()
        if isinstance(tensor, ExpandedTensor)
        and graph.is_needed(name)
        and not graph.is_output(name)
    ]
    if limit is None or not kept:
        return {}
    memory_budget = limit - stored_bytes(model)
    kept.sort(key=lambda each: each[0].nbytes)
    sums = accumulate(tensor.nbytes - tensor.stored_bytes for tensor, _, _ in kept)
    written = [each for each, more in zip(kept, sums, strict=True) if more > memory_budget]
    written.sort(key=lambda each: (min(node.label for node in readers(*each[1:])), each[2]))
    return {tensor.write(graph, name): tensor.nbytes for tensor, graph, name in written}
