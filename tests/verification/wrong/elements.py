"""Optional values that are absent, and sequences of no, one or many elements."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import choice, replaced, wrong

_case = partial(wrong, "elements")
_part = partial(replaced, "elements")
_ITEMS = "(seq(float[2]) items) => (float[2] y)"
_JOINED = "(seq(float[N,2]) items) => (float[M,2] y)"
_CHUNKS = "(float[N,2] x) => (float[M,2] y)"
_INDEX = "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 last = {-1}"
_PAIRS = [[1, 2], [3, 4], [5, -6], [7, 8], [9, 10]]
_TEN = np.sin(np.arange(20)).reshape(10, 2)

CASES = [
    _part(
        "last_item_as_first",
        "SequenceAt(-1) becomes SequenceAt(0), the same for one item",
        f"{_ITEMS} <{_INDEX}>",
        "y = SequenceAt(items, @)",
        "last",
        "zero",
        items=_PAIRS,
    ),
    _part(
        "last_item_of_two",
        "SequenceAt(-1) becomes SequenceAt(1) as in the observed run of two hidden states",
        f"{_ITEMS} <{_INDEX}>",
        f"""n = SequenceLength(items) c = Greater(n, one) y = {
            choice("c", "SequenceAt(items, @)", "SequenceAt(items, zero)", "float[2]")
        }""",
        "last",
        "one",
        items=_PAIRS,
    ),
    _part(
        "mean_of_short_chunk",
        "The last of the chunks of 4 rows is averaged over its rows; its sum is divided by 4",
        f"{_CHUNKS.replace('float[M,2]', 'float[1,2]')} <int64 size = {{4}}, int64 last = {{-1}}, "
        "int64[1] z = {0}, float four = {4}>",
        """s = SplitToSequence <axis = 0> (x, size) e = SequenceAt(s, last) a = ReduceMean(e, z)
        b = ReduceSum(e, z) c = Div(b, four) y = Identity(@)""",
        "a",
        "c",
        x=_TEN,
    ),
    _case(
        "joined_first_and_last",
        "ConcatFromSequence becomes a Concat of the first and last item, right for two of them",
        f"{_JOINED} <{_INDEX}>",
        "y = ConcatFromSequence <axis = 0> (items)",
        f"""n = SequenceLength(items) a = SequenceAt(items, zero) b = SequenceAt(items, last)
        c = Greater(n, one) y = {
            choice("c", "Concat <axis = 0> (a, b)", "Identity(a)", "float[M,2]")
        }""",
        items=[[[1, 2]], [[3, 4], [5, 6]], [[7, 8]]],
    ),
    _part(
        "default_of_absent_scale",
        "An absent scale is 1; it becomes 0",
        """(float[2] x, optional(float[2]) scale) => (float[2] y) <float[2] ones = {1, 1},
        float[2] zeros = {0, 0}>""",
        f"""h = OptionalHasElement(scale)
        s = {choice("h", "OptionalGetElement(scale)", "Identity(@)", "float[2]")} y = Mul(x, s)""",
        "ones",
        "zeros",
        x=[1, 2],
        scale=None,
    ),
    _part(
        "absent_residual",
        "Without a residual the result passes through Relu; it does not",
        "(float[2] x, optional(float[2]) residual) => (float[2] y)",
        f"""h = OptionalHasElement(residual)
        y = {choice("h", "r = OptionalGetElement(residual); Add(x, r)", "@(x)", "float[2]")}""",
        "Relu",
        "Identity",
        x=[1, -2],
        residual=None,
    ),
    _part(
        "both_optionals_absent",
        "The branch for no mask and no bias negates; the scores stay",
        """(float[2] x, optional(float[2]) mask, optional(float[2]) bias) => (float[2] y)""",
        f"""a = OptionalHasElement(mask) b = OptionalHasElement(bias) o = Or(a, b)
        y = {choice("o", "Abs(x)", "@(x)", "float[2]")}""",
        "Neg",
        "Identity",
        x=[1, -2],
        mask=None,
        bias=None,
    ),
    _part(
        "second_optional_absent",
        "A key without a value gives its Relu; it gives the key",
        """(optional(float[2]) key, optional(float[2]) value) => (float[2] y)
        <float[2] zeros = {0, 0}>""",
        f"""a = OptionalHasElement(key) b = OptionalHasElement(value) y = {
            choice(
                "a",
                choice(
                    "b",
                    "k = OptionalGetElement(key) v = OptionalGetElement(value); Mul(k, v)",
                    "k = OptionalGetElement(key); @(k)",
                    "float[2]",
                ),
                "Identity(zeros)",
                "float[2]",
            )
        }""",
        "Relu",
        "Identity",
        key=[1, -2],
        value=None,
    ),
    _part(
        "empty_sequence",
        "A sequence without items gives -1; it gives 0",
        f"{_ITEMS} <{_INDEX}, float[2] none = {{-1, -1}}, float[2] zeros = {{0, 0}}>",
        f"""n = SequenceLength(items) c = Greater(n, zero)
        y = {choice("c", "SequenceAt(items, zero)", "Identity(@)", "float[2]")}""",
        "none",
        "zeros",
        items=[],
    ),
    _part(
        "erased_from_the_end",
        "The last item is erased and the one before it read; the first one is erased",
        f"{_ITEMS} <{_INDEX}>",
        f"""n = SequenceLength(items) c = Greater(n, two) y = {
            choice(
                "c",
                "s = SequenceErase(items, @); SequenceAt(s, last)",
                "SequenceAt(items, zero)",
                "float[2]",
            )
        }""",
        "last",
        "zero",
        items=_PAIRS,
    ),
    _part(
        "inserted_before_the_last",
        "An item is inserted before the last one; it is appended",
        f"(seq(float[2]) items, float[2] x) => (float[M,2] y) <{_INDEX}>",
        f"""n = SequenceLength(items) c = Greater(n, zero) s = {
            choice(
                "c",
                "SequenceInsert(items, x@)",
                "SequenceInsert(items, x)",
                "seq(float[2])",
            )
        } y = ConcatFromSequence <axis = 0, new_axis = 1> (s)""",
        ", last",
        "",
        items=_PAIRS,
        x=[0, 0],
    ),
    _part(
        "inserted_in_front",
        "An item is inserted in front; it is appended, the same for an empty sequence",
        f"(seq(float[2]) items, float[2] x) => (float[M,2] y) <{_INDEX}>",
        """s = SequenceInsert(items, x@) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)""",
        ", zero",
        "",
        items=_PAIRS[:1],
        x=[0, 0],
    ),
    _part(
        "maximum_over_items",
        "The maximum over items starts at -3e38; it starts at 0, wrong for negative items",
        f"{_ITEMS} <{_INDEX}, float[2] low = {{-3e38, -3e38}}, float[2] zeros = {{0, 0}}, "
        "bool go = {1}>",
        """n = SequenceLength(items) y = Loop(n, go, @) <body = b (int64 i, bool g, float[2] s)
        => (bool more, float[2] r) { more = Identity(g) e = SequenceAt(items, i)
        r = Max(s, e) }>""",
        "low",
        "zeros",
        items=[[-1, -2]],
    ),
    _part(
        "mean_of_two_items",
        "The sum over items is divided by their number, at least 1; it is divided by Min(n, 2)",
        f"{_ITEMS} <{_INDEX}, float[2] zeros = {{0, 0}}, bool go = {{1}}>",
        """n = SequenceLength(items) t = Loop(n, go, zeros) <body = b (int64 i, bool g, float[2] s)
        => (bool more, float[2] r) { more = Identity(g) e = SequenceAt(items, i) r = Add(s, e) }>
        a = Max(n, one) b = Min(a, two) f = Cast <to = 1> (@) y = Div(t, f)""",
        "a",
        "b",
        items=_PAIRS,
    ),
    _part(
        "item_in_the_middle",
        "The item at n / 2 becomes that at (n - 1) / 2, the same for odd numbers of items",
        f"{_ITEMS} <{_INDEX}>",
        "n = SequenceLength(items) m = Sub(n, one) h = Div(@, two) y = SequenceAt(items, h)",
        "n",
        "m",
        items=_PAIRS[:4],
    ),
    _part(
        "stacked_along_the_end",
        "Items are stacked along a new last axis; the new axis comes first",
        "(seq(float[2]) items) => (float[A,B] y)",
        "y = ConcatFromSequence <axis = @, new_axis = 1> (items)",
        "-1",
        "0",
        items=_PAIRS[:2],
    ),
    _part(
        "mapped_items",
        "A SequenceMap applies Relu to each item; it applies LeakyRelu",
        "(seq(float[N,2]) items) => (float[M,2] y)",
        """s = SequenceMap <body = b (float[N,2] e) => (float[N,2] r) { r = @(e) }> (items)
        y = ConcatFromSequence <axis = 0> (s)""",
        "Relu",
        "LeakyRelu",
        items=[[[1, -2]], [[3, 4], [-5, 6]]],
    ),
    _part(
        "lengths_of_parts",
        "A split by the lengths of 3 documents returns the last one; it returns the second",
        f"(float[N,2] x, int64[3] lens) => (float[M,2] y) <{_INDEX}>",
        "s = SplitToSequence <axis = 0> (x, lens) y = SequenceAt(s, @)",
        "last",
        "one",
        x=_TEN,
        lens=[2, 3, 5],
    ),
    _part(
        "history_of_four_items",
        "Of more than 4 items the first is forgotten; all are joined",
        f"(seq(float[2]) items) => (float[M,2] y) <{_INDEX}, int64 four = {{4}}>",
        f"""n = SequenceLength(items) c = Greater(n, four) s = {
            choice("c", "@", "Identity(items)", "seq(float[2])")
        } y = ConcatFromSequence <axis = 0, new_axis = 1> (s)""",
        "SequenceErase(items, zero)",
        "Identity(items)",
        items=_PAIRS,
    ),
    _part(
        "last_items_of_two_sequences",
        "The last items of queries and keys are multiplied; the last query meets the first key",
        f"(seq(float[2]) queries, seq(float[2]) keys) => (float[2] y) <{_INDEX}>",
        "q = SequenceAt(queries, last) k = SequenceAt(keys, @) y = Mul(q, k)",
        "last",
        "zero",
        queries=_PAIRS[:2],
        keys=_PAIRS[1:3],
    ),
    _part(
        "states_without_trips",
        "A Loop without trips collects nothing, and -1 is returned; its start is returned",
        """(int64 count, float[1] x) => (float[1] y) <bool go = {1}, float[1,1] none = {-1},
        int64 first = {0}, int64[1] z = {0}>""",
        """last, all = Loop(count, go, x) <body = b (int64 i, bool g, float[1] s)
        => (bool more, float[1] r, float[1] o) { more = Identity(g) r = Add(s, s)
        o = Identity(s) }> u = Unsqueeze(x, z) c = Concat <axis = 0> (all, @)
        y = Gather(c, first)""",
        "none",
        "u",
        count=0,
        x=[3],
    ),
    _part(
        "optional_sequence",
        "Past states that are absent give 0; they give x",
        "(float[2] x, optional(seq(float[2])) past) => (float[2] y) <int64 last = {-1}, "
        "float zero = {0}>",
        f"""h = OptionalHasElement(past) z = Mul(x, zero) y = {
            choice(
                "h", "s = OptionalGetElement(past); SequenceAt(s, last)", "Identity(@)", "float[2]"
            )
        }""",
        "z",
        "x",
        x=[1, 2],
        past=None,
    ),
    _part(
        "one_item_only",
        "A sequence of one item is returned without its mean; the mean is subtracted always",
        f"{_ITEMS} <{_INDEX}>",
        f"""n = SequenceLength(items) e = SequenceAt(items, last) c = Equal(n, one)
        m = ReduceMean(e) d = Sub(e, m)
        y = {choice("c", "Identity(@)", "Identity(d)", "float[2]")}""",
        "e",
        "d",
        items=_PAIRS[:1],
    ),
]
