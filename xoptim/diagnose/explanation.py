"""Explanations why a pattern does not match, in terms of nodes and results of a model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from xoptim.engine.environment import wants_log as wants_log  # re-exported for `xoptim.cli`
from xoptim.facts.dtypes import type_name
from xoptim.facts.errors import ModelError, XoptimError
from xoptim.facts.json_results import (
    JsonForm as JsonForm,  # re-exported for `xoptim.cli`
    JsonResult as JsonResult,
    json_value as json_value,
    member as member,
    within as within,
)
from xoptim.facts.json_values import AnyFloat
from xoptim.facts.operators import operator_label
from xoptim.facts.progress import StageProgress as StageProgress
from xoptim.facts.shapes import Info
from xoptim.facts.words import (
    abridged as abridged,  # re-exported for `xoptim.cli`
    bytes_text as bytes_text,
    counted as counted,
    meant as meant,
    shell_path as shell_path,
    similar as similar,
    suggestion as suggestion,
    whole_number as whole_number,
    with_unit as with_unit,
)
from xoptim.graph.constants import constant_array, is_constant
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node

_MAX_ELEMENTS = 8
"""Maximum number of elements of a constant whose value is shown."""


@dataclass(frozen=True, slots=True)
class Place(JsonResult):
    """A node of a model.

    Attributes:
        position: number of the node: main graph first, then subgraphs, then local functions.
        op_type: operator, with its domain outside the standard one.
        name: name of the node; may be empty.
        outputs: names of its results.
        graph: empty for the main graph, else the path to the subgraph, or the function.
    """

    position: int
    op_type: str
    name: str
    outputs: tuple[str, ...]
    graph: str = ""

    def __str__(self) -> str:
        name = self.name or next(filter(None, self.outputs), "")
        return (
            f"#{self.position} {self.op_type} {name!r}{f' in {self.graph}' if self.graph else ''}"
        )


def plain(value: Any) -> Any:
    """Convert to a JSON value.

    Floats get the fewest digits that identify them in their own type.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(list(value)) if value.ndim else plain(value[()])
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = float(str(value)) if value.dtype.kind in "fV" else value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


@dataclass(frozen=True, slots=True)
class ValueFacts(JsonResult):
    """A result that a condition of a pattern is about.

    Attributes:
        name: name of the result.
        dtype: element type as in ONNX text; ``undefined`` when unknown.
        shape: a number or a text for each axis; ``None`` when the rank is unknown.
        is_constant: whether the result is the same in every run.
        value: number, text or nested list of a small constant; ``None`` for all others.
    """

    __json__ = JsonForm("name dtype shape is_constant", member("value", plain))
    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    is_constant: bool = False
    value: Any = None

    @property
    def kind(self) -> str:
        """Type, shape and small value as text."""
        shape = "..." if self.shape is None else ",".join(map(str, self.shape))
        value = (
            f" = {self.value}"
            if self.value is not None
            else " constant"
            if self.is_constant
            else ""
        )
        return f"{self.dtype}[{shape}]{value}"

    def __str__(self) -> str:
        return f"{self.name!r} {self.kind}"


def locate(model: Model, at: str) -> list[Node]:
    """The nodes with a name, or the producer of a result of that name, or the node at a position
    (``#17``).

    Raises `ModelError`, whose message gives similar names, when there is none.
    """
    nodes = list(all_nodes(model))
    number = whole_number(at[1:]) if at.startswith("#") else None
    if number is not None and number < len(nodes):
        return [nodes[number]]
    matches = [node for node in nodes if node.name == at] or [
        node for node in nodes if at and at in node.output
    ]
    if not matches:
        names = {name for node in nodes for name in (node.name, *node.output) if name}
        hint = suggestion(at, names, f"positions are #0 to #{len(nodes) - 1}", most=3)
        raise ModelError(f"no node or result is called {abridged(at)}; {hint}")
    return matches


def labels(model: Model) -> dict[Graph, str]:
    """A label of each graph, the main graph and its subgraphs first."""
    roots = [
        ("", model.graph),
        *((f"{f.proto.domain}::{f.proto.name}", f.body) for f in model.functions),
    ]
    return {graph: label for name, root in roots for label, graph in _within(name, root)}


def _within(label: str, graph: Graph) -> Iterator[tuple[str, Graph]]:
    yield label, graph
    for node in graph.nodes:
        for name, body in node.bodies.items():
            owner = f"{node.name or node.output[0]}.{name}"
            yield from _within(f"{label}/{owner}" if label else owner, body)


def all_nodes(model: Model) -> Iterator[Node]:
    """The nodes of all graphs, in the order of their positions."""
    for graph in labels(model):
        yield from graph.nodes


