"""Biases around the operator Attention: the cases in which they stay."""

import numpy as np
import pytest

from tests.support import types
from xoptim import optimize, verify
from xoptim.patterns.attention.attention_operator_bias import (
    AddAttentionMatMulPattern,
    AddAttentionPattern,
)
from xoptim.testing import parse

KEYS = AddAttentionPattern.examples[0].before
VALUES = AddAttentionMatMulPattern.examples[0].before


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (KEYS, "Attention <", "Attention <softcap = 2.0, "),
        (KEYS, "y = Attention", "y, i, j = Attention"),
        (VALUES, "kv_num_heads = 2", "kv_num_heads = 1"),
        (VALUES, "float[a,5,3] x", "float[a,m,3] x"),
    ],
    ids=["softcap", "a cache", "groups", "no keys"],
)
def test_where_the_bias_stays(text: str, old: str, new: str) -> None:
    assert old in text
    before = parse(text.replace(old, new), 23, ())
    patterns = [AddAttentionPattern, AddAttentionMatMulPattern]
    assert types(optimize(before, patterns=patterns)) == types(before)


@pytest.mark.parametrize(
    ("declared", "mask", "adds"),
    [
        ("float[a,1,3,5] mask", "mask", 2),
        ("bool[a,1,3,5] mask", "mask", 2),
        ("bool[a,1,3,5] hidden", "Where(hidden, lowest, zero)", 1),
    ],
    ids=["numbers that may be infinite", "Booleans", "finite numbers"],
)
def test_values_keep_their_bias_where_a_query_may_have_no_keys(
    declared: str, mask: str, adds: int
) -> None:
    text = VALUES.replace("float[a,5,3] x)", f"float[a,5,3] x, {declared})")
    text = text.replace("> { p =", ", float lowest = {-3e38}, float zero = {0}> { p =", 1)
    if mask == "mask":
        text = text.replace("(q, k, v)", "(q, k, v, mask)")
    else:
        text = text.replace("(q, k, v)", "(q, k, v, m)").replace("{ p =", f"{{ m = {mask} p =")
    before = parse(text, 23, ())
    after = optimize(before, patterns=AddAttentionMatMulPattern)
    assert types(after).count("Add") == adds
    hidden = {"hidden": np.ones((1, 1, 3, 5), bool)} if "hidden" in declared else {}
    assert verify(before, after, feeds=hidden).ok
