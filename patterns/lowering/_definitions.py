"""The bodies by which the ONNX standard defines some operators."""

from typing import Any, NamedTuple

from onnx import FunctionProto, NodeProto, TypeProto, helper

from xoptim.facts.attributes import AttributeReference, decode_attribute
from xoptim.facts.dims import Dim
from xoptim.facts.schema import schema
from xoptim.facts.shapes import Info
from xoptim.match import GraphView, Node


class DefinitionStep(NamedTuple):
    """A node of a body: its operator, the names in the body, and its attributes."""

    op_type: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]


class Definition(NamedTuple):
    """A body: the names of its operands and results, and its nodes."""

    inputs: list[str]
    outputs: list[str]
    steps: list[DefinitionStep]


def definition_of(g: GraphView, node: Node) -> Definition | None:
    """The body of a node's operator for the operator set of the graph, ``None`` when there is none
    that holds in it.
    """
    opset = g.main_opset
    found = schema(node.op_type, node.domain, opset)
    body = None if found is None else _body(g, node, found, opset)
    if body is None:
        return None
    version = max((each.version for each in body.opset_import if not each.domain), default=opset)
    if not all(_is_same_form(each, version, opset) for each in body.node):
        return None
    steps = [_step(each, node) for each in body.node]
    return Definition(list(body.input), list(body.output), steps)


def _body(g: GraphView, node: Node, found: Any, opset: int) -> FunctionProto | None:
    """The newest body that is not newer than an operator set.

    ``found`` is a schema, whose stubs lack bodies.
    """
    fixed = [each for each in found.function_opset_versions if each <= opset]
    if found.has_function and fixed:
        return _parsed(found.get_function_with_opset_version(max(fixed)))
    versions = [each for each in found.context_dependent_function_opset_versions if each <= opset]
    if not found.has_context_dependent_function or not versions:
        return None
    # Without a bound, onnxruntime's Clip makes infinity finite; the type of an operand that is left
    # out is not known.
    infos = [g.info(name) for name in node.input]
    if len(infos) < len(found.inputs) or not all(info.dtype for info in infos):
        return None
    types = [_type_of(info).SerializeToString() for info in infos]
    written = helper.make_node(node.op_type, node.input, node.output, **node.attribute)
    number = max(versions)
    text = written.SerializeToString()
    return _parsed(found.get_context_dependent_function_with_opset_version(number, text, types))


def _parsed(body: bytes) -> FunctionProto | None:
    return FunctionProto.FromString(body) if body else None


def _type_of(info: Info) -> TypeProto:
    shape = None if info.shape is None else [_length(dim) for dim in info.shape]
    return helper.make_tensor_type_proto(info.dtype, shape)


def _length(dim: Dim) -> int | None:
    return dim if isinstance(dim, int) else None


def _is_same_form(node: NodeProto, version: int, opset: int) -> bool:
    """Whether an operator has the same operands and attributes in two operator sets, and the node
    has no subgraph.
    """
    before, now = (schema(node.op_type, node.domain, each) for each in (version, opset))
    if before is None or now is None or any(a.g.node or a.graphs for a in node.attribute):
        return False
    same_operands = [each.name for each in before.inputs] == [each.name for each in now.inputs]
    return same_operands and before.attributes.keys() <= now.attributes.keys()


def _step(node: NodeProto, call: Node) -> DefinitionStep:
    """A node of a body with the attributes of the call in place of references to them."""
    attributes = {}
    for each in node.attribute:
        value = decode_attribute(each)
        if isinstance(value, AttributeReference):
            value = call.get_attribute(value.name)
        if value is not None:
            attributes[each.name] = value
    return DefinitionStep(node.op_type, list(node.input), list(node.output), attributes)
