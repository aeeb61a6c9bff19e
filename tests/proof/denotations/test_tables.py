"""Operators that read rows of tables, and linear models."""

import numpy as np
import pytest

from tests.proof.denotations.checking import check
from tests.support import parse
from xoptim.proof.proving import prove_models

ORT = "com.microsoft."
BYTES = ", ".join(str(7 * n % 256) for n in range(32))
EMBEDDING = (
    "(int32[2,3] i, int32[2,3] j, float[7,4] w, float[5,4] p, float[2,4] k, float[4] s, "
    "float[4] c, int32[2,3] q) => (float[A,B,C] y"
)
QUANTIZED = (
    f"(int64[3] i) => (float[A,B] y) <uint8[4,8] w = {{{BYTES}}}, float[4,1] s = {{0.5, 0.25, 2, "
    f"1}}, uint8[4,1] z = {{7, 9, 8, 3}}, int4[4,16] n = {{{BYTES}}}, uint4[16,4] o = {{{BYTES}}}, "
    "float[1,4] r = {0.5, 0.25, 2, 1}, uint4[1,4] v = {23, 41}>"
)
CODES = (
    f"(float[3,16] x) => (float[A,B] y) <uint8[32] w = {{{BYTES}}}, float[4] s = {{0.5, 2, 1, 4}}>"
)
ROTATED = "(float[2,2,3,6] x, int64[3,2,3] p, float[9,3] c, float[9,3] s) => (float[A,B,C,D] y)"
NODES = (
    (f"{EMBEDDING})",
     f"y, z = {ORT}EmbedLayerNormalization <epsilon = 0.001> (i, j, w, p, k, s, c)"),
    (f"{EMBEDDING}, float[D,E,F] t)",
     f"y, z, t = {ORT}EmbedLayerNormalization(i, j, w, p, k, s, c, , q)"),
    (f"{EMBEDDING})", f"y, z = {ORT}EmbedLayerNormalization(i, , w, p, , s, c)"),
    (QUANTIZED, f"y = {ORT}GatherBlockQuantized <bits = 4, block_size = 16> (w, i, s)"),
    (QUANTIZED, f"y = {ORT}GatherBlockQuantized <bits = 4, block_size = 16> (w, i, s, z)"),
    (QUANTIZED, f"y = {ORT}GatherBlockQuantized <block_size = 16> (n, i, s)"),
    (QUANTIZED, f"y = {ORT}GatherBlockQuantized <block_size = 16, gather_axis = 1, "
     "quantize_axis = 0> (o, i, r, v)"),
    (ROTATED,
     f"y = {ORT}MRotaryEmbedding <mrope_section = [1, 1, 1]> (x, p, c, s)"),
    (ROTATED,
     f"y = {ORT}MRotaryEmbedding <mrope_section = [1, 1, 1], mrope_layout = 1> (x, p, c, s)"),
    ("(float[2,1,3,8] x, int64[3,2,3] p, float[9,4] c, float[9,4] s) => (float[A,B,C,D] y)",
     f"y = {ORT}MRotaryEmbedding <mrope_section = [2, 1, 1]> (x, p, c, s)"),
    (CODES,
     f"y = {ORT}MatMulBnb4 <K = 16, N = 4, block_size = 16, quant_type = 1> (x, w, s)"),
    (CODES,
     f"y = {ORT}MatMulBnb4 <K = 16, N = 4, block_size = 16, quant_type = 0> (x, w, s)"),
    ("(float[3,2] x) => (float[A,B] y)",
     "y = ai.onnx.ml.LinearRegressor <targets = 2, coefficients = [1.0, 2.0, 3.0, 4.0], "
     "intercepts = [5.0, 6.0]> (x)"),
    ("(float[3,4] x) => (float[A,B] y)",
     "y = ai.onnx.ml.LinearRegressor <coefficients = [1.0, 2.0, 3.0, 4.0]> (x)"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("signature", "node"), NODES)
def test_values(signature: str, node: str) -> None:
    feeds = {}
    if "p, c, s)" in node and "MRotary" in node:
        feeds["p"] = np.random.default_rng(0).integers(0, 9, (3, 2, 3))
    check(f"{signature} {{ {node} }}", 21, exact=False, feeds=feeds)


CHANGES = (
    (0, "epsilon = 0.001", "epsilon = 0.01"),
    (0, "(i, j, w, p, k, s, c)", "(j, i, w, p, k, s, c)"),
    (1, ", , q)", ", , i)"),
    (3, "block_size = 16> (w, i, s)", "block_size = 16> (w, i, s, z)"),
    (7, "[1, 1, 1]", "[1, 2, 0]"),
    (7, "[1, 1, 1]", "[0, 2, 1]"),
    (8, "(x, p, c, s)", "(x, p, s, c)"),
    (10, "quant_type = 1", "quant_type = 0"),
    (12, "[1.0, 2.0, 3.0, 4.0]", "[1.0, 3.0, 2.0, 4.0]"),
    (12, "[5.0, 6.0]", "[6.0, 5.0]"),
    (13, "[1.0, 2.0, 3.0, 4.0]> (x)", "[1.0, 2.0, 3.0, 4.0], post_transform = \"LOGISTIC\"> (x)"),
)  # fmt: skip


@pytest.mark.parametrize(("place", "old", "new"), CHANGES)
def test_changes_are_not_proved(place: int, old: str, new: str) -> None:
    signature, node = NODES[place]
    assert old in node
    sides = [
        parse(f"g {signature} {{ {text} }}", 21, domains={"com.microsoft": 1, "ai.onnx.ml": 1})
        for text in (node, node.replace(old, new))
    ]
    assert prove_models(sides[0], sides[0]).is_proved
    assert not prove_models(sides[0], sides[1]).is_proved


def _is_proved(signature: str, before: str, after: str) -> bool:
    sides = [
        parse(f"g {signature} {{ {node} }}", 21, domains={"com.microsoft": 1})
        for node in (before, after)
    ]
    return prove_models(sides[0], sides[1]).is_proved


def test_an_embedding_refuses_negative_indices() -> None:
    """A Gather counts them from the end, so the embedding may fail where the Gather does not."""
    signature = QUANTIZED.replace("int64[3] i", "int64[N] i")
    fused = f"y = {ORT}GatherBlockQuantized <block_size = 16> (n, i, s)"
    assert _is_proved(signature, fused, fused)
    plain = "d = DequantizeLinear <axis = 1, block_size = 16> (n, s) y = Gather(d, i)"
    assert not _is_proved(signature, plain, fused)
    assert _is_proved(signature, fused, plain)


def test_positions_beyond_the_table_fail() -> None:
    signature = (
        "(int32[1,N] i, float[7,4] w, float[5,4] p, float[4] s, float[4] c) => (float[A,B,C] y)"
    )
    before = "a = Gather(w, i) y = LayerNormalization <epsilon = 0.001> (a, s, c)"
    after = f"y = {ORT}EmbedLayerNormalization <epsilon = 0.001> (i, , w, p, , s, c)"
    assert not _is_proved(signature, before, after)
