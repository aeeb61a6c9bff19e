"""The original and the optimized model as graphs, in the JSON format of Model Explorer.

The format is the one of ``model_explorer.graph_builder`` of
https://github.com/google-ai-edge/model-explorer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count as count_from
from pathlib import Path
from typing import Any, Final

import onnx

from xoptim import GraphBuilder
from xoptim.api.preparing import Source
from xoptim.facts.words import counted
from xoptim.reporting import (
    FOLDED,
    KEPT,
    REPLACED,
    Drawing,
    DrawnNode,
    Journal,
    Links,
    RewriteStep,
    draw,
    link,
)

_MAX_NAMED: Final = 8
"""Maximal number of nodes that an attribute names."""


@dataclass(frozen=True)
class OptimizedModel:
    """A model before and after its optimization, which is not verified here.

    Attributes:
        source: the original.
        result: the optimized model.
        before: the nodes of the original.
        after: the nodes of the result.
        links: which rewrite removed or made each node.
        steps: the rewrites in order, each with the nodes that it removed and added.
    """

    source: Source
    result: onnx.ModelProto
    before: Drawing
    after: Drawing
    links: Links
    steps: Sequence[RewriteStep]

    @classmethod
    def of(cls, model: Any) -> "OptimizedModel":
        """Optimize a model by the default preset, and record the rewrites.

        Args:
            model: a model as for `xoptim.optimize`, which is left unchanged.

        Raises:
            ModelError: when it cannot be read.
        """
        source = Source(model)
        builder = GraphBuilder(source)
        journal = Journal(builder.model)
        builder.optimization_options = replace(builder.optimization_options, on_event=journal)
        result = builder.to_onnx()
        after = draw(builder.model)
        links = link(journal.before, after, journal.steps, journal.folded)
        return cls(source, result, journal.before, after, links, tuple(journal.steps))

    @property
    def base_dir(self) -> Path | None:
        """The folder of external data."""
        return self.source.base_dir

    @property
    def graph_ids(self) -> tuple[str, str]:
        """The ids of the graphs of the original and of the result."""
        name = self.source.proto.graph.name or "main"
        return name, f"{name} (optimized)"

    @cached_property
    def fates(self) -> dict[int, str]:
        """The rewrite or other cause that removed a node of the original, by its number."""
        return {
            number: self._fate(number)
            for number, fate in enumerate(self.links.fates)
            if fate != KEPT and not self.before.nodes[number].is_constant
        }

    @cached_property
    def makers(self) -> dict[int, str]:
        """The rewrite that made a node of the result, by its number."""
        changes = self.links.changes
        return {
            number: changes[change].name
            for number, change in enumerate(self.links.made)
            if change >= 0
        }

    def _fate(self, number: int) -> str:
        fate, change = self.links.fates[number], self.links.step[number]
        if fate == FOLDED:
            return "constant folding"
        if fate == REPLACED:
            return "merged with an equal node"
        return self.links.changes[change].name if change >= 0 else "not needed"

    def graphs(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The graphs of the original and of the result."""
        before, after = self.graph_ids
        original = _Graph(self.before, {n: self._texts_before(n) for n in self.fates})
        result = _Graph(self.after, {n: self._texts_after(n) for n in self.makers})
        summary = self._summary()
        return original.to_json(before, summary), result.to_json(after, summary)

    def _texts_before(self, number: int) -> dict[str, str]:
        texts = {"removed by": self.fates[number]}
        change, twin = self.links.step[number], self.links.twins[number]
        if change >= 0:
            texts["replaced by"] = _names(self.after, self.links.changes[change].after)
        elif twin >= 0:
            texts["replaced by"] = _names(self.after, [twin])
        return {name: text for name, text in texts.items() if text}

    def _texts_after(self, number: int) -> dict[str, str]:
        change = self.links.changes[self.links.made[number]]
        texts = {"made by": change.name, "in place of": _names(self.before, change.before)}
        return {name: text for name, text in texts.items() if text}

    def _summary(self) -> dict[str, str]:
        """The number of nodes, and the effect of each rewrite."""
        times: Counter[str] = Counter()
        removed: Counter[str] = Counter()
        added: Counter[str] = Counter()
        for step in self.steps:
            times[step.name] += 1
            removed[step.name] += len(step.removed)
            added[step.name] += len(step.added)
        texts = {"nodes": f"{_count(self.before)} before, {_count(self.after)} after"}
        for name, count in sorted(times.items()):
            removal = counted(removed[name], "node")
            texts[name] = f"{counted(count, 'time')}: {removal} removed, {added[name]} added"
        return texts


