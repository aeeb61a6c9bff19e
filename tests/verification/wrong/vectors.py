"""Operands of several elements that are taken in another order, and limits of trips and bytes."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "vectors")

CASES = [
    _case(
        "ends_of_a_volume",
        "The amounts of a Pad of volumes at the start and at the end of axes are swapped",
        "(float[2,2,3,2,3] x, int64[10] p) => (float[A,B,C,E,F] y)",
        "y = Pad(x, p)",
        "<int64[10] i = {5, 6, 7, 8, 9, 0, 1, 2, 3, 4}> q = Gather(p, i) y = Pad(x, q)",
        x=np.ones((2, 2, 3, 2, 3)),
        p=[0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    ),
    _case(
        "ends_of_an_image",
        "The amounts of a Pad of images at the start and at the end of axes are swapped",
        "(float[N,2,H,W] x, int64[8] p) => (float[A,B,C,E] y)",
        "y = Pad(x, p)",
        "<int64[8] i = {4, 5, 6, 7, 0, 1, 2, 3}> q = Gather(p, i) y = Pad(x, q)",
        x=[[[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]],
        p=[0, 0, 0, 0, 0, 0, 0, 1],
    ),
    _case(
        "batch_and_channel_padding",
        "The amounts of a Pad for the first two axes are swapped",
        "(float[N,2,H,W] x, int64[8] p) => (float[A,B,C,E] y)",
        "y = Pad(x, p)",
        "<int64[8] i = {1, 0, 2, 3, 5, 4, 6, 7}> q = Gather(p, i) y = Pad(x, q)",
        x=[[[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]],
        p=[1, 0, 0, 0, 0, 0, 0, 0],
    ),
    _case(
        "repeats_of_a_volume",
        "The last two repeats of a Tile of a volume are swapped",
        "(float[2,2,3,2,3] x, int64[5] p) => (float[A,B,C,E,F] y)",
        "y = Tile(x, p)",
        "<int64[5] i = {0, 1, 2, 4, 3}> q = Gather(p, i) y = Tile(x, q)",
        x=np.ones((2, 2, 3, 2, 3)),
        p=[1, 1, 1, 2, 1],
    ),
    _case(
        "starts_of_a_volume",
        "The last two starts of a Slice of a volume are swapped",
        """(float[2,4,3,2,3] x, int64[5] p) => (float[A,B,C,E,F] y) <int64[5] e = {99, 99, 99,
        99, 99}>""",
        "y = Slice(x, p, e)",
        "<int64[5] i = {0, 1, 2, 4, 3}> q = Gather(p, i) y = Slice(x, q, e)",
        x=np.ones((2, 4, 3, 2, 3)),
        p=[0, 0, 0, 0, 1],
    ),
    _case(
        "sizes_of_an_expand",
        "The last two sizes of an Expand are swapped",
        "(float[1,1,1,1,1] x, int64[5] p) => (float[A,B,C,E,F] y)",
        "y = Expand(x, p)",
        "<int64[5] i = {0, 1, 2, 4, 3}> q = Gather(p, i) y = Expand(x, q)",
        x=[[[[[1.0]]]]],
        p=[1, 1, 1, 2, 1],
    ),
    _case(
        "scales_of_a_volume",
        "The last two scales of a Resize of a volume are swapped",
        "(float[1,1,3,2,3] x, float[5] p) => (float[A,B,C,E,F] y)",
        "y = Resize(x, , p)",
        "<int64[5] i = {0, 1, 2, 4, 3}> q = Gather(p, i) y = Resize(x, , q)",
        x=np.ones((1, 1, 3, 2, 3)),
        p=[1, 1, 1, 2, 1],
    ),
    _case(
        "three_sizes_of_a_constant",
        "The last two sizes of a ConstantOfShape are swapped",
        "(int64[3] p) => (float[A,B,C] y)",
        "y = ConstantOfShape(p)",
        "<int64[3] i = {0, 2, 1}> q = Gather(p, i) y = ConstantOfShape(q)",
        p=[1, 2, 3],
    ),
    _case(
        "five_sizes_of_a_constant",
        "Two of the sizes of a ConstantOfShape are swapped",
        "(int64[5] p) => (float[A,B,C,D,E] y)",
        "y = ConstantOfShape(p)",
        "<int64[5] i = {0, 2, 1, 3, 4}> q = Gather(p, i) y = ConstantOfShape(q)",
        p=[1, 2, 3, 1, 1],
    ),
    _case(
        "negative_trips",
        "A negative trip count, with which a Loop does not run, becomes positive",
        "(int64 n, float[2] x) => (float[2] y)",
        """y = Loop(n, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r) { d =
        Identity(c) r = Add(a, a) }>""",
        """m = Abs(n) y = Loop(m, , x) <body = b (int64 i, bool c, float[2] a) => (bool d,
        float[2] r) { d = Identity(c) r = Add(a, a) }>""",
        n=-2,
        x=[1, 2],
    ),
    _case(
        "absolute_byte",
        "Abs returns the minimum of int8 as it is; computed in int32 it is positive",
        "(int8[N,4] x) => (int32[N,4] y)",
        "a = Abs(x) y = Cast <to = 6> (a)",
        "i = Cast <to = 6> (x) y = Abs(i)",
        x=[[-128, 1, 2, 3]],
    ),
    _case(
        "mean_of_bytes",
        "The mean of two bytes is computed in uint8 in place of int32, after an overflow",
        "(uint8[N] a, uint8[N] b) => (uint8[N] y) <int32 t = {2}>",
        """p = Cast <to = 6> (a) q = Cast <to = 6> (b) s = Add(p, q) d = Div(s, t) y = Cast <to =
        2> (d)""",
        "<uint8 t8 = {2}> s = Add(a, b) y = Div(s, t8)",
        a=[200],
        b=[100],
    ),
    _case(
        "minimum_of_negated_bytes",
        "The minimum becomes the negated maximum of negated int8, which is wrong for -128",
        "(int8[N,4] x) => (int8[N,1] y) <int64[1] a = {1}>",
        "y = ReduceMin(x, a)",
        """i = Cast <to = 6> (x) n = Neg(i) m8 = Cast <to = 3> (n) m = ReduceMax(m8, a) mi = Cast
        <to = 6> (m) k = Neg(mi) y = Cast <to = 3> (k)""",
        x=[[-128, 1, 2, 3]],
    ),
]
