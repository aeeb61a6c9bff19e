"""Every pattern that multiplies stored weights refuses products that leave the range of their type
or lose digits there.
"""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run
from xoptim import optimize

CHANNELS = "{t}[1,2,4,4] x) => ({t}[1,2,4,4] y"
VECTORS = "{t}[3,2] x) => ({t}[3,2] y"
NORMALIZED = "BatchNormalization(u, s, zero, zero, ones)"
# Shapes of the weights and of the factors, and the nodes. The weights come first or last.
FOLDS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], str]] = {
    "MatMulMul": (VECTORS, (2, 2), (), "u = MatMul(x, w) y = Mul(u, s)"),
    "MulMatMul": (VECTORS, (2, 2), (), "u = Mul(x, s) y = MatMul(u, w)"),
    "MatMulAddMul": (VECTORS, (2, 2), (2,), "u = MatMul(x, w) v = Add(u, ones) y = Mul(v, s)"),
    "GemmBatchNormalization": (VECTORS, (2, 2), (2,), f"u = Gemm(x, w, zero) y = {NORMALIZED}"),
    "MulMul": (VECTORS, (2,), (2,), "u = Mul(x, w) y = Mul(u, s)"),
    "LayerNormalizationScale": (VECTORS, (2,), (2,), "u = LayerNormalization(x, w) y = Mul(u, s)"),
    "ConvMul": (CHANNELS, (2, 2, 1, 1), (2, 1, 1), "u = Conv(x, w) y = Mul(u, s)"),
    "MulAddConv": (CHANNELS, (2, 2, 1, 1), (2, 1, 1), "u = Mul(x, s) y = Conv(u, w)"),
    "ConvBatchNormalization": (CHANNELS, (2, 2, 1, 1), (2,), f"u = Conv(x, w) y = {NORMALIZED}"),
    "SharedConvBatchNormalization": (
        CHANNELS,
        (2, 2, 1, 1),
        (2,),
        (
            "u = Conv(x, w) p = BatchNormalization(u, s, zero, zero, ones) "
            "q = BatchNormalization(u, s, ones, zero, ones) y = Max(p, q)"
        ),
    ),
    "MulAddConv of BatchNormalization": (
        CHANNELS,
        (2, 2, 1, 1),
        (2,),
        "u = BatchNormalization(x, s, zero, zero, ones) y = Conv(u, w)",
    ),
    "BatchNormalizationMul": (
        CHANNELS,
        (2, 1, 1),
        (2,),
        "u = BatchNormalization(x, s, zero, zero, ones) y = Mul(u, w)",
    ),
}
TYPES = {"float": np.float32, "float16": np.float16}


def model_of(name: str, element: str, weight: float, factor: float) -> onnx.ModelProto:
    signature, *shapes, nodes = FOLDS[name]
    model = parse(f"g ({signature.format(t=element)}) {{ {nodes} }}")
    values = {
        "w": np.full(shapes[0], weight),
        "s": np.full(shapes[1], factor),
        "zero": np.zeros(2),
        "ones": np.ones(2),
    }
    model.graph.initializer.extend(
        numpy_helper.from_array(value.astype(TYPES[element]), key) for key, value in values.items()
    )
    return model


def optimized(name: str, model: onnx.ModelProto) -> tuple[bool, onnx.ModelProto]:
    applied: list[Any] = []
    after = optimize(
        model, patterns=name.split()[0], report=lambda report: applied.extend(report.applied)
    )
    return bool(applied), after


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("name", FOLDS)
def test_moderate_products_are_stored(name: str, element: str) -> None:
    assert optimized(name, model_of(name, element, 0.75, 3.0))[0]


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("kind", ["overflow", "almost", "subnormal", "zero", "swapped"])
def test_products_out_of_range_are_refused(name: str, element: str, kind: str) -> None:
    """Products above the largest number, near it, below the smallest normal number, and below all
    numbers.
    """
    limits = ml_dtypes.finfo(TYPES[element])  # type: ignore[no-untyped-call]
    large, small = float(limits.max), float(limits.smallest_normal)
    weight, factor = {
        "overflow": (large / 4, 8.0),
        "almost": (large / 16, 8.0),
        "subnormal": (small * 4.7, 1 / 67),
        "zero": (small, small),
        "swapped": (1 / 67, small * 4.7),
    }[kind]
    before = model_of(name, element, weight, factor)
    applied, after = optimized(name, before)
    assert not applied
    shape = [d.dim_value for d in before.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).standard_normal(shape).astype(TYPES[element])
    for expected, actual in zip(run(before, {"x": x}), run(after, {"x": x}), strict=True):
        assert expected.tobytes() == actual.tobytes()
