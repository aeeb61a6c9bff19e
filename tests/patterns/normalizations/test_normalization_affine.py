"""A following Add or Mul in the scale and the bias of a normalization."""

import numpy as np

from tests.support import parse, same_results, types
from xoptim import optimize


def test_a_scale_without_axes() -> None:
    model = parse(
        "agraph (float[n,1] x) => (float[n,1] y) <float s = {2}, float[1] b = {3}> "
        "{ t = LayerNormalization(x, s) y = Add(t, b) }"
    )
    fused = optimize(model, patterns="LayerNormalizationBias", strict=True)
    assert types(fused) == ["LayerNormalization"]
    same_results(model, fused, {"x": np.ones((2, 1), np.float32)})
