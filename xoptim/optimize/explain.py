"""Why a pattern does not match: every place where it could begin, and the first condition that failed there."""

from __future__ import annotations

import inspect
import math
import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from xoptim.catalogue.selection import Item, select
from xoptim.catalogue.words import suggestion
from xoptim.facts.dtypes import type_name
from xoptim.facts.errors import ModelError, UnknownPatternError, XoptimError
from xoptim.facts.info import Info
from xoptim.graph.constants import constant_array, is_constant
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.easy import EasyPatternOptimization
from xoptim.match.pattern import PatternOptimization
from xoptim.match.refusal import Refusal, listening
from xoptim.match.result import MatchResult
from xoptim.match.view import GraphBuilderPatternOptimization
from xoptim.optimize.engine import Engine
from xoptim.optimize.run import Optimizer

Status = Literal["failed", "refused", "matches"]
_ORDER: tuple[Status, ...] = ("failed", "refused", "matches")
_SHOWN = 8
"""Elements up to which the value of a constant is told."""
_BEST = 20
"""Refusals that are told of a pattern that is offered every node."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node, in words.

    Attributes:
        position: its number: those of the main graph first, then those of its subgraphs, then those of local functions.
        op_type: operator, with its domain outside the standard one.
        name: of the node, may be empty.
        outputs: names of its results.
        graph: where it is: empty for the main graph, else the path to the subgraph, or the function.
    """

    position: int
    op_type: str
    name: str
    outputs: tuple[str, ...]
    graph: str = ""

    def __str__(self) -> str:
        known = self.name or next(filter(None, self.outputs), "")
        return f"#{self.position} {self.op_type} {known!r}{f' in {self.graph}' if self.graph else ''}"


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """What is known about a result that a condition is about.

    Attributes:
        name: of the result.
        dtype: element type as in ONNX text, ``undefined`` when unknown.
        shape: number or text for each axis, ``None`` when the rank is unknown.
        is_constant: whether it is the same at every run.
        value: number, text or (nested) list of these, of a small constant; ``None`` for all others.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    is_constant: bool = False
    value: Any = None

    def __str__(self) -> str:
        shape = "..." if self.shape is None else ",".join(map(str, self.shape))
        value = f" = {self.value}" if self.value is not None else " constant" if self.is_constant else ""
        return f"{self.name!r} {self.dtype}[{shape}]{value}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of a pattern at one node.

    Attributes:
        pattern: its name.
        status: ``refused``, ``matches``, or ``failed`` when the pattern raised an error.
        anchor: where the search began.
        reason: the first condition that failed; empty when the pattern gave none, or for a match.
        culprit: the node that is to blame, if one is; the reader of a result that no fitting node computes.
        file: source file of the condition.
        line: its line.
        values: results that the condition is about; inputs and outputs of the culprit when it names none.
        matched: nodes that did fit.
        total: number of nodes of the pattern, 0 when that is not known.
        progress: how far the search had come; comparable between explanations of one pattern.
        bindings: what a match captured, by name.
        others: what else was tried at this node, such as other variants, best first.
    """

    pattern: str
    status: Status
    anchor: Place
    reason: str = ""
    culprit: Place | None = None
    file: str = ""
    line: int = 0
    values: tuple[ValueFacts, ...] = ()
    matched: tuple[Place, ...] = ()
    total: int = 0
    progress: float = 0
    bindings: dict[str, Any] | None = None
    others: tuple[Explanation, ...] = ()

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
        """How far the search came, in words."""
        if self.matches:
            return f"all {len(self.matched)} nodes"
        return f"{len(self.matched)} of {self.total} nodes" if self.total else ""

    @property
    def headline(self) -> str:
        """Everything but the values, in one line."""
        if self.matches:
            return f"{self.pattern} matches at {self.anchor}: {', '.join(map(str, self.matched))}"
        blame = "" if self.culprit in (None, self.anchor) else f" at {self.culprit}"
        far = f", {self.reached} fit" if self.reached else ""
        where = f" ({self.exit_point}{far})" if self.exit_point else f" ({far[2:]})" if far else ""
        return f"{self.pattern} {self.status} at {self.anchor}: {self.reason or 'no reason given'}{blame}{where}"

    def __str__(self) -> str:
        return "\n".join((self.headline, *(f"    {value}" for value in self.values)))

    def to_json(self) -> dict[str, Any]:
        """Everything, with nothing in it that JSON cannot hold."""
        found: dict[str, Any] = _plain(asdict(self))
        found["others"] = [other.to_json() for other in self.others]
        return found


