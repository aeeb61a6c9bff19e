"""GroupQueryAttention in decoders whose sizes and masks are assumed."""

import itertools
from typing import Any, Final

import numpy as np
import onnx
import pytest

from tests.patterns.attention.comparison import LEVELS, session
from tests.patterns.attention.decoder import GROUPS, SIZE, WIDE, decoder
from tests.patterns.attention.models import Form, model_of
from tests.support import parse, types
from xoptim import VerificationOptions, optimize
from xoptim.verification.errors import ChoiceError
from xoptim.verification.judging.compare import compare_values
from xoptim.verification.options import ComparisonRules

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


def masked_by(mask: str) -> onnx.ModelProto:
    """The attention of two new tokens to four keys, of which two are in the cache."""
    return parse(
        "agraph (float[b,2,16] q, float[b,2,8] k, float[b,2,8] v, float[b,1,2,8] past_key, "
        "float[b,1,2,8] past_value) => (float[b,2,16] y, float[b,1,4,8] key, float[b,1,4,8] value) "
        f"<{mask}> {{ y, key, value = Attention <q_num_heads = 2, kv_num_heads = 1> "
        "(q, k, v, mask, past_key, past_value) }",
        23,
    )


@pytest.mark.parametrize(
    ("numbers", "window"), [("1, 1, 1, 0, 1, 1, 1, 1", -1), ("0, 1, 1, 0, 0, 0, 1, 1", 2)]
)
def test_constant_boolean_masks(numbers: str, window: int) -> None:
    before = masked_by(f"bool[2,4] mask = {{{numbers}}}")
    after = optimize(before, patterns=PATTERNS, assume=("b == 1",), verify=True)
    assert attention_of(after).get("local_window_size", -1) == window


@pytest.mark.parametrize("numbers", ["1, 1, 1, 1, 1, 1, 1, 1", "0, 1, 1, 0, 1, 0, 1, 1"])
def test_constant_boolean_masks_that_are_not_causal(numbers: str) -> None:
    before = masked_by(f"bool[2,4] mask = {{{numbers}}}")
    after = optimize(before, patterns=PATTERNS, assume=("b == 1",))
    assert "GroupQueryAttention" not in types(after)


@pytest.mark.parametrize(
    "mask", ["bool[2,3] mask = {1, 1, 1, 1, 1, 1}", "float[3,1] mask = {0, 0, 0}"]
)
def test_constant_masks_of_another_size(mask: str) -> None:
    """Operator set 24 allows fewer keys: the others are hidden."""
    after = optimize(masked_by(mask), patterns=PATTERNS, assume=("b == 1",), strict=True)
    assert "GroupQueryAttention" not in types(after)


def partly_rotated(interleaved: int, step: int = 1, row: str = "") -> onnx.ModelProto:
    """An attention of 2 heads of 32 elements, of which 16 are rotated.

    The tables are a half of numbers that were written twice, and in another order for a ``step`` of
    -1. ``row``: nodes that compute the positions as numbers ``row``, as Cast by default.
    """
    row = row or "row = Cast <to = 1> (rows)"
    lengths = (
        "n_1 = Shape <start = 1, end = 2> (x) p_1 = Shape <start = 2, end = 3> (past_key) "
        "n_0 = Squeeze(n_1) p_0 = Squeeze(p_1) t_0 = Add(p_0, n_0) places = Range(p_0, t_0, one) "
        "rows = Unsqueeze(places, last) columns = Range(none, t_0, one)"
    )
    tables = (
        f"{row} angle = Mul(row, frequencies) b_1 = Shape <end = 1> (x) "
        "twice = Concat <axis = -1> (angle, angle) pairs = Unsqueeze(twice, none_1) "
        "half = Slice(pairs, from, to, axes, steps) angles = Squeeze(half, none_1) "
        "shape = Concat <axis = 0> (b_1, n_1, width) all = Expand(angles, shape) "
        "cos = Cos(all) sin = Sin(all)"
    )
    attributes = f"num_heads = 2, interleaved = {interleaved}, rotary_embedding_dim = 16"
    frequencies = ", ".join(f"{100 ** (-each / 8):.4f}" for each in range(8))
    model = parse(
        "agraph (float[b,n,64] x, int64[b,t] mask, float[b,2,p,32] past_key, "
        "float[b,2,p,32] past_value) => (float[b,n,64] y, float[b,2,t,32] key, "
        "float[b,2,t,32] value) <int64 one = {1}, int64 none = {0}, int64[1] last = {-1}, "
        "int64[1] width = {8}, float zero = {0}, float low = {-3.4e38}, int64[1] none_1 = {0}, "
        "int64[1] ten = {10}, int64[1] far = {1000}, int64[1] one_1 = {1}, "
        f"int64[2] from = {{0, {0 if step > 0 else -1}}}, int64[2] axes = {{2, 1}}, "
        f"int64[2] to = {{8, {step * 1000}}}, int64[2] steps = {{1, {step}}}, "
        f"float[8] frequencies = {{{frequencies}}}> {{ {lengths} {tables} "
        "seen = LessOrEqual(columns, rows) bias = Where(seen, zero, low) "
        f"q = RotaryEmbedding <{attributes}> (x, cos, sin) "
        f"o = Neg(x) k = RotaryEmbedding <{attributes}> (o, cos, sin) "
        "y, key, value = Attention <q_num_heads = 2, kv_num_heads = 2> "
        "(q, k, x, bias, past_key, past_value) }",
        24,
    )
    return model


