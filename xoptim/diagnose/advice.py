"""Advice about refusals: the readers of a result, the reason why a value is not a constant, an option that helps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from xoptim.diagnose.words import Places
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import readers
from xoptim.match.refusal import READ_ELSEWHERE, Refusal
from xoptim.match.rewrite import Rewrite

_MOST = 3
"""Readers that are named."""


def advice_about(refusal: Refusal, graph: Graph, places: Places, functions: Collection[tuple[str, str]]) -> str:
    """The advice about a condition that failed in the graph of an anchor; empty when there is none.

    ``functions`` are the domains and names of the local functions of the model.
    """
    node = refusal.node
    return "; ".join(
        (
            *(_read_elsewhere(refusal, graph, places) if refusal.reason == READ_ELSEWHERE else ()),
            *_overridable(refusal.values, graph),
            *(_function(node) if node is not None and (node.domain, node.op_type) in functions else ()),
        )
    )


def advice_about_exclusion(pattern: Rewrite, attribute: str, opset: int) -> str:
    """The advice about a pattern that a model or a provider excludes, by the class attribute that does."""
    if attribute == "min_opset" and opset:
        return f"`--opset {pattern.min_opset}` raises the model"
    return f"`--provider {pattern.providers[0]}` optimizes for it" if attribute == "providers" else ""


def _read_elsewhere(refusal: Refusal, graph: Graph, places: Places) -> Iterator[str]:
    """The readers of results of the node that do not belong to the match; the pattern alone knows which results it replaces."""
    for name in filter(None, refusal.values):
        if name in graph.outputs:
            is_main = not places.graphs.get(graph)
            yield f"{name!r} is an output of {'the model' if is_main else 'its graph'}"
            if is_main and len(graph.outputs) > 1:
                yield f"`--drop-output {name}` removes it"
        others = dict.fromkeys(node for node in readers(graph, name) if node not in refusal.matched)
        if others:
            shown = [str(places.of(node)) for node in list(others)[:_MOST]]
            more = f" and {len(others) - _MOST} more" if len(others) > _MOST else ""
            yield f"{name!r} is read by {', '.join(shown)}{more}"


def _overridable(names: Iterable[str], graph: Graph) -> Iterator[str]:
    for name in names:
        scope = graph.scope(name)
        if scope is not None and name in scope.overridable:
            yield f"{name!r} is an input with a default, which a caller may override; as an initializer alone it is constant"


def _function(node: Node) -> Iterator[str]:
    yield f"{node.domain}::{node.op_type} is a local function; `--inline` replaces its calls by their bodies"
