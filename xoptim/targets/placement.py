"""The answer to the question which nodes of a model a target takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from xoptim.facts.operators import operator_label
from xoptim.facts.words import counted

if TYPE_CHECKING:
    from xoptim.targets.json_types import PlacedNodeJson, PlacementJson

Source: TypeAlias = Literal["asked", "table"]
_MAX_ERROR: Final = 400  # characters of an error in a summary


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node, and what runs it.

    Attributes:
        name: its name; the name of its first result where it has none.
        op_type: its operator.
        domain: of the operator, empty for the standard one.
        provider: full name of the provider that runs it; empty for a node that onnxruntime computes
            ahead or merges into others, and for all nodes of a model that does not compile.
        partition: number of the part of the graph that the target runs as one, from 0; -1 where the
            target does not take it.
        reason: why the target does not take it, where that is known.
        advice: what would help, where that is known.
        is_shape_arithmetic: whether it only computes sizes: onnxruntime leaves such nodes on the
            CPU on purpose.
    """

    name: str
    op_type: str
    domain: str = ""
    provider: str = ""
    partition: int = -1
    reason: str = ""
    advice: str = ""
    is_shape_arithmetic: bool = False

    @property
    def label(self) -> str:
        """The operator with its domain."""
        return operator_label(self.op_type, self.domain)

    @property
    def is_taken(self) -> bool:
        """Whether the target runs it."""
        return self.partition >= 0

    def to_json(self) -> PlacedNodeJson:
        """All fields as JSON values."""
        return {
            "name": self.name,
            "op_type": self.op_type,
            "domain": self.domain,
            "provider": self.provider,
            "partition": self.partition,
            "reason": self.reason,
            "advice": self.advice,
            "is_shape_arithmetic": self.is_shape_arithmetic,
            "is_taken": self.is_taken,
        }


@dataclass(frozen=True, slots=True)
class Placement:
    """Which nodes of a model a target takes.

    Attributes:
        target: name of the target.
        nodes: all nodes of the model, subgraphs included and local functions expanded, in order.
        compiles: whether a session could be made.
        error: why no session could be made, in one line.
        seconds: that the answer took.
        source: whether the provider was asked, or a table, which is not verified.
    """

    target: str
    nodes: tuple[PlacedNode, ...]
    compiles: bool = True
    error: str = ""
    seconds: float = 0.0
    source: Source = "asked"

    @property
    def taken(self) -> tuple[PlacedNode, ...]:
        """The nodes that the target runs."""
        return tuple(node for node in self.nodes if node.is_taken)

    @property
    def left(self) -> tuple[PlacedNode, ...]:
        """The nodes that the target does not run, except those that compute shapes."""
        return tuple(node for node in self._elsewhere if not node.is_shape_arithmetic)

    @property
    def shapes(self) -> tuple[PlacedNode, ...]:
        """The nodes that compute shapes and that the target does not run."""
        return tuple(node for node in self._elsewhere if node.is_shape_arithmetic)

    @property
    def absent(self) -> tuple[PlacedNode, ...]:
        """The nodes that onnxruntime computes ahead, or merges into others, before it asks."""
        if not self.compiles:
            return ()
        return tuple(node for node in self.nodes if not node.provider and not node.is_taken)

    @property
    def _elsewhere(self) -> tuple[PlacedNode, ...]:
        if not self.compiles:
            return self.nodes
        return tuple(node for node in self.nodes if node.provider and not node.is_taken)

    @property
    def partitions(self) -> int:
        """Number of parts of the graph that the target runs, with other nodes in between."""
        return len({node.partition for node in self.taken})

    def summary(self) -> str:
        """One line with the counts, or with the reason why there are none."""
        if not self.compiles:
            return f"{self.target}: does not compile: {self.error[:_MAX_ERROR]}"
        text = f"{self.target}: {self.counts()}"
        return f"{text} (by table, not verified)" if self.source == "table" else text

    def counts(self) -> str:
        """The counts in words."""
        if not self.compiles:
            return "does not compile"
        total = len(self.taken) + len(self.left) + len(self.shapes)
        text = f"{len(self.taken)} of {counted(total, 'node')}"
        if self.taken:
            text += f" in {counted(self.partitions, 'partition')}"
        if self.shapes:
            verb = "computes" if len(self.shapes) == 1 else "compute"
            text += f", {len(self.shapes)} of the others {verb} shapes"
        return text

    def to_json(self) -> PlacementJson:
        """All fields as JSON values, and the counts."""
        return {
            "target": self.target,
            "compiles": self.compiles,
            "error": self.error,
            "source": self.source,
            "seconds": round(self.seconds, 3),
            "taken": len(self.taken),
            "left": len(self.left),
            "shapes": len(self.shapes),
            "absent": len(self.absent),
            "partitions": self.partitions,
            "nodes": [node.to_json() for node in self.nodes],
        }
