"""Plan the changes that bring a model to another operator set, and carry them out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import onnx
from onnx import TensorProto
from onnx.helper import OP_SET_ID_VERSION_MAP

from xoptim.facts.errors import ModelError, RewriteError
from xoptim.facts.operators import objection
from xoptim.facts.protos import FUNCTIONS_SINCE, UNLISTED_SINCE
from xoptim.facts.schema import schema
from xoptim.graph.constants import store
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.walk import all_nodes
from xoptim.passes.opsets.call import OpsetCall, Refused, hint_of

OLDEST_IR = 3
"""IR version of the first operator sets."""
_OVERLOADS_SINCE: Final = 10
"""IR version since which several local functions may have one name."""


@dataclass(slots=True)
class OpsetPlan:
    """The changes that bring a model to another operator set."""

    target: int  # the operator set
    is_lowering: bool = False  # whether it is older than the present one
    # the main graph, and the bodies of local functions, that are changed
    graphs: dict[Graph, None] = field(default_factory=dict)
    # for each node that changes, the calls that replace it
    calls: dict[Node, list[OpsetCall]] = field(default_factory=dict)


def roots(model: Model) -> Iterator[tuple[str, Graph]]:
    """The main graph and the bodies of local functions, each after a text that names it."""
    yield "", model.graph
    for function in model.functions:
        yield f" of local function {function.proto.name!r}", function.body


def label(node: Node) -> str:
    """A node in messages: its name and operator, or what it computes."""
    if node.name:
        return f"node {node.name!r} ({node.op_type})"
    return f"the {node.op_type} that computes {next(filter(None, node.output), '')!r}"


def check_known(node: Node, start: int, target: int) -> None:
    """Refuse an operator that is unknown in one of the sets.

    Operators that only onnxruntime defines have one version.
    """
    if schema(node.op_type, "", start) is not None:
        return
    counts = len(node.input), len(node.output)
    for version in (start, target):
        problem = objection(node.op_type, "", node.attribute, *counts, {"": version})
        if problem is not None:
            raise Refused(problem, start + 1)


def check_calls(calls: list[OpsetCall], model: Model, target: int) -> None:
    """Refuse calls that the operator set cannot express, or whose operators the model hides."""
    for call in calls:
        counts = len(call.inputs), len(call.outputs)
        problem = objection(call.op_type, "", call.attributes, *counts, {"": target})
        if ("", call.op_type) in model.hidden_operators:
            problem = f"a local function of the model has the name {call.op_type}"
        if problem is not None:
            raise Refused(problem, call.version)


def carry_out(model: Model, planned: OpsetPlan) -> int:
    """Carry out a plan for a model; returns the number of nodes that were replaced.

    Raises `ModelError` when a new node contradicts the types or shapes that are known. Do not use
    the model then.
    """
    target = planned.target
    for graph in planned.graphs:
        graph.opsets[""] = target
    for root in planned.graphs:
        # Consumers come first: replacing a node infers its consumers again, in the new set.
        for node in reversed(list(all_nodes(root.nodes))):
            calls = planned.calls.get(node)
            if calls is None:
                continue
            try:
                replace_by_calls(node, calls)
            except RewriteError as error:  # the facts about the model contradict each other
                verb = "lowered" if planned.is_lowering else "raised"
                text = f"{label(node)} cannot be {verb} to operator set {target}: {error}"
                raise ModelError(text) from error
    for function in model.functions:
        if function.body in planned.graphs:
            proto = onnx.FunctionProto()
            proto.CopyFrom(function.proto)
            _import(proto, target)
            function.proto = proto
    if model.graph in planned.graphs:
        _import(model.shell, target)
        _set_format(model, planned)
    return len(planned.calls)


def _set_format(model: Model, planned: OpsetPlan) -> None:
    """Set the IR version: that of the operator sets, or a newer one.

    After raising, it is at least the present one. After lowering, it is the oldest one that allows
    all that the model contains, so that old runtimes load the file.
    """
    present = model.shell.ir_version or UNLISTED_SINCE
    if not planned.is_lowering:
        needed = OP_SET_ID_VERSION_MAP.get(("ai.onnx", planned.target), OLDEST_IR)
        model.shell.ir_version = max(present, needed)
        return
    types = {info.dtype for graph in model.graphs() for _, info in graph.all_known()}
    if max(types, default=0) > TensorProto.BFLOAT16:
        return  # 8-bit floats and the like, each since another IR version
    imports = ((domain or "ai.onnx", version) for domain, version in model.opsets.items())
    versions = [OP_SET_ID_VERSION_MAP.get(entry, OLDEST_IR) for entry in imports]
    if model.functions:
        overloads = any(function.proto.overload for function in model.functions)
        versions.append(_OVERLOADS_SINCE if overloads else FUNCTIONS_SINCE)
    model.shell.ir_version = min(present, max(UNLISTED_SINCE, *versions))
    model.ir_version = model.shell.ir_version  # for later rewrites


def _import(proto: onnx.ModelProto | onnx.FunctionProto, target: int) -> None:
    for entry in proto.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = target


def replace_by_calls(node: Node, calls: list[OpsetCall]) -> None:
    """Replace a node by new ones.

    The first new node with the same operator, or else the last new node, gets the name and the
    remarks. Raises `RewriteError` when a new node contradicts the types or shapes that are known.
    """
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
            names[name] = (
                store(edit, hint, constants[name]) if name in constants else edit.names.fresh(hint)
            )
    heir = next((call for call in calls if call.op_type == node.op_type), calls[-1])
    edit.commit(
        [node],
        [_node(edit, call, names, node if call is heir else None) for call in calls],
        insert_at=node,
    )


def _node(edit: Edit, call: OpsetCall, names: Mapping[str, str], original: Node | None) -> Node:
    new_node = Node(
        call.op_type,
        (names[name] for name in call.inputs),
        (names[name] for name in call.outputs),
        call.attributes,
        name=edit.node_names.fresh(call.op_type) if original is None else original.name,
        doc_string="" if original is None else original.remark,
    )
    if original is not None:
        new_node.metadata = original.metadata_props() or None
    return new_node
