"""Raise a model to a newer operator set: plan all changes first, then carry them out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import onnx
from onnx.helper import OP_SET_ID_VERSION_MAP

from xoptim.facts.errors import ModelError, RewriteError
from xoptim.facts.operators import objection
from xoptim.facts.schema import schema
from xoptim.graph.constants import store
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.model import UNLISTED_SINCE, Model
from xoptim.graph.node import Node
from xoptim.graph.walk import all_nodes
from xoptim.opsets.adapters import is_unchanged, raised
from xoptim.opsets.call import Call, Refused, hint_of

OLDEST_IR = 3
"""Version of the file format to which the first operator sets belong."""


@dataclass(slots=True)
class Plan:
    """The changes that raise a model to an operator set."""

    target: int  # the operator set
    # the main graph, and the bodies of local functions, that are raised
    graphs: dict[Graph, None] = field(default_factory=dict)
    calls: dict[Node, list[Call]] = field(default_factory=dict)  # for each node that changes, the calls that replace it


class CannotBeRaised(ModelError):  # noqa: N818 - reads as a sentence
    """A node cannot be expressed in an operator set."""

    def __init__(self, message: str, version: int) -> None:
        super().__init__(message)
        self.version = version  # the first operator set that excludes it


def raise_model(model: Model, target: int) -> int:
    """Raise a model in place: its graphs, subgraphs and local functions compute the same in a newer operator set.

    Operator sets of other domains stay as they are. A model that has the operator set, or imports none of the standard
    domain, is left unchanged. Returns the number of nodes that were replaced. Raises `ModelError` when the model has a newer
    set already, the set is unknown, or a node cannot be expressed in it. The model is then unchanged.
    """
    check_target(model, target)
    if model.opsets.get("", target) == target:
        return 0
    return carry_out(model, plan(model, target))


def check_target(model: Model, target: int) -> None:
    """Raise `ModelError` unless a model may be raised to an operator set, whatever its nodes are."""
    newest, present = onnx.defs.onnx_opset_version(), model.opsets.get("")
    if isinstance(target, bool) or not isinstance(target, int) or not 1 <= target <= newest:
        raise ModelError(f"there is no operator set {target!r}: onnx {onnx.__version__} knows those from 1 to {newest}")
    if present is not None and target < present:
        raise ModelError(f"the model has operator set {present}, which is newer than {target}; models are only raised")


def plan(model: Model, target: int) -> Plan:
    """The changes that raise a model to an operator set. The model is left unchanged.

    Raises `CannotBeRaised` when a node cannot be expressed in the operator set.
    """
    found = Plan(target)
    if model.shell.training_info:
        raise CannotBeRaised("the model holds graphs for training, which cannot be raised", model.opsets.get("", 0) + 1)
    for place, root in _roots(model):
        if root.opsets.get("", target) < target:
            found.graphs[root] = None
            for graph in root.all_graphs():
                for node in graph.nodes:
                    _plan_node(found, graph, node, place)
    return found


def _roots(model: Model) -> Iterator[tuple[str, Graph]]:
    """The main graph and the bodies of local functions, with words that say where a node of them is."""
    yield "", model.graph
    for function in model.functions:
        yield f" of local function {function.proto.name!r}", function.body


def _plan_node(found: Plan, graph: Graph, node: Node, place: str) -> None:
    start, target = graph.opsets[""], found.target
    if node.domain or (schema(node.op_type, "", start) is not None and is_unchanged(node.op_type, start, target)):
        return
    try:
        _check_known(node, start, target)
        call = Call.of(node, graph, target)
        calls = raised(call)
        if len(calls) == 1 and call.is_call_of(node):
            return
        _check_calls(calls, graph.model, target)
    except Refused as refusal:
        version = refusal.version or target
        raise CannotBeRaised(f"{_label(node)}{place} cannot be raised to operator set {version}: {refusal}", version) from None
    found.calls[node] = calls


def _label(node: Node) -> str:
    if node.name:
        return f"node {node.name!r} ({node.op_type})"
    return f"the {node.op_type} that computes {next(filter(None, node.output), '')!r}"


def _check_known(node: Node, start: int, target: int) -> None:
    """Refuse an operator that neither set defines; operators that only onnxruntime defines have one version."""
    if schema(node.op_type, "", start) is None:
        for version in (start, target):
            wrong = objection(node.op_type, "", node.attribute, len(node.input), len(node.output), {"": version})
            if wrong is not None:
                raise Refused(wrong, start + 1)


def _check_calls(calls: list[Call], model: Model, target: int) -> None:
    for call in calls:
        wrong = objection(call.op_type, "", call.attributes, len(call.inputs), len(call.outputs), {"": target})
        if ("", call.op_type) in model.hidden_operators:
            wrong = f"a local function of the model has the name {call.op_type}"
        if wrong is not None:
            raise Refused(wrong, call.version)


def carry_out(model: Model, planned: Plan) -> int:
    """Carry out a plan for a model; returns the number of nodes that were replaced.

    Raises `ModelError` when a new node contradicts the types or shapes that are known. Do not use the model then.
    """
    target = planned.target
    for graph in planned.graphs:
        graph.opsets[""] = target
    for root in planned.graphs:
        # Readers come first: when a node is replaced, the facts that follow from its results are inferred in the new set.
        for node in reversed(list(all_nodes(root.nodes))):
            calls = planned.calls.get(node)
            if calls is not None:
                try:
                    _replace(node, calls)
                except RewriteError as error:  # the facts about the model contradict each other
                    raise ModelError(f"{_label(node)} cannot be raised to operator set {target}: {error}") from error
    for function in model.functions:
        if function.body in planned.graphs:
            proto = onnx.FunctionProto()
            proto.CopyFrom(function.proto)
            _import(proto, target)
            function.proto = proto
    if model.graph in planned.graphs:
        _import(model.shell, target)
        needed = OP_SET_ID_VERSION_MAP.get(("ai.onnx", target), OLDEST_IR)
        model.shell.ir_version = max(model.shell.ir_version or UNLISTED_SINCE, needed)
    return len(planned.calls)


def _import(proto: onnx.ModelProto | onnx.FunctionProto, target: int) -> None:
    for entry in proto.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = target


def _replace(node: Node, calls: list[Call]) -> None:
    """Put new nodes in the place of one; the first of the same operator, or else the last one, gets its name and remarks."""
    graph = node.graph
    assert graph is not None
    edit = Edit(graph)
    names: dict[str, str] = {"": ""}
    constants = calls[0].scratch.constants
    for name in dict.fromkeys(name for call in calls for name in (*call.inputs, *call.outputs)):
        hint = hint_of(name)
        if hint is None:
            names[name] = name
        else:
            names[name] = store(edit, hint, constants[name]) if name in constants else edit.names.fresh(hint)
    heir = next((call for call in calls if call.op_type == node.op_type), calls[-1])
    edit.commit([node], [_node(edit, call, names, node if call is heir else None) for call in calls], insert_at=node)


def _node(edit: Edit, call: Call, names: Mapping[str, str], original: Node | None) -> Node:
    made = Node(
        call.op_type,
        (names[name] for name in call.inputs),
        (names[name] for name in call.outputs),
        call.attributes,
        name=edit.node_names.fresh(call.op_type) if original is None else original.name,
        doc_string="" if original is None else original.remark,
    )
    if original is not None:
        made.metadata = original.metadata_props() or None
    return made
