"""GroupQueryAttention in decoders whose sizes and masks are assumed."""

import itertools
from typing import Any, Final

import numpy as np
import onnx
import pytest

from tests.patterns.attention.comparison import LEVELS, session
from tests.patterns.attention.decoder import GROUPS, SIZE, WIDE, decoder
from tests.patterns.attention.models import Form, model_of
from tests.support import types
from xoptim import VerificationOptions, optimize
from xoptim.verification.compare import ComparisonRules, compare_values
from xoptim.verification.errors import ChoiceError

PATTERNS: Final = "default+onnxruntime+finite+genai"
CHUNKS: Final = "b == 1 or n == 1 or p == 0"
ASSUMED: Final = ("finite", "ones(mask)", CHUNKS, "t == p + n", "p <= 40", "n <= 40")


def feeds_of(batch: int, length: int, past: int) -> dict[str, np.ndarray]:
    """Values of the inputs, all tokens seen."""
    rng = np.random.default_rng(batch + 10 * length + 100 * past)
    shapes: dict[str, tuple[int, ...]] = {"x": (batch, length, WIDE)}
    shapes |= {f"past_{name}": (batch, GROUPS, past, SIZE) for name in ("key", "value")}
    values = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return {**values, "mask": np.ones((batch, past + length), np.int64)}


def assert_same(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Compare two decoders where the assumptions hold."""
    reference, judged = session(before), [session(after, level) for level in LEVELS]
    for batch, length, past in itertools.product((1, 3), (1, 7), (0, 1, 17)):
        if batch > 1 and length > 1 and past:
            continue
        feeds = feeds_of(batch, length, past)
        expected = reference.run(None, feeds)
        for each in judged:
            for e, a in zip(expected, each.run(None, feeds), strict=True):
                found = compare_values("", e, a, ComparisonRules("rounding", atol=1e-5))
                assert all(result.ok for result in found), (batch, length, past, found)


def attention_of(model: onnx.ModelProto) -> dict[str, Any]:
    """The attributes of the only attention, which is a GroupQueryAttention."""
    left = {"Attention", "RotaryEmbedding", "Where", "Range", "Cos", "Softmax", "Expand"}
    assert not left & set(types(model))
    found = [node for node in model.graph.node if node.op_type == "GroupQueryAttention"]
    assert len(found) == 1
    return {each.name: onnx.helper.get_attribute_value(each) for each in found[0].attribute}


@pytest.mark.parametrize("window", [0, 4])
def test_a_layer(window: int) -> None:
    before = decoder(window)
    after = optimize(before, patterns=PATTERNS, assume=ASSUMED)
    found = attention_of(after)
    assert (found["do_rotary"], found.get("local_window_size", 0)) == (1, window)
    assert types(after).count("MatMul") == 1
    assert_same(before, after)


@pytest.mark.parametrize("lacking", [text for text in ASSUMED if text != "finite"])
def test_a_layer_without_an_assumption(lacking: str) -> None:
    """The rotation may be left, but no mask and no size is taken for another one."""
    known = [text for text in ASSUMED if text != lacking]
    after = optimize(decoder(), patterns=PATTERNS, assume=known)
    assert "GroupQueryAttention" not in types(after)


@pytest.mark.parametrize("text", ["b == 1", "b == 1 or p == 0", "n == 1 or b == 1"])
def test_sizes_that_the_kernel_takes(text: str) -> None:
    known = [text if each == CHUNKS else each for each in ASSUMED]
    attention_of(optimize(decoder(), patterns=PATTERNS, assume=known, verify=True))


@pytest.mark.parametrize("text", ["b == 1 or n == 1 or p == 1", "b == 2", "n == 1 or b <= 2"])
def test_sizes_that_it_does_not_take(text: str) -> None:
    known = [text if each == CHUNKS else each for each in ASSUMED]
    after = optimize(decoder(), patterns=PATTERNS, assume=known)
    assert "GroupQueryAttention" not in types(after)


def test_heads_without_rotation() -> None:
    """GPT-2 adds positions to its tokens; its heads have 8 elements here."""
    before = model_of(Form(mask="causal and padding, later", past=True), 24)
    after = optimize(before, patterns=PATTERNS, assume=ASSUMED, verify=True)
    assert "do_rotary" not in attention_of(after)


def test_values_that_break_the_assumptions_are_refused() -> None:
    before = decoder()
    feeds = feeds_of(3, 7, 5)
    with pytest.raises(ChoiceError, match="b == 1 or n == 1 or p == 0"):
        optimize(before, assume=ASSUMED, verify=VerificationOptions(feeds=feeds))
    padded = feeds_of(3, 7, 0)
    padded["mask"][0, :2] = 0
    with pytest.raises(ChoiceError, match=r"ones\(mask\)"):
        optimize(before, assume=ASSUMED, verify=VerificationOptions(feeds=padded))
