"""Which movements between MatMul and BatchNormalization keep the channels in the columns."""

import pytest

import xoptim
from patterns.matmul.mat_mul_reshape_batch_normalization import (
    MatMulReshapeBatchNormalizationPattern,
)
from tests.support import parse, types
from xoptim.testing import make_all_feeds, same_numbers

_HEAD = (
    "agraph (float[a,5,3] x) => (y) <float[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, "
    "float[4] c = {1, 2, 3, 4}, float[4] d = {4, -3, 2, 1}, int64[4] four = {0, 4, 5, 1}, "
    "int64[2] flat = {-1, 4}, int64[3] other = {-1, 4, 5}, int64[1] last = {-1}> "
)
_NORMALIZED = "y = BatchNormalization(u, c, d, d, c)"


@pytest.mark.parametrize(
    "operators",
    [
        "t = MatMul(x, w) u = Transpose <perm = [0, 2, 1]> (t)",
        "t = MatMul(x, w) s = Transpose <perm = [0, 2, 1]> (t) u = Reshape(s, four)",
        "t = MatMul(x, w) b = Add(d, t) u = Reshape(b, flat)",
        "t = MatMul(x, w) b = Add(t, d) s = Reshape(b, flat) u = Unsqueeze(s, last)",
    ],
)
def test_channels_in_the_columns(operators: str) -> None:
    model = parse(f"{_HEAD} {{ {operators} {_NORMALIZED} }}")
    result = xoptim.optimize(model, patterns=[MatMulReshapeBatchNormalizationPattern])
    assert "BatchNormalization" not in types(result)
    assert types(result).count("Add") == 1
    feeds = make_all_feeds(model, ())
    assert same_numbers(model, result, feeds, "rounding").difference == ""


@pytest.mark.parametrize(
    "operators",
    [
        "t = MatMul(x, w) u = Reshape(t, other)",
        "t = MatMul(x, w) s = Reshape(t, other) u = Reshape(s, four)",
        "t = MatMul(x, w) u = Reshape(t, flat) z = Neg(t)",
        "t = MatMul(x, w) r = Relu(t) u = Reshape(r, flat)",
    ],
)
def test_other_channels_are_kept(operators: str) -> None:
    outputs = "(y, z)" if "z =" in operators else "(y)"
    model = parse(f"{_HEAD.replace('(y)', outputs)} {{ {operators} {_NORMALIZED} }}")
    result = xoptim.optimize(model, patterns=[MatMulReshapeBatchNormalizationPattern])
    assert "BatchNormalization" in types(result)
