"""Operators of ONNX Runtime: their definitions are what its kernels compute."""

import numpy as np
import pytest

from tests.proof.denotations.checking import check
from tests.support import parse
from xoptim.proof.proving import prove_models

ORT = "com.microsoft."
CONSTANTS = (
    "<int64[1,4] c0 = {0, 2, 1, 0}, int64[4] c1 = {1, 1, 0, 1}, float[1] c2 = {0.5}, int32 c3 = "
    "{1}, int32 c4 = {-1}, int64[3,1] c5 = {1, 0, 1}, int64[2,2] c6 = {1, 0, 0, -1}, int16[4,3] c7 "
    "= {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}>"
)
NODES = (
    ("(float[2,3,4] x, float[2,3,4] z, float[2,3,1] g) => (float[A,B,C] y)",
     f"y = {ORT}GatedAdd(x, z, g)"),
    ("(float[2,4] x) => (float[A,B] y)", f"y = {ORT}ScaledSiLU <alpha = 2.0> (x)"),
    ("(float[2,4] x, float k) => (float[A,B] y)", f"y = {ORT}ScaledSiLU(x, k)"),
    ("(float[2,3,4] x, float[4] k, float[4] s, float[2,3,4] b) => (float[A,B,C] y, float[D,E,F] z)",
     f"y, z = {ORT}LinearAttentionGate(x, k, s, b)"),
    ("(float[2,3,4] x, float[4] k, float[2,3,4] z) => (float[A,B,C] y)",
     f"y = {ORT}GatedRMSNorm <epsilon = 0.01> (x, k, z)"),
    ("(float[2,3,4] x, float[2] k, float[2,3,4] z) => (float[A,B,C] y)",
     f'y = {ORT}GatedRMSNorm <activation = "sigmoid"> (x, k, z)'),
    ("(float[3,4] x, float[2,4] z) => (float[A,B] y)",
     f'y = {ORT}CDist <metric = "sqeuclidean"> (x, z)'),
    ("(float[3,4] x, float[2,4] z) => (float[A,B] y)",
     f'y = {ORT}CDist <metric = "euclidean"> (x, z)'),
    ("(uint8[2,3,4,2] x) => (uint8[A,B,C,D] y)",
     f"y = {ORT}NhwcMaxPool <kernel_shape = [2, 3], strides = [1, 2], pads = [1, 0, 0, 1]> (x)"),
    ("(float[3,2,2] x, int64[3,2] i) => (float[A,B] y)", f"y = {ORT}GatherND(x, i)"),
    ("(int16[2,4] x, int16[4,3] z) => (int32[A,B] y)", f"y = {ORT}MatMulInteger16(x, z)"),
)  # fmt: skip
MOVEMENT = (
    ("(float[2,3] x) => (float[A,B] y)", f"y = {ORT}Pad(x, c0, c2)"),
    ("(float[2,3] x) => (float[A,B] y)", f"y = {ORT}Pad(x, c0)"),
    ("(float[2,3] x) => (float[A,B] y)", f'y = {ORT}Pad <mode = "reflect"> (x, c1)'),
    ("(float[2,3] x) => (float[A,B] y)", f'y = {ORT}Pad <mode = "edge"> (x, c0)'),
    ("(float[2,3] x) => (float[A,B,C] y)", f"y = {ORT}ExpandDims(x, c3)"),
    ("(float[2,3] x) => (float[A,B,C] y)", f"y = {ORT}ExpandDims(x, c4)"),
    ("(float[2,3] x) => (float[A,B] y)", f"y = {ORT}GatherND(x, c5)"),
    ("(float[2,3] x) => (float[A] y)", f"y = {ORT}GatherND(x, c6)"),
)


@pytest.mark.parametrize(("signature", "node"), NODES)
def test_values(signature: str, node: str) -> None:
    check(f"{signature} {CONSTANTS} {{ {node} }}", exact=False)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("signature", "node"), MOVEMENT)
def test_movement(signature: str, node: str, *, exact: bool) -> None:
    check(f"{signature} {CONSTANTS} {{ {node} }}", exact=exact)


def test_pools_of_small_integers() -> None:
    values = np.array([-128, 127, 0, -1, 5, -100], np.int8).reshape(1, 2, 3, 1)
    check(
        f"(int8[1,2,3,1] x) => (int8[A,B,C,D] y) {{ y = {ORT}NhwcMaxPool <kernel_shape = [2, 2], "
        "pads = [1, 1, 1, 1]> (x) }",
        feeds={"x": values},
    )


def test_large_products_of_16_bits() -> None:
    values = np.array([[-32768], [32767]], np.int16)
    check(
        f"(int16[2,1] x, int16[1,2] z) => (int32[A,B] y) {{ y = {ORT}MatMulInteger16(x, z) }}",
        feeds={"x": values, "z": values.T},
    )


CHANGES = (
    (0, "(x, z, g)", "(z, x, g)"),
    (1, "alpha = 2.0", "alpha = 2.5"),
    (3, "(x, k, s, b)", "(x, s, k, b)"),
    (4, "epsilon = 0.01", "epsilon = 0.02"),
    (5, "sigmoid", "silu"),
    (6, "sqeuclidean", "euclidean"),
    (8, "pads = [1, 0, 0, 1]", "pads = [0, 1, 0, 1]"),
    (8, "strides = [1, 2]", "strides = [1, 1]"),
    (10, "(x, z)", "(x, c7)"),
)


@pytest.mark.parametrize(("place", "old", "new"), CHANGES)
def test_changes_are_not_proved(place: int, old: str, new: str) -> None:
    signature, node = NODES[place]
    assert old in node
    sides = [
        parse(f"g {signature} {CONSTANTS} {{ {text} }}", 18, domains={"com.microsoft": 1})
        for text in (node, node.replace(old, new))
    ]
    assert prove_models(sides[0], sides[0]).is_proved
    assert not prove_models(sides[0], sides[1]).is_proved


@pytest.mark.parametrize(
    ("signature", "before", "after"),
    [
        (  # a gate that is one number for all rows, or one per feature
            "(float[N,4] x, float[N,4] z, float[N,4] g) => (float[A,B] y)",
            f"y = {ORT}GatedAdd(x, z, g)",
            "a = Mul(z, g) y = Add(x, a)",
        ),
        (  # a part of the rows is normalized
            "(float[N,4] x, float[2] k, float[N,4] z) => (float[A,B] y)",
            f"y = {ORT}GatedRMSNorm(x, k, z)",
            f"t = Concat <axis = 0> (k, k) y = {ORT}GatedRMSNorm(x, t, z)",
        ),
        (  # the product wraps around in 16 bits only
            "(int16[N,4] x, int16[4,M] z) => (int32[A,B] y)",
            f"y = {ORT}MatMulInteger16(x, z)",
            "a = Cast <to = 6> (x) b = Add(a, a) c = Cast <to = 6> (z) y = MatMul(b, c)",
        ),
    ],
)
def test_forms_that_differ_are_not_proved(signature: str, before: str, after: str) -> None:
    sides = [
        parse(f"g {signature} {{ {node} }}", 18, domains={"com.microsoft": 1})
        for node in (before, after)
    ]
    assert not prove_models(sides[0], sides[1]).is_proved
