"""Optimizes ONNX graphs by patterns and proves with onnxruntime that the result computes the same numbers."""

# ruff: noqa: F405

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xoptim.door import *  # noqa: F403

__version__ = version("xoptim")


def __getattr__(name: str) -> Any:
    """Load the names of the door when the first one is asked for; the version needs none."""
    if name not in __all__:
        raise AttributeError(f"module 'xoptim' has no attribute {name!r}")
    door = import_module("xoptim.door")
    globals().update({each: getattr(door, each) for each in __all__})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
