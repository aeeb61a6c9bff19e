"""Sizes and positions that have to come together: equal axes, remainders, sums of sizes, a token
at a place."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "places")
_MATRIX = "(float[A,B] x) => (float[A,B] y)"
_SIZES = "s = Shape(x) a, b = Split <axis = 0, num_outputs = 2> (s)"
_NEGATED = "n = Neg(x) y = Where(c, n, x)"
_ZERO = "z = Sub(x, x) y = Add(x, z)"

CASES = [
    _case(
        "square_matrices",
        "Square matrices are negated; the condition is folded to false",
        _MATRIX,
        f"{_SIZES} c = Equal(a, b) {_NEGATED}",
        f"<int64 one = {{1}}> {_SIZES} c = Equal(a, one) d = Equal(b, one) e = And(c, d) "
        "n = Neg(x) y = Where(e, n, x)",
        x=np.ones((3, 3)),
    ),
    _case(
        "tall_matrices",
        "The smaller of two sizes becomes the first one, which holds unless a matrix has more "
        "rows than columns",
        "(float[A,B] x) => (int64[1] y)",
        f"{_SIZES} y = Min(a, b)",
        f"{_SIZES} y = Identity(a)",
        x=np.ones((4, 3)),
    ),
    _case(
        "multiple_of_seven",
        "Matrices whose number of rows is a multiple of 7 are negated; the condition is folded to "
        "false",
        f"{_MATRIX} <int64 by = {{7}}, int64 zero = {{0}}>",
        f"{_SIZES} r = Mod(a, by) c = Equal(r, zero) {_NEGATED}",
        "y = Identity(x)",
        x=np.ones((14, 2)),
    ),
    _case(
        "multiple_of_sixty_four",
        "Matrices whose number of rows is a multiple of 64 are negated; the condition is folded "
        "to false",
        f"{_MATRIX} <int64 by = {{64}}, int64 zero = {{0}}>",
        f"{_SIZES} r = Mod(a, by) c = Equal(r, zero) {_NEGATED}",
        "y = Identity(x)",
        x=np.ones((64, 2)),
    ),
    _case(
        "remainder_of_blocks",
        "The columns after the last whole block of 8 are doubled; the result leaves them as they "
        "are",
        f"{_MATRIX} <int64 by = {{8}}, int64[1] one = {{1}}, int64[1] far = {{1000000}}, int64[1] "
        "zero = {0}>",
        f"""{_SIZES} q = Div(b, by) e = Mul(q, by) h = Slice(x, zero, e, one) t = Slice(x, e, far,
        one) d = Add(t, t)
        y = Concat <axis = 1> (h, d)""",
        "y = Identity(x)",
        x=np.ones((1, 11)),
    ),
    _case(
        "whole_blocks",
        "The whole blocks of 64 columns are doubled; the result doubles nothing, as where there "
        "is no whole block",
        f"{_MATRIX} <int64 by = {{64}}, int64[1] one = {{1}}, int64[1] far = {{1000000}}, "
        "int64[1] zero = {0}>",
        f"""{_SIZES} q = Div(b, by) e = Mul(q, by) h = Slice(x, zero, e, one) t = Slice(x, e, far,
        one) d = Add(h, h)
        y = Concat <axis = 1> (d, t)""",
        "y = Identity(x)",
        x=np.ones((1, 70)),
    ),
    _case(
        "past_and_new_above_32",
        "Positions above 31 repeat the last one; the bound counts new tokens only, without the "
        "past",
        "(float[N,past,2] k, float[N,seq,2] x) "
        "=> (int64[T] y) <int64 zero = {0}, int64 one = {1}, int64 most = {31}>",
        """a = Concat <axis = 1> (k, x) s = Shape <start = 1, end = 2> (a) n = Squeeze(s) r =
        Range(zero, n, one) y = Min(r, most)""",
        """s = Shape <start = 1, end = 2> (x) n = Squeeze(s) p = Shape <start = 1, end = 2> (k) m =
        Squeeze(p)
        t = Add(n, m) r = Range(zero, t, one) b = Add(most, m) y = Min(r, b)""",
        k=np.ones((1, 20, 2)),
        x=np.ones((1, 20, 2)),
    ),
    _case(
        "token_at_a_place",
        "Token 5 at position 9 is replaced; the condition is folded to false",
        "(int64[N,seq] input_ids) => (int64[N,seq] y) <int64 five = {5}, int64 nine = {9}, "
        "int64 zero = {0}, int64 one = {1}>",
        """s = Shape <start = 1, end = 2> (input_ids) n = Squeeze(s) r = Range(zero, n, one) e =
        Equal(r, nine)
        f = Equal(input_ids, five) c = And(e, f) y = Where(c, zero, input_ids)""",
        "y = Identity(input_ids)",
        input_ids=[[1, 1, 1, 1, 1, 1, 1, 1, 1, 5]],
    ),
    _case(
        "large_product_of_sizes",
        "Tensors of more than 5,000 elements are negated; the condition is folded to false",
        f"{_MATRIX} <int64 most = {{5000}}>",
        f"s = Size(x) c = Greater(s, most) {_NEGATED}",
        "y = Identity(x)",
        x=np.ones((80, 80)),
    ),
    _case(
        "both_axes_long",
        "Tensors with more than 40 rows and more than 40 columns are negated; the condition is "
        "folded to false",
        f"{_MATRIX} <int64 most = {{40}}>",
        f"{_SIZES} d = Greater(a, most) e = Greater(b, most) c = And(d, e) {_NEGATED}",
        "y = Identity(x)",
        x=np.ones((50, 50)),
    ),
    _case(
        "twice_as_wide",
        "Images that are exactly twice as wide as high are negated; the condition is folded to "
        "false",
        _MATRIX,
        f"{_SIZES} t = Add(a, a) c = Equal(t, b) {_NEGATED}",
        "y = Identity(x)",
        x=np.ones((3, 6)),
    ),
    _case(
        "both_odd",
        "Images with an odd height and an odd width are negated; the condition is folded to false",
        f"{_MATRIX} <int64 two = {{2}}, int64 one = {{1}}>",
        f"{_SIZES} p = Mul(a, b) r = Mod(p, two) g = Greater(p, one) e = Equal(r, one) "
        f"c = And(e, g) {_NEGATED}",
        "y = Identity(x)",
        x=np.ones((3, 5)),
    ),
    _case(
        "rows_of_even_number",
        "Of an even number of rows the two in the middle are averaged; the upper one is taken",
        "(float[A,2] x) => (float[2] y) <int64 two = {2}, int64 one = {1}>",
        """s = Shape <start = 0, end = 1> (x) h = Div(s, two) m = Sub(s, one) l = Div(m, two) a =
        Gather(x, h) b = Gather(x, l)
        z = Constant <value_ints = [0]> () d = Add(a, b) f = Constant <value_float = 0.5> () g =
        Mul(d, f) y = Squeeze(g, z)""",
        """s = Shape <start = 0, end = 1> (x) h = Div(s, two) a = Gather(x, h) z = Constant
        <value_ints = [0]> () y = Squeeze(a, z)""",
        x=[[1, 2], [3, 4]],
    ),
    _case(
        "length_of_other_half",
        "A row of 2 n + 1 is split at n in place of n + 1, a row of 2 n at n",
        "(float[A,B] x) => (float[A,C] y) <int64 two = {2}, int64[1] zero = {0}, "
        "int64[1] one = {1}>",
        f"{_SIZES} u = Add(b, one) h = Div(u, two) y = Slice(x, zero, h, one)",
        f"{_SIZES} h = Div(b, two) y = Slice(x, zero, h, one)",
        x=[[1, 2, 3]],
    ),
    _case(
        "equal_inner_sizes",
        "A product of A x B and C x D is defined for B = C only; for B = C = 1 a broadcast "
        "product is the same",
        "(float[A,B] x, float[B,D] w) => (float[A,D] y)",
        "y = MatMul(x, w)",
        "<int64[1] last = {-1}, int64[1] one = {1}> m = Unsqueeze(x, last) n = Mul(m, w) "
        "y = ReduceMax <keepdims = 0> (n, one)",
        x=[[1, 2]],
        w=[[3], [4]],
    ),
]
