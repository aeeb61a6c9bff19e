"""Operators of the standard and of onnxruntime, by version."""

from __future__ import annotations

import pytest

from xoptim.facts.operators import objection


@pytest.mark.parametrize(
    ("op_type", "opset", "exists"),
    [
        ("LayerNormalization", 17, True),
        ("LayerNormalization", 7, True),  # of onnxruntime, which has it in every version
        ("SimplifiedLayerNormalization", 18, True),
        ("RMSNormalization", 22, False),
        ("RMSNormalization", 23, True),
        ("Gelu", 19, False),
        ("Nowhere", 18, False),
    ],
)
def test_an_operator_exists_in_the_standard_or_in_onnxruntime(op_type: str, opset: int, exists: bool) -> None:
    operands = 1 if op_type == "Gelu" else 2
    found = objection(op_type, "", {}, operands, 1, {"": opset})
    hint = "; did you mean 'Where'?" if op_type == "Nowhere" else ""
    assert found == (None if exists else f"operator {op_type} does not exist in version {opset} of the operator set{hint}")
