"""Normalizations within groups give what their formula gives, computed by numpy."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize, verify

_SHAPE = (2, 3, 5, 8)
"""An image with the channels along the last axis."""


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _expected(
    x: np.ndarray, groups: int, gamma: np.ndarray, beta: np.ndarray, *, silu: bool
) -> np.ndarray:
    """The formula on an image with the channels along the last axis."""
    n, h, w, c = x.shape
    parts = x.reshape(n, h, w, groups, c // groups).astype(np.float64)
    centered = parts - parts.mean(axis=(1, 2, 4), keepdims=True)
    normal = centered / np.sqrt((centered**2).mean(axis=(1, 2, 4), keepdims=True) + 1e-3)
    result = normal.reshape(x.shape) * gamma + beta
    return np.asarray(result / (1 + np.exp(-result)) if silu else result)


@pytest.mark.parametrize("silu", [0, 1])
@pytest.mark.parametrize("groups", [1, 4, 8])
@pytest.mark.parametrize("is_last", [0, 1])
def test_group_norm(groups: int, silu: int, is_last: int) -> None:
    shape = "n,h,w,8" if is_last else "n,8,h,w"
    model = parse(
        f"agraph (float[{shape}] x, float[8] s, float[8] b) => (float[{shape}] y) {{ y = "
        f"com.microsoft.GroupNorm <groups = {groups}, activation = {silu}, channels_last = "
        f"{is_last}, epsilon = 0.001> (x, s, b) }}",
        domains={"com.microsoft": 1},
    )
    after = optimize(model, patterns="lower", strict=True)
    assert all(not node.domain for node in after.graph.node)
    image, s, b = _floats(*_SHAPE), _floats(8), _floats(4)[[0, 1, 2, 3, 3, 2, 1, 0]]
    fed = image if is_last else image.transpose(0, 3, 1, 2)
    (result,) = run(after, {"x": fed, "s": s, "b": b})
    expected = _expected(image, groups, s, b, silu=bool(silu))
    moved = expected if is_last else expected.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(result, moved, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("skip", ["n,h,w,8", "n,1,1,8", "n,8"])
@pytest.mark.parametrize("bias", ["", ", c"])
def test_skip_group_norm(skip: str, bias: str) -> None:
    model = parse(
        f"agraph (float[n,h,w,8] x, float[8] s, float[8] b, float[{skip}] k, float[8] c) => "
        "(float[n,h,w,8] y, float[n,h,w,8] t) { y, t = com.microsoft.SkipGroupNorm <groups = 2, "
        f"activation = 1, epsilon = 0.001> (x, s, b, k{bias}) }}",
        domains={"com.microsoft": 1},
    )
    after = optimize(model, patterns="lower", strict=True)
    assert all(not node.domain for node in after.graph.node)
    x, s, b, c = _floats(*_SHAPE), _floats(8), _floats(8) + 1, _floats(8) - 1
    sizes = {"n": 2, "h": 3, "w": 5}
    k = _floats(*(sizes.get(axis) or int(axis) for axis in skip.split(",")))
    y, t = run(after, {"x": x, "s": s, "b": b, "k": k, "c": c})
    total = x + (k[:, None, None] if k.ndim == 2 else k) + (c if bias else 0)
    np.testing.assert_allclose(t, total, rtol=1e-6)
    expected = _expected(total, 2, s, b, silu=True)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


_SCALED = "float[2] s, float[2] b) => (float[n,4,6,5] y) "
_CONSTANT = ") => (float[n,4,6,5] y) <float[2] s = {2, 3}, float[2] b = {1, 0}> "


@pytest.mark.parametrize(
    ("parameters", "scaling"),
    [(f", {_SCALED}", ["Unsqueeze", "Unsqueeze", "Mul", "Add"]), (_CONSTANT, [])],
)
def test_a_scale_of_each_group(parameters: str, scaling: list[str]) -> None:
    """Operator sets 18 to 20: a constant scale is an operand of InstanceNormalization."""
    model = parse(
        f"agraph (float[n,4,6,5] x{parameters}"
        "{ y = GroupNormalization <num_groups = 2, epsilon = 0.001> (x, s, b) }"
    )
    after = optimize(model, patterns="LowerGroupNormalizationToInstance", strict=True)
    assert sorted(types(after)) == sorted(["Reshape", "InstanceNormalization", "Reshape", *scaling])
    report = verify(model, after)
    assert report.ok, report.reason


def test_a_scale_with_another_number_of_values_is_left() -> None:
    model = parse(
        "agraph (float[n,4,6,5] x, float[k] s, float[2] b) => (float[n,4,6,5] y) "
        "{ y = GroupNormalization <num_groups = 2, epsilon = 0.001> (x, s, b) }",
        opset=18,
    )
    after = optimize(model, patterns="LowerGroupNormalizationToInstance")
    assert types(after) == ["GroupNormalization"]


@pytest.mark.parametrize(
    ("operands", "attributes"),
    [
        ("float[n,h,w,9] x", "groups = 2, activation = 0"),  # groups of different sizes
        ("float[n,h,w,8] x", "groups = 2, activation = 2"),  # an unknown activation
        ("float[n,h,8] x", "groups = 2, activation = 0"),  # not an image
        ("float[n,h,w,c] x", "groups = 2, activation = 0"),
    ],
)
def test_what_is_left(operands: str, attributes: str) -> None:
    shape = operands.partition("[")[2].partition("]")[0]
    channels = shape.rpartition(",")[2]
    model = parse(
        f"agraph ({operands}, float[{channels}] s, float[{channels}] b) => (float[{shape}] y) "
        f"{{ y = com.microsoft.GroupNorm <{attributes}> (x, s, b) }}",
        domains={"com.microsoft": 1},
    )
    assert types(optimize(model, patterns="lower", strict=True)) == ["GroupNorm"]


def test_a_scale_of_one_and_a_bias_of_zero_are_not_written() -> None:
    model = parse(
        "agraph (float[n,2,h] x) => (float[n,2,h] y) <float[2] s = {1, 1}, float[2] b = {0, 0}> { "
        "y = InstanceNormalization(x, s, b) }"
    )
    after = optimize(model, patterns="LowerInstanceNormalization", strict=True)
    assert types(after) == ["ReduceMean", "Sub", "Mul", "ReduceMean", "Add", "Sqrt", "Div"]
    assert verify(model, after).ok
