"""Lowered operators on 8-bit integers give what onnxruntime's kernels give, or one step more or
less where a number lies halfway.
"""

from typing import Any, Final

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

_DOMAINS: Final = {"com.microsoft": 1}
_TYPES: Final = {"uint8": (128, 3), "int8": (-5, 7)}
"""The zero points of operands and results, by the type of the integers."""
_HALF: Final = 0.02
"""Share of the results that may differ by a step."""


def lowered(text: str, *, feeds: dict[str, Any], share: float = _HALF) -> onnx.ModelProto:
    """The lowered model, after a comparison with the original."""
    model = parse(text, 18, domains=_DOMAINS)
    after = optimize(model, patterns="lower", strict=True)
    assert all(not node.domain for node in after.graph.node)
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        assert result.dtype == expected.dtype
        if result.dtype == np.float32:
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
            continue
        distances = np.abs(result.astype(int) - expected.astype(int))
        assert distances.max() <= 1
        assert np.mean(distances > 0) <= share
    return after


def integers(kind: str, *shape: int, seed: int = 0) -> np.ndarray:
    info = np.iinfo(kind)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, shape, kind, endpoint=True)


def parameters(kind: str) -> str:
    operand, result = _TYPES[kind]
    return (
        f"float s = {{0.043}}, float r = {{0.0117}}, float t = {{0.051}}, {kind} u = {{{operand}}},"
        f" {kind} w = {{{result + 1}}}, {kind} v = {{{result}}}"
    )


@pytest.mark.parametrize("kind", _TYPES)
@pytest.mark.parametrize("operator", ["Add", "Mul"])
@pytest.mark.parametrize("shapes", [((5, 6), (5, 6)), ((5, 6), (6,)), ((1, 6), (5, 1))])
def test_pairs(operator: str, kind: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    left, right = (",".join(map(str, shape)) for shape in shapes)
    after = lowered(
        f"agraph ({kind}[{left}] x, {kind}[{right}] y) => ({kind}[a,b] z) <{parameters(kind)}> "
        f"{{ z = com.microsoft.QLinear{operator}(x, s, u, y, r, w, t, v) }}",
        feeds={"x": integers(kind, *shapes[0]), "y": integers(kind, *shapes[1], seed=1)},
    )
    assert types(after) == ["DequantizeLinear", "DequantizeLinear", operator, "QuantizeLinear"]


@pytest.mark.parametrize("kind", _TYPES)
def test_a_choice(kind: str) -> None:
    lowered(
        f"agraph (bool[5,1] c, {kind}[5,6] x, {kind}[6] y) => ({kind}[a,b] z) <{parameters(kind)}>"
        " { z = com.microsoft.QLinearWhere(c, x, s, u, y, r, w, t, v) }",
        feeds={
            "c": np.array([[True], [False], [True], [False], [False]]),
            "x": integers(kind, 5, 6),
            "y": integers(kind, 6, seed=1),
        },
    )


@pytest.mark.parametrize("kind", _TYPES)
@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (1, 13), (0, 13), (2, 12)])
def test_softmax(kind: str, axis: int, opset: int) -> None:
    lowest = np.iinfo(kind).min
    lowered(
        f"agraph ({kind}[3,4,5] x) => ({kind}[a,b,c] z) <float s = {{0.043}}, float t = "
        f"{{0.00390625}}, {kind} u = {{3}}, {kind} v = {{{lowest}}}> {{ "
        f"z = com.microsoft.QLinearSoftmax <axis = {axis}, opset = {opset}> (x, s, u, t, v) }}",
        feeds={"x": integers(kind, 3, 4, 5)},
        share=0.1,
    )


def test_softmax_over_several_axes_stays() -> None:
    text = (
        "agraph (uint8[3,4,5] x) => (uint8[a,b,c] z) <float s = {0.043}, uint8 u = {3}> { "
        "z = com.microsoft.QLinearSoftmax <axis = 1, opset = 12> (x, s, u, s, u) }"
    )
    model = parse(text, 18, domains=_DOMAINS)
    assert types(optimize(model, patterns="lower", strict=True)) == ["QLinearSoftmax"]


