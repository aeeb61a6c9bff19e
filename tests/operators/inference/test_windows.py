"""Convolutions, pools and their inverses."""

from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto

from tests.operators.inference.context import Input, infer
from tests.operators.inference.oracle import Fed, Given, check, ints, random_array, tensor
from xoptim.facts.attributes import AttributeReference
from xoptim.facts.dims import SymbolicDim, is_anonymous, named
from xoptim.facts.shapes import UNKNOWN, Info

SIZES = ({"n": 2, "h": 9, "w": 14}, {"n": 1, "h": 17, "w": 8})
U8 = TensorProto.UINT8
WINDOWS: list[dict[str, Any]] = [
    {},
    {"pads": [1, 2, 0, 1]},
    {"strides": [2, 3]},
    {"dilations": [2, 1], "pads": [2, 0, 2, 0]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
    {"auto_pad": "SAME_LOWER", "strides": [1, 5]},
    {"auto_pad": "VALID", "strides": [2, 2]},
    {"auto_pad": "NOTSET", "kernel_shape": [3, 2], "strides": [4, 4], "pads": [2, 0, 1, 1]},
]
POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [0, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [3, 4], "pads": [1, 0, 0, 0]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [3, 3], "strides": [2, 3], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "VALID"},
]
CEILED: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [2, 3], "strides": [3, 2]},
    {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [4, 5], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
]


def weights(*shape: int, dtype: int = TensorProto.FLOAT) -> np.ndarray:
    return random_array(dtype, shape)


def scale() -> np.ndarray:
    return np.array(0.1, dtype=np.float32)


def zero(dtype: type = np.uint8) -> np.ndarray:
    return np.array(3, dtype=dtype)


def assert_known(infos: list[Info]) -> None:
    """No dimension is anonymous."""
    for info in infos:
        assert info.shape is not None
        assert not any(isinstance(d, SymbolicDim) and d.is_anonymous for d in info.shape), info


@pytest.mark.parametrize("attributes", WINDOWS)
@pytest.mark.parametrize("opset", [1, 11, 22])
def test_conv(attributes: dict[str, Any], opset: int) -> None:
    for shape in (("n", 4, "h", "w"), (2, 4, 9, 10)):
        assert_known(
            check(
                "Conv",
                [tensor(*shape), weights(6, 4, 3, 2)],
                attributes,
                opset=opset,
                assignments=SIZES,
            )
        )


def test_conv_groups_bias_and_unknown_weights() -> None:
    sizes = [{"n": 2, "w": 9, "m": 4, "k": 2}]
    assert_known(
        check("Conv", [tensor("n", 4, "w"), tensor("m", 2, "k")], {"group": 2}, assignments=sizes)
    )
    result = check(
        "Conv", [tensor("n", 4, "w"), tensor("m", 4, "k"), tensor("m")], assignments=sizes
    )[0]
    assert result.shape == (named("n"), named("m"), named("w") - named("k") + 1)
    for one in ((1, 1, 1), (0, 1, 4)):
        assert_known(check("Conv", [tensor(*one), weights(1, 1, 1)]))


def test_conv_knows_the_rank_from_either_operand() -> None:
    known = infer("Conv", [UNKNOWN, tensor(6, 4, 3, 3)])[0]
    assert known.shape is not None
    assert (known.rank, known.shape[1]) == (4, 6)
    known = infer(
        "Conv", [tensor("n", 4, "h", "w"), UNKNOWN], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}
    )[0]
    assert known.shape is not None
    assert known.shape[2] is (named("h") + 1) // 2
    assert infer("Conv", [UNKNOWN, UNKNOWN])[0].shape is None
    assert infer("Conv", [tensor("n", 4, "h"), tensor(6, 4, 3, 3)])[0].shape is None


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [1]},
        {"strides": [0, 1]},
        {"pads": [1, 1]},
        {"auto_pad": "SAME_UPPER", "pads": [1, 1, 1, 1]},
        {"auto_pad": "VALID", "pads": [1, 1, 1, 1]},
        {"auto_pad": "ELSEWHERE"},
        {"dilations": "many"},
        {"auto_pad": 7},
        {"ceil_mode": AttributeReference("mode", AttributeProto.INT)},
    ],
)
def test_contradictory_windows_leave_the_sizes_open(attributes: dict[str, Any]) -> None:
    shape = infer("Conv", [tensor("n", 4, 9, 9), weights(6, 4, 3, 3)], attributes)[0].shape
    assert shape is not None
    assert shape[:2] == (named("n"), 6)
    assert all(isinstance(d, SymbolicDim) and d.is_anonymous for d in shape[2:])


