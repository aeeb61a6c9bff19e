"""Decompose a node into the function body by which ONNX defines its operator."""

from collections.abc import Sequence
from typing import Any

import onnx

from xoptim.facts.attributes import AttributeReference
from xoptim.facts.bodies import attributes_in_call, constant_array
from xoptim.facts.schema import attribute_defaults, schema
from xoptim.graph.node import Node
from xoptim.operators.inference.types import info_to_type_proto
from xoptim.passes.opsets.adapters import raised
from xoptim.passes.opsets.call import OpsetCall, Refused, Scratch
from xoptim.passes.opsets.plan import check_calls


def calls_of_body(node: Node) -> list[OpsetCall]:
    """The calls of the body of a standard operator, in the operator set of the node's graph.

    Raises `Refused` when ONNX defines no function for the operator, or one that depends on unknown
    types, or one with subgraphs.
    """
    graph = node.graph
    assert graph is not None
    version = graph.opsets[""]
    body = _body_of(node, version)
    if body is None:
        raise Refused(f"ONNX defines no function body for {node.op_type}")
    scratch = Scratch(graph, version)
    names = _names_of_formals(node, body, scratch)
    node_attributes = dict(node.attribute)
    defaults = attribute_defaults(node.op_type, "", version)
    since = next(entry.version for entry in body.opset_import if not entry.domain)
    calls: list[OpsetCall] = []
    for proto in body.node:
        attributes = _attributes(proto, {**defaults, **node_attributes})
        if proto.op_type == "Constant" and not proto.domain:
            names[proto.output[0]] = _constant(scratch, proto.output[0], attributes)
            continue
        for name in filter(None, proto.output):
            if name not in names:
                names[name] = scratch.new_name(name)
        inputs = [names[name] for name in proto.input]
        outputs = [names[name] for name in proto.output]
        calls.append(OpsetCall(scratch, since, proto.op_type, inputs, outputs, attributes))
    raised_calls = [new_call for call in calls for new_call in raised(call)]
    check_calls(raised_calls, graph.model, version)
    return raised_calls


def _body_of(node: Node, version: int) -> onnx.FunctionProto | None:
    """The function of an operator in the oldest operator set for which it is defined."""
    definition: Any = schema(node.op_type, "", version)
    if definition is None:
        return None
    if definition.has_function:
        versions = [v for v in definition.function_opset_versions if v <= version]
        if not versions:
            return None
        text = definition.get_function_with_opset_version(min(versions))
    elif definition.has_context_dependent_function:
        versions = [v for v in definition.context_dependent_function_opset_versions if v <= version]
        if not versions:
            return None
        types = _types_of_operands(node)
        proto = node.to_proto().SerializeToString()
        text = definition.get_context_dependent_function_with_opset_version(
            min(versions), proto, types
        )
    else:
        return None
    body: onnx.FunctionProto = onnx.FunctionProto.FromString(text)
    return body if body.node else None


def _types_of_operands(node: Node) -> list[bytes]:
    graph = node.graph
    assert graph is not None
    types: list[bytes] = []
    for name in node.input:
        info = graph.info_of(name) if name else None
        if info is not None and info.is_tensor and not info.dtype:
            raise Refused(f"the element type of {name!r} is unknown")
        proto = onnx.TypeProto() if info is None else info_to_type_proto(info)
        types.append(proto.SerializeToString())
    return types


def _names_of_formals(node: Node, body: onnx.FunctionProto, scratch: Scratch) -> dict[str, str]:
    """The names of operands and results of the node, by their names in the function."""
    names = {"": ""}
    for formals, actuals in ((body.input, node.input), (body.output, node.output)):
        padded: Sequence[str] = (*actuals, *[""] * len(formals))
        names.update(zip(formals, padded, strict=False))
    for name in body.output:
        names[name] = names[name] or scratch.new_name(name)
    return names


def _attributes(node: onnx.NodeProto, values: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a node of the function; references are replaced by ``values``."""
    attributes = attributes_in_call(node, values.get)
    for value in attributes.values():
        if isinstance(value, AttributeReference):
            raise Refused(f"the value of {value.name} is given by the caller of the local function")
        if isinstance(value, onnx.GraphProto):
            raise Refused("the function that defines it has subgraphs")
    return attributes


def _constant(scratch: Scratch, hint: str, attributes: dict[str, Any]) -> str:
    """The name of the value of a Constant."""
    array = constant_array(attributes)
    if array is None or array.dtype.kind in "OSU":
        raise Refused("the function that defines it has constants other than numbers")
    name = scratch.new_name(hint)
    scratch.constants[name] = array
    return name
