"""A placement: the nodes of a model that a target takes, and those that it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from xoptim.facts.json_results import JsonForm, JsonResult, count, member, rounded_time
from xoptim.facts.operators import operator_label
from xoptim.facts.words import counted

Source: TypeAlias = Literal["asked", "table"]
_MAX_ERROR: Final = 400  # characters of an error in a summary


@dataclass(frozen=True, slots=True)
class PlacedNode(JsonResult):
    """A node, and the execution provider that runs it.

    Attributes:
        name: name of the node, or of its first result.
        op_type: operator.
        domain: domain of the operator; empty for the standard one.
        provider: full name of the execution provider; empty for a node that is folded or merged,
            and for all nodes of a model that does not compile.
        partition: number of the partition, from 0; -1 where the target does not take the node.
        reason: the reason why the target does not take the node, if known.
        advice: a change with which the target would take the node, if known.
        is_shape_arithmetic: whether the node only computes shapes.
    """

    __json__ = JsonForm(
        "name op_type domain provider partition reason advice is_shape_arithmetic is_taken"
    )
    name: str
    op_type: str
    domain: str = ""
    provider: str = ""
    partition: int = -1
    reason: str = ""
    advice: str = ""
    is_shape_arithmetic: bool = False  # onnxruntime leaves such nodes on the CPU on purpose

    @property
    def label(self) -> str:
        """The operator with its domain."""
        return operator_label(self.op_type, self.domain)

    @property
    def is_taken(self) -> bool:
        """Whether the target runs the node."""
        return self.partition >= 0


@dataclass(frozen=True, slots=True)
class Placement(JsonResult):
    """The nodes of a model that a target takes, and those that it leaves.

    Attributes:
        target: name of the target.
        nodes: all nodes, subgraphs included and local functions expanded, in order.
        compiles: whether a session could be created.
        error: the reason why no session could be created, in one line.
        seconds: duration, in seconds.
        source: ``asked`` if the execution provider answered, ``table`` for a table of operators,
            which is not verified.
    """

    __json__ = JsonForm(
        "target compiles error source",
        member("seconds", rounded_time),
        member("taken", count, "number of nodes that the target runs."),
        member(
            "left",
            count,
            "number of nodes that the target does not run, except nodes that compute shapes.",
        ),
        member(
            "shapes",
            count,
            "number of nodes that compute shapes and that the target does not run.",
        ),
        member(
            "absent",
            count,
            "number of nodes that ONNX Runtime folds, or merges into others.",
        ),
        "partitions nodes",
    )
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
        """The nodes that onnxruntime folds, or merges into others, before it asks the provider."""
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
        """Number of partitions that the target runs."""
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