def test_a_window_larger_than_its_input_leaves_the_size_open() -> None:
    shape = infer("Conv", [tensor("n", 4, 2, 9), weights(6, 4, 3, 3)])[0].shape
    assert shape is not None
    assert isinstance(shape[2], SymbolicDim)
    assert shape[3] == 7


def test_quantized_convolutions() -> None:
    x, w = tensor("n", 4, "h", "w", dtype=U8), weights(6, 4, 3, 2, dtype=U8)
    assert_known(
        check("ConvInteger", [x, w, zero()], {"strides": [2, 1]}, opset=10, assignments=SIZES)
    )
    operands: list[Given] = [x, scale(), zero(), w, scale(), zero(), scale(), zero()]
    assert_known(check("QLinearConv", operands, {"strides": [2, 1]}, opset=10, assignments=SIZES))
    signed = infer("QLinearConv", [x, scale(), zero(), w, scale(), zero(), scale(), zero(np.int8)])[
        0
    ]
    assert signed.dtype == TensorProto.INT8


@pytest.mark.parametrize("opset", [19, 22])
def test_deform_conv(opset: int) -> None:
    inputs: list[Given] = [tensor("n", 4, "h", "w"), weights(6, 4, 3, 2), tensor("n", 12, "a", "b")]
    sizes = [{"n": 2, "h": 9, "w": 14, "a": 7, "b": 13}]
    assert_known(check("DeformConv", inputs, opset=opset, assignments=sizes))


@pytest.mark.parametrize("attributes", WINDOWS)
@pytest.mark.parametrize("opset", [1, 11, 22])
def test_conv_transpose(attributes: dict[str, Any], opset: int) -> None:
    for shape in (("n", 4, "h", "w"), (2, 4, 9, 10)):
        assert_known(
            check(
                "ConvTranspose",
                [tensor(*shape), weights(4, 6, 3, 2)],
                attributes,
                opset=opset,
                assignments=SIZES,
            )
        )


def test_conv_transpose_output_padding_and_shape() -> None:
    x, w = tensor("n", 4, "h", "w"), weights(4, 3, 3, 2)
    extra = {"strides": [2, 2], "output_padding": [1, 0]}
    assert_known(check("ConvTranspose", [x, w], extra, assignments=SIZES))
    assert_known(
        check("ConvTranspose", [x, w], {**extra, "strides": [4, 4], "group": 2}, assignments=SIZES)
    )
    # The onnx package adds the padding to a size that is fixed already.
    same = {**extra, "auto_pad": "SAME_UPPER"}
    assert_known(check("ConvTranspose", [x, w], same, assignments=SIZES, strict=False))
    given = {"strides": [2, 2], "output_shape": [18, 27]}
    fixed = tensor("n", 4, 9, 14)
    assert check("ConvTranspose", [fixed, w], given, assignments=SIZES)[0].shape == (
        named("n"),
        3,
        18,
        27,
    )


