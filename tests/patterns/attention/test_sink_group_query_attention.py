"""GroupQueryAttention with sinks in decoders whose sizes and masks are assumed."""

from typing import Final

import numpy as np
import onnx
import pytest

from tests.patterns.attention.decoder import HEADS, SINKS, decoder
from tests.patterns.attention.test_group_query_attention import (
    ASSUMED,
    PATTERNS,
    assert_same,
    attention_of,
)
from tests.support import types
from xoptim import optimize

_JOINED: Final = "joined = Concat <axis = -1> (masked, column)"
_KEPT: Final = "Slice(shares, none_1, end, third, one_1)"
NEAR_MISSES: Final = {
    "the mask is added later": {
        _JOINED: "free = ReduceMax <keepdims = 1> (bias, end) wide = Concat <axis = -1> (bias, "
        "free) unmasked = Concat <axis = -1> (scaled, column) joined = Add(unmasked, wide)"
    },
    "the sinks are first": {
        _JOINED: "joined = Concat <axis = -1> (column, masked)",
        _KEPT: "Slice(shares, one_1, far, third, one_1)",
    },
    "the sinks are first, and kept": {_JOINED: "joined = Concat <axis = -1> (column, masked)"},
    "the sinks are kept": {_KEPT: "Slice(shares, one_1, far, third, one_1)"},
    "the sinks count twice": {
        _JOINED: "joined = Concat <axis = -1> (masked, column, column)",
        _KEPT: "Slice(shares, none_1, before_end, third, one_1)",
    },
    "the shares are of heads": {"Softmax <axis = -1>": "Softmax <axis = 1>"},
    "the sinks depend on the queries": {
        "Expand(sinks, shape)": "Expand(distant, shape)",
        "shape =": "place = Cast <to = 1> (rows) distant = Mul(place, sinks) shape =",
    },
}
"""Texts of `SINKS` with their replacements."""


@pytest.mark.parametrize("window", [0, 4])
def test_a_layer(window: int) -> None:
    before = decoder(window, SINKS)
    after = optimize(before, patterns=PATTERNS, assume=ASSUMED)
    attributes = attention_of(after)
    assert (attributes["do_rotary"], attributes.get("local_window_size", 0)) == (1, window)
    assert "Slice" not in types(after)
    assert_same(before, after)


@pytest.mark.parametrize("size", [-60, 60])
def test_large_sinks(size: float) -> None:
    """A sink may take all of the weights of its head, or nothing."""
    before = decoder(0, SINKS, np.array([size, 0, size, 1]).reshape(1, HEADS, 1, 1))
    after = optimize(before, patterns=PATTERNS, assume=ASSUMED)
    attention_of(after)
    assert_same(before, after)


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss(name: str) -> None:
    weights = SINKS
    for text, other in NEAR_MISSES[name].items():
        assert text in weights
        weights = weights.replace(text, other)
    assert_unfused(decoder(0, weights))


@pytest.mark.parametrize(
    "sinks", [np.ones((1, 1, 1, 1)), np.array([0, 1, -np.inf, 2])[:, None, None]]
)
def test_other_sinks(sinks: np.ndarray) -> None:
    """One for all heads, or -infinity."""
    assert_unfused(decoder(0, SINKS, sinks))


def assert_unfused(before: onnx.ModelProto) -> None:
    """Check that sinks are left, and results equal."""
    after = optimize(before, patterns=PATTERNS, assume=ASSUMED)
    assert "GroupQueryAttention" not in types(after)
    assert_same(before, after)


@pytest.mark.parametrize("lacking", [text for text in ASSUMED if text != "finite"])
def test_a_layer_without_an_assumption(lacking: str) -> None:
    known = [text for text in ASSUMED if text != lacking]
    after = optimize(decoder(0, SINKS), patterns=PATTERNS, assume=known)
    assert "GroupQueryAttention" not in types(after)
