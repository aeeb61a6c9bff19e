"""Operators of onnxruntime's own domain, against its runs where it has a kernel for the CPU."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.operators.inference.contrib import check_contrib, infer_contrib
from tests.operators.inference.oracle import Fed, Given, random_array, tensor, vector
from xoptim.facts.dims import SymbolicDim, named
from xoptim.facts.shapes import UNKNOWN, Info

SIZES = (
    {"b": 2, "s": 3, "k": 4, "n": 5, "h": 9, "w": 14},
    {"b": 1, "s": 1, "k": 2, "n": 3, "h": 17, "w": 8},
)
U8, I32, I64, HALF, BOOL = (
    *(TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.FLOAT16, TensorProto.BOOL),
)
B, S, K, N, H, W = (named(name) for name in "bsknhw")
Z = np.array(3, dtype=np.uint8)
SCALE = np.array(0.1, dtype=np.float32)


def floats(*shape: int) -> np.ndarray:
    return random_array(TensorProto.FLOAT, shape)


def bytes_(*shape: int) -> np.ndarray:
    return random_array(U8, shape)


def u8(*shape: int | str) -> Info:
    return tensor(*shape, dtype=U8)


def number(value: float, dtype: type = np.int64) -> np.ndarray:
    return np.array(value, dtype=dtype)


PRODUCTS: list[tuple[str, list[Given], dict[str, Any], tuple[Any, ...]]] = [
    ("FusedMatMul", [tensor("b", "s", "k"), tensor("k", "n")], {}, (B, S, N)),
    ("FusedMatMul", [tensor("b", "k", "s"), tensor("k", "n")], {"transA": 1}, (B, S, N)),
    (
        "FusedMatMul",
        [tensor("b", "s", "k"), tensor("n", "k")],
        {"transB": 1, "alpha": 0.5},
        (B, S, N),
    ),
    (
        "FusedMatMul",
        [tensor("b", "k", "s"), tensor("b", "n", "k")],
        {"transA": 1, "transB": 1},
        (B, S, N),
    ),
    ("FusedMatMul", [tensor("s", "b", "k"), tensor("b", "k", "n")], {"transBatchA": 1}, (B, S, N)),
    (
        "FusedMatMul",
        [tensor("s", "b", "k"), tensor("k", "b", "n")],
        {"transBatchA": 1, "transBatchB": 1},
        (B, S, N),
    ),
    (
        "FusedMatMul",
        [tensor("k", "b", "s"), tensor("b", "k", "n")],
        {"transBatchA": 1, "transA": 1},
        (B, S, N),
    ),
    (
        "FusedMatMul",
        [tensor("s", 7, "b", "k"), tensor(7, "b", "k", "n")],
        {"transBatchA": 1},
        (7, B, S, N),
    ),
    ("FusedMatMul", [tensor("k"), tensor("k", "n")], {"transA": 1}, (N,)),
    ("FusedMatMul", [tensor("b", "s", "k"), tensor("k")], {"transB": 1}, (B, S)),
    ("FusedMatMul", [tensor("k"), tensor("k")], {}, ()),
    ("FusedMatMul", [tensor(2, 1, 3, 4), tensor(5, 4, 3)], {}, (2, 5, 3, 3)),
    ("TransposeMatMul", [tensor("b", "k", "s"), tensor("k", "n")], {"transA": 1}, (B, S, N)),
    ("FusedGemm", [tensor("s", "k"), tensor("k", "n")], {"activation": "Relu"}, (S, N)),
    (
        "FusedGemm",
        [tensor("k", "s"), tensor("n", "k"), tensor("n")],
        {"activation": "Relu", "transA": 1, "transB": 1},
        (S, N),
    ),
    (
        "MatMulNBits",
        [tensor("b", "s", 32), bytes_(8, 2, 8), floats(16)],
        {"K": 32, "N": 8, "bits": 4, "block_size": 16},
        (B, S, 8),
    ),
    ("DynamicQuantizeMatMul", [tensor("b", "s", "k"), u8("k", "n"), tensor(1)], {}, (B, S, N)),
    ("MatMulIntegerToFloat", [u8("b", "s", 4), bytes_(4, 6), SCALE, SCALE], {}, (B, S, 6)),
    ("QGemm", [u8("s", 4), SCALE, Z, bytes_(4, 6), SCALE, Z], {}, (S, 6)),
    (
        "QGemm",
        [u8("s", 4), SCALE, Z, bytes_(6, 4), SCALE, Z, None, SCALE, Z],
        {"transB": 1},
        (S, 6),
    ),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "expected"), PRODUCTS)
def test_products(
    op_type: str, inputs: list[Given], attributes: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert check_contrib(op_type, inputs, attributes, assignments=SIZES)[0].shape == expected


SAME: list[tuple[str, list[Given], dict[str, Any]]] = [
    ("Gelu", [tensor("b", "s", 6)], {}),
    ("QuickGelu", [tensor("b", "s", 6)], {}),
    ("FastGelu", [tensor("b", "s", 6)], {}),
    ("Trilu", [tensor("b", "s", 6)], {}),
    ("BiasGelu", [tensor("b", "s", 6), tensor(6)], {}),
    ("FastGelu", [tensor("b", "s", 6), tensor(6)], {}),
    ("Inverse", [Fed(np.eye(3, dtype=np.float32))], {}),
    (
        "SkipLayerNormalization",
        [tensor("b", "s", 6), tensor("b", "s", 6), tensor(6), tensor(6)],
        {},
    ),
    (
        "SkipLayerNormalization",
        [tensor("b", "s", 6), tensor("s", 6), tensor(6), tensor(6), tensor(6)],
        {},
    ),
    ("SkipSimplifiedLayerNormalization", [tensor("b", "s", 6), tensor("b", "s", 6), tensor(6)], {}),
    ("RotaryEmbedding", [tensor("b", 4, "s", 8), vector(0), tensor(40, 4), tensor(40, 4)], {}),
    ("QLinearLeakyRelu", [u8("b", "s"), SCALE, Z, SCALE, Z], {}),
    ("QLinearSigmoid", [u8("b", "s"), SCALE, Z, SCALE, Z], {}),
    ("MoE", [tensor("b", 8), tensor("b", 4), tensor(4, 8, 8), None, tensor(4, 8, 8)], {"k": 1}),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes"), SAME)
def test_same_type_and_shape(op_type: str, inputs: list[Given], attributes: dict[str, Any]) -> None:
    first = infer_contrib("Gelu", inputs[:1])[0]
    assert check_contrib(op_type, inputs, attributes, assignments=SIZES) == [first]


def test_sum_of_skip_normalization() -> None:
    x, scale = tensor("b", "s", 6), tensor(6)
    for op_type, inputs in (
        ("SkipLayerNormalization", [x, x, scale, scale]),
        ("SkipSimplifiedLayerNormalization", [x, x, scale]),
    ):
        infos = infer_contrib(op_type, inputs, outputs=4)
        assert infos == [x, Info(TensorProto.FLOAT), Info(TensorProto.FLOAT), x]


@pytest.mark.parametrize(
    "window",
    [{}, {"strides": [2, 1]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"pads": [1] * 4}],
)
def test_convolutions(window: dict[str, Any]) -> None:
    x, w = tensor("b", 4, "h", "w"), floats(6, 4, 3, 2)
    check_contrib("FusedConv", [x, w], {**window, "activation": "Relu"}, assignments=SIZES)
    quantized = bytes_(6, 4, 3, 2)
    last: list[Given] = [u8("b", "h", "w", 4), SCALE, Z, quantized, SCALE, Z, SCALE, Z]
    first: list[Given] = [u8("b", 4, "h", "w"), *last[1:]]
    (channels_last,) = check_contrib(
        "QLinearConv", last, {**window, "channels_last": 1}, assignments=SIZES
    )
    (channels_first,) = check_contrib("QLinearConv", first, window, assignments=SIZES)
    assert channels_last.shape is not None
    assert channels_first.shape is not None
    batch, *sizes, channels = channels_last.shape
    assert channels_first.shape == (batch, channels, *sizes)
    for op_type in ("NhwcConv", "NhwcFusedConv"):
        assert (
            infer_contrib(op_type, [tensor("b", "h", "w", 4), w], window)[0].shape
            == channels_last.shape
        )


def test_pools() -> None:
    pool = {"kernel_shape": [3, 3], "strides": [2, 2]}
    check_contrib(
        "NhwcMaxPool", [u8("b", "h", "w", 3)], {**pool, "ceil_mode": 1}, assignments=SIZES
    )
    rest: list[Given] = [SCALE, Z, SCALE, Z]
    last = {**pool, "ceil_mode": 1, "channels_last": 1}
    check_contrib("QLinearAveragePool", [u8("b", "h", "w", 3), *rest], last, assignments=SIZES)
    check_contrib("QLinearAveragePool", [u8("b", 3, "h", "w"), *rest], pool, assignments=SIZES)
    for layout in (0, 1):
        x = u8("b", 3, "h", "w")
        check_contrib(
            "QLinearGlobalAveragePool", [x, *rest], {"channels_last": layout}, assignments=SIZES
        )


def test_embeddings() -> None:
    table, ids = floats(40, 6), tensor("b", "s", dtype=I32)
    segments = Fed(np.zeros((2, 3), dtype=np.int32))
    inputs: list[Given] = [
        Fed(np.ones((2, 3), dtype=np.int32)),
        segments,
        table,
        table,
        floats(2, 6),
        floats(6),
        floats(6),
    ]
    infos = check_contrib("EmbedLayerNormalization", inputs, outputs=2)
    assert infos == [tensor(2, 3, 6), tensor(2, dtype=I32)]
    inputs = [ids, None, table, table, None, floats(6), floats(6), ids]
    for kind in (0, 1):
        attributes = {"mask_index_type": kind}
        infos = check_contrib(
            "EmbedLayerNormalization", inputs, attributes, outputs=3, assignments=SIZES
        )
        assert infos == [tensor("b", "s", 6), tensor("b", dtype=I32), tensor("b", "s", 6)]


def test_quantization() -> None:
    x = tensor("b", "s")
    assert check_contrib("QuantizeLinear", [x, SCALE, Z], assignments=SIZES) == [u8("b", "s")]
    assert check_contrib("QuantizeLinear", [x, SCALE], assignments=SIZES) == [u8("b", "s")]
    columns: list[Given] = [tensor("b", 3), floats(3), np.array([1, 2, 3], dtype=np.int8)]
    assert (
        check_contrib("QuantizeLinear", columns, {"axis": 1}, assignments=SIZES)[0].dtype
        == TensorProto.INT8
    )
    assert check_contrib("DequantizeLinear", [u8("b", "s"), SCALE, Z], assignments=SIZES) == [x]
    half = check_contrib(
        "DequantizeLinear", [u8("b", "s"), SCALE.astype(np.float16), Z], assignments=SIZES
    )
    assert half == [tensor("b", "s", dtype=HALF)]


QUANTIZED: list[tuple[str, list[Given], dict[str, Any], tuple[Any, ...]]] = [
    ("QLinearAdd", [u8("b", "s", 4), SCALE, Z, u8("s", 4), SCALE, Z, SCALE, Z], {}, (B, S, 4)),
    ("QLinearMul", [u8("b", "s", 4), SCALE, Z, u8("b", 1, 1), SCALE, Z, SCALE, Z], {}, (B, S, 4)),
    (
        "QLinearWhere",
        [tensor("b", "s", dtype=BOOL), u8("b", 1), SCALE, Z, u8("b", 1), SCALE, Z, SCALE, Z],
        {},
        (B, S),
    ),
    (
        "QLinearConcat",
        [SCALE, Z, u8("b", "s"), SCALE, Z, u8("b", 4), SCALE, Z],
        {"axis": 1},
        (B, S + 4),
    ),
    (
        "QLinearConcat",
        [SCALE, Z, u8("b", "s"), SCALE, Z, u8("n", "s"), SCALE, Z],
        {"axis": -2},
        (B + N, S),
    ),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "expected"), QUANTIZED)
def test_quantized(
    op_type: str, inputs: list[Given], attributes: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert check_contrib(op_type, inputs, attributes, assignments=SIZES) == [Info(U8, expected)]


def test_quantized_lstm() -> None:
    w, r = bytes_(1, 4, 12), bytes_(1, 3, 12)
    scales: list[Given] = [floats(1), bytes_(1), floats(1), bytes_(1)]
    inputs: list[Given] = [tensor("s", "b", 4), w, r, *[None] * 5, *scales]
    infos = check_contrib(
        "DynamicQuantizeLSTM", inputs, {"hidden_size": 3}, outputs=3, assignments=SIZES
    )
    assert [info.shape for info in infos] == [(S, 1, B, 3), (1, B, 3), (1, B, 3)]


def zeros(*shape: int, dtype: type = np.int64) -> Fed:
    return Fed(np.zeros(shape, dtype=dtype))


MOVEMENT: list[tuple[str, list[Given], dict[str, Any], tuple[Any, ...]]] = [
    ("NGramRepeatBlock", [tensor("b", "s", dtype=I64), tensor("b", 9)], {"ngram_size": 2}, (B, 9)),
    ("GridSample", [tensor("b", 3, "h", "w"), tensor("b", "s", 5, 2)], {}, (B, 3, S, 5)),
    (
        "GatherBlockQuantized",
        [bytes_(5, 32), zeros(2, 3), floats(5, 4)],
        {"block_size": 16, "quantize_axis": 1, "bits": 4},
        (2, 3, 64),
    ),
    (
        "GatherBlockQuantized",
        [bytes_(5, 32), zeros(2, 3), floats(5, 2)],
        {"block_size": 16, "quantize_axis": 1, "bits": 8},
        (2, 3, 32),
    ),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "expected"), MOVEMENT)
def test_movement(
    op_type: str, inputs: list[Given], attributes: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert check_contrib(op_type, inputs, attributes, assignments=SIZES)[0].shape == expected


WITHOUT_KERNEL: list[tuple[str, list[Given], dict[str, Any], list[tuple[Any, ...] | None]]] = [
    ("BiasAdd", [tensor("b", "s", 10), tensor(10), tensor("b", "s", 10)], {}, [(B, S, 10)]),
    (
        "GroupNorm",
        [tensor("b", 2, 3, 8), tensor(8), tensor(8)],
        {"groups": 2, "activation": 0},
        [(B, 2, 3, 8)],
    ),
    (
        "SkipGroupNorm",
        [tensor("b", 2, 3, 8), tensor(8), tensor(8), tensor("b", 8)],
        {},
        [(B, 2, 3, 8)] * 2,
    ),
    ("GemmFloat8", [tensor("s", "k"), tensor("n", "k")], {"transB": 1, "dtype": 10}, [(S, N)]),
    ("MatMulNBitsMlp", [tensor("b", "s", 32)], {"N": 8}, [(B, S, 8), (B, S, 32)]),
    ("QLinearReduceMean", [u8("b", "s", 4)], {"axes": [-1, 0], "keepdims": 0}, [(S,)]),
    ("QLinearReduceMean", [u8("b", "s", 4)], {"axes": [1], "keepdims": 1}, [(B, 1, 4)]),
    ("ReduceSumInteger", [u8("b", "s", 4)], {"axes": [1], "keepdims": 0}, [(B, 4)]),
    ("MulInteger", [u8("b", "s"), Z, u8("b", 1), Z], {}, [(B, S)]),
    ("ComplexMul", [tensor("b", 2), tensor("b", 2)], {}, [(B, 2)]),
    ("IsAllFinite", [tensor("b"), tensor("s")], {}, [()]),
    (
        "GemmaRotaryEmbedding",
        [UNKNOWN, tensor("b", "s"), UNKNOWN, tensor("b", "k")],
        {},
        [(B, S), (B, K)],
    ),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "expected"), WITHOUT_KERNEL)
def test_without_kernel(
    op_type: str,
    inputs: list[Given],
    attributes: dict[str, Any],
    expected: list[tuple[Any, ...] | None],
) -> None:
    """The documentation is the reference: onnxruntime runs these on other devices only."""
    for info, shape in zip(
        infer_contrib(op_type, inputs, attributes, len(expected)), expected, strict=True
    ):
        if shape is None:
            assert isinstance((info.shape or (0,))[0], SymbolicDim)
        else:
            assert info.shape == shape
