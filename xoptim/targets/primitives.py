"""Operators that onnxruntime replaces by simpler ones when no provider has a kernel."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from typing import Any, Final

import onnx
from onnx import checker, inliner

from xoptim.facts.protos import copy_fields, every_node, proto_reads
from xoptim.facts.schema import schema
from xoptim.targets.listing import ListedNode

_SINGLE: Final = "CastLike"
"""An operator that becomes one Cast; it is frequent, and not worth a second question."""
_PARAMETERS: Final = inspect.signature(inliner.inline_selected_functions).parameters
_CAN_EXPAND: Final = "inline_schema_functions" in _PARAMETERS


def replaced(
    nodes: Sequence[ListedNode],
    placed: Collection[int],
    names: Collection[str],
) -> set[tuple[str, str]]:
    """Domain and name of the operators whose nodes onnxruntime replaced by nodes without names.

    Args:
        nodes: of the model.
        placed: numbers of the nodes that a provider runs.
        names: all names of nodes that onnxruntime listed.
    """
    if not _CAN_EXPAND or "" not in names:
        return set()
    missing = (node for number, node in enumerate(nodes) if number not in placed)
    candidates = (node for node in missing if not node.is_constant)
    return {(node.domain, node.op_type) for node in candidates if _is_function(node)}


def _is_function(node: ListedNode) -> bool:
    if node.op_type == _SINGLE:
        return False
    op: Any = schema(node.op_type, node.domain, node.opset)
    return op is not None and bool(op.has_function or op.has_context_dependent_function)


def with_primitives(
    model: onnx.ModelProto,
    operators: Collection[tuple[str, str]],
) -> onnx.ModelProto | None:
    """A copy of a model in which some operators are replaced by the operators that define them.

    A new node is named after the node that it comes from and its own operator. Returns ``None``
    where onnx cannot replace the operators.
    """
    light = onnx.ModelProto()
    copy_fields(model, light, ("graph",))
    copy_fields(model.graph, light.graph, ("initializer",))
    try:
        expanded = inliner.inline_selected_functions(
            light,
            sorted(operators),
            inline_schema_functions=True,
        )
    except (checker.ValidationError, RuntimeError, ValueError):
        return None
    _name_nodes(expanded, model)
    expanded.graph.initializer.extend(model.graph.initializer)
    return expanded


def _name_nodes(expanded: onnx.ModelProto, model: onnx.ModelProto) -> None:
    """Give names to the nodes without one, by the results of the original that need them."""
    original = every_node(model.graph.node)
    makers = {name: node.name for node in original for name in node.output if name}
    owners = dict(makers)
    for node in reversed(list(every_node(expanded.graph.node))):  # readers before what they read
        if node.name:
            continue
        owner = next((owners[name] for name in node.output if name in owners), "")
        node.name = f"{owner}/{node.op_type}"
        for name in proto_reads(node):
            if name not in makers:
                owners.setdefault(name, owner)
