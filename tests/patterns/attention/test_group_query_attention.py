"""GroupQueryAttention in decoders whose sizes and masks are assumed."""

import itertools
from typing import Any, Final

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.patterns.attention.comparison import LEVELS, session
from tests.patterns.attention.models import Form, model_of
from tests.support import parse, types
from xoptim import ValidationOptions, optimize
from xoptim.verification.compare import ComparisonRules, compare_values
from xoptim.verification.errors import ChoiceError

PATTERNS: Final = "default+onnxruntime+finite+genai"
CHUNKS: Final = "b == 1 or n == 1 or p == 0"
ASSUMED: Final = ("finite", "ones(mask)", CHUNKS, "t == p + n", "p <= 40", "n <= 40")
HEADS: Final = 4
GROUPS: Final = 2
SIZE: Final = 16
WIDE: Final = HEADS * SIZE


def decoder(window: int = 0) -> onnx.ModelProto:
    """An attention with a cache and a rotation of its heads, as exporters write it.

    Args:
        window: number of keys that a query sees, 0 for all earlier ones.
    """
    given = f"float[b,n,{WIDE}] x, int64[b,t] mask"
    given += "".join(f", float[b,{GROUPS},p,{SIZE}] past_{name}" for name in ("key", "value"))
    results = f"float[b,n,{WIDE}] y"
    results += "".join(f", float[b,{GROUPS},t,{SIZE}] {name}" for name in ("key", "value"))
    near = (
        "first = Sub(rows, window) close = Greater(columns, first) kept = And(lower, close)"
        if window
        else "kept = Identity(lower)"
    )
    body = f"""
    n_1 = Shape <start = 1, end = 2> (x) p_1 = Shape <start = 2, end = 3> (past_key)
    n_0 = Squeeze(n_1) p_0 = Squeeze(p_1) t_0 = Add(p_0, n_0) t_1 = Add(p_1, n_1)
    places = Range(p_0, t_0, one) rows = Unsqueeze(places, last) columns = Range(none, t_0, one)
    lower = LessOrEqual(columns, rows) {near} part = Slice(mask, none_1, t_1, one_1)
    there = Cast <to = 9> (part) padding = Unsqueeze(there, middle) both = And(kept, padding)
    bias = Where(both, zero, low) row = Cast <to = 1> (rows) angles = Mul(row, frequencies)
    twice = Concat <axis = -1> (angles, angles) cos = Cos(twice) sin = Sin(twice)
    {_heads("q", HEADS)} {_rotated("q")} {_heads("k", GROUPS)} {_rotated("k")} {_heads("v", GROUPS)}
    key = Concat <axis = 2> (past_key, k_turned) value = Concat <axis = 2> (past_value, v_heads)
    keys = Gather <axis = 1> (key, shared) values = Gather <axis = 1> (value, shared)
    swapped = Transpose <perm = [0, 1, 3, 2]> (keys) scores = MatMul(q_turned, swapped)
    scaled = Mul(scores, scale) masked = Add(scaled, bias) weights = Softmax <axis = -1> (masked)
    found = MatMul(weights, values) back = Transpose <perm = [0, 2, 1, 3]> (found)
    y = Reshape(back, merged)"""
    model = parse(f"agraph ({given}) => ({results}) {{ {body} }}", 24)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in _constants(window).items()
    )
    return model


def _heads(name: str, heads: int) -> str:
    return (
        f"{name}_all = MatMul(x, weight_{name}) {name}_split = Reshape({name}_all, heads_{heads}) "
        f"{name}_heads = Transpose <perm = [0, 2, 1, 3]> ({name}_split)"
    )


def _rotated(name: str) -> str:
    return (
        f"{name}_1, {name}_2 = Split <num_outputs = 2, axis = -1> ({name}_heads) "
        f"{name}_minus = Neg({name}_2) {name}_other = Concat <axis = -1> ({name}_minus, {name}_1) "
        f"{name}_cos = Mul({name}_heads, cos) {name}_sin = Mul({name}_other, sin) "
        f"{name}_turned = Add({name}_cos, {name}_sin)"
    )


def _constants(window: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    heads = {"q": HEADS, "k": GROUPS, "v": GROUPS}
    weights = {
        f"weight_{name}": rng.normal(size=(WIDE, count * SIZE)).astype(np.float32) / 8
        for name, count in heads.items()
    }
    targets = {f"heads_{count}": np.array([0, 0, count, SIZE]) for count in (HEADS, GROUPS)}
    numbers = {"none": 0, "one": 1, "window": window, "last": [1], "middle": [1, 2]}
    lengths = {"none_1": [0], "one_1": [1], "merged": [0, 0, WIDE]}
    floats = {"zero": 0, "low": np.finfo(np.float32).min, "scale": SIZE**-0.5}
    shared = np.repeat(np.arange(GROUPS), HEADS // GROUPS)
    frequencies = 1 / 100 ** (np.arange(SIZE // 2, dtype=np.float32) / (SIZE // 2))
    return {
        **{name: np.array(value, np.int64) for name, value in (numbers | lengths).items()},
        **{name: np.array(value, np.float32) for name, value in floats.items()},
        **(weights | targets | {"shared": shared, "frequencies": frequencies}),
    }


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
        optimize(before, assume=ASSUMED, verify=ValidationOptions(feeds=feeds))
    padded = feeds_of(3, 7, 0)
    padded["mask"][0, :2] = 0
    with pytest.raises(ChoiceError, match=r"ones\(mask\)"):
        optimize(before, assume=ASSUMED, verify=ValidationOptions(feeds=padded))