@pytest.mark.parametrize(
    ("op_type", "opset"),
    [("MaxPool", o) for o in (1, 8, 10, 11, 12, 22)]
    + [("AveragePool", o) for o in (7, 10, 11, 19, 22)]
    + [("LpPool", o) for o in (2, 11, 18, 22)],
)
def test_pools(op_type: str, opset: int) -> None:
    x = tensor("n", 3, "h", "w")
    for attributes in POOLS:
        assert_known(check(op_type, [x], attributes, opset=opset, assignments=SIZES))
    if opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op_type]:
        dilated = {"kernel_shape": [2, 3], "dilations": [3, 2], "strides": [2, 1]}
        assert_known(check(op_type, [x], dilated, opset=opset, assignments=SIZES))
    if opset >= (18 if op_type == "LpPool" else 10):
        for attributes in CEILED:
            assert_known(
                check(op_type, [x], {**attributes, "ceil_mode": 1}, opset=opset, assignments=SIZES)
            )


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_same_padding_of_a_window_with_dilations(op_type: str, mode: str) -> None:
    attributes: dict[str, Any] = {"kernel_shape": [3, 2], "dilations": [2, 1], "auto_pad": mode}
    for strides in ([1, 1], [2, 1], [3, 2]):
        for ceil_mode in (0, 1):
            changed = {**attributes, "strides": strides, "ceil_mode": ceil_mode}
            assert_known(check(op_type, [tensor(1, 2, 8, 6)], changed, opset=22, strict=False))
    for height, strides in (("h", [2, 1]), (9, [5, 1])):
        changed = {**attributes, "strides": strides}
        x = tensor(1, 2, height, 6)
        (result,) = check(op_type, [x], changed, opset=22, strict=False, assignments=SIZES)
        assert result.shape is not None
        assert is_anonymous(result.shape[2])


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("size", range(2, 10))
def test_rounding_up_drops_windows_in_the_padding(op_type: str, size: int) -> None:
    for attributes in CEILED:
        known = {**attributes, "ceil_mode": 1}
        assert_known(check(op_type, [tensor(1, 1, size + 1, size + 2)], known, opset=22))
        # Before operator set 22 the onnx package counts them, onnxruntime never did.
        assert_known(
            check(op_type, [tensor(1, 1, size + 1, size + 2)], known, opset=11, strict=False)
        )


def test_max_pool_positions() -> None:
    for dtype in (TensorProto.FLOAT, U8):
        x = tensor("n", 3, "h", "w", dtype=dtype)
        infos = check("MaxPool", [x], POOLS[1], outputs=2, opset=12, assignments=SIZES)
        assert infos[1] == Info(TensorProto.INT64, infos[0].shape)


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pools(op_type: str) -> None:
    for shape in (("n", 3, "h", "w"), ("n", 3, "h"), (1, 1, 1)):
        result = check(op_type, [tensor(*shape)], opset=2, assignments=SIZES)[0]
        assert result.shape == (*(tensor(*shape).shape or ())[:2], *[1] * (len(shape) - 2))


@pytest.mark.parametrize("opset", [9, 11, 22])
def test_max_unpool(opset: int) -> None:
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    positions = Fed(np.arange(20).reshape(1, 1, 4, 5))
    assert_known(check("MaxUnpool", [tensor(1, 1, 4, 5), positions], window, opset=opset))
    given: list[Given] = [tensor(1, 1, 4, 5), positions, ints(1, 1, 9, 11)]
    assert check("MaxUnpool", given, window, opset=opset)[0].shape == (1, 1, 9, 11)
    later: list[Input] = [
        tensor(1, 1, "h", "w"),
        tensor(1, 1, "h", "w", dtype=7),
        tensor(4, dtype=7),
    ]
    assert infer("MaxUnpool", later, window, opset=opset)[0].rank == 4


def test_col2im() -> None:
    sizes = [{"n": 2}, {"n": 1}]
    check_sizes = [
        (16, {}),
        (9, {"dilations": [2, 2]}),
        (25, {"pads": [1, 0, 0, 1]}),
        (4, {"strides": [3, 3]}),
    ]
    for columns, attributes in check_sizes:
        inputs: list[Given] = [tensor("n", 12, columns), ints(5, 5), ints(2, 2)]
        result = check("Col2Im", inputs, attributes, opset=18, assignments=sizes)[0]
        assert result.shape == (named("n"), 3, 5, 5)
    later: list[Input] = [tensor("n", 12, "l"), tensor(2, dtype=7), tensor(2, dtype=7)]
    assert infer("Col2Im", later, opset=18)[0].rank == 4
    assert infer("Col2Im", [tensor("n", 12, "l"), UNKNOWN, UNKNOWN], opset=18)[0].shape is None
    for attributes in ({"strides": [1, 1]}, {"dilations": [2, 1]}, {"pads": [1, 1, 0, 0]}):
        assert (
            infer("Col2Im", [tensor("n", 12, "l"), UNKNOWN, UNKNOWN], attributes, opset=18)[0].rank
            == 4
        )
