"""Lower a model to an older operator set: the last rewriting of an optimization."""

from collections.abc import Iterable
from typing import Final

from xoptim.engine.engine import Applier
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
from xoptim.passes.opsets.lowering import Told, check_target, plan_lowering
from xoptim.passes.opsets.plan import carry_out, label, replace_by_calls

_DEPTH: Final = 8
"""Times that what replaced an operator is replaced again; functions of ONNX nest less deep."""
_SAFE: Final[tuple[Exactness, ...]] = ("exact", "rounding")
"""The exactness of the patterns that are applied although the selection does not have them."""


def older_set(model: Model, target: object) -> int | None:
    """The operator set to lower a model to, ``None`` when ``target`` is none older than its own."""
    if not isinstance(target, int) or isinstance(target, bool):
        return None
    return target if target < model.opsets.get("", 0) else None


def _simpler_forms(options: OptimizationOptions) -> tuple[PatternOptimization, ...]:
    """The patterns that write standard operators with other standard operators."""
    rewrites = (entry.scheduled for entry in options.kept("lower"))
    found = (each for each in rewrites if isinstance(each, PatternOptimization))
    return tuple(each for each in found if _is_standard(each) and each.exactness in _SAFE)


def _is_standard(pattern: PatternOptimization) -> bool:
    return not pattern.produces and not pattern.unchecked


class LowerOperatorSet(Step):
    """Lowers a model to an older operator set.

    Operators that the set does not have are written with simpler ones: by a pattern of the phase
    ``lower``, else as the function that ONNX defines them by. Then the table of changes is applied.
    """

    title = "lower_operator_set"

    def __init__(self, target: int, settle: ModelPass, rewriting: ModelPass) -> None:
        self.target = target
        self.settle = settle  # folds constants, which attributes must be
        self.rewriting = rewriting  # simplifies what was written

    def run_in(self, model: Model, state: State) -> int:
        """Lower the model; returns the number of changes.

        Raises `ModelError` when a node cannot be expressed. Do not use the model then.
        """
        check_target(model, self.target)
        index = index_of(_simpler_forms(state.options), ())
        total, told = 0, dict[Node, Told]()
        for _ in range(_DEPTH):
            found = plan_lowering(model, self.target)
            written = _write_simpler(found.refused, state, index, told)
            if not written:
                break
            total += written + run_passes([self.settle], model, state)
        found = plan_lowering(model, self.target)
        error = found.error(told)
        if error is not None:
            raise error
        total += carry_out(model, found.plan)
        if total:
            run_passes([self.rewriting], model, state)
        return total


def _write_simpler(
    nodes: Iterable[Node], state: State, index: PatternIndex, told: dict[Node, Told]
) -> int:
    """Write nodes with simpler operators where that is possible; returns their number.

    Notes what new nodes were written for, and why others were not written.
    """
    count = 0
    for node in nodes:
        if node.graph is None:
            continue
        origin = told.get(node, Told()).origin
        with watching(node.graph.model) as changes:
            reason = _write_one(node, node.graph, state, index)
        if reason:
            told[node] = Told(origin, reason)
            continue
        made = Told(origin or label(node))
        told.update(dict.fromkeys(changes.added_nodes, made))
        count += 1
    return count


def _write_one(node: Node, graph: Graph, state: State, index: PatternIndex) -> str:
    """Write a node with simpler operators of its own set; returns why it was not, if it was not."""
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
