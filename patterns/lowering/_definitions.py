"""The bodies by which the ONNX standard, or a text in its syntax, defines operators."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import FunctionProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from xoptim.facts.attributes import AttributeReference, constant_value, decode_attribute
from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.schema import schema
from xoptim.facts.shapes import Info
from xoptim.match import GraphView, Node, PatternRewriter


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


class DefinedOperator(NamedTuple):
    """An operator with the text of its definition: its name, its attributes with their defaults,
    and the body.
    """

    op_type: str
    attributes: dict[str, Any]
    body: FunctionProto


@cache
def defined_operator(text: str) -> DefinedOperator:
    """The operator that a text defines: ``Swish <alpha: float = 1.0> (x) => (y) { ... }``.

    A text without braces defines an operator without nodes.
    """
    nodes = "" if "{" in text else "{}"
    body = onnx.parser.parse_function(f'<domain: "", opset_import: ["" : 1]> {text} {nodes}')
    defaults = {attribute.name: decode_attribute(attribute) for attribute in body.attribute_proto}
    return DefinedOperator(body.name, {**dict.fromkeys(body.attribute), **defaults}, body)


def definition_with(body: FunctionProto, attribute: Callable[[str], Any]) -> Definition:
    """A body with the values of attributes in place of references to them."""
    steps = [_step(node, attribute) for node in body.node]
    return Definition(list(body.input), list(body.output), steps)


def definition_of(g: GraphView, node: Node) -> Definition | None:
    """The body of a node's operator; ``None`` where no body is valid in the operator set of the
    graph.
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


def write_nodes(
    g: PatternRewriter,
    steps: Sequence[DefinitionStep],
    values: Mapping[str, Any],
    named: Callable[[DefinitionStep, str], str],
    stored: Callable[[DefinitionStep, np.ndarray], Any],
) -> dict[str, Any]:
    """Write the nodes of a body; returns the operand for each name of the body.

    Args:
        g: makes the nodes.
        steps: the nodes of the body.
        values: what stands for the operands of the body, and for results whose names are fixed.
        named: gives any other result of a step its name.
        stored: makes an operand of the constant of a step.
    """
    all_values, arrays = dict(values), dict[str, np.ndarray]()
    for step in steps:
        first = step.outputs[0]
        array = None if first in values else _constant(g, step, all_values, arrays)
        if array is not None:
            arrays[first] = array
            all_values[first] = stored(step, array)
            continue
        node = _as_cast(g, step, all_values)
        operands = [all_values[name] for name in node.inputs]
        if _is_neutral(node, operands):
            all_values[first] = operands[0]
            continue
        for name in node.outputs:
            all_values.setdefault(name, named(node, name))
        results = [all_values[name] for name in node.outputs]
        g.op[node.op_type](*operands, outputs=results, **node.attributes)
    return all_values


def _constant(
    g: PatternRewriter, step: DefinitionStep, values: dict[str, Any], arrays: dict[str, np.ndarray]
) -> np.ndarray | None:
    """The value of a Constant, and of the constant that a CastLike converts.

    ``None`` for other nodes.
    """
    if step.op_type == "Constant":
        value = constant_value(step.attributes)
        return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value
    if step.op_type != "CastLike" or step.inputs[0] not in arrays:
        return None
    dtype = g.try_infer_type(values[step.inputs[1]])
    return arrays[step.inputs[0]].astype(numpy_dtype(dtype)) if dtype else None


def _is_neutral(step: DefinitionStep, operands: Sequence[Any]) -> bool:
    """Whether a node returns its first operand, as the second one is an attribute of 1 in Mul or
    Div, or omitted in Add.
    """
    if step.op_type == "Add":
        return operands[1] == ""
    factor = operands[-1]
    return step.op_type in ("Mul", "Div") and isinstance(factor, float) and factor == 1


def _as_cast(g: PatternRewriter, step: DefinitionStep, values: dict[str, Any]) -> DefinitionStep:
    """A CastLike whose type is known as a Cast; other steps as they are."""
    to = g.try_infer_type(values[step.inputs[1]]) if step.op_type == "CastLike" else 0
    return DefinitionStep("Cast", step.inputs[:1], step.outputs, {"to": to}) if to else step


def _body(g: GraphView, node: Node, operator: Any, opset: int) -> FunctionProto | None:
    """The newest body that is not newer than an operator set.

    ``operator`` is a schema, whose stubs lack bodies.
    """
    fixed = [v for v in operator.function_opset_versions if v <= opset]
    if operator.has_function and fixed:
        return _parsed(operator.get_function_with_opset_version(max(fixed)))
    versions = [v for v in operator.context_dependent_function_opset_versions if v <= opset]
    if not operator.has_context_dependent_function or not versions:
        return None
    # An omitted operand has no type. (Besides, onnxruntime's Clip without a bound makes infinity
    # finite.)
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
    """Whether an operator has the same operands and attributes in two operator sets, and the node
    has no subgraph.
    """
    before, now = (schema(node.op_type, node.domain, number) for number in (version, opset))
    if before is None or now is None or any(a.g.node or a.graphs for a in node.attribute):
        return False
    same_operands = [entry.name for entry in before.inputs] == [entry.name for entry in now.inputs]
    return same_operands and before.attributes.keys() <= now.attributes.keys()


def _step(node: NodeProto, attribute: Callable[[str], Any]) -> DefinitionStep:
    """A node of a body, with the values of attributes instead of references to them."""
    attributes = {}
    for proto in node.attribute:
        value = decode_attribute(proto)
        if isinstance(value, AttributeReference):
            value = attribute(value.name)
        if value is not None:
            attributes[proto.name] = value
    return DefinitionStep(node.op_type, list(node.input), list(node.output), attributes)
