"""Integers that are divided, shifted and converted; special values; and more forms of operators."""

import numpy as np
import pytest

from tests.proof.denotations.checking import check
from tests.support import parse
from xoptim.proof.proving import prove_models

INTEGERS = "<int32 b = {7}, int32 m = {-7}, uint8[4] k = {1, 7, 0, 3}, int64[1] o = {-1}>"
ENDS = np.array([[-(1 << 31), (1 << 31) - 1], [-8, 13]], np.int32)
NODES = (
    ("(int32[2,2] x) => (int32[A,B] y)", "y = Mod(x, b)"),
    ("(int32[2,2] x) => (int32[A,B] y)", "y = Mod(x, m)"),
    ("(int32[2,2] x) => (int32[A,B] y)", "y = Mod <fmod = 1> (x, m)"),
    ("(int32[2,2] x) => (int32[A,B] y)", "y = Div(x, m)"),
    ("(int32[2,2] x) => (int32[A,B] y)", "y = Sign(x)"),
    ("(int32[2,2] x) => (int8[A,B] y)", "y = Cast <to = 3> (x)"),
    ("(int32[2,2] x) => (int8[A,B] y)", "t = Cast <to = 2> (x) y = Cast <to = 3> (t)"),
    ("(int32[2,2] x) => (int64[A,B] y)", "t = Cast <to = 3> (x) y = Cast <to = 7> (t)"),
)


def _wrapped_outputs(node: str) -> str:
    """A node whose results are read: the elements of others may be out of the range of a type."""
    return node.replace("y =", "s =") + " y = Max(s, s)"


@pytest.mark.parametrize(("signature", "node"), NODES)
def test_integers(signature: str, node: str) -> None:
    for exact in (False, True):
        text = _wrapped_outputs(node)
        check(f"{signature} {INTEGERS} {{ {text} }}", exact=exact, feeds={"x": ENDS})


def test_shifts_to_the_right() -> None:
    values = np.array([[255, 255, 255, 0], [1, 128, 7, 9]], np.uint8)
    check(
        f'(uint8[2,4] x) => (uint8[A,B] y) {INTEGERS} {{ y = BitShift <direction = "RIGHT"> '
        "(x, k) }",
        feeds={"x": values},
    )


@pytest.mark.parametrize("settings", ["", "<detect_negative = 0>", "<detect_positive = 0>"])
@pytest.mark.parametrize("exact", [False, True])
def test_infinities(settings: str, *, exact: bool) -> None:
    check(f"(float[4] x) => (bool[A] y) {{ y = IsInf {settings} (x) }}", exact=exact)


def test_remainders_of_real_numbers() -> None:
    values = np.array([-7.5, 7.5, -0.25, 3.0], np.float32)
    text = "(float[4] x) => (float[A] y) <float b = {-2}> { y = Mod <fmod = 1> (x, b) }"
    check(text, exact=False, feeds={"x": values})


MORE = (
    ("(float[2,3,2] x) => (float[A,B,C] y)", "y = LpNormalization <axis = 1, p = 1> (x)", 22),
    ("(float[2,3] x) => (float[A] y) <bool[4] c = {0, 1, 0, 1}>", "y = Compress(x, c)", 18),
    ("(float[2,1,3] x, float[2,1,3] u, int64[2,1,3] i) => (float[A,B,C] y)",
     "j = Sub(i, i) y = ScatterElements <axis = 1> (x, j, u)", 18),
    ("(float[2,3] x) => (float[A,B] y) <float r = {0.5}, bool m = {0}>", "y = Dropout(x, r, m)",
     18),
    ("(uint8[1,2,2,3] x) => (uint8[A,B,C,D] y) <int64[4] s = {1, 2, 6, 9}>",
     'y = Resize <coordinate_transformation_mode = "pytorch_half_pixel"> (x, , , s)', 18),
    ("(uint8[1,2,1,3] x) => (uint8[A,B,C,D] y) <int64[4] s = {1, 2, 4, 3}>",
     'y = Resize <coordinate_transformation_mode = "pytorch_half_pixel", nearest_mode = '
     '"round_prefer_ceil"> (x, , , s)', 18),
    ("(float[1,2,4,5] x, float[3,2,2,2] w) => (float[A,B,C,D] y)",
     'y = Conv <auto_pad = "SAME_UPPER"> (x, w)', 18),
    ("(float[1,2,4,5] x, float[3,2,2,3] w) => (float[A,B,C,D] y)",
     'y = Conv <auto_pad = "SAME_LOWER"> (x, w)', 18),
)  # fmt: skip


@pytest.mark.parametrize(("signature", "node", "opset"), MORE)
def test_more(signature: str, node: str, opset: int) -> None:
    check(f"{signature} {{ {node} }}", opset, exact=False)


def _grade(signature: str, before: str, after: str, opset: int = 18) -> str:
    sides = [parse(f"g {signature} {{ {node} }}", opset) for node in (before, after)]
    return prove_models(sides[0], sides[1]).grade


