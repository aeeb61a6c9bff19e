"""The groups of operators hold what the operator sets say."""

from typing import Any

import onnx
import pytest
from onnx import TypeProto, helper

from xoptim.facts.attributes import REDUCTIONS
from xoptim.operators.registry import Trait, operators_with

ELEMENTWISE = operators_with(Trait.ELEMENTWISE)

ATTRIBUTES: dict[str, dict[str, Any]] = {"BitShift": {"direction": "LEFT"}, "Cast": {"to": 1}}


def _inferred(op_type: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Shape that onnx infers for the first result of an operator."""
    opset = onnx.defs.onnx_opset_version()
    schema = onnx.defs.get_schema(op_type, opset)
    allowed = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}
    names = [f"x{i}" for i in range(len(shapes))]
    given: dict[str, TypeProto] = {}
    for place, (name, shape) in enumerate(zip(names, shapes, strict=True)):
        formal = schema.inputs[min(place, len(schema.inputs) - 1)].type_str
        chosen = sorted(allowed.get(formal, [formal]))[0].removeprefix("tensor(").removesuffix(")")
        number = onnx.TensorProto.DataType.Value(chosen.upper())
        given[name] = helper.make_tensor_type_proto(number, shape)
    node = helper.make_node(op_type, names, ["y"], **ATTRIBUTES.get(op_type, {}))
    found = onnx.shape_inference.infer_node_outputs(
        schema, node, given, opset_imports=[helper.make_opsetid("", opset)]
    )
    return tuple(dim.dim_value for dim in found["y"].tensor_type.shape.dim)


@pytest.mark.parametrize("op_type", sorted(operators_with(Trait.BROADCASTS)))
def test_operands_broadcast_both_ways(op_type: str) -> None:
    more = ((4, 1, 1),) if op_type == "Where" else ()
    assert _inferred(op_type, *more, (2, 1), (3,)) == (*(4 for _ in more), 2, 3)


def test_slopes_are_broadcast_and_their_operand_is_not() -> None:
    assert operators_with(Trait.BROADCASTS_SECOND) == {"PRelu"}
    assert _inferred("PRelu", (2, 3), (3,)) == (2, 3)


@pytest.mark.parametrize("op_type", sorted(ELEMENTWISE))
def test_results_have_the_shape_of_the_operand(op_type: str) -> None:
    assert onnx.defs.get_schema(op_type, 24).min_input == 1
    if op_type != "Swish":  # came later
        assert _inferred(op_type, (2, 3)) == (2, 3)


def test_groups_contain_each_other() -> None:
    assert operators_with(Trait.ELEMENTWISE) < operators_with(Trait.SAME_SHAPE)
    assert (
        operators_with(Trait.VIEW)
        < operators_with(Trait.MOVES)
        < operators_with(Trait.KEEPS_FINITE)
    )
    assert operators_with(Trait.ASSOCIATIVE) < operators_with(Trait.COMMUTATIVE)
    broadcast = operators_with(Trait.BROADCASTS, Trait.BROADCASTS_SECOND)
    assert not broadcast & ELEMENTWISE


def test_all_reductions_are_there() -> None:
    known = {
        s.name for s in onnx.defs.get_all_schemas() if s.name.startswith("Reduce") and not s.domain
    }
    assert known == set(REDUCTIONS) == operators_with(Trait.REDUCES)
