"""Lowerings refuse operands of unusual types and ranks."""

import pytest

from tests.support import parse, types
from xoptim import optimize


def kept(pattern: str, text: str, opset: int = 18) -> bool:
    """Whether a pattern leaves a model, without failing."""
    model = parse(text, opset)
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
    """The kernel adds the first row."""
    model = parse(
        "agraph (int32[2,3] i, float[7,4] w, float[3,4] p, float[2,4] k, float[4] s, float[4] c) "
        "=> (float[2,3,4] y) { "
        "y, z = com.microsoft.EmbedLayerNormalization (i, , w, p, k, s, c) }",
        domains={"com.microsoft": 1},
    )
    after = optimize(model, patterns=["LowerEmbedLayerNormalization"], strict=True)
    assert types(after) == ["EmbedLayerNormalization"]