EQUAL = (
    ("(int64[N] x) => (int8[N] y)", "t = Cast <to = 6> (x) y = Cast <to = 3> (t)",
     "y = Cast <to = 3> (x)", "same bits"),
    ("(int64[N] x) => (int64[N] y) <int64 b = {7}, int64 o = {0}>", "y = Mod(x, b)",
     "q = Div(x, b) p = Mul(q, b) r = Sub(x, p) n = Less(r, o) s = Add(r, b) y = Where(n, s, r)",
     "same bits"),
    ("(float[N] x) => (float[N] y) <float h = {0.5}>", "y = Round(x)",
     "f = Floor(x) d = Sub(x, f) p = Mul(f, h) q = Floor(p) o = Greater(p, q) e = Equal(d, h) "
     "m = And(e, o) g = Greater(d, h) u = Or(g, m) c = Cast <to = 1> (u) y = Add(f, c)",
     "over real numbers"),
    ("(int64[K] i) => (bool[K] y) <int64 o = {0}, int64 n = {3}, int64 k = {2}, int64 m = {-1}>",
     "l = Less(i, o) a = Add(i, n) w = Where(l, a, i) y = Equal(w, k)",
     "p = Equal(i, k) q = Equal(i, m) y = Or(p, q)", "same bits"),
    ("(float[N,3,h,w] x) => (float[A,B,C,D] y) <int64[2] c = {8, 11}>",
     'y = Resize <axes = [2, 3], mode = "linear"> (x, , , c)',
     's = Shape <end = 2> (x) z = Concat <axis = 0> (s, c) y = Resize <mode = "linear"> '
     "(x, , , z)", "same bits"),
    ("(float[2,8] x, int64[b,s] i) => (float[A,B] y) <int64 z = {0}, int64 o = {1}, int64[1] k = "
     "{0}, int64[1] j = {1}>",
     "h = Shape(i) n = Gather(h, o) r = Range(z, n, o) y = Gather <axis = 1> (x, r)",
     "h = Shape(i) n = Gather(h, o) l = Unsqueeze(n, k) y = Slice(x, k, l, j)", "same bits"),
    ("(float[8,2] x, int64[s] i) => (float[A,B,C] y) <int64 z = {0}, int64 o = {1}, int64[1] k = "
     "{0}>",
     "h = Size(i) r = Range(z, h, o) u = Unsqueeze(r, k) y = Gather(x, u)",
     "h = Size(i) r = Range(z, h, o) t = Gather(x, r) y = Unsqueeze(t, k)", "same bits"),
    ("(bool[B] x) => (float[A] y) <float[4] t = {1, 2, 3, 4}, int64[3] i = {2, 3, 1}, float[3] u = "
     "{3, 4, 2}, int64[1] o = {0}>",
     "n = Shape(x) p = Slice(i, o, n) y = Gather(t, p)", "n = Shape(x) y = Slice(u, o, n)",
     "same bits"),
)  # fmt: skip


@pytest.mark.parametrize(("signature", "before", "after", "grade"), EQUAL)
def test_equal(signature: str, before: str, after: str, grade: str) -> None:
    assert _grade(signature, before, after) == grade


