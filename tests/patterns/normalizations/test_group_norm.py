"""GroupNorm for CUDA, verified by its definition."""

import pytest

from tests.support import parse, types
from xoptim import optimize, verify

_ONES, _ZEROS = (", ".join([number] * 32) for number in "10")
_FACTORS = ", ".join(["1", "2"] * 32)


def _text(end: str, shape: str = "0, 32, -1", ones: str = _ONES) -> str:
    return (
        f"agraph (float[n,64,h,w] x) => (float[n,64,h,w] y) <int64[3] a = {{{shape}}}, "
        f"float[32] o = {{{ones}}}, float[32] z = {{{_ZEROS}}}, float[64,1,1] k = {{{_FACTORS}}}, "
        f"float[64,1,1] c = {{{_FACTORS}}}> {{ r = Reshape(x, a) "
        "i = InstanceNormalization <epsilon = 0.001> (r, o, z) b = Shape(x) s = Reshape(i, b) "
        f"m = Mul(s, k) {end} }}"
    )


@pytest.mark.parametrize(
    ("end", "activation"),
    [("y = Add(m, c)", 0), ("d = Add(m, c) e = Sigmoid(d) y = Mul(d, e)", 1)],
)
def test_with_and_without_an_activation(end: str, activation: int) -> None:
    model = parse(_text(end))
    fused = optimize(model, patterns="GroupNorm", provider="cuda", strict=True)
    assert "GroupNorm" in types(fused)
    assert "Sigmoid" not in types(fused)
    (node,) = [node for node in fused.graph.node if node.op_type == "GroupNorm"]
    assert {a.name: a.i for a in node.attribute}["activation"] == activation
    report = verify(model, fused)
    assert report.ok, report.reason


def test_it_is_opt_in() -> None:
    model = parse(_text("y = Add(m, c)"))
    fast = optimize(model, patterns="default+onnxruntime", provider="cuda")
    assert "GroupNorm" not in types(fast)
    assert "GroupNorm" not in types(optimize(model, patterns="default+group_norm", provider="cpu"))


@pytest.mark.parametrize(
    "text",
    [
        _text("y = Add(m, c)", shape="0, 16, -1")
        .replace("float[32]", "float[16]")
        .replace(_ONES, ", ".join("1" * 16))
        .replace(_ZEROS, ", ".join("0" * 16)),  # another number of groups
        _text("y = Add(m, c)", ones=_ONES.replace("1", "2")),  # a scale of each group
    ],
)
def test_what_is_left(text: str) -> None:
    model = parse(text)
    assert "GroupNorm" not in types(optimize(model, patterns="GroupNorm", provider="cuda"))
