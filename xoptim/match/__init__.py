"""Patterns, and how they are matched. A pattern file imports only this package and `xoptim.facts`."""

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.easy import EasyPatternOptimization, Match
from xoptim.match.moved import AT_RUN_TIME
from xoptim.match.pattern import PatternOptimization
from xoptim.match.refusal import Refusal
from xoptim.match.result import MatchResult
from xoptim.match.rewrite import Example
from xoptim.match.trace import ANY, Constant, Optional, PatternBuilder, Scalar, Symbol, Variadic
from xoptim.match.view import GraphBuilderPatternOptimization, PatternRewriter, runs

GraphView = GraphBuilderPatternOptimization
"""The same under a name that leaves room in the signatures of patterns."""

__all__ = [
    "ANY",
    "AT_RUN_TIME",
    "Constant",
    "EasyPatternOptimization",
    "Example",
    "Graph",
    "GraphBuilderPatternOptimization",
    "GraphView",
    "Match",
    "MatchResult",
    "Node",
    "Optional",
    "PatternBuilder",
    "PatternOptimization",
    "PatternRewriter",
    "Refusal",
    "Scalar",
    "Symbol",
    "Variadic",
    "runs",
]