class NodePlaces:
    """The places of the nodes of a model: a label for each graph, and the number of each node."""

    def __init__(self, model: Model) -> None:
        self.graphs = labels(model)
        self.positions = {node: position for position, node in enumerate(all_nodes(model))}

    def of(self, node: Node) -> Place:
        """The place of a node; the position is -1 when it is not in a graph of the model."""
        kind = operator_label(node.op_type, node.domain)
        label = self.graphs.get(node.graph, "") if node.graph is not None else ""
        return Place(self.positions.get(node, -1), kind, node.name, node.output, label)


def describe(graph: Graph, name: str) -> ValueFacts:
    """Type, shape and, for a small constant, value of a result."""
    info = graph.info_of(name)
    constant = is_constant(graph, name)
    return ValueFacts(
        name, _type(info), _shape(info), constant, _small(graph, name, info) if constant else None
    )


def _type(info: Info) -> str:
    inner = _type(info.element) if info.element is not None else type_name(info.dtype)
    return f"{info.container}({inner})" if info.container else inner


def _shape(info: Info) -> tuple[int | str, ...] | None:
    if info.shape is None:
        return None
    return tuple(
        dim if isinstance(dim, int) else "?" if dim.is_anonymous else str(dim) for dim in info.shape
    )


def _small(graph: Graph, name: str, info: Info) -> Any:
    shape = info.static_shape
    if shape is None or math.prod(shape) > _MAX_ELEMENTS:
        return None
    try:
        array = constant_array(graph, name)
    except ModelError:  # damaged or missing data is reported elsewhere
        return None
    return None if array is None else plain(array)


Status = Literal["failed", "refused", "matches", "taken"]


@dataclass(frozen=True, slots=True)
class Explanation(JsonResult):
    """The result of matching a pattern at one node.

    Attributes:
        pattern: name of the pattern.
        status: the outcome; ``taken`` for a match that no longer exists after the optimization:
            ``reason`` says why.
        anchor: the node at which matching began.
        reason: the first condition that failed; empty for a match.
        culprit: the node that does not fit, or the reader of its result; ``None`` without one.
        file: source file of the condition.
        line: line of the condition.
        values: results that the condition is about.
        matched: nodes that fit.
        total: number of nodes of the pattern; 0 when it is not known.
        progress: how far the match got; comparable only within one pattern.
        bindings: captures of a match, by name; ``None`` without a match.
        others: further results at this node, best first.
        gain: saving by rewriting the nodes, if a pass reports it.
        advice: an option that helps, or further facts; may be empty.
    """

    __json__ = JsonForm(
        "pattern status anchor reason culprit file line values matched total progress",
        member("bindings", plain),
        "others gain advice",
    )
    pattern: str
    # ``failed`` when the pattern raised an error. With ``taken``, places refer to the model before
    # optimization
    status: Status
    anchor: Place
    reason: str = ""
    culprit: Place | None = None
    file: str = ""
    line: int = 0
    # Inputs and outputs of the culprit where the condition names no results
    values: tuple[ValueFacts, ...] = ()
    matched: tuple[Place, ...] = ()
    total: int = 0
    progress: AnyFloat = 0
    bindings: dict[str, Any] | None = None
    others: tuple[Explanation, ...] = ()
    gain: str = ""
    advice: str = ""

    @property
    def matches(self) -> bool:
        """Whether the pattern applies here."""
        return self.status == "matches"

    @property
    def exit_point(self) -> str:
        """``file:line`` of the condition, empty when it is not known."""
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def reached(self) -> str:
        """The number of nodes that fit, as text."""
        if self.status in ("matches", "taken"):
            return f"all {len(self.matched)} nodes"
        return f"{len(self.matched)} of {self.total} nodes" if self.total else ""

    @property
    def headline(self) -> str:
        """All but the values, in one line."""
        if self.matches:
            gain = f" ({self.gain})" if self.gain else ""
            return (
                f"{self.pattern} matches at {self.anchor}: "
                f"{', '.join(map(str, self.matched))}{gain}"
            )
        if self.status == "taken":
            return f"{self.pattern} matched at {self.anchor} before the optimization: {self.reason}"
        node = "" if self.culprit in (None, self.anchor) else f" at {self.culprit}"
        extent = f", {self.reached} match" if self.reached else ""
        where = (
            f" ({self.exit_point}{extent})"
            if self.exit_point
            else f" ({extent[2:]})"
            if extent
            else ""
        )
        return (
            f"{self.pattern} {self.status} at {self.anchor}: "
            f"{self.reason or 'no reason given'}{node}{where}"
        )

    def __str__(self) -> str:
        advice = (f"    {self.advice}",) if self.advice else ()
        return "\n".join((self.headline, *advice, *(f"    {value}" for value in self.values)))


class NoMatchError(XoptimError):
    """The pattern does not match at the node at which it was to be applied.

    The explanations give the reasons.
    """

    def __init__(self, explanations: Sequence[Explanation]) -> None:
        super().__init__(explanations[0].headline)
        self.explanations = list(explanations)