class NoMatchError(XoptimError):
    """The pattern does not match where it was to be applied.

    Attributes:
        explanations: why.
    """

    def __init__(self, explanations: Sequence[Explanation]) -> None:
        super().__init__(explanations[0].headline)
        self.explanations = list(explanations)


def explain_model(
    model: Model, pattern: Item, at: str | None = None, *, provider: str = "cpu", limit: int | None = None
) -> list[Explanation]:
    """What becomes of a pattern at each node where it could begin, in all graphs of a model.

    Args:
        model: the model, which is not changed.
        pattern: name, class or instance.
        at: look at one node only: its name, the name of one of its results, or ``#17`` for its position. For a node with
            which the search does not begin, the searches that reached it are told.
        provider: execution provider that the model would be optimized for.
        limit: most refusals to tell; all when ``None``, but 20 of a pattern without anchors, which is offered every node.

    Returns:
        Errors of the pattern first, then refusals, the nearest miss first, then matches; equals in the order of the graph.

    Raises:
        ModelError: no node is called ``at``; the message gives the nearest names.
        UnknownPatternError: the pattern is not known, or the word stands for several.
    """
    explainer = _Explainer(model, one_pattern(pattern), provider)
    wanted = None if at is None else locate(model, at)
    found = [] if wanted is None else [explainer.explain(node) for node in wanted if explainer.is_anchor(node)]
    if not found:
        found = [explainer.explain(node) for node in explainer.candidates()]
    if wanted is not None and not any(map(explainer.is_anchor, wanted)):
        places = [explainer.place(node) for node in wanted]
        found = [e for e in found if any(p in e.matched or p == e.culprit for p in places)]
        found = found or [explainer.out_of_reach(place) for place in places]
    found.sort(key=lambda e: (_ORDER.index(e.status), -e.progress))
    most = _BEST if limit is None and not explainer.keys and at is None else limit
    refused = [e for e in found if not e.matches]
    return [*refused[:most], *found[len(refused) :]]


def find_in_model(model: Model, pattern: Item, *, provider: str = "cpu") -> list[Explanation]:
    """Where a pattern would apply, in the order of the graphs. The matches may overlap. Arguments as for `explain_model`."""
    explainer = _Explainer(model, one_pattern(pattern), provider)
    graphs = {graph: explainer.exclusion(graph) for graph in model.graphs()}
    nodes = (node for node in explainer.candidates() if node.graph is not None and not graphs[node.graph][0])
    return [found for node in nodes if (found := explainer.match(node)) is not None]


def apply_in_model(optimizer: Optimizer, pattern: Item, at: str) -> None:
    """Apply a pattern once, at one node.

    Args:
        optimizer: holds the model, which is changed, and counts; its options say for which execution provider.
        pattern: name, class or instance.
        at: as for `explain_model`; without a match that begins there, the first one that the node is part of.

    Raises:
        NoMatchError: the pattern does not match there.
        ModelError: no node is called ``at``.
        XoptimError: the pattern failed, and the options are strict.
    """
    model, chosen = optimizer.model, one_pattern(pattern)
    explainer = _Explainer(model, chosen, optimizer.options.provider)
    wanted = locate(model, at)
    model.listeners.append(optimizer.state.worklist)
    try:
        for node in explainer.anchors_for(wanted):
            graph = node.graph
            assert graph is not None
            engine = Engine(graph, optimizer.state)
            if not explainer.exclusion(graph)[0] and engine.apply_at(chosen, node):
                return
    finally:
        model.listeners.remove(optimizer.state.worklist)
    raise NoMatchError(explain_model(model, chosen, at, provider=optimizer.options.provider))


def one_pattern(pattern: Item) -> PatternOptimization:
    """The pattern that a name, a class or an instance stands for.

    Raises:
        UnknownPatternError: it stands for none or several, or for a rewriter that matches nothing.
    """
    found = select(pattern)
    if len(found) != 1:
        raise UnknownPatternError(f"{pattern!r} stands for {len(found)} patterns; give the name of one")
    if not isinstance(found[0], PatternOptimization):
        raise UnknownPatternError(f"{found[0].name()} rewrites a whole model; there is no node where it begins")
    return found[0]


