"""Blocks that repeat, as they are reported."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from xoptim.blocks.finding import find_blocks
from xoptim.blocks.links import Links
from xoptim.blocks.naming import BlockNames
from xoptim.graph.graph import Graph

Form: TypeAlias = Literal["nodes", "function", "scan"]
"""How the copies of a block are written."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A block that repeats.

    Attributes:
        name: the scope that its copies have in common, as the exporter named it, else its operators.
        times: number of copies.
        nodes: number of nodes in each.
        form: how the copies are written: each by itself, as calls of a local function, or as one Scan.
        refused: why they are not one Scan, if that was asked for.
    """

    name: str
    times: int
    nodes: int
    form: Form = "nodes"
    refused: str = ""

    def __str__(self) -> str:
        how = {"nodes": "", "function": ", one function", "scan": ", one Scan"}[self.form]
        return f"{self.times} times {self.name}, {self.nodes} nodes{how}{self.refused and f' (not one Scan: {self.refused})'}"

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return asdict(self)


def repetitions(graph: Graph) -> list[Repetition]:
    """The blocks that repeat in a graph, those that save the most nodes first."""
    links = Links(graph)
    return [Repetition(BlockNames(links.copies(b.rows)).title, len(b.rows), b.size) for b in find_blocks(links)]
