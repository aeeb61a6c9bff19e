"""The names of the public door: `xoptim` loads them when one is asked for.

`xoptim.__all__` lists the usual ones; the others have a room of their own too (`xoptim.match`, `xoptim.dialects`, ...).
"""

from xoptim.api.diagnosing import apply_at, explain, find_matches
from xoptim.api.differing import diff, diff_values
from xoptim.api.optimizing import optimize, optimize_file, outline, verify
from xoptim.api.preparing import extract, infer, prepare
from xoptim.api.rules import SubgraphRewriter, parse_rules, read_rules, register_filter, register_rewrite, rewrite_rule
from xoptim.api.whole_model import GlobalRewriter, global_rewriter
from xoptim.batching.running import batch
from xoptim.blocks.finding import Repetition, repetitions
from xoptim.catalogue.database import database, register
from xoptim.catalogue.discovery import installed_patterns
from xoptim.catalogue.query import Query
from xoptim.catalogue.selection import resolve, select
from xoptim.diagnose.dump import Replayed, replay
from xoptim.diagnose.explanation import Explanation, NoMatchError, Place, ValueFacts
from xoptim.diagnose.report import Culprit, OptimizationReport
from xoptim.dialects.chain import ChainPattern
from xoptim.dialects.chain_rules import ChainRegistry
from xoptim.dialects.local import local_rewriter
from xoptim.dialects.shortcuts import OpRemove, OpSub, PatternSub
from xoptim.engine.events import Event
from xoptim.engine.navigate import ReverseNavigator, TopologicalNavigator
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.dtypes import Exactness
from xoptim.facts.errors import (
    BudgetError,
    ModelError,
    PatternError,
    RewriteError,
    TextRuleError,
    UnknownPatternError,
    XoptimError,
)
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.save import save_proto
from xoptim.match.easy import EasyPatternOptimization, Match
from xoptim.match.pattern import PatternOptimization
from xoptim.match.refusal import Refusal
from xoptim.match.result import MatchResult
from xoptim.match.rewrite import Example, ModelPass, Rewrite
from xoptim.match.trace import ANY, Constant, Optional, Scalar, Variadic
from xoptim.match.view import GraphBuilderPatternOptimization, PatternRewriter
from xoptim.optimizing.builder import GraphBuilder
from xoptim.optimizing.proof import Suspect
from xoptim.passes.growth import Unfolded
from xoptim.precision.options import PrecisionOptions
from xoptim.preparation.preparation import Preparation
from xoptim.reporting.reports import HtmlReport, report
from xoptim.tuning.settings import session
from xoptim.tuning.tuning import tune
from xoptim.validate.errors import ChoiceError, DifferentModelError, NotValidatedError, ValidationError
from xoptim.validate.options import ValidationOptions
from xoptim.validate.report import ValidationReport

save = save_proto

__all__ = [
    "ANY",
    "BudgetError",
    "ChainPattern",
    "ChainRegistry",
    "ChoiceError",
    "Constant",
    "Culprit",
    "DifferentModelError",
    "EasyPatternOptimization",
    "Event",
    "Exactness",
    "Example",
    "Explanation",
    "GlobalRewriter",
    "Graph",
    "GraphBuilder",
    "GraphBuilderPatternOptimization",
    "HtmlReport",
    "Match",
    "MatchResult",
    "ModelError",
    "ModelPass",
    "NoMatchError",
    "Node",
    "NotValidatedError",
    "OpRemove",
    "OpSub",
    "OptimizationOptions",
    "OptimizationReport",
    "Optional",
    "PatternError",
    "PatternOptimization",
    "PatternRewriter",
    "PrecisionOptions",
    "PatternSub",
    "Place",
    "Preparation",
    "Query",
    "Refusal",
    "Repetition",
    "Replayed",
    "ReverseNavigator",
    "Rewrite",
    "RewriteError",
    "Scalar",
    "SubgraphRewriter",
    "Suspect",
    "TextRuleError",
    "TopologicalNavigator",
    "Unfolded",
    "UnknownPatternError",
    "ValidationError",
    "ValidationOptions",
    "ValidationReport",
    "ValueFacts",
    "Variadic",
    "XoptimError",
    "apply_at",
    "batch",
    "database",
    "diff",
    "diff_values",
    "explain",
    "extract",
    "find_matches",
    "global_rewriter",
    "infer",
    "installed_patterns",
    "local_rewriter",
    "optimize",
    "optimize_file",
    "outline",
    "parse_rules",
    "prepare",
    "read_rules",
    "register",
    "register_filter",
    "register_rewrite",
    "repetitions",
    "replay",
    "report",
    "resolve",
    "rewrite_rule",
    "save",
    "save_proto",
    "select",
    "session",
    "tune",
    "verify",
]
