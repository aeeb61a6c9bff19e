"""New nodes for which onnxruntime has no kernel, or a wrong one."""

from collections.abc import Sequence
from typing import Final

from onnx import TensorProto

from xoptim.facts.dtypes import type_name
from xoptim.facts.errors import Declined
from xoptim.facts.operators import lacks_identity_kernel
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

_IDENTITY_OPSETS: Final = {"sequence": 14, "optional": 16}
"""The first operator set whose Identity takes values of this kind."""


def check_copies(graph: Graph, added: Sequence[Node], *, removes_identity: bool) -> None:
    """Raise `Declined` if an Identity without a kernel would stay among new nodes.

    ``removes_identity``: whether cleaning removes Identities where it can.
    """
    for node in added:
        if node.op_type != "Identity" or node.domain:
            continue
        if removes_identity and not _stays(graph, node, added):
            continue
        info, opset = graph.info_of(node.output[0]), graph.opsets.get("", 0)
        if lacks_identity_kernel(info.dtype, opset):
            raise Declined(f"onnxruntime has no kernel of Identity for {type_name(info.dtype)}")
        if not info.is_tensor and opset < _IDENTITY_OPSETS.get(info.container, opset + 1):
            raise Declined(
                f"Identity of operator set {opset} does not take the type {info.container}"
            )


def _stays(graph: Graph, identity: Node, added: Sequence[Node]) -> bool:
    """Whether cleaning keeps an Identity: its result is an output of the graph, and its operand
    cannot take that name.
    """
    source = identity.input[0]
    is_computed = graph.producer(source) is not None or any(source in node.output for node in added)
    return graph.is_output(identity.output[0]) and (not is_computed or graph.is_output(source))


def check_strings(graph: Graph, added: Sequence[Node]) -> None:
    """Raise `Declined` for a new Gather of strings whose indices select several elements each.

    onnxruntime 1.32 returns the first one of these elements, and empty strings for the others.
    """
    names: set[str] = set()
    for node in added:
        tensors = (*node.input[:1], *node.output[:1])
        if not any(name in names or _holds_strings(graph, name) for name in tensors):
            continue
        names.update(node.output)
        if node.op_type == "Gather" and not node.domain:
            shape, axis = graph.info_of(node.input[0]).shape, node.get_attribute("axis", 0)
            if not shape or any(dim != 1 for dim in shape[axis % len(shape) + 1 :]):
                raise Declined("onnxruntime's Gather loses strings")


def _holds_strings(graph: Graph, name: str) -> bool:
    return graph.info_of(name).dtype == TensorProto.STRING
