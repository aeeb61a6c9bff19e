"""Optional values and sequences; written without regard to the verification."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import choice, replaced

_part = partial(replaced, "fresh: optional")
_ITEMS = "(seq(float[2]) items) => (float[2] y)"
_ROWS = "(seq(float[N,2]) items) => (float[M,2] y)"
_INDEX = "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 last = {-1}, bool go = {1}"
_FIVE = [[1, 2], [3, -4], [5, 6], [-7, 8], [9, 10]]

CASES = [
    _part(
        "order_of_an_optional_past",
        "A past is joined before the new rows; it is joined after them",
        "(float[N,2] x, optional(float[P,2]) past) => (float[M,2] y)",
        f"""h = OptionalHasElement(past) y = {
            choice(
                "h",
                "p = OptionalGetElement(past); Concat <axis = 0> (@)",
                "Identity(x)",
                "float[M,2]",
            )
        }""",
        "p, x",
        "x, p",
        x=[[1, 2]],
        past=[[3, 4], [5, 6]],
    ),
    _part(
        "mask_and_bias_at_once",
        "With a mask and a bias the bias is masked as well; it is added after the mask",
        "(float[4] x, optional(bool[4]) mask, optional(float[4]) bias) => (float[4] y) "
        "<float none = {0}>",
        f"""a = OptionalHasElement(mask) b = OptionalHasElement(bias) y = {
            choice(
                "a",
                choice(
                    "b",
                    "m = OptionalGetElement(mask) v = OptionalGetElement(bias) "
                    "s = Add(x, v) t = Where(m, s, none) p = Where(m, x, none) q = Add(p, v); "
                    "Identity(@)",
                    "n = OptionalGetElement(mask); Where(n, x, none)",
                    "float[4]",
                ),
                "Identity(x)",
                "float[4]",
            )
        }""",
        "t",
        "q",
        x=[1, 2, 3, 4],
        mask=[1, 0, 1, 0],
        bias=[1, 1, 1, 1],
    ),
    _part(
        "optional_length_from_the_end",
        "A negative length cuts from the end; it is taken for 0",
        "(float[N] x, optional(int64[1]) length) => (float[M] y) <int64[1] start = {0}>",
        f"""h = OptionalHasElement(length) y = {
            choice(
                "h",
                "l = OptionalGetElement(length) m = Max(l, start); Slice(x, start, @)",
                "Identity(x)",
                "float[M]",
            )
        }""",
        "l",
        "m",
        x=[1, 2, 3, 4],
        length=[-1],
    ),
    _part(
        "loss_with_labels",
        "With labels the result is the mean of the loss; it is its sum",
        "(float[N,3] x, optional(int64[N]) labels) => (float y)",
        f"""h = OptionalHasElement(labels) y = {
            choice(
                "h",
                'l = OptionalGetElement(labels); SoftmaxCrossEntropyLoss <reduction = "@"> (x, l)',
                "ReduceMax <keepdims = 0> (x)",
                "float",
            )
        }""",
        "mean",
        "sum",
        x=[[1, 2, 3], [3, 1, 0]],
        labels=[0, 2],
    ),
    _part(
        "longest_of_equal_items",
        "The first of the longest items is chosen; the last one is",
        f"{_ROWS} <{_INDEX}, int64 less = {{-1}}>",
        """n = SequenceLength(items) m, k = Loop(n, go, less, zero) <body = b
        (int64 i, bool g, int64 l, int64 j) => (bool more, int64 p, int64 q) {
        more = Identity(g) e = SequenceAt(items, i) t = Shape <start = 0, end = 1> (e)
        s = Squeeze(t) c = @(s, l) p = Where(c, s, l) q = Where(c, i, j) }>
        y = SequenceAt(items, k)""",
        "Greater",
        "GreaterOrEqual",
        items=[[[1, 2], [3, 4]], [[5, 6]], [[7, 8], [9, 1]]],
    ),
    _part(
        "captured_factor_of_a_map",
        "Each item is multiplied by a vector from outside; it is added",
        "(seq(float[2]) items, float[2] w) => (seq(float[2]) y)",
        "y = SequenceMap <body = b (float[2] e) => (float[2] r) { r = @(e, w) }> (items)",
        "Mul",
        "Add",
        items=_FIVE,
        w=[2, 3],
    ),
    _part(
        "item_of_the_best_score",
        "The item with the best score is returned; the second item is if there are two or more",
        f"(seq(float[2]) items, float[N] scores) => (float[2] y) <{_INDEX}>",
        """n = SequenceLength(items) l = Sub(n, one) b = ArgMax <axis = 0, keepdims = 0> (scores)
        f = Min(l, one) i = Min(@, l) y = SequenceAt(items, i)""",
        "b",
        "f",
        items=_FIVE,
        scores=[1, 2, 3, 5, 4],
    ),
    _part(
        "overlap_of_chunks",
        "Chunks of 4 rows lose their first row but for the first chunk; all chunks lose it",
        f"(float[N,2] x) => (float[M,2] y) <{_INDEX}, int64 size = {{4}}, int64[1] start = {{1}}, "
        "int64[1] end = {9}, int64[1] axis = {0}>",
        f"""s = SplitToSequence <axis = 0> (x, size) n = SequenceLength(s) empty = SequenceEmpty()
        o = Loop(n, go, empty) <body = b (int64 i, bool g, seq(float[K,2]) p)
        => (bool more, seq(float[K,2]) q) {{ more = Identity(g) e = SequenceAt(s, i)
        c = Greater(i, @) f = {
            choice("c", "Slice(e, start, end, axis)", "Identity(e)", "float[K,2]")
        } q = SequenceInsert(p, f) }}> y = ConcatFromSequence <axis = 0> (o)""",
        "zero",
        "last",
        x=np.arange(18).reshape(9, 2),
    ),
    _part(
        "maximum_of_pairs",
        "Items are added in pairs from both ends, the middle one once; it counts twice",
        f"{_ITEMS} <{_INDEX}, float[2] none = {{0, 0}}>",
        """n = SequenceLength(items) m = Sub(n, one) k = Add(n, one) h = Div(k, two)
        y = Loop(h, go, none) <body = b (int64 i, bool g, float[2] s)
        => (bool more, float[2] r) { more = Identity(g) j = Sub(m, i) e = SequenceAt(items, i)
        f = SequenceAt(items, j) p = Add(e, f) c = Equal(i, j) w = Where(c, e, p)
        r = Add(s, @) }>""",
        "w",
        "p",
        items=_FIVE,
    ),
    _part(
        "second_half_of_a_sequence",
        "Items from n / 2 on are summed; items from (n + 1) / 2 on are, the same for even n",
        f"{_ITEMS} <{_INDEX}, float[2] none = {{0, 0}}>",
        """n = SequenceLength(items) m = Add(n, one) h = Div(@, two) k = Sub(n, h)
        y = Loop(k, go, none) <body = b (int64 i, bool g, float[2] s)
        => (bool more, float[2] r) { more = Identity(g) j = Add(i, h) e = SequenceAt(items, j)
        r = Add(s, e) }>""",
        "n",
        "m",
        items=_FIVE,
    ),
    _part(
        "items_of_no_row",
        "An item without rows adds a row of zeros; it adds nothing",
        f"{_ROWS} <{_INDEX}, float[1,2] row = {{0, 0}}>",
        f"""n = SequenceLength(items) empty = SequenceEmpty()
        o = Loop(n, go, empty) <body = b (int64 i, bool g, seq(float[K,2]) p)
        => (bool more, seq(float[K,2]) q) {{ more = Identity(g) e = SequenceAt(items, i)
        t = Shape <start = 0, end = 1> (e) l = Squeeze(t) c = Equal(l, @) f = {
            choice("c", "Identity(row)", "Identity(e)", "float[K,2]")
        } q = SequenceInsert(p, f) }}> y = ConcatFromSequence <axis = 0> (o)""",
        "zero",
        "last",
        items=[[[1, 2]], np.zeros((0, 2)), [[3, 4]]],
    ),
    _part(
        "optional_states_of_two_layers",
        "The state of the second layer is taken from the past states; the first one is",
        "(float[2] x, optional(seq(float[2])) past) => (float[2] y) <int64 zero = {0}, "
        "int64 one = {1}>",
        f"""h = OptionalHasElement(past) y = {
            choice(
                "h",
                "s = OptionalGetElement(past) n = SequenceLength(s) c = Greater(n, one); "
                + choice(
                    "c",
                    "e = SequenceAt(s, @); Add(x, e)",
                    "f = SequenceAt(s, zero); Sub(x, f)",
                    "float[2]",
                ),
                "Identity(x)",
                "float[2]",
            )
        }""",
        "one",
        "zero",
        x=[1, 2],
        past=[[3, 4], [5, 6]],
    ),
    _part(
        "optional_bias_of_a_norm",
        "A bias is added before a SkipLayerNormalization; it is added after it",
        "(float[N,T,4] x, float[N,T,4] r, optional(float[4]) bias) => (float[N,T,4] y) "
        "<float[4] g = {1, 2, 1, 2}, float[4] b = {0, 0, 1, 1}>",
        f"""h = OptionalHasElement(bias) y = {
            choice(
                "h",
                "v = OptionalGetElement(bias) "
                "s = com.microsoft.SkipLayerNormalization(x, r, g, b, v) "
                "t = com.microsoft.SkipLayerNormalization(x, r, g, b) u = Add(t, v); Identity(@)",
                "com.microsoft.SkipLayerNormalization(x, r, g, b)",
                "float[N,T,4]",
            )
        }""",
        "s",
        "u",
        x=[[[1, 2, 3, 5]]],
        r=[[[1, -1, 0, 2]]],
        bias=[1, 2, -1, 0],
    ),
]
