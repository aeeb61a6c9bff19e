"""Operators of the standard and of onnxruntime, by version."""

import pytest
from onnx import TensorProto

from xoptim.facts.operators import objection, objection_to_types


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
def test_an_operator_exists_in_the_standard_or_in_onnxruntime(
    op_type: str, opset: int, exists: bool
) -> None:
    operands = 1 if op_type == "Gelu" else 2
    found = objection(op_type, "", {}, operands, 1, {"": opset})
    hint = "; did you mean 'Where'?" if op_type == "Nowhere" else ""
    assert found == (
        None
        if exists
        else f"operator {op_type} does not exist in version {opset} of the operator set{hint}"
    )


@pytest.mark.parametrize(
    ("op_type", "opset", "dtypes", "expected"),
    [
        ("Add", 18, [TensorProto.FLOAT, TensorProto.FLOAT], None),
        (
            "Add",
            18,
            [TensorProto.FLOAT, TensorProto.DOUBLE],
            "Add takes no operands of different types",
        ),
        ("Add", 18, [0, TensorProto.DOUBLE], None),
        ("Add", 18, [TensorProto.STRING, 0], "Add takes no operand of type string"),
        (
            "Expand",
            21,
            [TensorProto.FLOAT8E4M3FN, TensorProto.INT64],
            "Expand takes no operand of type float8e4m3fn",
        ),
        ("Reshape", 21, [TensorProto.FLOAT8E4M3FN, TensorProto.INT64], None),
        (
            "Reshape",
            18,
            [TensorProto.FLOAT8E4M3FN, TensorProto.INT64],
            "Reshape takes no operand of type float8e4m3fn",
        ),
        (
            "Reshape",
            21,
            [TensorProto.FLOAT, TensorProto.INT32],
            "Reshape takes no operand of type int32",
        ),
        ("Concat", 18, [TensorProto.FLOAT] * 3, None),
        (
            "Concat",
            18,
            [TensorProto.FLOAT] * 2 + [TensorProto.INT64],
            "Concat takes no operands of different types",
        ),
        ("Identity", 18, [TensorProto.FLOAT], None),
        (
            "Loop",
            18,
            [TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT8],
            None,
        ),
        ("Pow", 18, [TensorProto.FLOAT, TensorProto.INT64], None),
        ("NoSuchOperator", 18, [TensorProto.FLOAT], None),
    ],
)
def test_types_of_operands(
    op_type: str, opset: int, dtypes: list[int], expected: str | None
) -> None:
    assert objection_to_types(op_type, "", opset, dtypes) == expected
