"""Patterns that would apply to a model but are not used for its target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from xoptim.diagnose.hints import is_large, optimized
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.propagate import quietly
from xoptim.targets import Target
from xoptim.targets.fitting import unfit_for

if TYPE_CHECKING:
    from xoptim.diagnose.json_types import UnfitPatternJson


@dataclass(frozen=True, slots=True)
class UnfitPattern:
    """A selected pattern that would apply to a model but is not used for its target."""

    pattern: str
    count: int  # of its applications
    reason: str

    def to_json(self) -> UnfitPatternJson:
        """All fields."""
        return {"pattern": self.pattern, "count": self.count, "reason": self.reason}


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
        options: the options of the optimization, which drop no pattern because of the target.
        target: the target.
        base_dir: folder of external data.
    """
    anywhere = replace(options, target="")
    reasons = {p.name(): reason for p in anywhere.selected() if (reason := unfit_for(p, target))}
    if not reasons or is_large(proto):
        return []
    with quietly():
        optimizer = optimized(proto, anywhere, base_dir)
    counts = [] if optimizer is None else sorted(optimizer.state.counts.items())
    return [
        UnfitPattern(name, count, reasons[name])
        for name, count in counts
        if count and name in reasons
    ]
