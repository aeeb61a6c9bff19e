"""Patterns, and how they are matched.

A pattern file imports only this package, `xoptim.operators` and `xoptim.facts`.
"""

from xoptim.graph.graph import Graph as Graph
from xoptim.graph.node import Node as Node
from xoptim.match.create import AT_RUN_TIME as AT_RUN_TIME
from xoptim.match.easy import EasyPatternOptimization as EasyPatternOptimization, Match as Match
from xoptim.match.pattern import (
    CONSTANT_OPERAND as CONSTANT_OPERAND,
    MatchResult as MatchResult,
    PatternOptimization as PatternOptimization,
)
from xoptim.match.refusal import Refusal as Refusal
from xoptim.match.rewrite import Example as Example
from xoptim.match.trace import (
    ANY as ANY,
    Constant as Constant,
    Optional as Optional,
    PatternBuilder as PatternBuilder,
    Scalar as Scalar,
    Symbol as Symbol,
    Variadic as Variadic,
)
from xoptim.match.view import (
    GraphView as GraphView,
    PatternRewriter as PatternRewriter,
    runs as runs,
)

GraphBuilderPatternOptimization = GraphView
"""Another name of `GraphView`, for patterns that use this name."""
