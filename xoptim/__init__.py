"""Optimizes ONNX graphs by patterns and proves with onnxruntime that the result computes the same numbers."""

from xoptim.builder import GraphBuilder, OptimizationReport, optimize
from xoptim.catalogue.discovery import installed_patterns
from xoptim.catalogue.selection import resolve, select
from xoptim.facts.dtypes import Exactness
from xoptim.facts.errors import BudgetError, ModelError, RewriteError, UnknownPatternError, XoptimError
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.save import save_proto
from xoptim.match.easy import EasyPatternOptimization, Match
from xoptim.match.pattern import Example, PatternOptimization
from xoptim.match.refusal import Refusal
from xoptim.match.result import MatchResult
from xoptim.match.trace import ANY, Constant, Optional, Scalar
from xoptim.match.view import GraphBuilderPatternOptimization, PatternRewriter
from xoptim.optimize.events import Event
from xoptim.optimize.options import OptimizationOptions

__version__ = "0.1.0"

__all__ = [
    "ANY",
    "BudgetError",
    "Constant",
    "EasyPatternOptimization",
    "Event",
    "Exactness",
    "Example",
    "Graph",
    "GraphBuilder",
    "GraphBuilderPatternOptimization",
    "Match",
    "MatchResult",
    "ModelError",
    "Node",
    "OptimizationOptions",
    "OptimizationReport",
    "Optional",
    "PatternOptimization",
    "PatternRewriter",
    "Refusal",
    "RewriteError",
    "Scalar",
    "UnknownPatternError",
    "XoptimError",
    "installed_patterns",
    "optimize",
    "resolve",
    "save_proto",
    "select",
]
