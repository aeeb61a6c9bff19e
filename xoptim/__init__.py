"""Optimizes ONNX graphs by patterns and verifies with onnxruntime that the result computes the same
numbers.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.api.diagnosing import (
        apply_at as apply_at,
        diff as diff,
        diff_values as diff_values,
        explain as explain,
        find_matches as find_matches,
    )
    from xoptim.api.optimizing import (
        optimize as optimize,
        optimize_file as optimize_file,
        outline as outline,
        verify as verify,
    )
    from xoptim.api.placing import place as place
    from xoptim.api.preparing import extract as extract, infer as infer, prepare as prepare
    from xoptim.api.rules import (
        SubgraphRewriter as SubgraphRewriter,
        parse_rules as parse_rules,
        read_rules as read_rules,
        register_filter as register_filter,
        register_rewrite as register_rewrite,
        rewrite_rule as rewrite_rule,
    )
    from xoptim.api.schemas import json_schema as json_schema
    from xoptim.api.whole_model import (
        GlobalRewriter as GlobalRewriter,
        global_rewriter as global_rewriter,
    )
    from xoptim.batching.running import batch as batch
    from xoptim.catalogue.discovery import installed_patterns as installed_patterns
    from xoptim.catalogue.query import Query as Query
    from xoptim.catalogue.registry import register as register, use_operators as use_operators
    from xoptim.catalogue.selection import resolve as resolve, select as select
    from xoptim.diagnose.each import Replayed as Replayed, replay as replay
    from xoptim.diagnose.explanation import (
        Explanation as Explanation,
        NoMatchError as NoMatchError,
        Place as Place,
        ValueFacts as ValueFacts,
    )
    from xoptim.diagnose.report import Culprit as Culprit, OptimizationReport as OptimizationReport
    from xoptim.dialects.chain import ChainPattern as ChainPattern, ChainRegistry as ChainRegistry
    from xoptim.dialects.database import database as database
    from xoptim.dialects.local import local_rewriter as local_rewriter
    from xoptim.dialects.shortcuts import (
        OpRemove as OpRemove,
        OpSub as OpSub,
        PatternSub as PatternSub,
    )
    from xoptim.engine.events import Event as Event
    from xoptim.engine.options import OptimizationOptions as OptimizationOptions
    from xoptim.engine.run import (
        ReverseNavigator as ReverseNavigator,
        TopologicalNavigator as TopologicalNavigator,
    )
    from xoptim.facts.dtypes import Exactness as Exactness
    from xoptim.facts.errors import (
        BudgetError as BudgetError,
        ModelError as ModelError,
        PatternError as PatternError,
        RewriteError as RewriteError,
        TextRuleError as TextRuleError,
        UnknownPatternError as UnknownPatternError,
        XoptimError as XoptimError,
    )
    from xoptim.graph.graph import Graph as Graph
    from xoptim.graph.node import Node as Node
    from xoptim.graph.save import save_proto as save
    from xoptim.match.easy import EasyPatternOptimization as EasyPatternOptimization, Match as Match
    from xoptim.match.pattern import (
        MatchResult as MatchResult,
        PatternOptimization as PatternOptimization,
    )
    from xoptim.match.refusal import Refusal as Refusal
    from xoptim.match.rewrite import Example as Example, ModelPass as ModelPass, Rewrite as Rewrite
    from xoptim.match.trace import (
        ANY as ANY,
        Constant as Constant,
        Optional as Optional,
        Scalar as Scalar,
        Variadic as Variadic,
    )
    from xoptim.match.view import (
        GraphView as GraphBuilderPatternOptimization,
        PatternRewriter as PatternRewriter,
    )
    from xoptim.optimizing.builder import GraphBuilder as GraphBuilder
    from xoptim.optimizing.suspect import Suspect as Suspect
    from xoptim.passes.blocks.finding import Repetition as Repetition, repetitions as repetitions
    from xoptim.passes.growth import Unfolded as Unfolded
    from xoptim.precision.options import PrecisionOptions as PrecisionOptions
    from xoptim.preparation.preparation import Preparation as Preparation
    from xoptim.reporting.reports import HtmlReport as HtmlReport, report as report
    from xoptim.targets import PlacedNode as PlacedNode, Placement as Placement
    from xoptim.tuning.settings import session as session
    from xoptim.tuning.tuning import tune as tune
    from xoptim.verification.errors import ChoiceError as ChoiceError
    from xoptim.verification.judging.report import (
        DifferentModelError as DifferentModelError,
        NotVerifiedError as NotVerifiedError,
        VerificationError as VerificationError,
        VerificationReport as VerificationReport,
    )
    from xoptim.verification.options import VerificationOptions as VerificationOptions

    __version__: str
else:
    _get = on_demand(__name__)

    def __getattr__(name: str) -> object:
        """A public name, or the version."""
        if name == "__version__":
            return import_module("xoptim.system.versions").package_version("xoptim")
        return _get(name)


# Otherwise onnxruntime (1.29 and later) sends names and hashes of the models that it loads to
# Microsoft. onnxruntime reads the variable once, when it starts.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "DifferentModelError",
    "EasyPatternOptimization",
    "Example",
    "GraphBuilder",
    "GraphBuilderPatternOptimization",
    "Match",
    "MatchResult",
    "ModelError",
    "ModelPass",
    "Node",
    "NotVerifiedError",
    "OptimizationOptions",
    "OptimizationReport",
    "PatternError",
    "PatternOptimization",
    "PatternRewriter",
    "PrecisionOptions",
    "Rewrite",
    "UnknownPatternError",
    "VerificationError",
    "VerificationOptions",
    "VerificationReport",
    "XoptimError",
    "apply_at",
    "batch",
    "database",
    "diff",
    "diff_values",
    "explain",
    "extract",
    "find_matches",
    "infer",
    "installed_patterns",
    "optimize",
    "optimize_file",
    "parse_rules",
    "place",
    "prepare",
    "read_rules",
    "register",
    "report",
    "rewrite_rule",
    "save",
    "tune",
    "verify",
]