@pytest.mark.parametrize("interleaved", [0, 1])
def test_heads_that_are_rotated_in_part(interleaved: int) -> None:
    """GLM-4 rotates pairs of neighbours, Phi halves of the first features."""
    before = partly_rotated(interleaved)
    after = optimize(before, patterns=PATTERNS, assume=ASSUMED, verify=True)
    found = attention_of(after)
    assert (found["do_rotary"], found.get("rotary_interleaved", 0)) == (1, interleaved)
    for batch, length, past in ((1, 1, 0), (1, 7, 17), (3, 1, 17), (3, 7, 0)):
        rng = np.random.default_rng(length)
        feeds: dict[str, np.ndarray] = {"mask": np.ones((batch, past + length), np.int64)}
        feeds["x"] = rng.normal(size=(batch, length, 64)).astype(np.float32)
        for name in ("past_key", "past_value"):
            feeds[name] = rng.normal(size=(batch, 2, past, 32)).astype(np.float32)
        results = session(before).run(None, feeds), session(after).run(None, feeds)
        for expected, result in zip(*results, strict=True):
            np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize(
    "row",
    [
        "real = Cast <to = 1> (rows) a = Slice(real, none_1, ten, none_1) "
        "b = Slice(real, ten, far, none_1) c = Mul(b, zero) row = Concat <axis = 0> (a, c)",
        "real = Cast <to = 1> (rows) first = Slice(real, none_1, one_1, none_1) "
        "row = Sub(real, first)",
        "first = Slice(rows, none_1, one_1, none_1) less = Sub(rows, first) "
        "row = Cast <to = 1> (less)",
    ],
    ids=["0 from position 10", "from the first", "from the first, integers"],
)
def test_positions_that_a_slice_takes(row: str) -> None:
    """They are others where the cache has another length."""
    before = partly_rotated(0, row=row)
    after = optimize(before, patterns=PATTERNS, assume=ASSUMED)
    assert "RotaryEmbedding" in types(after)


def test_tables_of_unknown_shape() -> None:
    before = partly_rotated(0)
    cos = next(node for node in before.graph.node if node.op_type == "Cos")
    cos.op_type, cos.domain = "Table", "acme"
    before.opset_import.add(domain="acme", version=1)
    after = optimize(before, patterns=PATTERNS, assume=ASSUMED, strict=True)
    assert "RotaryEmbedding" in types(after)


def test_positions_in_another_order() -> None:
    after = optimize(partly_rotated(0, step=-1), patterns=PATTERNS, assume=ASSUMED, verify=True)
    assert "RotaryEmbedding" in types(after)


def test_values_that_break_the_assumptions_are_refused() -> None:
    before = decoder()
    feeds = feeds_of(3, 7, 5)
    with pytest.raises(ChoiceError, match="b == 1 or n == 1 or p == 0"):
        optimize(before, assume=ASSUMED, verify=VerificationOptions(feeds=feeds))
    padded = feeds_of(3, 7, 0)
    padded["mask"][0, :2] = 0
    with pytest.raises(ChoiceError, match=r"ones\(mask\)"):
        optimize(before, assume=ASSUMED, verify=VerificationOptions(feeds=padded))
