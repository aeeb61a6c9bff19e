"""The table of attributes that became operands, against the schemas."""

import onnx
import pytest

from xoptim.facts.attributes import MOVED, MOVED_DEFAULTS, Moved, moved, moved_inputs

ALWAYS_OPERANDS = {("Slice", "steps"), ("Pad", "axes")}


@pytest.mark.parametrize(
    ("key", "operand"), MOVED.items(), ids=lambda value: "-".join(map(str, value))
)
def test_each_operand_came_when_the_attribute_went(key: tuple[str, str], operand: Moved) -> None:
    op_type, attribute = key
    new, old = (
        onnx.defs.get_schema(op_type, version) for version in (operand.since, operand.since - 1)
    )
    assert len(old.inputs) <= operand.place < len(new.inputs)
    assert attribute not in new.attributes
    assert (attribute in old.attributes) is (key not in ALWAYS_OPERANDS)
    assert operand.is_single is (operand.holds != "integers")
    if operand.holds != "number":
        assert "tensor(int64)" in str(new.inputs[operand.place].types)


@pytest.mark.parametrize("key", MOVED_DEFAULTS)
def test_defaults_are_those_of_the_attributes(key: tuple[str, str]) -> None:
    op_type, attribute = key
    old = onnx.defs.get_schema(op_type, MOVED[key].since - 1)
    assert old.attributes[attribute].default_value.f == MOVED_DEFAULTS[key]


def test_the_operator_set_decides() -> None:
    assert moved("ReduceMean", "axes", 17) is None
    assert moved("ReduceMean", "axes", 18) == Moved(1, 18)
    assert moved("ReduceSum", "axes", 13) == Moved(1, 13)
    assert moved("Relu", "axes", 18) is None
    assert moved_inputs("Pad", 17) == {1: "pads", 2: "value"}
    assert moved_inputs("Pad", 18) == {1: "pads", 2: "value", 3: "axes"}
