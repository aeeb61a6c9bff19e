"""Run one pattern on one small graph."""

from collections.abc import Mapping
from typing import Any

import onnx

from tests.support import parse
from xoptim.api.optimizing import optimize
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.match.pattern import MatchResult, PatternOptimization
from xoptim.match.refusal import Refusal, listening
from xoptim.match.view import GraphView


def find(
    pattern: PatternOptimization,
    text: str | Graph,
    opset: int = 18,
    domains: Mapping[str, int] | None = None,
) -> Any:
    """The bindings of the first match, ``None`` when there is none.

    The body of a graph in text form is enough.
    """
    result = first_match(pattern, text, opset, domains)
    return None if result is None else result.bindings


def first_match(
    pattern: PatternOptimization,
    text: str | Graph,
    opset: int = 18,
    domains: Mapping[str, int] | None = None,
) -> MatchResult | None:
    """The first match in the order of the nodes."""
    graph = (
        text
        if isinstance(text, Graph)
        else load_model(parse(_whole(text), opset, domains=domains)).graph
    )
    view = GraphView(graph)
    keys = pattern.anchor_keys()
    nodes = [node for node in graph.nodes if not keys or (node.domain, node.op_type) in keys]
    return next(
        (m for m in (pattern.match(view, node, []) for node in nodes) if m is not None), None
    )


def refusals(pattern: PatternOptimization, text: str, opset: int = 18) -> list[Refusal]:
    """Why the pattern does not match."""
    heard: list[Refusal] = []
    with listening(heard.append):
        assert find(pattern, text, opset) is None
    return heard


def rewrite(
    pattern: PatternOptimization,
    text: str,
    opset: int = 18,
    domains: Mapping[str, int] | None = None,
    **options: Any,
) -> onnx.ModelProto:
    """The model after this pattern alone."""
    quiet = {
        "constant_folding": False,
        "merge": False,
        "strict": True,
        "tag_nodes": False,
        **options,
    }
    return optimize(parse(_whole(text), opset, domains=domains), patterns=[pattern], **quiet)


def _whole(text: str) -> str:
    return (
        text if text.startswith("agraph") else f"agraph (float[N,3] x, float[N,3] z) => (y) {text}"
    )