def _count(drawing: Drawing) -> int:
    return sum(not node.is_constant for node in drawing.nodes)


def _names(drawing: Drawing, numbers: Sequence[int]) -> str:
    """Operators and names of some nodes, without those that hold constants."""
    nodes = [drawing.nodes[n] for n in numbers if not drawing.nodes[n].is_constant]
    texts = [f"{node.op_type} {node.name}" for node in nodes[:_MAX_NAMED]]
    more = [f"{len(nodes) - _MAX_NAMED} more"] if len(nodes) > _MAX_NAMED else []
    return ", ".join((*texts, *more))


def ids_of(drawing: Drawing) -> list[str]:
    """The ids of the nodes of a drawing: their names, as in other adapters for ONNX."""
    ids: dict[str, None] = {}
    for number, node in enumerate(drawing.nodes):
        name = node.name or node.op_type
        candidates = chain([name], (f"{name} #{suffix}" for suffix in count_from(number)))
        ids[next(text for text in candidates if text not in ids)] = None
    return list(ids)


class _Graph:
    """A drawing as a graph; ``texts`` are further attributes of nodes, by number."""

    def __init__(self, drawing: Drawing, texts: Mapping[int, Mapping[str, str]]) -> None:
        self._drawing = drawing
        self._texts = texts
        self._ids = ids_of(drawing)
        self._sources: dict[int, tuple[str, str]] = {}  # node and index of its output, by value
        for value in drawing.inputs:
            self._sources[value] = f"input {value}", "0"
        for number, node in enumerate(drawing.nodes):
            for index, value in enumerate(node.outputs):
                if not node.is_constant:
                    self._sources[value] = self._ids[number], str(index)

    def to_json(self, name: str, summary: Mapping[str, str]) -> dict[str, Any]:
        """The graph in the format of Model Explorer.

        ``summary`` is shown where no node is selected.
        """
        return {
            "id": name,
            "nodes": [*self._inputs(), *self._nodes(), *self._outputs()],
            "groupNodeAttributes": {"": dict(summary)},
        }

    def _inputs(self) -> Iterator[dict[str, Any]]:
        for value in self._drawing.inputs:
            yield {
                "id": f"input {value}",
                "label": "Input",
                "outputsMetadata": self._metadata([value]),
            }

    def _outputs(self) -> Iterator[dict[str, Any]]:
        for value in self._drawing.outputs:
            yield {
                "id": f"output {value}",
                "label": "Output",
                "incomingEdges": self._edges([value]),
                "inputsMetadata": self._metadata([value]),
            }

    def _nodes(self) -> Iterator[dict[str, Any]]:
        for number, node in enumerate(self._drawing.nodes):
            if not node.is_constant:
                yield {
                    "id": self._ids[number],
                    "label": node.op_type,
                    "namespace": "/".join(part.replace("/", "_") for part in node.path),
                    "attrs": self._attributes(number, node),
                    "incomingEdges": self._edges(node.inputs),
                    "inputsMetadata": self._metadata(node.inputs),
                    "outputsMetadata": self._metadata(node.outputs),
                }

    def _attributes(self, number: int, node: DrawnNode) -> list[dict[str, str]]:
        texts = {"name": node.name, "attributes": node.attributes, **self._texts.get(number, {})}
        return [{"key": key, "value": text} for key, text in texts.items() if text]

    def _edges(self, values: Sequence[int]) -> list[dict[str, str]]:
        return [
            {
                "sourceNodeId": self._sources[value][0],
                "sourceNodeOutputId": self._sources[value][1],
                "targetNodeInputId": str(index),
            }
            for index, value in enumerate(values)
            if value in self._sources
        ]

    def _metadata(self, values: Sequence[int]) -> list[dict[str, Any]]:
        """Name and type of some values; a type has the shape, and the value of a small constant."""
        entries = []
        for index, value in enumerate(values):
            name, kind = self._drawing.values[value]
            attributes = [{"key": "tensor_name", "value": name}, {"key": "type", "value": kind}]
            entries.append({"id": str(index), "attrs": attributes})
        return entries
