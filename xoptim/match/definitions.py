"""The nodes of a definition, with the attributes of a call, and how a replacement writes them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import FunctionProto, NodeProto

from xoptim.facts.bodies import attributes_in_call, constant_array
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.protos import standard_domain
from xoptim.match.view import PatternRewriter


class DefinitionStep(NamedTuple):
    """A node of a body: its operator, the names in the body, and its attributes."""

    op_type: str
    domain: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]


class Definition(NamedTuple):
    """A body: the names of its operands and results, and its nodes."""

    inputs: list[str]
    outputs: list[str]
    steps: list[DefinitionStep]


def definition_with(body: FunctionProto, attribute: Callable[[str], Any]) -> Definition:
    """A body with the values of attributes in place of references to them."""
    steps = [_step(node, attribute) for node in body.node]
    return Definition(list(body.input), list(body.output), steps)


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
        values: operands by the names of the body's inputs, and fixed names by the names of results.
        named: returns the name for any other result of a step.
        stored: returns the operand for the constant of a step.
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
        g.op[node.op_type](*operands, domain=node.domain, outputs=results, **node.attributes)
    return all_values


def constant_of(step: DefinitionStep) -> np.ndarray:
    """The value of a Constant."""
    return np.asarray(constant_array(step.attributes))


def _constant(
    g: PatternRewriter, step: DefinitionStep, values: dict[str, Any], arrays: dict[str, np.ndarray]
) -> np.ndarray | None:
    """The value of a Constant, and of the constant that a CastLike converts.

    ``None`` for other nodes.
    """
    if step.op_type == "Constant":
        return constant_of(step)
    if step.op_type != "CastLike" or step.inputs[0] not in arrays:
        return None
    dtype = g.try_infer_type(values[step.inputs[1]])
    return arrays[step.inputs[0]].astype(numpy_dtype(dtype)) if dtype else None


def _is_neutral(step: DefinitionStep, operands: Sequence[Any]) -> bool:
    """Whether a node returns its first operand: a Mul or Div by an attribute of 1, or an Add of an
    omitted operand.
    """
    if step.op_type == "Add":
        return bool(operands[1] == "")
    factor = operands[-1]
    is_scalar = isinstance(factor, float) or (isinstance(factor, np.ndarray) and not factor.ndim)
    return step.op_type in ("Mul", "Div") and is_scalar and bool(factor == 1)


def _as_cast(g: PatternRewriter, step: DefinitionStep, values: dict[str, Any]) -> DefinitionStep:
    """The Cast for a CastLike whose type is known; other steps as they are."""
    to = g.try_infer_type(values[step.inputs[1]]) if step.op_type == "CastLike" else 0
    return DefinitionStep("Cast", "", step.inputs[:1], step.outputs, {"to": to}) if to else step


def _step(node: NodeProto, attribute: Callable[[str], Any]) -> DefinitionStep:
    """A node of a body, with the values of attributes instead of references to them."""
    attributes, domain = attributes_in_call(node, attribute), standard_domain(node.domain)
    return DefinitionStep(node.op_type, domain, list(node.input), list(node.output), attributes)
