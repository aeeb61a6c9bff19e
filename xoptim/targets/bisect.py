"""The smallest part of a model that does not compile, since few compilers name the node at which
they stop.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx

from xoptim.facts.errors import ModelError
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.splice import inline_functions
from xoptim.graph.walk import reads
from xoptim.preparation.ports import extract_part
from xoptim.targets.oracle import place
from xoptim.targets.placement import Placement
from xoptim.targets.process import PlacementError
from xoptim.targets.target import Target

DEFAULT_SEARCH_TIMEOUT: Final = 120.0
"""Seconds for the search, by default."""


@dataclass(frozen=True, slots=True)
class Failing(JsonResult):
    """A part of a model that does not compile for a target.

    Attributes:
        model: the part as a model.
        nodes: names of the nodes of the part, in order; compiling stops at the last one. None in a
            model without nodes.
        operators: operators of these nodes.
        error: the reason why the part does not compile, in one line.
        is_smallest: whether the search ended; otherwise time was up.
    """

    __json__ = JsonForm("nodes operators is_smallest")
    model: onnx.ModelProto
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    error: str
    is_smallest: bool = True


def smallest_failing(
    model: onnx.ModelProto,
    target: Target,
    base_dir: Path | None = None,
    *,
    software_device: bool = False,
    seconds: float = DEFAULT_SEARCH_TIMEOUT,
    whole: Placement | None = None,
) -> Failing | None:
    """The smallest part of a model that does not compile, ``None`` when the model compiles.

    Bisection finds the shortest beginning of the list of nodes that fails, then the shortest end of
    this beginning that still fails. Each part is compiled in a process of its own. ``whole`` is the
    placement of the model, where it is known. Raises the errors of `xoptim.targets.oracle.place`.
    """
    search = _PartSearch(model, target, base_dir, software_device, seconds)
    if whole is None:
        whole = place(model, target, base_dir, software_device=software_device, seconds=seconds)
    if whole.compiles:
        return None
    if not search.nodes:
        return Failing(model, (), (), whole.error)
    count = len(search.nodes)
    # when time is up, `fails` is false for all parts: a search ends at the last part that failed
    end = bisect_left(range(count), True, lo=1, key=lambda size: search.fails(0, size))
    start = end - bisect_left(
        range(end), True, lo=1, key=lambda size: search.fails(end - size, end)
    )
    part = search.part(start, end)
    placement = search.placements.get((start, end), whole)
    return Failing(
        part if part is not None else model,
        tuple(node.name for node in search.nodes[start:end]),
        tuple(node.op_type for node in search.nodes[start:end]),
        placement.error,
        is_smallest=not search.is_late,
    )


class _PartSearch:
    """Compiles parts of a model, and remembers the answers."""

    def __init__(
        self,
        model: onnx.ModelProto,
        target: Target,
        base_dir: Path | None,
        software_device: bool,
        seconds: float,
    ) -> None:
        self._model = inline_functions(model) if model.functions else model
        self._target, self._base_dir, self._software = target, base_dir, software_device
        self._end = time.monotonic() + seconds
        self.nodes: Sequence[Node] = list(load_model(self._model, base_dir).graph.nodes)
        self.placements: dict[tuple[int, int], Placement] = {}
        self.is_late = False

    def fails(self, start: int, end: int) -> bool:
        """Whether the nodes between two indices do not compile; false if they cannot be cut out."""
        seconds = self._end - time.monotonic()
        if self.is_late or seconds <= 0:
            self.is_late = True
            return False
        part = self.part(start, end)
        if part is None:
            return False
        try:
            answer = place(
                part,
                self._target,
                self._base_dir,
                software_device=self._software,
                seconds=seconds,
            )
        except PlacementError:
            self.is_late = True
            return False
        self.placements[start, end] = answer
        return not answer.compiles

    def part(self, start: int, end: int) -> onnx.ModelProto | None:
        """The nodes between two indices as a model, ``None`` where they cannot be cut out."""
        nodes = self.nodes[start:end]
        results = [name for node in nodes for name in node.output if name]
        graph = nodes[0].graph
        assert graph is not None
        needed = {name for node in self.nodes[end:] for name in reads(node)} | set(graph.outputs)
        outputs = [name for name in results if name in needed]
        earlier = {name for node in self.nodes[:start] for name in node.output if name}
        names = dict.fromkeys(name for node in nodes for name in reads(node) if name in earlier)
        inputs = [name for name in names if not graph.is_computed(name)]
        if not outputs:
            return None
        try:
            return extract_part(self._model, inputs, outputs, self._base_dir)
        except ModelError:
            return None
