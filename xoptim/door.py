"""The names of the public door: `xoptim` loads them when one is asked for.

`xoptim.__all__` lists the usual ones; the others have a room of their own too (`xoptim.match`,
`xoptim.dialects`, ...).
"""

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
from xoptim.api.whole_model import (
    GlobalRewriter as GlobalRewriter,
    global_rewriter as global_rewriter,
)
from xoptim.batching.running import batch as batch
from xoptim.catalogue.discovery import installed_patterns as installed_patterns
from xoptim.catalogue.query import Query as Query
from xoptim.catalogue.registry import register as register
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
from xoptim.dialects.shortcuts import OpRemove as OpRemove, OpSub as OpSub, PatternSub as PatternSub
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
from xoptim.graph.save import save_proto as _save
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
    GraphBuilderPatternOptimization as GraphBuilderPatternOptimization,
    PatternRewriter as PatternRewriter,
)
from xoptim.optimizing.builder import GraphBuilder as GraphBuilder
from xoptim.optimizing.proof import Suspect as Suspect
from xoptim.passes.blocks.finding import Repetition as Repetition, repetitions as repetitions
from xoptim.passes.growth import Unfolded as Unfolded
from xoptim.precision.options import PrecisionOptions as PrecisionOptions
from xoptim.preparation.preparation import Preparation as Preparation
from xoptim.reporting.reports import HtmlReport as HtmlReport, report as report
from xoptim.targets import PlacedNode as PlacedNode, Placement as Placement
from xoptim.tuning.settings import session as session
from xoptim.tuning.tuning import tune as tune
from xoptim.verification.errors import (
    ChoiceError as ChoiceError,
    DifferentModelError as DifferentModelError,
    NotValidatedError as NotValidatedError,
    ValidationError as ValidationError,
)
from xoptim.verification.options import ValidationOptions as ValidationOptions
from xoptim.verification.report import ValidationReport as ValidationReport

save = _save
