"""Invalid convolutions and pools do not make patterns fail."""

import pytest

from tests.support import parse, types
from xoptim import optimize


@pytest.mark.parametrize(
    ("pattern", "nodes"),
    [
        (
            "MaxPoolMaxPool",
            "a = MaxPool <kernel_shape = [3], pads = [1, 1]> (x) "
            "b = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (x) y = Add(a, b)",
        ),
        ("ConvBatchNormalization", "a = Conv(x, w) y = BatchNormalization(a, s, s, s, s)"),
        (
            "SharedConvBatchNormalization",
            "a = Conv(x, w) b = BatchNormalization(a, s, s, s, s) "
            "c = BatchNormalization <epsilon = 0.25> (a, s, s, s, s) y = Add(b, c)",
        ),
        ("ConvStrides", "a = Conv <strides = [1, 1]> (x, w) y = Conv <strides = [2]> (a, v)"),
        ("ConvMul", "a = ConvTranspose <group = 0> (x, w) y = Mul(a, k)"),
    ],
)
def test_they_stay(pattern: str, nodes: str) -> None:
    model = parse(
        "agraph (float[n,1,9] x) => (y) <float[2,1,1] w = {1, 2}, float[1,2,1] v = {1, 2}, "
        f"float[3] s = {{1, 2, 3}}, float k = {{2}}> {{ {nodes} }}"
    )
    assert types(optimize(model, patterns=pattern, strict=True)) == types(model)
