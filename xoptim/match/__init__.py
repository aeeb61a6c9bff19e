"""Patterns, and how they are matched. A pattern file imports only this package and `xoptim.facts`."""

from xoptim.graph.graph import Graph as Graph
from xoptim.graph.node import Node as Node
from xoptim.match.create import AT_RUN_TIME as AT_RUN_TIME
from xoptim.match.easy import EasyPatternOptimization as EasyPatternOptimization
from xoptim.match.easy import Match as Match
from xoptim.match.pattern import MatchResult as MatchResult
from xoptim.match.pattern import PatternOptimization as PatternOptimization
from xoptim.match.refusal import Refusal as Refusal
from xoptim.match.rewrite import Example as Example
from xoptim.match.trace import ANY as ANY
from xoptim.match.trace import Constant as Constant
from xoptim.match.trace import Optional as Optional
from xoptim.match.trace import PatternBuilder as PatternBuilder
from xoptim.match.trace import Scalar as Scalar
from xoptim.match.trace import Symbol as Symbol
from xoptim.match.trace import Variadic as Variadic
from xoptim.match.view import GraphBuilderPatternOptimization as GraphBuilderPatternOptimization
from xoptim.match.view import PatternRewriter as PatternRewriter
from xoptim.match.view import runs as runs

GraphView = GraphBuilderPatternOptimization
"""The same under a name that leaves room in the signatures of patterns."""
