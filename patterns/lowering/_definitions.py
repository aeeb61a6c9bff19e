"""The function bodies by which the ONNX standard defines operators."""

from typing import Any

from onnx import FunctionProto, NodeProto, TypeProto, helper

from xoptim.facts.dims import Dim
from xoptim.facts.schema import schema
from xoptim.facts.shapes import Info
from xoptim.match import GraphView, Node
from xoptim.match.definitions import Definition, definition_with


def definition_of(g: GraphView, node: Node) -> Definition | None:
    """The function body of the operator of a node.

    ``None`` if no function body is valid in the operator set of the graph.
    """
    opset = g.main_opset
    operator = schema(node.op_type, node.domain, opset)
    body = None if operator is None else _body(g, node, operator, opset)
    if body is None:
        return None
    version = max((entry.version for entry in body.opset_import if not entry.domain), default=opset)
    if not all(_is_same_form(inner, version, opset) for inner in body.node):
        return None
    return definition_with(body, node.get_attribute)


def _body(g: GraphView, node: Node, operator: Any, opset: int) -> FunctionProto | None:
    """The newest function body that is not newer than an operator set.

    ``operator`` is an OpSchema. Its type is Any, since the stubs of onnx lack function bodies.
    """
    fixed = [v for v in operator.function_opset_versions if v <= opset]
    if operator.has_function and fixed:
        return _parsed(operator.get_function_with_opset_version(max(fixed)))
    versions = [v for v in operator.context_dependent_function_opset_versions if v <= opset]
    if not operator.has_context_dependent_function or not versions:
        return None
    # An omitted operand has no type, which the body would depend on.
    infos = [g.info(name) for name in node.input]
    if len(infos) < len(operator.inputs) or not all(info.dtype for info in infos):
        return None
    types = [_type_of(info).SerializeToString() for info in infos]
    proto = helper.make_node(node.op_type, node.input, node.output, **node.attribute)
    number = max(versions)
    text = proto.SerializeToString()
    return _parsed(operator.get_context_dependent_function_with_opset_version(number, text, types))


def _parsed(body: bytes) -> FunctionProto | None:
    return FunctionProto.FromString(body) if body else None


def _type_of(info: Info) -> TypeProto:
    shape = None if info.shape is None else [_length(dim) for dim in info.shape]
    return helper.make_tensor_type_proto(info.dtype, shape)


def _length(dim: Dim) -> int | None:
    return dim if isinstance(dim, int) else None


def _is_same_form(node: NodeProto, version: int, opset: int) -> bool:
    """Whether a node has no subgraph, and its operator accepts the same inputs and attributes.

    ``version`` is the operator set of the function body, and ``opset`` the one of the graph.
    """
    before, now = (schema(node.op_type, node.domain, number) for number in (version, opset))
    if before is None or now is None or any(a.g.node or a.graphs for a in node.attribute):
        return False
    same_operands = [entry.name for entry in before.inputs] == [entry.name for entry in now.inputs]
    return same_operands and before.attributes.keys() <= now.attributes.keys()
