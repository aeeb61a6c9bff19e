"""Try one pattern at the nodes of one model, and describe how much of it matches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from xoptim.diagnose.advice import advice_about, advice_about_exclusion
from xoptim.diagnose.explanation import Explanation
from xoptim.diagnose.words import Place, Places, ValueFacts, describe, plain
from xoptim.facts.errors import XoptimError
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.easy import EasyPatternOptimization
from xoptim.match.lines import attribute_line, class_line, error_line
from xoptim.match.pattern import PatternOptimization
from xoptim.match.refusal import Refusal, listening
from xoptim.match.result import MatchResult
from xoptim.match.view import GraphBuilderPatternOptimization


class Explainer:
    """Tries one pattern at the nodes of one model, which is not changed, for one execution provider.

    Attributes:
        pattern: the pattern.
        keys: domain and type of the operators of its anchors; empty for every operator.
        place: gives the place of a node.
    """

    def __init__(self, model: Model, pattern: PatternOptimization, provider: str) -> None:
        self.pattern = pattern
        self.keys = pattern.anchor_keys()
        self._provider = provider
        self._places = Places(model)
        self.place = self._places.of
        self._functions = {(f.proto.domain, f.proto.name) for f in model.functions}
        self._views = {graph: GraphBuilderPatternOptimization(graph, provider) for graph in self._places.graphs}

    def is_anchor(self, node: Node) -> bool:
        """Whether a node can be the anchor."""
        return not self.keys or (node.domain, node.op_type) in self.keys

    def candidates(self) -> list[Node]:
        """All nodes that can be the anchor, in order."""
        return [node for node in self._places.positions if self.is_anchor(node)]

    def anchors_for(self, wanted: Sequence[Node]) -> Iterator[Node]:
        """Those of these nodes that can be the anchor, then the anchors of matches that contain one of the nodes."""
        yield from filter(self.is_anchor, wanted)
        places = {self.place(node) for node in wanted}
        for node in self.candidates():
            match = self.match(node)
            if match is not None and not places.isdisjoint(match.matched):
                yield node

    def try_at(self, node: Node) -> MatchResult | None:
        """The match at a node, ``None`` when there is none."""
        assert node.graph is not None
        return self.pattern.match_at(self._views[node.graph], node, [])

    def match(self, node: Node) -> Explanation | None:
        """The match at a node as an explanation, ``None`` when there is none; raises `XoptimError` when the pattern raises."""
        try:
            found = self.try_at(node)
        except Exception as error:
            raise XoptimError(self._failed(node, error).headline) from error
        return None if found is None else self._found(node, found)

    def explain(self, node: Node) -> Explanation:
        """The result of matching the pattern at a node."""
        assert node.graph is not None
        refusals: list[Refusal] = []
        try:
            with listening(refusals.append):
                match = self.try_at(node)
        except Exception as error:
            return self._failed(node, error)
        refusals.sort(key=lambda refusal: -refusal.progress)
        refused = [self._refused(node, refusal) for refusal in refusals]
        tried = [self._found(node, match)] if match is not None else refused or [self._silent(node)]
        reason, attribute = self.exclusion(node.graph)
        if reason:
            file, line = attribute_line(type(self.pattern), attribute)
            others = tuple(tried) if match is None else ()
            advice = advice_about_exclusion(self.pattern, attribute, node.graph.opsets.get("", 0))
            if match is None and tried[0].reason:
                advice = "; ".join(filter(None, (advice, f"besides, {tried[0].reason}")))
            best = replace(tried[0], status="refused", reason=reason, culprit=self.place(node), file=file, line=line)
            return replace(best, values=(), bindings=None, others=others, advice=advice)
        return replace(tried[0], others=tuple(tried[1:]))

    def exclusion(self, graph: Graph) -> tuple[str, str]:
        """The reason why the pattern is not used in a graph, and the attribute that excludes it; empty when it is used."""
        return self.pattern.unfit_for(graph.opsets.get("", 0), self._provider) or ("", "")

    def out_of_reach(self, place: Place) -> Explanation:
        """The explanation for a node that no search reached."""
        anchors = " or ".join(sorted(f"{domain}::{op}" if domain else op for domain, op in self.keys))
        reason = f"the search begins at {anchors}, and no search reached this node"
        return Explanation(self.pattern.name(), "refused", place, reason, place, *class_line(type(self.pattern)))

    # ---------------------------------------------------------------- words

    def _found(self, anchor: Node, match: MatchResult) -> Explanation:
        nodes = tuple(self.place(node) for node in match.nodes if node is not None)
        name = self.pattern.name()
        bindings = {key: plain(value) for key, value in (match.bindings or {}).items()}
        return Explanation(
            name, "matches", self.place(anchor), matched=nodes, total=len(nodes), progress=math.inf, bindings=bindings
        )

    def _refused(self, anchor: Node, refusal: Refusal) -> Explanation:
        assert anchor.graph is not None
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
            advice=advice_about(refusal, anchor.graph, self._places, self._functions),
        )

    def _silent(self, anchor: Node) -> Explanation:
        """The explanation for a pattern that returned ``None`` without a reason."""
        where = class_line(
            type(self.pattern), "match_pattern" if isinstance(self.pattern, EasyPatternOptimization) else "match"
        )
        return Explanation(self.pattern.name(), "refused", self.place(anchor), "", None, *where, self._values(anchor, None))

    def _failed(self, anchor: Node, error: Exception) -> Explanation:
        reason = f"the pattern raised {type(error).__name__}: {error}"
        place = self.place(anchor)
        where = error_line(error, type(self.pattern))
        return Explanation(self.pattern.name(), "failed", place, reason, place, *where, self._values(anchor, None))

    def _values(self, anchor: Node, culprit: Node | None, names: Iterable[str] = ()) -> tuple[ValueFacts, ...]:
        node = culprit if culprit is not None and culprit.graph is not None else anchor
        assert node.graph is not None
        chosen = dict.fromkeys(filter(None, names)) or dict.fromkeys(filter(None, (*node.input, *node.output)))
        return tuple(describe(node.graph, name) for name in chosen)
