"""Lower a model to an older operator set, as a step of an optimization."""

from collections.abc import Iterable
from typing import Final

from xoptim.engine.applier import Applier
from xoptim.engine.index import PatternIndex, index_of
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.runner import run_passes
from xoptim.engine.state import State
from xoptim.facts.dtypes import Exactness
from xoptim.facts.errors import RewriteError
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model, watching
from xoptim.graph.node import Node
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import ModelPass, Step
from xoptim.passes.opsets.bodies import calls_of_body
from xoptim.passes.opsets.call import Refused
from xoptim.passes.opsets.lowering import NodeNotes, check_target, plan_lowering
from xoptim.passes.opsets.plan import carry_out, label, replace_by_calls

_MAX_DEPTH: Final = 8
"""Times that a replacement is replaced again; the functions of ONNX nest less deeply."""
_SAFE_GRADES: Final[tuple[Exactness, ...]] = ("exact", "rounding")
"""Exactness of the patterns that are applied even if they are not selected."""


def older_set(model: Model, target: object) -> int | None:
    """The operator set to lower a model to; ``None`` unless ``target`` is older than its own."""
    if not isinstance(target, int) or isinstance(target, bool):
        return None
    return target if target < model.opsets.get("", 0) else None


def _simpler_forms(options: OptimizationOptions) -> tuple[PatternOptimization, ...]:
    """The patterns that write standard operators with other standard operators."""
    rewrites = (entry.scheduled for entry in options.kept("lower"))
    patterns = (rewrite for rewrite in rewrites if isinstance(rewrite, PatternOptimization))
    return tuple(p for p in patterns if _is_standard(p) and p.exactness in _SAFE_GRADES)


def _is_standard(pattern: PatternOptimization) -> bool:
    return not pattern.produces and not pattern.unchecked


class LowerOperatorSet(Step):
    """Lowers a model to an older operator set.

    Operators that the set lacks are decomposed: by a pattern of the phase ``lower``, else into the
    function body that ONNX defines. Then adapters write the other nodes in their older form.
    """

    title = "lower_operator_set"

    def __init__(self, target: int, settle: ModelPass, rewriting: ModelPass) -> None:
        self.target = target
        self.settle = settle  # folds constants: only constant operands can become attributes
        self.rewriting = rewriting  # simplifies the new nodes

    def run_in(self, model: Model, state: State) -> int:
        """Lower the model; returns the number of changes.

        Raises `ModelError` when a node cannot be expressed. Do not use the model then.
        """
        check_target(model, self.target)
        index = index_of(_simpler_forms(state.options), ())
        total, notes = 0, dict[Node, NodeNotes]()
        for _ in range(_MAX_DEPTH):
            lowering = plan_lowering(model, self.target)
            count = _write_simpler(lowering.refused, state, index, notes)
            if not count:
                break
            total += count + run_passes([self.settle], model, state)
        lowering = plan_lowering(model, self.target)
        error = lowering.error(notes)
        if error is not None:
            raise error
        total += carry_out(model, lowering.plan)
        if total:
            run_passes([self.rewriting], model, state)
        return total


def _write_simpler(
    nodes: Iterable[Node], state: State, index: PatternIndex, notes: dict[Node, NodeNotes]
) -> int:
    """Decompose nodes where possible; returns the number of nodes replaced.

    Notes the origin of new nodes, and why the other nodes were not replaced.
    """
    count = 0
    for node in nodes:
        if node.graph is None:
            continue
        origin = notes.get(node, NodeNotes()).origin
        with watching(node.graph.model) as changes:
            reason = _write_one(node, node.graph, state, index)
        if reason:
            notes[node] = NodeNotes(origin, reason)
            continue
        note = NodeNotes(origin or label(node))
        notes.update(dict.fromkeys(changes.added_nodes, note))
        count += 1
    return count


def _write_one(node: Node, graph: Graph, state: State, index: PatternIndex) -> str:
    """Decompose a node within its own operator set; returns why that failed, else ``""``."""
    applier, opset = Applier(graph, state), graph.opsets.get("", 0)
    for number in index.candidates(graph, {node: 0}):
        pattern = index.patterns[number]
        if state.is_usable(pattern, opset) and applier.apply_at(pattern, node):
            return ""
    try:
        replace_by_calls(node, calls_of_body(node))
    except (Refused, RewriteError) as error:
        return str(error)
    return ""
