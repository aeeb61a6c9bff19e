"""Explains why a pattern does not match: at every node that can be its anchor, the first condition
that failed, and advice about it.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from xoptim.catalogue.selection import Item, select
from xoptim.diagnose.explanation import (
    Explanation,
    NodePlaces,
    NoMatchError,
    Place,
    Status,
    ValueFacts,
    describe,
    locate,
    plain,
)
from xoptim.engine.applier import Applier
from xoptim.engine.run import Optimizer
from xoptim.facts.advice import Advice
from xoptim.facts.errors import UnknownPatternError, XoptimError
from xoptim.facts.operators import operator_label
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.walk import readers
from xoptim.match.easy import EasyPatternOptimization
from xoptim.match.lines import attribute_line, class_line, error_line
from xoptim.match.pattern import MatchResult, PatternOptimization
from xoptim.match.refusal import READ_ELSEWHERE, Refusal, listening
from xoptim.match.rewrite import ModelPass, Rewrite
from xoptim.match.view import GraphView

_MAX_READERS = 3
"""Maximum number of readers that advice names."""


def advice_about(
    refusal: Refusal, graph: Graph, places: NodePlaces, functions: Collection[tuple[str, str]]
) -> str:
    """The advice about a condition that failed in the graph of an anchor; empty when there is none.

    ``functions`` are the domains and names of the local functions of the model.
    """
    node = refusal.node
    advice = (
        list(_read_elsewhere(refusal, graph, places)) if refusal.reason == READ_ELSEWHERE else []
    )
    advice += _overridable(refusal.values, graph)
    if node is not None and (node.domain, node.op_type) in functions:
        advice.append(
            f"{node.domain}::{node.op_type} is a local function; `{Advice('inline')}` inlines its "
            "calls"
        )
    return "; ".join(advice)


def advice_about_exclusion(pattern: Rewrite, attribute: str, opset: int) -> str:
    """The advice about a pattern that a class attribute, such as ``min_opset``, excludes."""
    if attribute == "min_opset" and opset:
        return f"`{Advice('opset', str(pattern.min_opset))}` converts the model"
    if attribute != "providers":
        return ""
    return f"`{Advice('provider', pattern.providers[0])}` optimizes for it"


def _read_elsewhere(refusal: Refusal, graph: Graph, places: NodePlaces) -> Iterator[str]:
    """The readers of the refused values that do not belong to the match."""
    for name in filter(None, refusal.values):
        if name in graph.outputs:
            is_main = not places.graphs.get(graph)
            yield f"{name!r} is an output of {'the model' if is_main else 'its graph'}"
            if is_main and len(graph.outputs) > 1:
                yield f"`{Advice('drop-output', name)}` removes it"
        nodes = dict.fromkeys(node for node in readers(graph, name) if node not in refusal.matched)
        if nodes:
            shown = [str(places.of(node)) for node in list(nodes)[:_MAX_READERS]]
            more = f" and {len(nodes) - _MAX_READERS} more" if len(nodes) > _MAX_READERS else ""
            yield f"{name!r} is read by {', '.join(shown)}{more}"


def _overridable(names: Iterable[str], graph: Graph) -> Iterator[str]:
    for name in names:
        scope = graph.scope(name)
        if scope is not None and name in scope.overridable:
            yield (
                f"{name!r} is an initializer and a graph input, so a caller may override it; "
                "remove it from the graph inputs to make it constant"
            )


class Explainer:
    """Tries one pattern at the nodes of one model, which is not changed, for one execution
    provider.

    ``keys`` are the operators of its anchors, empty for every operator.
    """

    def __init__(self, model: Model, pattern: PatternOptimization, provider: str) -> None:
        self.pattern = pattern
        self.keys = pattern.anchor_keys()
        self._provider = provider
        self._places = NodePlaces(model)
        self.place = self._places.of
        self._functions = {(f.proto.domain, f.proto.name) for f in model.functions}
        self._views = {graph: GraphView(graph, provider) for graph in self._places.graphs}

    def is_anchor(self, node: Node) -> bool:
        """Whether a node can be the anchor."""
        return not self.keys or (node.domain, node.op_type) in self.keys

    def candidates(self) -> list[Node]:
        """All nodes that can be the anchor, in order."""
        return [node for node in self._places.positions if self.is_anchor(node)]

    def anchors_for(self, nodes: Sequence[Node]) -> Iterator[Node]:
        """The ``nodes`` that can be the anchor, then the anchors of matches that contain one."""
        yield from filter(self.is_anchor, nodes)
        places = {self.place(node) for node in nodes}
        for node in self.candidates():
            match = self.match(node)
            if match is not None and not places.isdisjoint(match.matched):
                yield node

    def try_at(self, node: Node) -> MatchResult | None:
        """The match at a node, ``None`` when there is none."""
        assert node.graph is not None
        return self.pattern.match_at(self._views[node.graph], node, [])

    def match(self, node: Node) -> Explanation | None:
        """The match at a node as an explanation, ``None`` when there is none.

        Raises `XoptimError` when the pattern raises.
        """
        try:
            match = self.try_at(node)
        except Exception as error:
            raise XoptimError(self._of_error(node, error).headline) from error
        return None if match is None else self._of_match(node, match)

    def explain(self, node: Node) -> Explanation:
        """The result of matching the pattern at a node."""
        assert node.graph is not None
        refusals: list[Refusal] = []
        try:
            with listening(refusals.append):
                match = self.try_at(node)
        except Exception as error:
            return self._of_error(node, error)
        refusals.sort(key=lambda refusal: -refusal.progress)
        misses = [self._of_refusal(node, refusal) for refusal in refusals]
        results = (
            [self._of_match(node, match)]
            if match is not None
            else misses or [self._without_reason(node)]
        )
        reason, attribute = self.exclusion(node.graph)
        if reason:
            file, line = attribute_line(type(self.pattern), attribute)
            further_results = tuple(results) if match is None else ()
            advice = advice_about_exclusion(self.pattern, attribute, node.graph.opsets.get("", 0))
            if match is None and results[0].reason:
                advice = "; ".join(filter(None, (advice, f"also: {results[0].reason}")))
            best = replace(
                results[0],
                status="refused",
                reason=reason,
                culprit=self.place(node),
                file=file,
                line=line,
            )
            return replace(best, values=(), bindings=None, others=further_results, advice=advice)
        return replace(results[0], others=tuple(results[1:]))

    def exclusion(self, graph: Graph) -> tuple[str, str]:
        """The reason why the pattern is not used in a graph, and the attribute that excludes it.

        Empty when it is used.
        """
        return self.pattern.unfit_for(graph.opsets.get("", 0), self._provider) or ("", "")

    def out_of_reach(self, place: Place) -> Explanation:
        """The explanation for a node that no search reached."""
        anchors = " or ".join(sorted(operator_label(op, domain) for domain, op in self.keys))
        reason = f"matching starts at {anchors}, and no attempt reached this node"
        return Explanation(
            self.pattern.name(), "refused", place, reason, place, *class_line(type(self.pattern))
        )

    # ---------------------------------------------------------------- explanations

    def _of_match(self, anchor: Node, match: MatchResult) -> Explanation:
        nodes = tuple(self.place(node) for node in match.nodes if node is not None)
        name = self.pattern.name()
        bindings = {key: plain(value) for key, value in (match.bindings or {}).items()}
        return Explanation(
            name,
            "matches",
            self.place(anchor),
            matched=nodes,
            total=len(nodes),
            progress=math.inf,
            bindings=bindings,
        )

    def _of_refusal(self, anchor: Node, refusal: Refusal) -> Explanation:
        assert anchor.graph is not None
        value_readers = [
            node for node in refusal.matched if refusal.values and refusal.values[0] in node.input
        ]
        culprit = value_readers[-1] if refusal.node is None and value_readers else refusal.node
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
            advice=advice_about(refusal, anchor.graph, self._places, self._functions),
        )

    def _without_reason(self, anchor: Node) -> Explanation:
        method = "match_pattern" if isinstance(self.pattern, EasyPatternOptimization) else "match"
        where = class_line(type(self.pattern), method)
        return Explanation(
            self.pattern.name(),
            "refused",
            self.place(anchor),
            "",
            None,
            *where,
            self._values(anchor, None),
        )

    def _of_error(self, anchor: Node, error: Exception) -> Explanation:
        reason = f"the pattern raised {type(error).__name__}: {error}"
        place = self.place(anchor)
        where = error_line(error, type(self.pattern))
        return Explanation(
            self.pattern.name(), "failed", place, reason, place, *where, self._values(anchor, None)
        )

    def _values(
        self, anchor: Node, culprit: Node | None, names: Iterable[str] = ()
    ) -> tuple[ValueFacts, ...]:
        node = culprit if culprit is not None and culprit.graph is not None else anchor
        assert node.graph is not None
        results = dict.fromkeys(filter(None, names)) or dict.fromkeys(
            filter(None, (*node.input, *node.output))
        )
        return tuple(describe(node.graph, name) for name in results)


_ORDER: tuple[Status, ...] = ("failed", "refused", "matches")
_, _REFUSED, _MATCHES = _ORDER
_MAX_REFUSALS = 20
"""Number of refusals that are returned for a pattern that is tried at every node."""


def explain_model(
    model: Model,
    pattern: Item,
    at: str | None = None,
    *,
    provider: str = "cpu",
    limit: int | None = None,
) -> list[Explanation]:
    """The result of matching a pattern at each node that can be its anchor, in all graphs of a
    model.

    Arguments, order and errors as for `xoptim.explain`. For a node that cannot be an anchor, the
    attempts that reached it are returned.
    """
    findings = _findings(model, pattern)
    if findings is not None:
        results = (
            None if at is None else {name for node in locate(model, at) for name in node.output}
        )
        return _limited(
            [
                finding
                for finding in findings
                if results is None or any(results & {*place.outputs} for place in finding.matched)
            ],
            limit,
        )
    explainer = Explainer(model, one_pattern(pattern), provider)
    nodes = None if at is None else locate(model, at)
    explanations = (
        []
        if nodes is None
        else [explainer.explain(node) for node in nodes if explainer.is_anchor(node)]
    )
    if not explanations:
        explanations = [explainer.explain(node) for node in explainer.candidates()]
    if nodes is not None and not any(map(explainer.is_anchor, nodes)):
        places = [explainer.place(node) for node in nodes]
        explanations = [
            e for e in explanations if any(p in e.matched or p == e.culprit for p in places)
        ]
        explanations = explanations or [explainer.out_of_reach(place) for place in places]
    explanations.sort(key=lambda e: (_ORDER.index(e.status), -e.progress))
    count = _MAX_REFUSALS if limit is None and not explainer.keys and at is None else limit
    return _limited(explanations, count)


def _limited(explanations: Sequence[Explanation], count: int | None) -> list[Explanation]:
    """The first ``count`` refusals, and all matches; refusals come first in ``explanations``."""
    refusals = [e for e in explanations if not e.matches]
    return [*refusals[:count], *explanations[len(refusals) :]]


def _findings(model: Model, pattern: Item) -> list[Explanation] | None:
    """The findings of the selected passes: refusals first, by descending number of nodes.

    ``None`` if a pattern is selected, or a pass that does not report findings.
    """
    places, explanations = NodePlaces(model), []
    for rewrite in select(pattern):
        findings = rewrite.findings(model) if isinstance(rewrite, ModelPass) else None
        if findings is None:
            return None
        for finding in findings:
            nodes = tuple(map(places.of, finding.nodes))
            status = _REFUSED if finding.reason else _MATCHES
            explanations.append(
                Explanation(
                    rewrite.name(),
                    status,
                    nodes[0],
                    finding.reason,
                    matched=nodes,
                    total=len(nodes),
                    gain=finding.gain,
                )
            )
    return sorted(explanations, key=lambda e: (1, 0) if e.matches else (0, -e.total))


def find_in_model(model: Model, pattern: Item, *, provider: str = "cpu") -> list[Explanation]:
    """The matches of a pattern, in the order of the graphs.

    They may overlap. Arguments as for `explain_model`.
    """
    explainer = Explainer(model, one_pattern(pattern), provider)
    exclusions = {graph: explainer.exclusion(graph) for graph in model.graphs()}
    nodes = (
        node
        for node in explainer.candidates()
        if node.graph is not None and not exclusions[node.graph][0]
    )
    return [match for node in nodes if (match := explainer.match(node)) is not None]


def apply_in_model(optimizer: Optimizer, pattern: Item, at: str) -> None:
    """Apply a pattern once: at a node, or at its first match that contains the node.

    ``pattern`` and ``at`` as for `explain_model`. The optimizer of the model counts the rewrite,
    and its options give the execution provider.
    Raises `NoMatchError` when the pattern does not match there, `ModelError` for an unknown node,
    and `XoptimError` when the pattern fails in a strict run.
    """
    model, instance = optimizer.model, one_pattern(pattern)
    explainer = Explainer(model, instance, optimizer.options.provider)
    nodes = locate(model, at)
    model.listeners.append(optimizer.state.worklist)
    try:
        for node in explainer.anchors_for(nodes):
            graph = node.graph
            assert graph is not None
            if not explainer.exclusion(graph)[0] and Applier(graph, optimizer.state).apply_at(
                instance, node
            ):
                return
    finally:
        model.listeners.remove(optimizer.state.worklist)
    raise NoMatchError(explain_model(model, instance, at, provider=optimizer.options.provider))


def one_pattern(pattern: Item) -> PatternOptimization:
    """The pattern that a name, a class or an instance selects.

    Raises `UnknownPatternError` when it selects none or several, or a pass over the model.
    """
    patterns = select(pattern)
    if len(patterns) != 1:
        raise UnknownPatternError(
            f"{pattern!r} selects {len(patterns)} patterns; give the name of one"
        )
    if not isinstance(patterns[0], PatternOptimization):
        raise UnknownPatternError(
            f"{patterns[0].name()} rewrites the whole model and cannot be tried at single nodes; "
            "`xopt MODEL` lists it where it is applied"
        )
    return patterns[0]
