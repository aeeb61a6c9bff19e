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


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("row", [[LOWEST, LOWEST], [-np.inf, 0], [-np.inf, -np.inf]])
def test_masks_of_contrib_operators(row: list[float], causal: int) -> None:
    """Kernels compute the formula: the mean of the values, or NaN."""
    model = parse(
        "agraph (float[2,2,8] q, float[2,2,8] k, float[2,2,8] v, float[1,1,2,2] m) "
        "=> (float[2,2,8] y) { y = com.microsoft.MultiHeadAttention "
        f"<num_heads = 2, unidirectional = {causal}> (q, k, v, , , m) }}",
        domains={"com.microsoft": 1},
    )
    mask = np.array([[[row, [0, 1]]]], np.float32)
    assert_same(model, "LowerMultiHeadAttention", m=mask)


def test_padding_by_the_lowest_number() -> None:
    model = parse(
        "agraph (float[2,2,4] x, float[4,24] w, float[24] b, int32[2,2] p) => (float[2,2,8] y) { "
        f"y = com.microsoft.Attention <num_heads = 2, mask_filter_value = {LOWEST}> "
        "(x, w, b, p) }",
        domains={"com.microsoft": 1},
    )
    assert_same(model, "LowerContribAttention", p=np.array([[0, 0], [0, 1]], np.int32))


def two_heads(mask: str, attributes: str = "") -> ModelProto:
    """An Attention with a mask that is computed at run time."""
    return parse(
        f"agraph (float[2,2,8] q, float[2,2,8] k, float[2,2,8] v, float[{mask}] m) "
        "=> (float[2,2,8] y) { "
        f"y = Attention <q_num_heads = 2, kv_num_heads = 2{attributes}> (q, k, v, m) }}",
        opset=23,
    )


@pytest.mark.parametrize("row", [[LOWEST, LOWEST], [-np.inf, -np.inf], [-np.inf, 0]])
def test_the_zeros_of_attention(row: list[float]) -> None:
    mask = np.array([[[row, [0, 1]]], [[[0, 1], row]]], np.float32)
    after = assert_same(two_heads("2,1,2,2"), "AttentionToMultiHead", m=mask)
    assert "MultiHeadAttention" in types(after)


@pytest.mark.parametrize(("mask", "attributes"), [("1,1,2,2", ", is_causal = 1"), ("1,2,2,2", "")])
def test_attention_whose_zeros_depend_on_more_than_the_mask(mask: str, attributes: str) -> None:
    after = optimize(two_heads(mask, attributes), patterns=["AttentionToMultiHead"], strict=True)
    assert types(after) == ["Attention"]