def locate(model: Model, at: str) -> list[Node]:
    """The nodes with a name, or the one that makes a result of that name, or the one at a position (``#17``).

    Raises:
        ModelError: there is none; the message gives the nearest names.
    """
    nodes = list(_all_nodes(model))
    if re.fullmatch(r"#\d+", at) and int(at[1:]) < len(nodes):
        return [nodes[int(at[1:])]]
    found = [node for node in nodes if node.name == at] or [node for node in nodes if at and at in node.output]
    if not found:
        known = {name for node in nodes for name in (node.name, *node.output) if name}
        hint = suggestion(at, known, f"positions are #0 to #{len(nodes) - 1}", most=3)
        raise ModelError(f"no node or result is called {at!r}; {hint}")
    return found


def _labels(model: Model) -> dict[Graph, str]:
    """Where each graph is: the main graph and its subgraphs first."""
    roots = [("", model.graph), *((f"{f.proto.domain}::{f.proto.name}", f.body) for f in model.functions)]
    return {graph: label for name, root in roots for label, graph in _within(name, root)}


def _within(label: str, graph: Graph) -> Iterator[tuple[str, Graph]]:
    yield label, graph
    for node in graph.nodes:
        for name, body in node.bodies.items():
            owner = f"{node.name or node.output[0]}.{name}"
            yield from _within(f"{label}/{owner}" if label else owner, body)


def _all_nodes(model: Model) -> Iterator[Node]:
    for graph in _labels(model):
        yield from graph.nodes


class _Explainer:
    """Tries one pattern at the nodes of one model, and puts into words what it hears."""

    def __init__(self, model: Model, pattern: PatternOptimization, provider: str) -> None:
        self.pattern = pattern
        self.keys = pattern.anchor_keys()
        self._provider = provider
        self._labels = _labels(model)
        self._positions = {node: i for i, node in enumerate(_all_nodes(model))}
        self._views = {graph: GraphBuilderPatternOptimization(graph, provider) for graph in self._labels}

    def is_anchor(self, node: Node) -> bool:
        """Whether the search can begin with a node."""
        return not self.keys or (node.domain, node.op_type) in self.keys

    def candidates(self) -> list[Node]:
        """All nodes where the search can begin, in order."""
        return [node for node in self._positions if self.is_anchor(node)]

    def anchors_for(self, wanted: Sequence[Node]) -> Iterator[Node]:
        """Those of these nodes with which the search can begin, then the anchors of matches that take in one of the nodes."""
        yield from filter(self.is_anchor, wanted)
        places = {self.place(node) for node in wanted}
        for node in self.candidates():
            match = self.match(node)
            if match is not None and not places.isdisjoint(match.matched):
                yield node

    def try_at(self, node: Node) -> MatchResult | None:
        """The match at a node, if there is one."""
        assert node.graph is not None
        return self.pattern.match_at(self._views[node.graph], node, [])

    def match(self, node: Node) -> Explanation | None:
        """The match at a node in words; an error of the pattern counts as none."""
        try:
            found = self.try_at(node)
        except Exception as error:
            raise XoptimError(self._failed(node, error).headline) from error
        return None if found is None else self._found(node, found)

    def explain(self, node: Node) -> Explanation:
        """What becomes of the pattern at a node."""
        assert node.graph is not None
        heard: list[Refusal] = []
        try:
            with listening(heard.append):
                match = self.try_at(node)
        except Exception as error:
            return self._failed(node, error)
        heard.sort(key=lambda refusal: -refusal.progress)
        refused = [self._refused(node, refusal) for refusal in heard]
        tried = [self._found(node, match)] if match is not None else refused or [self._silent(node)]
        reason, attribute = self.exclusion(node.graph)
        if reason:
            file, line = _attribute_line(type(self.pattern), attribute)
            others = tuple(tried) if match is None else ()
            best = replace(tried[0], status="refused", reason=reason, culprit=self.place(node), file=file, line=line)
            return replace(best, values=(), bindings=None, others=others)
        return replace(tried[0], others=tuple(tried[1:]))

    def exclusion(self, graph: Graph) -> tuple[str, str]:
        """Why the pattern is not used in a graph at all, and the attribute that says so; empty when it is."""
        return self.pattern.unfit_for(graph.opsets.get("", 0), self._provider) or ("", "")

    def out_of_reach(self, place: Place) -> Explanation:
        """The answer for a node that no search came to."""
        anchors = " or ".join(sorted(f"{domain}::{op}" if domain else op for domain, op in self.keys))
        reason = f"the search begins with {anchors}, and none came to this node"
        return Explanation(self.pattern.name(), "refused", place, reason, place, *_class_line(type(self.pattern)))

    # ---------------------------------------------------------------- words

    def place(self, node: Node) -> Place:
        """A node in words; one that is in no graph of the model has position -1."""
        kind = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        label = self._labels.get(node.graph, "") if node.graph is not None else ""
        return Place(self._positions.get(node, -1), kind, node.name, node.output, label)

    def _found(self, anchor: Node, match: MatchResult) -> Explanation:
        nodes = tuple(self.place(node) for node in match.nodes if node is not None)
        name = self.pattern.name()
        bindings = {key: _plain(value) for key, value in (match.bindings or {}).items()}
        return Explanation(
            name, "matches", self.place(anchor), matched=nodes, total=len(nodes), progress=math.inf, bindings=bindings
        )

    def _refused(self, anchor: Node, refusal: Refusal) -> Explanation:
        readers = [node for node in refusal.matched if refusal.values and refusal.values[0] in node.input]
        culprit = readers[-1] if refusal.node is None and readers else refusal.node
        return Explanation(
            self.pattern.name(),
            "refused",
            self.place(anchor),
            refusal.reason,
            None if culprit is None else self.place(culprit),
            refusal.file,
            refusal.line,
            self._values(anchor, culprit, refusal.values),
            tuple(map(self.place, refusal.matched)),
            refusal.total,
            refusal.progress,
        )

    def _silent(self, anchor: Node) -> Explanation:
        """The pattern returned ``None`` without telling why."""
        where = _class_line(
            type(self.pattern), "match_pattern" if isinstance(self.pattern, EasyPatternOptimization) else "match"
        )
        return Explanation(self.pattern.name(), "refused", self.place(anchor), "", None, *where, self._values(anchor, None))

    def _failed(self, anchor: Node, error: Exception) -> Explanation:
        frames = traceback.extract_tb(error.__traceback__)
        home = _class_line(type(self.pattern))[0]
        frame = next((f for f in reversed(frames) if f.filename == home), frames[-1])
        reason = f"the pattern raised {type(error).__name__}: {error}"
        place = self.place(anchor)
        where = frame.filename, frame.lineno or 0
        return Explanation(self.pattern.name(), "failed", place, reason, place, *where, self._values(anchor, None))

    def _values(self, anchor: Node, culprit: Node | None, names: Iterable[str] = ()) -> tuple[ValueFacts, ...]:
        node = culprit if culprit is not None and culprit.graph is not None else anchor
        assert node.graph is not None
        told = dict.fromkeys(filter(None, names)) or dict.fromkeys(filter(None, (*node.input, *node.output)))
        return tuple(describe(node.graph, name) for name in told)