_POOLS: Final = [
    "kernel_shape = [2, 2]",
    "kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]",
    "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], count_include_pad = 1",
    "kernel_shape = [2, 3], strides = [2, 2], ceil_mode = 1",
    'kernel_shape = [3, 3], auto_pad = "SAME_UPPER"',
    'kernel_shape = [2, 2], strides = [2, 2], auto_pad = "SAME_LOWER"',
]


@pytest.mark.parametrize("kind", _TYPES)
@pytest.mark.parametrize("attributes", _POOLS)
@pytest.mark.parametrize("is_last", [False, True])
def test_averages(attributes: str, kind: str, is_last: bool) -> None:
    shape = (2, 6, 7, 3) if is_last else (2, 3, 6, 7)
    lowered(
        f"agraph ({kind}[{','.join(map(str, shape))}] x) => ({kind}[a,b,c,d] z) "
        f"<{parameters(kind)}> {{ z = com.microsoft.QLinearAveragePool <{attributes}, "
        f"channels_last = {int(is_last)}> (x, s, u, t, v) }}",
        feeds={"x": integers(kind, *shape)},
    )


@pytest.mark.parametrize("kind", _TYPES)
@pytest.mark.parametrize("is_last", [False, True])
def test_global_averages(kind: str, is_last: bool) -> None:
    shape = (2, 6, 7, 3) if is_last else (2, 3, 6, 7)
    lowered(
        f"agraph ({kind}[{','.join(map(str, shape))}] x) => ({kind}[a,b,c,d] z) "
        f"<{parameters(kind)}> {{ z = com.microsoft.QLinearGlobalAveragePool "
        f"<channels_last = {int(is_last)}> (x, s, u, t, v) }}",
        feeds={"x": integers(kind, *shape)},
    )


@pytest.mark.parametrize("kind", _TYPES)
@pytest.mark.parametrize("of_matrix", ["one", "columns"])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("is_float", [False, True])
@pytest.mark.parametrize(("a", "b"), [(0, 0), (0, 1), (1, 0)])
def test_gemm(kind: str, of_matrix: str, has_bias: bool, is_float: bool, a: int, b: int) -> None:
    rows, matrix = ("7,5" if a else "5,7"), ("3,7" if b else "7,3")
    numbers = ", ".join(map(str, integers(kind, 21, seed=2) // 2))
    scales = "float[3] p = {0.01, 0.02, 0.03}" if of_matrix == "columns" else "float p = {0.01}"
    zeros = f"{kind}[3] q = {{1, 2, 3}}" if of_matrix == "columns" else f"{kind} q = {{2}}"
    result = "float" if is_float else kind
    lowered(
        f"agraph ({kind}[{rows}] x) => ({result}[m,n] z) <{parameters(kind)}, {scales}, {zeros}, "
        f"{kind}[{matrix}] y = {{{numbers}}}, int32[3] k = {{1000, -2000, 3}}> {{ "
        f"z = com.microsoft.QGemm <transA = {a}, transB = {b}, alpha = 0.5> (x, s, u, y, p, q, "
        f"{'k' if has_bias else ''}{'' if is_float else ', t, v'}) }}",
        feeds={"x": integers(kind, *map(int, rows.split(",")))},
    )


def test_a_result_beyond_32_bits_stays() -> None:
    text = (
        "agraph (uint8[4] x) => (uint8[4] z) <float s = {1e6}, float t = {1e-6}, uint8 u = {3}> {"
        " z = com.microsoft.QLinearAdd(x, s, u, x, s, u, t, u) }"
    )
    model = parse(text, 18, domains=_DOMAINS)
    assert types(optimize(model, patterns="lower", strict=True)) == ["QLinearAdd"]
