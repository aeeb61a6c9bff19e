"""Patterns that would apply to a model but are not used for its target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from xoptim.diagnose.hints import is_large, optimized
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.json_results import JsonResult
from xoptim.graph.propagate import quietly
from xoptim.targets import Target
from xoptim.targets.fitting import unfit_for


@dataclass(frozen=True, slots=True)
class UnfitPattern(JsonResult):
    """A selected pattern that would apply to a model but is not used for its target.

    Attributes:
        pattern: name of the pattern.
        count: number of its applications.
        reason: the reason why the pattern is not used for the target.
    """

    pattern: str
    count: int
    reason: str


def unfit_patterns(
    proto: onnx.ModelProto,
    options: OptimizationOptions,
    target: Target,
    base_dir: Path | None = None,
) -> list[UnfitPattern]:
    """The selected patterns that apply to a model without a target, but are not used for this one.

    The model is optimized once more, without the target: its result for the target may leave them
    nothing to match.

    Args:
        proto: the model before it is optimized.
        options: the options of the optimization, which drop only the patterns that the user drops.
        target: the target.
        base_dir: folder of external data.
    """
    without_target = replace(options, target="")
    reasons = {
        p.name(): reason for p in without_target.scheduled() if (reason := unfit_for(p, target))
    }
    if not reasons or is_large(proto):
        return []
    with quietly():
        optimizer = optimized(proto, without_target, base_dir)
    counts = [] if optimizer is None else sorted(optimizer.state.counts.items())
    return [
        UnfitPattern(name, count, reasons[name])
        for name, count in counts
        if count and name in reasons
    ]
