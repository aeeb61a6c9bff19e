"""Masks of tokens, pixels and moves; written without regard to the verification."""

from dataclasses import replace
from functools import partial

import numpy as np

from tests.verification.wrong.case import replaced, wrong

_case = partial(wrong, "fresh: masks")
_part = partial(replaced, "fresh: masks")
_LOWEST = "float lowest = {-3.4028234e38}"
_CAUSAL = """n = Shape <start = 1, end = 2> (attention_mask) l = Squeeze(n) r = Range(zero, l, one)
q = Unsqueeze(r, last) k = Unsqueeze(r, first)"""
_NUMBERS = "int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] last = {-1}"
_IMAGE = "(float[N,1,H,W] x, bool[N,1,H,W] kept) => (float[N,1,H,W] y)"

CASES = [
    _part(
        "two_masks_of_the_lowest",
        "A causal and a padding mask of the lowest float add up to -inf; the bound is dropped",
        f"(float[N,1,T,T] x, int64[N,T] attention_mask) => (float[N,1,T,T] y) <{_NUMBERS}, "
        f"{_LOWEST}, float none = {{0}}, int64[2] axes = {{1, 2}}>",
        f"""{_CAUSAL} future = Greater(k, q) a = Where(future, lowest, none)
        b = Cast <to = 9> (attention_mask) c = Where(b, none, lowest) d = Unsqueeze(c, axes)
        s = Add(a, d) m = Max(s, lowest) t = Add(x, @) y = Softmax(t)""",
        "m",
        "s",
        x=np.zeros((1, 1, 3, 3)),
        attention_mask=[[0, 1, 0]],
    ),
    _part(
        "packed_documents",
        "Tokens attend within a document; documents behind are taken in, as numbers ascend",
        f"(float[N,T,T] x, int64[N,T] attention_mask) => (float[N,T,T] y) <{_NUMBERS}, "
        "int64[1] second = {1}, float low = {-1e4}>",
        f"""{_CAUSAL} past = LessOrEqual(k, q) d = Unsqueeze(attention_mask, last)
        e = Unsqueeze(attention_mask, second) f = @(d, e) g = And(past, f)
        w = Where(g, x, low) y = Softmax(w)""",
        "Equal",
        "LessOrEqual",
        x=np.zeros((1, 4, 4)),
        attention_mask=[[1, 1, 2, 0]],
    ),
    _part(
        "images_within_a_prompt",
        "All tokens see image tokens; only image tokens see later image tokens",
        f"(float[N,T,T] x, int64[N,T] attention_mask) => (float[N,T,T] y) <{_NUMBERS}, "
        "int64[1] second = {1}, float low = {-1e4}>",
        f"""{_CAUSAL} past = LessOrEqual(k, q) b = Cast <to = 9> (attention_mask)
        key = Unsqueeze(b, second) query = Unsqueeze(b, last) both = And(key, query)
        f = Or(past, @) w = Where(f, x, low) y = Softmax(w)""",
        "key",
        "both",
        x=np.zeros((1, 4, 4)),
        attention_mask=[[0, 0, 1, 1]],
    ),
    _part(
        "special_outside_of_the_mask",
        "Kept and not special -> kept xor special holds if special tokens are kept",
        "(float[N,T] x, bool[N,T] kept, bool[N,T] special) => (float[N,T] y) <float none = {0}>",
        "@ y = Where(c, x, none)",
        "n = Not(special) c = And(kept, n)",
        "c = Xor(kept, special)",
        x=[[1, 2, 3]],
        kept=[[1, 1, 0]],
        special=[[1, 0, 1]],
    ),
    _part(
        "count_of_tokens_in_a_byte",
        "The number of kept tokens is counted in uint8",
        "(float[N,T] x, bool[N,T] kept) => (float[N,1] y) <int64[1] last = {-1}, float one = {1}>",
        """f = Cast <to = 1> (kept) m = Mul(x, f) s = ReduceSum(m, last) i = Cast <to = 6> (kept)
        n = ReduceSum(i, last) k = Cast <to = @> (n) d = Cast <to = 1> (k) c = Max(d, one)
        y = Div(s, c)""",
        "6",
        "2",
        x=np.ones((1, 300)),
        kept=np.ones((1, 300)),
    ),
    _part(
        "penalty_of_illegal_moves",
        "Illegal moves get -1e9; a penalty of 10 does not outweigh all logits",
        "(float[N,5] x, bool[N,5] legal) => (int64[N] y) <float none = {0}, float low = {-1e9}, "
        "float less = {-10}>",
        "p = Where(legal, none, @) a = Add(x, p) y = ArgMax <axis = 1, keepdims = 0> (a)",
        "low",
        "less",
        x=[[-8, 6, -9, 1, 1]],
        legal=[[1, 0, 1, 0, 0]],
    ),
    _case(
        "dilation_by_the_mean",
        "A mask grows by one pixel; a pixel grows only next to two others",
        f"{_IMAGE} <float none = {{0}}, float limit = {{0.15}}>",
        """f = Cast <to = 1> (kept) p = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (f)
        c = Cast <to = 9> (p) y = Where(c, x, none)""",
        """f = Cast <to = 1> (kept) p = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (f)
        c = Greater(p, limit) y = Where(c, x, none)""",
        x=np.ones((1, 1, 5, 5)),
        kept=np.eye(25)[12].reshape(1, 1, 5, 5),
    ),
    _case(
        "erosion_at_the_border",
        "A mask shrinks at its holes; it shrinks at the border of the image as well",
        f"{_IMAGE} <float none = {{0}}, float[1,1,3,3] w = {{1, 1, 1, 1, 1, 1, 1, 1, 1}}, "
        "float all = {8.5}>",
        """f = Cast <to = 1> (kept) n = Neg(f)
        p = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (n) e = Neg(p)
        c = Cast <to = 9> (e) y = Where(c, x, none)""",
        """f = Cast <to = 1> (kept) p = Conv <pads = [1, 1, 1, 1]> (f, w)
        c = Greater(p, all) y = Where(c, x, none)""",
        x=np.ones((1, 1, 4, 4)),
        kept=np.ones((1, 1, 4, 4)),
    ),
    _part(
        "mask_of_shifted_labels",
        "The loss of a token counts if the next one is kept; it counts if the token itself is",
        "(float[N,T] loss, int64[N,T] attention_mask) => (float y) <int64[1] zero = {0}, "
        "int64[1] one = {1}, int64[1] end = {9999}, int64[1] minus = {-1}>",
        """a = Slice(loss, zero, minus, one) b = Slice(attention_mask, @, one)
        f = Cast <to = 1> (b) m = Mul(a, f) y = ReduceSum <keepdims = 0> (m)""",
        "one, end",
        "zero, minus",
        loss=[[1, 2, 4]],
        attention_mask=[[1, 1, 0]],
    ),
    _part(
        "blocks_with_any_token",
        "A block of 4 keys is computed if any token is kept; it is computed if all are",
        "(float[N,8] x, int64[N,8] attention_mask) => (float[N,2] y) <int64[3] shape = {0, 2, 4}, "
        "int64[1] last = {-1}, float none = {0}>",
        """r = Reshape(attention_mask, shape) b = @ <keepdims = 0> (r, last) c = Cast <to = 9> (b)
        s = Reshape(x, shape) m = ReduceMax <keepdims = 0> (s, last) y = Where(c, m, none)""",
        "ReduceMax",
        "ReduceMin",
        x=[[1, 2, 3, 4, 5, 6, 7, 8]],
        attention_mask=[[1, 1, 1, 1, 1, 1, 0, 0]],
    ),
    _part(
        "paragraph_and_class_token",
        "Answers lie in segment 1 or at token 0; token 0 is masked as well",
        "(float[N,T] x, int64[N,T] token_type_ids) => (float[N,T] y) <int64 one = {1}, "
        "int64 zero = {0}, float low = {-1e4}>",
        """c = Equal(token_type_ids, one) s = Shape <start = 1, end = 2> (x) l = Squeeze(s)
        r = Range(zero, l, one) f = Equal(r, zero) d = Or(c, f) w = Where(@, x, low)
        y = Softmax(w)""",
        "d",
        "c",
        x=[[1, 2, 3]],
        token_type_ids=[[0, 0, 1]],
    ),
    _part(
        "dropout_by_its_expectation",
        "Kept units are scaled by the part that is kept; the scale is that of a half",
        "(float[N,4] x, bool[N,4] kept) => (float[N,4] y) <float half = {0.5}, float none = {0}, "
        "float least = {0.01}, int64[1] last = {-1}>",
        """f = Cast <to = 1> (kept) m = ReduceMean(f, last) b = Max(m, least) d = Div(x, @)
        y = Where(kept, d, none)""",
        "b",
        "half",
        x=[[1, 2, 3, 4]],
        kept=[[1, 1, 1, 0]],
    ),
    _case(
        "lengths_of_masked_attention",
        "The key mask of an Attention becomes lengths, which holds for padding on the right",
        "(float[N,T,4] x, int32[N,T] attention_mask) => (float[N,T,4] y) <float[4,12] w = "
        f"{{{', '.join(str(i % 7 / 4 - 0.7) for i in range(48))}}}, "
        f"float[12] b = {{{', '.join(['0'] * 12)}}}, int64[1] last = {{-1}}>",
        "y = com.microsoft.Attention <num_heads = 2> (x, w, b, attention_mask)",
        """n = ReduceSum <keepdims = 0> (attention_mask, last)
        y = com.microsoft.Attention <num_heads = 2> (x, w, b, n)""",
        x=np.sin(np.arange(12)).reshape(1, 3, 4),
        attention_mask=[[0, 1, 1]],
    ),
    replace(
        _part(
            "causal_and_masked",
            "An Attention is causal and masks keys; it is causal only",
            "(float[N,2,T,4] q, float[N,2,T,4] k, float[N,2,T,4] v, bool[N,1,1,T] kept) "
            "=> (float[N,2,T,4] y) <float none = {0}, float low = {-1e9}, int64[1] one = {1}>",
            """w = Where(kept, none, low) t = Shape <start = 2, end = 3> (q)
            s = Concat <axis = 0> (one, one, t, one) m = Expand(w, s)
            y = Attention <is_causal = 1> (@)""",
            "q, k, v, m",
            "q, k, v",
            q=np.sin(np.arange(24)).reshape(1, 2, 3, 4),
            k=np.cos(np.arange(24)).reshape(1, 2, 3, 4),
            v=np.arange(24).reshape(1, 2, 3, 4),
            kept=[[[[1, 0, 1]]]],
        ),
        opset=23,
    ),
]