DIFFERENT = (
    # the sign of a remainder of negative numbers
    ("(int64[N] x) => (int64[N] y) <int64 b = {7}>", "y = Mod(x, b)", "y = Mod <fmod = 1> (x, b)"),
    ("(int64[N] x, int64[N] z) => (int64[N] y)", "y = Mod(x, z)",
     "q = Div(x, z) p = Mul(q, z) y = Sub(x, p)"),
    # a conversion to a wider type after a narrower one, or of another sign
    ("(int64[N] x) => (int64[N] y)", "t = Cast <to = 3> (x) y = Cast <to = 7> (t)",
     "y = Identity(x)"),
    ("(uint8[N] x) => (int32[N] y)", "t = Cast <to = 3> (x) y = Cast <to = 6> (t)",
     "y = Cast <to = 6> (x)"),
    ("(int32[N] x) => (bool[N] y) <int8 o = {0}, int32 p = {0}>",
     "t = Cast <to = 3> (x) y = Less(t, o)", "y = Less(x, p)"),
    # a shift of a negative number is no quotient
    ("(uint8[N,2] x) => (uint8[N,2] y) <uint8[2] n = {1, 7}, uint8[2] f = {2, 64}>",
     'y = BitShift <direction = "RIGHT"> (x, n)', "y = Div(x, f)"),
    # halves are rounded to even numbers
    ("(float[N] x) => (float[N] y) <float h = {0.5}>", "y = Round(x)",
     "a = Add(x, h) y = Floor(a)"),
    # indices that wrap around the type
    ("(int64[K] i) => (bool[K] y) <int64 n = {3}, int64 k = {2}>",
     "a = Add(i, n) y = Equal(a, k)", "y = Equal(i, k)"),
    ("(int32[K] i) => (bool[K] y) <int32 n = {2147483647}, int32 k = {-2147483648}, int32 m = {2}>",
     "a = Add(i, n) y = Equal(a, k)", "y = Equal(i, m)"),
    # the sizes of another axis
    ("(float[N,3,h,w] x) => (float[A,B,C,D] y) <int64[2] c = {8, 11}>",
     'y = Resize <axes = [2, 3], mode = "linear"> (x, , , c)',
     'y = Resize <axes = [3, 2], mode = "linear"> (x, , , c)'),
    # the region of interest decides
    ("(float[N,3,h,w] x, float[4] r) => (float[A,B,C,D] y) <int64[2] c = {8, 11}>",
     'y = Resize <axes = [2, 3], coordinate_transformation_mode = "tf_crop_and_resize", mode = '
     '"linear"> (x, r, , c)', 'y = Resize <axes = [2, 3], mode = "linear"> (x, , , c)'),
    # values of a constant in another order, or of its other end
    ("(bool[B] x) => (float[A] y) <float[4] t = {1, 2, 3, 4}, int64[3] i = {2, 3, 1}, float[3] u = "
     "{3, 2, 4}, int64[1] o = {0}>",
     "n = Shape(x) p = Slice(i, o, n) y = Gather(t, p)", "n = Shape(x) y = Slice(u, o, n)"),
    ("(bool[B] x) => (float[A] y) <float[4] t = {1, 2, 3, 4}, int64[2] i = {-1, 0}, float[2] u = "
     "{1, 4}, int64[1] o = {0}>",
     "n = Shape(x) p = Slice(i, o, n) y = Gather(t, p)", "n = Shape(x) y = Slice(u, o, n)"),
    # a range of indices that is longer than an axis
    ("(float[2,8] x, int64[b,s] i) => (float[A,B] y) <int64 z = {0}, int64 o = {1}, int64[1] k = "
     "{0}, int64[1] j = {1}>",
     "h = Shape(i) n = Gather(h, o) l = Unsqueeze(n, k) y = Slice(x, k, l, j)",
     "h = Shape(i) n = Gather(h, o) r = Range(z, n, o) y = Gather <axis = 1> (x, r)"),
    # a scatter to one place along an axis of another size
    ("(float[N,2] x, float[N,1] u) => (float[N,2] y) <int64[1] o = {0}>",
     "s = Shape(u) i = Expand(o, s) y = ScatterElements <axis = 1> (x, i, u)",
     "a = Concat <axis = 1> (u, u) y = Identity(a)"),
    ("(float[N,1] x, float[N,1] u) => (float[N,1] y) <int64[1] o = {0}>",
     's = Shape(u) i = Expand(o, s) y = ScatterElements <axis = 1, reduction = "add"> (x, i, u)',
     "y = Identity(u)"),
    # a Dropout that drops
    ("(float[N] x, bool m) => (float[N] y) <float r = {0.5}>", "y = Dropout(x, r, m)",
     "y = Identity(x)"),
    # pads of another stride
    ("(float[N,2,h,w] x, float[3,2,2,2] k) => (float[A,B,C,D] y)",
     'y = Conv <auto_pad = "SAME_UPPER"> (x, k)', "y = Conv <pads = [1, 1, 0, 0]> (x, k)"),
    ("(float[N,2,h,w] x, float[3,2,2,2] k) => (float[A,B,C,D] y)",
     'y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, k)',
     "y = Conv <pads = [0, 0, 1, 1], strides = [2, 2]> (x, k)"),
    # a size of 0 copies another one
    ("(float[n,4] x) => (float[A,B] y) <int64[1] d = {2}, int64[1] m = {-1}>",
     "s = Shape <end = 1> (x) h = Div(s, d) t = Concat <axis = 0> (h, m) y = Reshape(x, t)",
     "s = Shape <end = 1> (x) h = Div(s, d) t = Concat <axis = 0> (h, m) "
     "y = Reshape <allowzero = 1> (x, t)"),
)  # fmt: skip


@pytest.mark.parametrize(("signature", "before", "after"), DIFFERENT)
def test_different(signature: str, before: str, after: str) -> None:
    assert _grade(signature, before, after) == "only run"


def test_a_number_is_rounded_to_16_bits() -> None:
    signature = "(float16[N] x) => (float16[N] y) <float c = {0.16666667}>"
    kept = "e = Cast <to = 10> (c) y = Mul(x, e)"
    wide = "w = Cast <to = 1> (x) p = Mul(w, c) y = Cast <to = 10> (p)"
    assert _grade(signature, kept, wide) == "over real numbers, constants folded"
    exact = signature.replace("0.16666667", "0.25")
    assert _grade(exact, kept, wide) == "over real numbers"


def test_half_of_a_truth_value_is_no_truth_value() -> None:
    signature = "(bool[N] x, bool[N] z) => (float[N] y) <float h = {0.5}>"
    half = "f = Cast <to = 1> (x) p = Mul(f, h) b = Cast <to = 9> (p) y = Cast <to = 1> (b)"
    assert _grade(signature, half, "f = Cast <to = 1> (x) y = Mul(f, h)") == "only run"
