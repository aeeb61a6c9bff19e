"""Fourier transforms and windows."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto

from tests.operators.inference.context import infer
from tests.operators.inference.oracle import Fed, Given, check, random_array, tensor
from xoptim.facts.dims import named
from xoptim.facts.shapes import UNKNOWN, Info

SIZES = ({"n": 2, "l": 40}, {"n": 1, "l": 33})
N, L = named("n"), named("l")


def number(value: int, dtype: type = np.int64) -> np.ndarray:
    return np.array(value, dtype=dtype)


@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows(op_type: str) -> None:
    assert check(op_type, [number(7)], opset=17) == [tensor(7)]
    double = {"output_datatype": TensorProto.DOUBLE, "periodic": 0}
    assert check(op_type, [number(7, np.int32)], double, opset=17) == [
        tensor(7, dtype=TensorProto.DOUBLE)
    ]
    assert check(op_type, [Fed(number(6))], opset=17)[0].rank == 1


def test_mel_weight_matrix() -> None:
    edges: list[Given] = [np.array(v, dtype=np.float32) for v in (0, 4000)]
    assert check("MelWeightMatrix", [number(8), number(64), number(8192), *edges], opset=17) == [
        tensor(33, 8)
    ]
    later = check("MelWeightMatrix", [number(8), Fed(number(64)), number(8192), *edges], opset=17)[
        0
    ].shape
    assert later is not None
    assert later[1] == 8


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("length", ["l", 8, 9])
@pytest.mark.parametrize(
    ("one_sided", "inverse", "parts"),
    [(0, 0, 1), (0, 0, 2), (1, 0, 1), (0, 1, 1), (0, 1, 2), (1, 1, 2)],
)
def test_dft(opset: int, length: str | int, one_sided: int, inverse: int, parts: int) -> None:
    attributes = {"onesided": one_sided, "inverse": inverse}
    x, wide = tensor("n", length, parts), tensor("n", length, 3, parts)
    for size in (None, number(6), number(50)):
        known = check("DFT", [x, size], attributes, opset=opset, assignments=SIZES)[0]
        assert known.shape is not None
        assert known.shape[0] is N
    # The onnx package takes the length of the input for a length that is not known.
    assert (
        check("DFT", [x, Fed(number(6))], attributes, opset=opset, assignments=SIZES, strict=False)[
            0
        ].rank
        == 3
    )
    if opset < 20:
        check("DFT", [wide], {**attributes, "axis": 2}, opset=opset, assignments=SIZES)
        return
    for axis in (1, 2, -2, -3):
        check("DFT", [wide, None, number(axis)], attributes, opset=opset, assignments=SIZES)
    unknown_axis = check(
        "DFT",
        [wide, None, Fed(number(1))],
        attributes,
        opset=opset,
        assignments=SIZES,
        strict=not one_sided,
    )
    assert unknown_axis[0].rank == 4


@pytest.mark.parametrize("length", ["l", 32])
@pytest.mark.parametrize("one_sided", [0, 1])
def test_stft(length: str | int, one_sided: int) -> None:
    x, step, window = tensor("n", length, 1), number(4), random_array(TensorProto.FLOAT, (16,))
    attributes = {"onesided": one_sided}
    bins = 9 if one_sided else 16
    size = (x.shape or ())[1]
    given: list[list[Given]] = [
        [x, step, None, number(16)],
        [x, step, window],
        [x, step, window, number(16)],
    ]
    for inputs in given:
        result = check("STFT", inputs, attributes, opset=17, assignments=SIZES)[0]
        assert result.shape == (N, (size - 16) // 4 + 1, bins, 2)
    check("STFT", [x, Fed(step), window], attributes, opset=17, assignments=SIZES)
    if not one_sided:
        check(
            "STFT", [tensor("n", length, 2), step, window], attributes, opset=17, assignments=SIZES
        )


def test_unknown_signals() -> None:
    for op_type, opset in itertools.product(("DFT", "STFT"), (17, 20)):
        shape = infer(op_type, [UNKNOWN, UNKNOWN], opset=opset)[0].shape
        assert shape is None if op_type == "DFT" else shape is not None and shape[3] == 2
    assert infer("DFT", [tensor(4)]) == [Info(TensorProto.FLOAT)]
