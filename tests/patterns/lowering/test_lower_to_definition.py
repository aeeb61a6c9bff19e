"""The bodies of the standard are written for each operator that the pattern takes."""

import pytest
from onnx import ModelProto, parser

import xoptim
from xoptim.patterns.lowering.lower_to_definition import LowerToDefinitionPattern
from xoptim.testing import make_all_feeds, same_numbers

_ROWS = "agraph (float[2,4] x) => (float[2,4] y) { y = %s(x) }"
_COMPARED = "agraph (float[2,4] x, float[4] z) => (bool[2,4] y) { y = %s(x, z) }"
_CALLS = {
    "CenterCropPad": (
        18,
        "agraph (float[4,6] x) => (float[2,8] y) <int64[2] s = {2, 8}> { y = CenterCropPad(x, s) }",
    ),
    "Clip": (
        18,
        (
            "agraph (float[4] x) => (float[4] y) <float a = {-0.5}, float b = {0.5}> { "
            "y = Clip(x, a, b) }"
        ),
    ),
    "Elu": (22, _ROWS % "Elu <alpha = 0.5>"),
    "Gelu": (20, _ROWS % 'Gelu <approximate = "tanh">'),
    "GreaterOrEqual": (18, _COMPARED % "GreaterOrEqual"),
    "GroupNormalization": (
        21,
        (
            "agraph (float[2,4,3] x, float[4] s, float[4] b) => (float[2,4,3] y) "
            "{ y = GroupNormalization <num_groups = 2, epsilon = 0.01> (x, s, b) }"
        ),
    ),
    "HardSigmoid": (22, _ROWS % "HardSigmoid"),
    "HardSwish": (22, _ROWS % "HardSwish"),
    "LeakyRelu": (18, _ROWS % "LeakyRelu <alpha = 0.1>"),
    "LessOrEqual": (18, _COMPARED % "LessOrEqual"),
    "Relu": (18, _ROWS % "Relu"),
    "Selu": (22, _ROWS % "Selu"),
    "Softmax": (18, _ROWS % "Softmax"),
    "Softsign": (22, _ROWS % "Softsign"),
    "Swish": (24, _ROWS % "Swish <alpha = 2.0>"),
    "ThresholdedRelu": (22, _ROWS % "ThresholdedRelu <alpha = 0.3>"),
}


def _lowered(opset: int, text: str) -> tuple[ModelProto, ModelProto]:
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}')
    return model, xoptim.optimize(model, patterns="LowerToDefinition", strict=True)


@pytest.mark.parametrize("operator", LowerToDefinitionPattern.anchors)
def test_each_operator(operator: str) -> None:
    model, found = _lowered(*_CALLS[operator])
    assert operator not in {node.op_type for node in found.graph.node}
    assert not {node.op_type for node in found.graph.node} & {"CastLike", "Constant"}
    numbers = same_numbers(model, found, make_all_feeds(model), "rounding")
    assert (numbers.difference, numbers.skipped) == ("", "")


@pytest.mark.parametrize(
    ("opset", "text"),
    [
        pytest.param(13, _ROWS % "Relu", id="no body for this operator set"),
        pytest.param(
            18,
            "agraph (float[4] x) => (float[4] y) <float a = {0}> { y = Clip(x, a) }",
            id="an operand is left out",
        ),
        pytest.param(18, _ROWS % "Softplus", id="its body overflows"),
        pytest.param(
            18,
            (
                "agraph (uint64[4] x) => (uint64[4] y) <uint64 a = {2}, uint64 b = {5}> { "
                "y = Clip(x, a, b) }"
            ),
            id="no kernel of Where for the type",
        ),
    ],
)
def test_what_it_leaves(opset: int, text: str) -> None:
    model, found = _lowered(opset, text)
    assert [node.op_type for node in found.graph.node] == [
        node.op_type for node in model.graph.node
    ]


def test_types_that_are_not_known() -> None:
    """A body that depends on the types of its operands is not written for an operand of an unknown
    operator.
    """
    text = "agraph (float[2,4] x) => (float[2,4] y) { t = acme.Unknown(x) y = Softmax(t) }"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 18, "acme": 1]> {text}')
    found = xoptim.optimize(model, patterns="LowerToDefinition", strict=True)
    assert [node.op_type for node in found.graph.node] == ["Unknown", "Softmax"]
