"""Find matches without applying any: the matches that a round would choose."""

from collections.abc import Sequence

import onnx

from xoptim.catalogue.selection import Selection, select
from xoptim.engine.index import index_of
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.pattern import PatternOptimization
from xoptim.match.result import MatchResult, disjoint, strategy_named
from xoptim.match.view import GraphBuilderPatternOptimization


def match_patterns(
    model: onnx.ModelProto | Model | Graph, patterns: Selection = "default", strategy: str = "largest", provider: str = ""
) -> tuple[list[MatchResult], dict[Node, MatchResult]]:
    """The matches of all patterns in a model, each node in at most one of them. The model is left unchanged.

    Returns the matches, graph by graph in the order of the strategy, and each match by its root, the last of its nodes.

    Args:
        model: the model, subgraphs and local functions included, or one graph.
        patterns: the patterns to find, all at once; phases are ignored.
        strategy: which of several overlapping matches is kept, a name in `xoptim.match.result.STRATEGIES`. Among equals it
            is the one of the earlier pattern (phase, priority, ``before``, name), then the one with the earlier anchor.
        provider: execution provider of the patterns, empty for any.

    Raises:
        ValueError: when there is no such strategy.
        UnknownPatternError: when a pattern name is not known.
    """
    strategy_named(strategy)
    chosen = [each for each in select(patterns) if isinstance(each, PatternOptimization)]
    whole = load_model(model) if isinstance(model, onnx.ModelProto) else model
    graphs = [whole] if isinstance(whole, Graph) else list(whole.graphs())
    found = [match for graph in graphs for match in disjoint(all_matches(graph, chosen, provider), strategy)]
    return found, {max(filter(None, m.nodes), key=lambda node: node.label): m for m in found}


def all_matches(graph: Graph, patterns: Sequence[PatternOptimization], provider: str) -> list[MatchResult]:
    """All matches in a graph, in the order of patterns, then of nodes; they may overlap."""
    view = GraphBuilderPatternOptimization(graph, provider)
    index = index_of(tuple(p for p in patterns if not p.unfit_for(view.main_opset, provider)), ())
    found: list[MatchResult] = []
    for number, nodes in index.candidates(graph, index.anchors_in(graph)).items():
        for node in nodes:
            match = index.patterns[number].match_at(view, node, found)
            if match is not None:
                found.append(match)
    return found
