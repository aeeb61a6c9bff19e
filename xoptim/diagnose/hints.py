"""Patterns that would apply in a newer operator set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from xoptim.engine.environment import DebugSettings
from xoptim.engine.index import defect_of, index_of
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import Optimizer
from xoptim.facts.errors import XoptimError
from xoptim.facts.words import counted
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.match.pattern import PatternOptimization
from xoptim.opsets.newest import newest_for


@dataclass(frozen=True, slots=True)
class OpsetHint:
    """Patterns that an optimized model is too old for, and that apply when it is raised.

    Attributes:
        present: operator set of the model.
        opset: oldest operator set in which all these patterns apply.
        patterns: number of applications by name.
        needs: operator set that each of them needs, by name.
    """

    present: int
    opset: int
    patterns: dict[str, int]
    needs: dict[str, int]

    def __str__(self) -> str:
        found = [f"{counted(count, 'time')} {name} (operator set {self.needs[name]})" for name, count in self.patterns.items()]
        return f"{', '.join(found)} would apply with --opset {self.opset}; the model has operator set {self.present}"

    def to_json(self) -> dict[str, Any]:
        """``opset`` and ``patterns``, as JSON values."""
        return {"opset": self.opset, "patterns": self.patterns}


def opset_hint(proto: onnx.ModelProto, options: OptimizationOptions, base_dir: Path | None = None) -> OpsetHint | None:
    """Count what a newer operator set would add to an optimized model: a raised copy of it is optimized further.

    The copy is made only if operators around a node are those of such a pattern. ``None`` when no pattern of the selection
    waits for an operator set that the provider supports, or none applies.
    """
    model = load_model(proto, base_dir, infer=False)
    present = model.opsets.get("", 0)
    waiting = [p for p in options.selected() if isinstance(p, PatternOptimization) and present < p.min_opset]
    if not present or not may_match(model, waiting):
        return None
    reachable = newest_for(model, options.provider)
    waiting = [pattern for pattern in waiting if pattern.min_opset <= reachable]
    if not may_match(model, waiting):
        return None
    target = max(pattern.min_opset for pattern in waiting)
    quiet = OptimizationOptions(provider=options.provider, opset=target, patterns=waiting, debug=DebugSettings())
    optimizer = Optimizer(load_model(proto, base_dir), replace(quiet, constant_folding=False, merge=False))
    try:
        optimizer.run()
    except XoptimError:  # a node cannot be raised, or patterns undo each other: there is nothing to recommend
        return None
    needs = {p.name(): p.min_opset for p in waiting if optimizer.state.counts[p.name()]}
    if not needs:
        return None
    return OpsetHint(present, max(needs.values()), {name: optimizer.state.counts[name] for name in needs}, needs)


def may_match(model: Model, patterns: list[PatternOptimization]) -> bool:
    """Whether the operators around some node are those of one of these patterns: a fast, necessary condition."""
    index = index_of(tuple(p for p in patterns if defect_of(p) is None), ())
    return any(index.candidates(graph, index.anchors_in(graph)) for graph in model.graphs())
