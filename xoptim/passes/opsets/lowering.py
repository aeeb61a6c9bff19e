"""Lower a model to an older operator set: the judgement of each change, the calls, the plan."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import onnx

from xoptim.facts.dtypes import type_name
from xoptim.facts.errors import ModelError
from xoptim.facts.schema import attribute_defaults, schema, since_version
from xoptim.facts.shapes import Info
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.passes.opsets.adapters import Judgement, judge
from xoptim.passes.opsets.call import Adapter, OpsetCall, Refused
from xoptim.passes.opsets.changes import REFUSED, UNSEEN, Formals, gains, pair, versions
from xoptim.passes.opsets.downward_forms import FORMS, QUANTIZED
from xoptim.passes.opsets.downward_images import LOWERED_IMAGES
from xoptim.passes.opsets.downward_operands import LOWERED_OPERANDS
from xoptim.passes.opsets.plan import OpsetPlan, carry_out, check_calls, check_known, label, roots

OLDEST: Final = 7
"""The oldest operator set to which models are lowered: onnxruntime runs no older ones."""

LOWERINGS: Final[dict[tuple[str, int], Adapter]] = {
    **LOWERED_OPERANDS,
    **FORMS,
    **QUANTIZED,
    **LOWERED_IMAGES,
}
"""Adapters by operator, and operator set that changes or introduces it."""

_NOT_LOWERED: Final = {
    ("GroupNormalization", 21): "before, scale and bias belong to groups, not to channels",
    ("Scan", 11): "its axes may be negative",
}
_ONLY_TYPES: Final = frozenset(
    (
        *(("Cast", 9), ("DequantizeLinear", 19), ("QuantizeLinear", 25)),
        *(("ReduceMax", 20), ("ReduceMin", 20)),
        *(("OptionalGetElement", 18), ("OptionalHasElement", 18)),
    )
)
"""Steps of `UNSEEN` that only added types, which are checked by the schema."""
_ONLY_LOST: Final = frozenset(
    (
        *(("Erf", 13), ("ReduceLogSum", 28), ("ReduceLogSumExp", 28)),
        *(("BatchNormalization", 9), ("Scatter", 11), ("Upsample", 10)),
    )
)
"""Steps in which an operator only lost types, attributes or its name: the older set allows all
calls.
"""
_ABSENT: Final = "the set does not have it"
_ONE_PER_AXIS: Final = ("dilations", "strides")
"""Attributes without a default that have no effect if all numbers are 1."""


@cache
def judge_lowering(op_type: str, version: int) -> Judgement:
    """The judgement of lowering a standard operator from a set that changes it to the one before.

    Without an adapter or a refusal, attributes that the set added must have their defaults, and
    added operands and results must be absent.
    """
    step = (op_type, version)
    if step in LOWERINGS:
        return Judgement(LOWERINGS[step])
    if version == versions(op_type)[0]:
        return Judgement(refusal=_ABSENT)
    reason = _NOT_LOWERED.get(step) or REFUSED.get(step, "")
    if reason:
        return Judgement(refusal=reason)
    if step in _ONLY_TYPES or step in _ONLY_LOST:
        return Judgement()
    upward = judge(op_type, version)
    if upward.refusal or upward.adapter is not None or step in UNSEEN:
        return Judgement(refusal=f"operator set {version} changed it, and there is no way back")
    return Judgement()


@cache
def _only_types_changed(op_type: str, target: int, start: int) -> bool:
    """Whether all calls of an operator with valid types are valid in an older set."""
    steps = [version for version in versions(op_type) if target < version <= start]
    if any(judge_lowering(op_type, version) != Judgement() for version in steps):
        return False
    return not any(gains(op_type, version) for version in steps)


def lowered(call: OpsetCall) -> list[OpsetCall]:
    """The calls, in order, that compute the same as one call in its older target set.

    Raises `Refused` when there are none, with the operator set whose change cannot be undone.
    """
    target = call.scratch.target
    while True:
        op_type, version = call.op_type, since_version(call.op_type, "", call.version) or 0
        if version <= target:
            break
        judgement = judge_lowering(op_type, version)
        if judgement.refusal:
            raise Refused(judgement.refusal, version)
        if judgement.adapter is not None:
            judgement.adapter(call)
        if call.op_type == op_type:
            _drop_additions(call, version)
            call.version = version - 1
    call.version = target
    while call.inputs and not call.inputs[-1]:
        call.inputs.pop()
    before, after = (
        [part for c in calls for part in lowered(c)] for calls in (call.before, call.after)
    )
    return [*before, call, *after]


def _drop_additions(call: OpsetCall, version: int) -> None:
    """Drop additions of an operator set to an operator; refuse additions that have an effect."""
    old, new = pair(call.op_type, version)
    defaults = attribute_defaults(call.op_type, "", version)
    for name in [name for name in call.attributes if name not in old.attributes]:
        if name not in new.attributes:
            continue  # internal, or an error that is found later
        if not _has_no_effect(name, call.get(name), defaults):
            raise Refused(f"its attribute {name} has no equivalent there")
        del call.attributes[name]
    count = len(old.inputs)
    if not _is_variadic(old.inputs):
        if any(call.inputs[count:]):
            raise Refused(f"its operand {new.inputs[count].name} has no equivalent there")
        del call.inputs[count:]
    count = len(old.outputs)
    if not _is_variadic(old.outputs):
        if any(call.is_result_read(index) for index in range(count, len(call.outputs))):
            raise Refused(f"its result {new.outputs[count].name} has no equivalent there")
        del call.outputs[count:]


def _has_no_effect(name: str, value: Any, defaults: Mapping[str, Any]) -> bool:
    if name in defaults:
        return bool(value == defaults[name])
    return name in _ONE_PER_AXIS and all(number == 1 for number in value)


def _is_variadic(formals: Formals) -> bool:
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    return bool(formals) and formals[-1].option == variadic


def _check_types(call: OpsetCall) -> None:
    """Refuse operands and results of types that the operator does not have in the older set."""
    older, target = schema(call.op_type, "", call.scratch.target), call.scratch.target
    if older is None:
        return
    for kind, names, formals in (
        ("operand", call.inputs, older.inputs),
        ("result", call.outputs, older.outputs),
    ):
        for index, name in enumerate(names):
            text = _type_text(call.scratch.info(name)) if name else ""
            if not text or not formals:
                continue
            formal = formals[min(index, len(formals) - 1)]
            if text not in formal.types:
                reason = f"{call.op_type} has no {kind} of type {text} in operator set {target}"
                raise Refused(reason)


def _type_text(info: Info) -> str:
    """A type as schemas write it, empty when it is unknown."""
    if info.container in ("sequence", "optional"):
        inner = _type_text(info.element) if info.element is not None else ""
        word = "seq" if info.container == "sequence" else "optional"
        return f"{word}({inner})" if inner else ""
    if info.container or not info.dtype:
        return ""
    return f"tensor({type_name(info.dtype)})"


class NodeNotes(NamedTuple):
    """Notes about a node, for error messages."""

    origin: str = ""  # the replaced node of the model, in words
    reason: str = ""  # the reason why the node was not decomposed


@dataclass(slots=True)
class Lowering:
    """A plan for an older operator set, and the nodes that cannot be expressed in it."""

    plan: OpsetPlan
    # for each node that is refused: the local function that it is in, in words, and the reason
    refused: dict[Node, tuple[str, Refused]] = field(default_factory=dict)

    def error(self, notes: Mapping[Node, NodeNotes] = MappingProxyType({})) -> ModelError | None:
        """The error for the first node that is refused, ``None`` when there is none."""
        for node, (place, refusal) in self.refused.items():
            note = notes.get(node, NodeNotes())
            origin = f", which is written for {note.origin}," if note.origin else ""
            subject = f"{label(node)}{place}{origin}"
            reasons = dict.fromkeys(filter(None, (str(refusal), note.reason)))
            target = self.plan.target
            text = f"{subject} cannot be lowered to operator set {target}: {', and '.join(reasons)}"
            return ModelError(text)
        return None


def check_target(model: Model, target: int) -> None:
    """Raise `ModelError` unless a model may be lowered to an operator set, whatever its nodes."""
    present = model.opsets.get("", 0)
    if target > present:
        raise ModelError(f"the model has operator set {present}, which is older than {target}")
    if target < OLDEST:
        raise ModelError(f"models are lowered to operator set {OLDEST} or newer, not to {target}")
    if model.shell.training_info:
        raise ModelError("the model contains training graphs, which cannot be lowered")


def plan_lowering(model: Model, target: int) -> Lowering:
    """The changes that lower a model to an operator set. The model is left unchanged."""
    lowering = Lowering(OpsetPlan(target, is_lowering=True))
    for place, graph, node in nodes_above(model, target):
        try:
            calls = _calls_for(node, graph, target)
        except Refused as refusal:
            lowering.refused[node] = place, refusal
            continue
        if calls:
            lowering.plan.calls[node] = calls
    roots_above = (root for _, root in roots(model) if root.opsets.get("", 0) > target)
    lowering.plan.graphs.update(dict.fromkeys(roots_above))
    return lowering


def nodes_above(model: Model, target: int) -> Iterator[tuple[str, Graph, Node]]:
    """Standard nodes of newer sets, each after the text of `roots` and its graph."""
    for place, root in roots(model):
        if root.opsets.get("", 0) <= target:
            continue
        for graph in root.all_graphs():
            yield from ((place, graph, node) for node in graph.nodes if not node.domain)


def _calls_for(node: Node, graph: Graph, target: int) -> list[OpsetCall]:
    """The calls that replace a node, none when it stays as it is. Raises `Refused`."""
    start = graph.opsets[""]
    check_known(node, start, target)
    call = OpsetCall.of(node, graph, target)
    is_known = schema(node.op_type, "", start) is not None
    if not is_known or _only_types_changed(node.op_type, target, start):
        _check_types(call)
        return []
    calls = lowered(call)
    check_calls(calls, graph.model, target)
    for new_call in calls:
        _check_types(new_call)
    return [] if len(calls) == 1 and call.is_call_of(node) else calls


def lower_model(model: Model, target: int) -> int:
    """Lower a model in place: its graphs compute the same in an older operator set.

    Operator sets of other domains stay as they are. Only the table of changes is applied: an
    operator that the older set does not have is refused. Returns the number of nodes that were
    replaced. Raises `ModelError` when a node cannot be expressed; the model is then unchanged.
    """
    check_target(model, target)
    lowering = plan_lowering(model, target)
    error = lowering.error()
    if error is not None:
        raise error
    return carry_out(model, lowering.plan)
