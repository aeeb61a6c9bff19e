"""Operators with the channels along the last axis give what onnxruntime's kernels give."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize


def _check(text: str, x: np.ndarray) -> None:
    model = parse(text, 18, domains={"com.microsoft": 1})
    after = optimize(model, patterns="lower", strict=True)
    assert all(not node.domain for node in after.graph.node)
    np.testing.assert_array_equal(run(after, {"x": x})[0], run(model, {"x": x})[0])


def _integers(kind: str, *shape: int) -> np.ndarray:
    info = np.iinfo(kind)
    return np.random.default_rng(0).integers(info.min, info.max, shape, kind, endpoint=True)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize(
    "attributes",
    [
        "kernel_shape = [2, 3]",
        "kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]",
        "kernel_shape = [2, 2], dilations = [2, 1]",
        "kernel_shape = [2, 3], strides = [2, 2], ceil_mode = 1",
        'kernel_shape = [3, 3], auto_pad = "SAME_UPPER"',
    ],
)
def test_pools(attributes: str, kind: str) -> None:
    _check(
        f"agraph ({kind}[2,6,7,3] x) => ({kind}[a,b,c,d] y) {{ "
        f"y = com.microsoft.NhwcMaxPool <{attributes}> (x) }}",
        _integers(kind, 2, 6, 7, 3),
    )


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("bias", ["", ", k"])
def test_convolutions(is_last: bool, group: int, bias: str) -> None:
    channels = 4 // group
    weights = ", ".join(map(str, _integers("uint8", 2 * channels * 6)))
    shape = (2, 6, 5, 4) if is_last else (2, 4, 6, 5)
    text = (
        f"agraph (uint8[{','.join(map(str, shape))}] x) => (uint8[a,b,c,d] y) <float s = {{0.031}},"
        f" float t = {{0.77}}, uint8 u = {{128}}, uint8 v = {{100}}, int32[2] k = {{300, -900}}, "
        f"uint8[2,{channels},3,2] w = {{{weights}}}> {{ y = com.microsoft.QLinearConv "
        f"<channels_last = {int(is_last)}, group = {group}, strides = [2, 1], pads = [1, 0, 1, 1]> "
        f"(x, s, u, w, s, u, t, v{bias}) }}"
    )
    _check(text, _integers("uint8", *shape))


def test_an_unknown_rank_stays() -> None:
    text = (
        "agraph (uint8 x) => (uint8 y) { y = com.microsoft.NhwcMaxPool <kernel_shape = [2]> (x) }"
    )
    model = parse(text, 18, domains={"com.microsoft": 1})
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert types(optimize(model, patterns="lower")) == ["NhwcMaxPool"]
