"""Rewrites that hold for some shapes only: one row, even dimensions, square matrices, rank 2."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "shapes")
_SQUARE = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
_IMAGE = "(float[N,1,H,W] x) => (float[N,1,A,B] y)"

CASES = [
    _case(
        "centred_over_all",
        "The mean of each row becomes the mean of all rows, which is the same for one row",
        "(float[N,4] x) => (float[N,4] y)",
        "<int64[1] last = {-1}> m = ReduceMean(x, last) y = Sub(x, m)",
        "m = ReduceMean(x) y = Sub(x, m)",
        x=[[1, 2, 3, 4], [9, 8, 7, 9]],
    ),
    _case(
        "flattened_batch",
        "A Reshape to [0, -1] becomes one to [1, -1]",
        "(float[N,2,2] x) => (float[A,B] y)",
        "<int64[2] t = {0, -1}> y = Reshape(x, t)",
        "<int64[2] t = {1, -1}> y = Reshape(x, t)",
        x=[[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    ),
    _case(
        "first_row_for_all",
        "A MatMul of batches reads the second operand of the first row only",
        "(float[N,2,2] a, float[N,2,2] b) => (float[N,2,2] y)",
        "y = MatMul(a, b)",
        "<int64 zero = {0}> c = Gather(b, zero) y = MatMul(a, c)",
        a=np.ones((2, 2, 2)),
        b=[[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    ),
    _case(
        "transpose_as_reshape",
        "Transpose -> Reshape holds where a dimension is 1",
        "(float[N,M] x) => (float[M,N] y)",
        "y = Transpose(x)",
        """<int64[2] back = {1, 0}> s = Shape(x) t = Gather(s, back) y = Reshape(x, t)""",
        x=[[1, 2, 3], [4, 5, 6]],
    ),
    _case(
        "square_weights_transposed",
        "The weights of a MatMul are transposed by mistake, which loads for square ones",
        "(float[N,2] x) => (float[N,2] y)",
        "<float[2,2] w = {1, 2, 3, 4}> y = MatMul(x, w)",
        "<float[2,2] w = {1, 3, 2, 4}> y = MatMul(x, w)",
        x=[[1, 2]],
    ),
    _case(
        "square_input_transposed",
        "An input matrix is transposed by mistake: the same for symmetric ones",
        "(float[n,n] x, float[n,n] w) => (float[n,n] y)",
        "y = MatMul(x, w)",
        "t = Transpose(w) y = MatMul(x, t)",
        x=_SQUARE,
        w=_SQUARE,
    ),
    _case(
        "column_as_row",
        "A bias of columns is added to rows, which runs for square matrices",
        "(float[n,n] x, float[n] b) => (float[n,n] y) <int64[1] one = {1}>",
        "c = Unsqueeze(b, one) y = Add(x, c)",
        "y = Add(x, b)",
        x=_SQUARE,
        b=[1, 2, 3],
    ),
    _case(
        "keepdims_dropped",
        "x * Mean(x) without keepdims, which runs for square matrices",
        "(float[n,n] x) => (float[n,n] y) <int64[1] last = {-1}>",
        "m = ReduceMean(x, last) y = Mul(x, m)",
        "m = ReduceMean <keepdims = 0> (x, last) y = Mul(x, m)",
        x=_SQUARE,
    ),
    _case(
        "odd_split",
        "A Split in two parts becomes a Slice of half the size, rounded down",
        "(float[N,M] x) => (float[N,K] y)",
        "y, z = Split <axis = 1, num_outputs = 2> (x)",
        """<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}>
        s = Shape <start = 1, end = 2> (x) h = Div(s, two) y = Slice(x, zero, h, one)""",
        x=[[1, 2, 3]],
    ),
    _case(
        "last_rank_2",
        "The last axis becomes axis 1, which is right for rank 2",
        "(float[] x) => (float[] y) <int64[1] zero = {0}>",
        "u = Unsqueeze(x, zero) y = Softmax <axis = -1> (u)",
        "u = Unsqueeze(x, zero) y = Softmax <axis = 1> (u)",
        x=[[1, 2], [3, 5]],
    ),
    _case(
        "sum_of_last_rank_2",
        "The last axis of a sum becomes axis 1 of an input without a declared rank",
        "(float[] x) => (float[] y) <int64[1] zero = {0}>",
        "<int64[1] last = {-1}> u = Unsqueeze(x, zero) y = ReduceSum(u, last)",
        "<int64[1] one = {1}> u = Unsqueeze(x, zero) y = ReduceSum(u, one)",
        x=[[1, 2], [3, 5]],
    ),
    _case(
        "pool_rank_4",
        "GlobalAveragePool -> ReduceMean of axes 2 and 3 holds for rank 4",
        "(float[] x) => (float[] y)",
        "y = GlobalAveragePool(x)",
        "<int64[2] axes = {2, 3}> y = ReduceMean(x, axes)",
        x=[[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]],
    ),
    _case(
        "transpose_of_last_two",
        "A Transpose of all axes becomes one of the last two",
        "(float[A,B,C] x) => (float[D,E,F] y)",
        "y = Transpose <perm = [2, 1, 0]> (x)",
        "y = Transpose <perm = [0, 2, 1]> (x)",
        x=[[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    ),
    _case(
        "pooling_in_pairs",
        "AveragePool of 2 by 2 -> Reshape and ReduceMean holds for even sizes",
        "(float[N,1,L] x) => (float[N,1,K] y)",
        "y = AveragePool <kernel_shape = [2], strides = [2]> (x)",
        """<int64[4] pairs = {0, 0, -1, 2}, int64[1] last = {-1}> r = Reshape(x, pairs)
        y = ReduceMean <keepdims = 0> (r, last)""",
        x=[[[1, 2, 3]]],
    ),
    _case(
        "ceil_mode_dropped",
        "MaxPool without ceil_mode is the same for even sizes",
        _IMAGE,
        "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x)",
        "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)",
        x=[[_SQUARE]],
    ),
    _case(
        "pads_of_same_odd",
        "SAME_UPPER -> pads of 1 holds for odd sizes",
        f"{_IMAGE} <float[1,1,3,3] w = {{1, 2, 3, 4, 5, 6, 7, 8, 9}}>",
        """y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w)""",
        "y = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)",
        x=[[[[1, 2], [3, 4]]]],
    ),
    _case(
        "pads_of_same_even",
        "SAME_UPPER -> pads of 0 before and 1 after holds for even sizes",
        f"{_IMAGE} <float[1,1,3,3] w = {{1, 2, 3, 4, 5, 6, 7, 8, 9}}>",
        """y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w)""",
        "y = Conv <pads = [0, 0, 1, 1], strides = [2, 2]> (x, w)",
        x=[[_SQUARE]],
    ),
    _case(
        "shape_of_other_input",
        "The shape of one input becomes that of another one",
        "(float[N,4] a, float[M,4] b) => (float[A,B] y, float[M,4] z) <float one = {1}>",
        "s = Shape(a) y = Expand(one, s) z = Neg(b)",
        "s = Shape(b) y = Expand(one, s) z = Neg(b)",
        a=np.ones((2, 4)),
        b=np.ones((3, 4)),
    ),
    _case(
        "size_of_other_axis",
        "The size of axis 0 becomes that of axis 1, without names",
        "(float[?,?] x) => (int64[1] y)",
        "y = Shape <start = 0, end = 1> (x)",
        "y = Shape <start = 1, end = 2> (x)",
        x=[[1, 2, 3]],
    ),
    _case(
        "squeeze_of_all",
        "A Squeeze of axis 1 becomes one of all axes of length 1",
        "(float[N,1,M] x) => (float[N,M] y)",
        "<int64[1] one = {1}> y = Squeeze(x, one)",
        "y = Squeeze(x)",
        x=[[[1, 2]]],
    ),
    _case(
        "heads_in_other_order",
        "repeat_interleave of heads becomes repeat: the same for one head",
        "(float[N,heads,S,2] x) => (float[N,H,S,2] y)",
        """<int64[1] two = {2}, int64[5] twice = {1, 1, 2, 1, 1}> u = Unsqueeze(x, two)
        e = Expand(u, twice) a = Shape <start = 0, end = 1> (x) b = Shape <start = 1, end = 2> (x)
        c = Shape <start = 2> (x) d = Mul(b, two) n = Concat <axis = 0> (a, d, c)
        y = Reshape(e, n)""",
        "<int64[4] twice = {1, 2, 1, 1}> y = Tile(x, twice)",
        x=np.arange(4).reshape(1, 2, 1, 2),
    ),
    _case(
        "last_token_of_six",
        "The last token is taken from index 5, as in a sequence of 6",
        "(float[N,seq] x) => (float[N] y)",
        "<int64 at = {-1}> y = Gather <axis = 1> (x, at)",
        "<int64 at = {5}> y = Gather <axis = 1> (x, at)",
        x=np.arange(7)[None],
    ),
    _case(
        "shape_of_first_call",
        "A Reshape to computed sizes is folded to those of the first call, 2 rows",
        "(float[N,M] x, float[N,K] z) => (float[A,B] y)",
        """<int64[1] last = {-1}> n = Shape <start = 0, end = 1> (z) s = Concat <axis = 0> (n, last)
        y = Reshape(x, s)""",
        "<int64[2] s = {2, -1}> y = Reshape(x, s)",
        x=np.ones((4, 3)),
        z=np.ones((4, 1)),
    ),
    _case(
        "seq_above_table",
        "The bound of positions at the last row of a table is dropped",
        "(float[N,seq] x) => (float[seq] y) <int64 zero = {0}, int64 one = {1}, int64 rows = {16}>",
        """<int64 top = {15}> t = Range(zero, rows, one) s = Shape <start = 1, end = 2> (x)
        n = Squeeze(s)
        r = Range(zero, n, one) i = Min(r, top) g = Gather(t, i) y = Cast <to = 1> (g)""",
        """t = Range(zero, rows, one) s = Shape <start = 1, end = 2> (x) n = Squeeze(s)
        r = Range(zero, n, one) g = Gather(t, r) y = Cast <to = 1> (g)""",
        x=np.ones((1, 17)),
    ),
    _case(
        "window_of_even_sizes",
        "Rows are padded to a multiple of 4 before they are split; the padding is dropped",
        "(float[L] x) => (float[K,4] y) <int64[1] four = {4}, int64[2] t = {-1, 4}>",
        """<int64[1] zero = {0}> s = Shape(x) n = Neg(s) m = Mod(n, four)
        p = Concat <axis = 0> (zero, m)
        q = Pad(x, p) y = Reshape(q, t)""",
        "y = Reshape(x, t)",
        x=[1, 2, 3, 4, 5],
    ),
    _case(
        "broadcast_of_one",
        "A row is cut to its first element, which is the same where the row has one",
        "(float[N,M] x, float[M] b) => (float[N,M] y)",
        "y = Add(x, b)",
        "<int64[1] zero = {0}> c = Gather(b, zero) y = Add(x, c)",
        x=[[1, 2]],
        b=[1, 2],
    ),
    _case(
        "causal_mask_with_past",
        "The diagonal of a causal mask, keys - queries, becomes 0: the same without past",
        "(float[S,1] q, float[1,T] k) => (float[S,T] y) <int64 zero = {0}>",
        """m = MatMul(q, k) a = Shape <start = 0, end = 1> (q) b = Shape <start = 1, end = 2> (k)
        e = Sub(b, a) d = Squeeze(e) y = Trilu <upper = 0> (m, d)""",
        "m = MatMul(q, k) y = Trilu <upper = 0> (m, zero)",
        q=np.ones((1, 1)),
        k=np.ones((1, 3)),
    ),
    _case(
        "factor_of_one_that_broadcasts",
        "x * ones -> x loses the shape of the ones",
        "(float[1,4] x, float[N,4] z) => (float[N,4] y, float[N,4] w) <float one = {1}>",
        "s = Shape(z) o = Expand(one, s) y = Mul(x, o) w = Neg(z)",
        "y = Identity(x) w = Neg(z)",
        x=[[1, 2, 3, 4]],
        z=np.ones((2, 4)),
    ),
    _case(
        "condition_that_broadcasts",
        "Where(true, x, b) -> x loses the shape of b",
        "(float[N,4] x, float[M,4] b) => (float[K,4] y) <bool yes = {1}>",
        "y = Where(yes, x, b)",
        "y = Identity(x)",
        x=[[1, 2, 3, 4]],
        b=np.ones((2, 4)),
    ),
    _case(
        "upsampling_as_tile",
        "Resize by 2, nearest -> Tile by 2 holds for images of one pixel",
        _IMAGE,
        "<float[4] by = {1, 1, 2, 2}> y = Resize(x, , by)",
        "<int64[4] by = {1, 1, 2, 2}> y = Tile(x, by)",
        x=[[_SQUARE]],
    ),
    _case(
        "concat_of_halves",
        "Two halves of a row are swapped; for an odd size, the first is one too short",
        "(float[N,M] x) => (float[N,M] y) <int64[1] one = {1}, int64[1] two = {2}>",
        "a, b = Split <axis = 1, num_outputs = 2> (x) y = Concat <axis = 1> (b, a)",
        """<int64[1] zero = {0}, int64[1] end = {9999}> s = Shape <start = 1, end = 2> (x)
        h = Div(s, two) a = Slice(x, zero, h, one) b = Slice(x, h, end, one)
        y = Concat <axis = 1> (b, a)""",
        x=[[1, 2, 3]],
    ),
]
