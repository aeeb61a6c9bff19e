"""Blocks that repeat, as they are reported."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from xoptim.blocks.finding import find_blocks
from xoptim.blocks.links import Links
from xoptim.blocks.scopes import BlockNames
from xoptim.graph.graph import Graph

Form: TypeAlias = Literal["nodes", "function"]
"""How the copies of a block are written."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A block that repeats.

    Attributes:
        name: the scope that its copies have in common, as the exporter named it, else its operators.
        times: number of copies.
        nodes: number of nodes in each.
        form: how the copies are written: as their nodes, or as calls of a local function.
    """

    name: str
    times: int
    nodes: int
    form: Form = "nodes"

    def __str__(self) -> str:
        how = ", one function" if self.form == "function" else ""
        return f"{self.times} times {self.name}, {self.nodes} nodes{how}"

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return asdict(self)


def repetitions(graph: Graph) -> list[Repetition]:
    """The blocks that repeat in a graph, those that save the most nodes first."""
    links = Links(graph)
    return [Repetition(BlockNames(links.copies(b.rows)).title, len(b.rows), b.size) for b in find_blocks(links)]
