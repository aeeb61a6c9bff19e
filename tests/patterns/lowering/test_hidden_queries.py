"""Queries for which a mask hides all keys: operators of attention differ in the result for them."""

import numpy as np
import pytest
from onnx import ModelProto

from tests.support import parse, run, types
from xoptim import optimize

LOWEST = float(np.finfo(np.float32).min)


def assert_same(model: ModelProto, pattern: str, **feeds: np.ndarray) -> ModelProto:
    """Run both models for random numbers. The results must be the same, and none is left out."""
    after = optimize(model, patterns=[pattern], strict=True)
    rng = np.random.default_rng(0)
    for value in model.graph.input:
        sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        feeds.setdefault(value.name, rng.standard_normal(sizes).astype(np.float32))
    np.testing.assert_allclose(run(after, feeds)[0], run(model, feeds)[0], rtol=1e-4, atol=1e-5)
    return after


@pytest.mark.parametrize("mask", ["bool[2,2] m = {0, 1, 1, 1}", "float[2,2] m = {-inf, 1, 1, 1}"])
def test_a_constant_mask_hides_what_a_causal_mask_leaves(mask: str) -> None:
    """The mask leaves the second key to the first query, and the causal mask the first key."""
    model = parse(
        "agraph (float[2,2,2,4] q, float[2,2,2,4] k, float[2,2,2,3] v) => (float[2,2,2,3] y) "
        f"<{mask}> {{ y = Attention <is_causal = 1> (q, k, v, m) }}",
        opset=23,
    )
    assert "Attention" not in types(assert_same(model, "LowerAttention"))
