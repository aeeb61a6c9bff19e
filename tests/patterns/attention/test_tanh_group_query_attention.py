"""GroupQueryAttention with capped scores in decoders whose sizes and masks are assumed."""

from typing import Final

import pytest

from tests.patterns.attention.decoder import CAPPED, decoder
from tests.patterns.attention.test_group_query_attention import (
    ASSUMED,
    PATTERNS,
    assert_same,
    attention_of,
)
from tests.support import types
from xoptim import optimize

NEAR_MISSES: Final = {
    "the mask is added earlier": ("Div(scaled, cap)", "Div(masked, cap)"),
    "another function": ("Tanh(parts)", "Sigmoid(parts)"),
    "the cap is negative": ("Mul(curved, cap)", "Mul(curved, negative)"),
    "the cap is nearly as large as the mask": ("Mul(curved, cap)", "Mul(curved, huge)"),
}
"""A text of `CAPPED` with its replacement."""


@pytest.mark.parametrize("window", [0, 4])
def test_a_layer(window: int) -> None:
    before = decoder(window, CAPPED)
    after = optimize(before, patterns=PATTERNS, assume=ASSUMED)
    attributes = attention_of(after)
    assert (attributes["do_rotary"], attributes["softcap"]) == (1, 2)
    assert attributes.get("local_window_size", 0) == window
    assert "Tanh" not in types(after)
    assert_same(before, after)


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss(name: str) -> None:
    text, other = NEAR_MISSES[name]
    assert text in CAPPED
    constants = "negative = Neg(cap) huge = Div(low, negative)"
    before = decoder(0, f"{constants} {CAPPED.replace(text, other)}")
    after = optimize(before, patterns=PATTERNS, assume=ASSUMED)
    assert "GroupQueryAttention" not in types(after)
    assert_same(before, after)


@pytest.mark.parametrize("lacking", [text for text in ASSUMED if text != "finite"])
def test_a_layer_without_an_assumption(lacking: str) -> None:
    known = [text for text in ASSUMED if text != lacking]
    after = optimize(decoder(0, CAPPED), patterns=PATTERNS, assume=known)
    assert "GroupQueryAttention" not in types(after)
