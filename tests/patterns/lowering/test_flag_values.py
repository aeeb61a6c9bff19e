"""Attributes that are flags: kernels compare them with 1, and other values are the default."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize

_HEADS = "float[2,2,8] q, float[2,2,8] k, float[2,2,8] v) => (float[2,2,8] y)"


@pytest.mark.parametrize("value", [-1, 2])
@pytest.mark.parametrize(
    ("pattern", "operands", "call"),
    [
        (
            "LowerAttention",
            _HEADS,
            "Attention <q_num_heads = 2, kv_num_heads = 2, is_causal = {}> (q, k, v)",
        ),
        (
            "AttentionToMultiHead",
            _HEADS,
            "Attention <q_num_heads = 2, kv_num_heads = 2, is_causal = {}> (q, k, v)",
        ),
        (
            "LowerMultiHeadAttention",
            _HEADS,
            "com.microsoft.MultiHeadAttention <num_heads = 2, unidirectional = {}> (q, k, v)",
        ),
        (
            "LowerContribAttention",
            "float[2,2,4] x, float[4,24] w, float[24] b) => (float[2,2,8] y)",
            "com.microsoft.Attention <num_heads = 2, unidirectional = {}> (x, w, b)",
        ),
        (
            "LowerRotaryEmbedding",
            "float[2,3,2,4] x, float[2,2,2] c, float[2,2,2] s) => (float[2,3,2,4] y)",
            "RotaryEmbedding <interleaved = {}> (x, c, s)",
        ),
    ],
)
def test_other_values(pattern: str, operands: str, call: str, value: int) -> None:
    text = f"agraph ({operands} {{ y = {call.format(value)} }}"
    model = parse(text, 23, domains={"com.microsoft": 1})
    after = optimize(model, patterns=[pattern], strict=True)
    rng = np.random.default_rng(0)
    feeds = {
        entry.name: rng.standard_normal(
            [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for entry in model.graph.input
    }
    assert types(after) != types(model)
    np.testing.assert_allclose(run(after, feeds)[0], run(model, feeds)[0], rtol=1e-4, atol=1e-5)
