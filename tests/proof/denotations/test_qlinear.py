import pytest

from tests.proof.denotations.checking import check
from tests.support import parse
from xoptim.proof.proving import prove_models

SCALES = (
    "<float s = {0.3}, float t = {0.25}, float r = {0.125}, uint8 u = {3}, uint8 v = {7}, "
    "uint8 w = {1}, float[3] p = {0.5, 0.25, 2}, uint8[3] q = {1, 2, 0}, int32[3] b = {5, -9, 40}, "
    "int32[1] k = {7}, uint8[2,2,1,2] f = {1, 2, 3, 4, 5, 6, 7, 8}, int32[2] d = {20, -30}>"
)
ORT = "com.microsoft."
POOL = "y = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2]"
NODES = (
    ("(bool[2,1] c, uint8[2,3] x, uint8[3] z) => (uint8[A,B] y)",
     f"y = {ORT}QLinearWhere(c, x, s, u, z, t, v, r, w)"),
    ("(uint8[2,3] x) => (uint8[A,B] y)",
     f"y = {ORT}QLinearSoftmax <axis = 1, opset = 13> (x, s, u, r, w)"),
    ("(uint8[2,2,2,3] x) => (uint8[A,B,C,D] y)", f"{POOL}> (x, s, u, r, w)"),
    ("(uint8[2,2,3,3] x) => (uint8[A,B,C,D] y)",
     f"{POOL}, pads = [0, 1, 0, 1], strides = [1, 2]> (x, s, u, r, w)"),
    ("(uint8[2,2,3,2] x) => (uint8[A,B,C,D] y)", f"{POOL}, channels_last = 1> (x, s, u, r, w)"),
    ("(uint8[2,2,3,2] x) => (uint8[A,B,C,D] y)",
     f"y = {ORT}QLinearGlobalAveragePool <channels_last = 1> (x, s, u, r, w)"),
    ("(uint8[2,4] x, uint8[4,3] z) => (uint8[A,B] y)",
     f"y = {ORT}QGemm(x, s, u, z, t, v, b, r, w)"),
    ("(uint8[2,4] x, uint8[3,4] z) => (float[A,B] y)",
     f"y = {ORT}QGemm <transB = 1, alpha = 0.5> (x, s, u, z, p, q)"),
    ("(uint8[2,4] x, uint8[4,3] z) => (uint8[A,B] y)",
     f"y = {ORT}QGemm <alpha = 0.5> (x, s, u, z, t, v, b, r, w)"),
    ("(uint8[4,2] x, uint8[4,3] z) => (float[A,B] y)",
     f"y = {ORT}QGemm <transA = 1> (x, s, u, z, p, q, b)"),
    ("(uint8[1,2,2,3] x) => (uint8[A,B,C,D] y)",
     f"y = {ORT}QLinearConv(x, s, u, f, t, v, r, w, d)"),
    ("(uint8[1,2,3,2] x) => (uint8[A,B,C,D] y)",
     f"y = {ORT}QLinearConv <channels_last = 1> (x, s, u, f, t, v, r, w, d)"),
)  # fmt: skip


@pytest.mark.parametrize(("signature", "node"), NODES)
def test_values(signature: str, node: str) -> None:
    check(f"{signature} {SCALES} {{ {node} }}", exact=False)


CHANGES = (
    (0, "(c, x, s, u, z, t, v, r, w)", "(c, x, t, u, z, s, v, r, w)"),
    (1, "axis = 1", "axis = 0"),
    (1, "opset = 13", "opset = 12"),
    (3, "strides = [1, 2]", "strides = [2, 2]"),
    (3, "pads = [0, 1, 0, 1]", "pads = [0, 1, 0, 1], count_include_pad = 1"),
    (6, "b, r, w", "b, r, v"),
    (6, "b, r", "k, r"),
    (8, "alpha = 0.5", "alpha = 0.25"),
    (10, "f, t, v", "f, t, w"),
    (11, "channels_last = 1", "channels_last = 1, pads = [0, 0, 0, 1]"),
)


@pytest.mark.parametrize(("place", "old", "new"), CHANGES)
def test_changes(place: int, old: str, new: str) -> None:
    signature, node = NODES[place]
    assert old in node
    if "opset" in old:  # one axis of several
        signature, node = "(uint8[2,2,3] x) => (uint8[A,B,C] y)", node
    sides = [
        parse(f"g {signature} {SCALES} {{ {text} }}", 18, domains={"com.microsoft": 1})
        for text in (node, node.replace(old, new))
    ]
    assert prove_models(sides[0], sides[0]).is_proved
    assert not prove_models(sides[0], sides[1]).is_proved
