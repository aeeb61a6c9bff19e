"""Lowerings refuse operands of unusual types and ranks."""

import pytest

from tests.support import parse, types
from xoptim import optimize


def kept(pattern: str, text: str, opset: int = 18) -> bool:
    """Whether a pattern leaves a model, without failing."""
    model = parse(text, opset, domains={"com.microsoft": 1})
    return types(optimize(model, patterns=[pattern], strict=True)) == types(model)


def test_axes_of_a_scalar() -> None:
    text = "agraph (float x) => (float y) <int64[1] a = {0}> { y = ReduceMean(x, a) }"
    assert kept("LowerReduceMean", text)


@pytest.mark.parametrize(
    ("pattern", "declared", "body"),
    [
        ("LowerTrilu", "x) => (string[2,2] y) ", "y = Trilu(x)"),
        ("LowerEyeLike", "x) => (string[2,2] y) ", "y = EyeLike(x)"),
        (
            "LowerPadConstant",
            "x) => (string[3,2] y) <int64[4] p = {1, 0, 0, 0}>",
            "y = Pad(x, p)",
        ),
        (
            "LowerGatherND",
            "x) => (string[1,2] y) <int64[1,1] i = {1}>",
            "y = GatherND(x, i)",
        ),
        (
            "LowerScatterND",
            "x, string[1,2] u) => (string[2,2] y) <int64[1,1] i = {1}>",
            "y = ScatterND(x, i, u)",
        ),
    ],
)
def test_strings(pattern: str, declared: str, body: str) -> None:
    """No number is written for a string, and no Gather of rows, which loses strings."""
    assert kept(pattern, f"agraph (string[2,2] {declared} {{ {body} }}")


def test_numbers_as_strings() -> None:
    text = (
        "agraph (int64[2,2] x) => (string[1,2] y) <int64[1] i = {1}> { t = Gather(x, i) "
        "y = Cast <to = 8> (t) }"
    )
    assert kept("LowerMovedCast", text)


def test_embeddings_of_segments_without_segments() -> None:
    """The formula would give another result than the kernel."""
    model = parse(
        "agraph (int32[2,3] i, float[7,4] w, float[3,4] p, float[2,4] k, float[4] s, float[4] c) "
        "=> (float[2,3,4] y) { "
        "y, z = com.microsoft.EmbedLayerNormalization (i, , w, p, k, s, c) }",
        domains={"com.microsoft": 1},
    )
    after = optimize(model, patterns=["LowerEmbedLayerNormalization"], strict=True)
    assert types(after) == ["EmbedLayerNormalization"]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (
            "LowerCompress",
            "float[2,2] x) => (float[1,2] y) <bool[1] k = {1}> { y = Compress <axis = 9> (x, k) }",
        ),
        (
            "LowerGatherElements",
            "float[2,2,1] x) => (float[2,2] y) <int64[2,2] i = {0, 1, 1, 0}> { "
            "y = GatherElements(x, i) }",
        ),
        (
            "LowerScatterElements",
            "float[2,2,1] x, float[2,2] u) => (float[2,2,1] y) <int64[2,2] i = {0, 1, 1, 0}> { "
            "y = ScatterElements(x, i, u) }",
        ),
        (
            "LowerPadConstant",
            "float[2] x) => (float[3] y) <int64[2] p = {0, 1}, int64[1] a = {1}> { "
            "y = Pad(x, p, , a) }",
        ),
        ("LowerSplit", "float[4] x) => (float[2] y, float[2] z) { y, z = Split <axis = -9> (x) }"),
        (
            "LowerDepthToSpace",
            "float[1,4,2,2] x) => (float[1,1,4,4] y) { y = DepthToSpace <blocksize = 0> (x) }",
        ),
        (
            "LowerSpaceToDepth",
            "float[1,1,4,4] x) => (float[1,4,2,2] y) { y = SpaceToDepth <blocksize = 0> (x) }",
        ),
        (
            "LowerMultiHeadAttention",
            "float[1,2,8] x) => (float[1,2,8] y) { "
            "y = com.microsoft.MultiHeadAttention <num_heads = 0> (x, x, x) }",
        ),
        (
            "LowerContribAttention",
            "float[1,2,4] x, float[4,24] w, float[24] b) => (float[1,2,8] y) { "
            "y = com.microsoft.Attention <num_heads = 0> (x, w, b) }",
        ),
    ],
)
def test_invalid_attributes_and_ranks(pattern: str, text: str) -> None:
    """The pattern refuses, and does not fail."""
    assert kept(pattern, f"agraph ({text}")


def test_a_scalar_for_fast_gelu() -> None:
    text = 'agraph (float x) => (float y) { y = Gelu <approximate = "tanh"> (x) }'
    assert kept("GeluToContrib", text, 20)


@pytest.mark.parametrize("bias", ["{2147483647, 0, 0}", ""])
def test_sums_beyond_32_bits(bias: str) -> None:
    """The kernel of QGemm adds integers of 32 bits, and overflows."""
    declared = "uint8[2,4] x, uint8[4,3] w" + ("" if bias else ", int32[3] b")
    stored = "float s = {0.5}, uint8 u = {3}" + (f", int32[3] b = {bias}" if bias else "")
    assert kept(
        "LowerQGemm",
        f"agraph ({declared}) => (float[2,3] y) <{stored}> {{ "
        "y = com.microsoft.QGemm(x, s, u, w, s, u, b) }",
    )