def describe(graph: Graph, name: str) -> ValueFacts:
    """Type, shape and, for a small constant, value of a result."""
    info = graph.info_of(name)
    constant = is_constant(graph, name)
    return ValueFacts(name, _type(info), _shape(info), constant, _small(graph, name, info) if constant else None)


def _type(info: Info) -> str:
    inner = _type(info.element) if info.element is not None else type_name(info.dtype)
    return f"{info.container}({inner})" if info.container else inner


def _shape(info: Info) -> tuple[int | str, ...] | None:
    if info.shape is None:
        return None
    return tuple(dim if isinstance(dim, int) else "?" if dim.is_anonymous else str(dim) for dim in info.shape)


def _small(graph: Graph, name: str, info: Info) -> Any:
    shape = info.static_shape
    if shape is None or math.prod(shape) > _SHOWN:
        return None
    try:
        array = constant_array(graph, name)
    except ModelError:  # damaged or missing data is a reason of its own, and not ours to tell
        return None
    return None if array is None else _plain(array)


def _plain(value: Any) -> Any:
    """The same in words that JSON has. Floats get the fewest digits that tell them apart in their own type."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(list(value)) if value.ndim else _plain(value[()])
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = float(str(value)) if value.dtype.kind in "fV" else value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _class_line(cls: type[PatternOptimization], method: str = "") -> tuple[str, int]:
    """File and line of a class or of a method of it; empty when there is no source."""
    try:
        found = getattr(cls, method) if method else cls
        return inspect.getsourcefile(found) or "", inspect.getsourcelines(found)[1]
    except (OSError, TypeError):
        return "", 0


def _attribute_line(cls: type[PatternOptimization], name: str) -> tuple[str, int]:
    """File and line where a class attribute is set."""
    owner = next((c for c in cls.__mro__ if name in vars(c) and c is not PatternOptimization), cls)
    try:
        lines, first = inspect.getsourcelines(owner)
    except (OSError, TypeError):
        return "", 0
    offset = next((i for i, line in enumerate(lines) if re.match(rf"\s+{name}\b", line)), 0)
    return inspect.getsourcefile(owner) or "", first + offset
