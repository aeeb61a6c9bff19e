"""Optimizes ONNX graphs by patterns and proves with onnxruntime that the result computes the same
numbers.
"""

# ruff: noqa: F405

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xoptim.door import *  # noqa: F403

    __version__: str

# Otherwise onnxruntime (1.29 and later) sends names and hashes of the models that it loads to
# Microsoft. It reads this once, when it starts.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


if not TYPE_CHECKING:  # a type checker knows the names, and would take any other

    def __getattr__(name: str) -> Any:
        """Load the names of the door when the first one is asked for; the version needs none."""
        if name == "__version__":
            return import_module("importlib.metadata").version("xoptim")
        door = None if name.startswith("_") else import_module("xoptim.door")
        if door is None or name not in vars(door):
            raise AttributeError(f"module 'xoptim' has no attribute {name!r}")
        globals().update(
            {each: value for each, value in vars(door).items() if not each.startswith("_")}
        )
        return globals()[name]


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
    "NotValidatedError",
    "OptimizationOptions",
    "OptimizationReport",
    "PatternError",
    "PatternOptimization",
    "PatternRewriter",
    "PrecisionOptions",
    "Rewrite",
    "UnknownPatternError",
    "ValidationError",
    "ValidationOptions",
    "ValidationReport",
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
