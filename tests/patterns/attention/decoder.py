"""An attention with a cache and a rotation, as a decoder has it in each layer."""

from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper

from tests.support import parse

HEADS: Final = 4
GROUPS: Final = 2
SIZE: Final = 16
WIDE: Final = HEADS * SIZE


PLAIN: Final = "weights = Softmax <axis = -1> (masked)"
SINKS: Final = """
    shape = Concat <axis = 0> (b_1, four, n_1, one_1) column = Expand(sinks, shape)
    joined = Concat <axis = -1> (masked, column)
    most = ReduceMax <keepdims = 1> (joined, end) distances = Sub(joined, most)
    shares = Softmax <axis = -1> (distances)
    weights = Slice(shares, none_1, end, third, one_1)"""
"""The weights of attention with sinks, as transformers writes it for GPT-OSS."""

CAPPED: Final = """
    parts = Div(scaled, cap) curved = Tanh(parts) capped = Mul(curved, cap)
    hidden = Add(capped, bias) weights = Softmax <axis = -1> (hidden)"""
"""The weights of attention with capped scores, as transformers writes it for Gemma 2."""


def decoder(
    window: int = 0, weights: str = PLAIN, sinks: np.ndarray | None = None
) -> onnx.ModelProto:
    """An attention with a cache and a rotation of its heads, as exporters write it.

    Args:
        window: number of keys that a query sees, 0 for all earlier ones.
        weights: nodes that compute ``weights`` from the scores ``masked``.
        sinks: a number per head.
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
    b_1 = Shape <start = 0, end = 1> (x)
    n_0 = Squeeze(n_1) p_0 = Squeeze(p_1) t_0 = Add(p_0, n_0) t_1 = Add(p_1, n_1)
    places = Range(p_0, t_0, one) rows = Unsqueeze(places, last) columns = Range(none, t_0, one)
    lower = LessOrEqual(columns, rows) {near} part = Slice(mask, none_1, t_1, one_1)
    there = Cast <to = 9> (part) padding = Unsqueeze(there, middle) both = And(kept, padding)
    bias = Where(both, zero, low) row = Cast <to = 1> (rows) angles = Mul(row, frequencies)
    twice = Concat <axis = -1> (angles, angles) cos = Cos(twice) sin = Sin(twice)
    {_heads("q", HEADS)} {_rotated("q")} {_heads("k", GROUPS)} {_rotated("k")} {_heads("v", GROUPS)}
    key = Concat <axis = 2> (past_key, k_rotated) value = Concat <axis = 2> (past_value, v_heads)
    keys = Gather <axis = 1> (key, shared) values = Gather <axis = 1> (value, shared)
    swapped = Transpose <perm = [0, 1, 3, 2]> (keys) scores = MatMul(q_rotated, swapped)
    scaled = Mul(scores, scale) masked = Add(scaled, bias) {weights}
    found = MatMul(weights, values) back = Transpose <perm = [0, 2, 1, 3]> (found)
    y = Reshape(back, merged)"""
    model = parse(f"agraph ({given}) => ({results}) {{ {body} }}", 24)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in _constants(window, sinks).items()
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
        f"{name}_rotated = Add({name}_cos, {name}_sin)"
    )


def _constants(window: int, sinks: np.ndarray | None) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    if sinks is None:
        sinks = rng.normal(size=(1, HEADS, 1, 1))
    heads = {"q": HEADS, "k": GROUPS, "v": GROUPS}
    weights = {
        f"weight_{name}": rng.normal(size=(WIDE, count * SIZE)).astype(np.float32) / 8
        for name, count in heads.items()
    }
    targets = {f"heads_{count}": np.array([0, 0, count, SIZE]) for count in (HEADS, GROUPS)}
    numbers = {"none": 0, "one": 1, "window": window, "last": [1], "middle": [1, 2]}
    lengths = {"none_1": [0], "one_1": [1], "merged": [0, 0, WIDE], "third": [3], "four": [HEADS]}
    lengths |= {"far": [1 << 40], "end": [-1], "before_end": [-2]}
    floats = {
        "zero": 0,
        "low": np.finfo(np.float32).min,
        "scale": SIZE**-0.5,
        "sinks": sinks,
        "cap": 2,
    }
    shared = np.repeat(np.arange(GROUPS), HEADS // GROUPS)
    frequencies = 1 / 100 ** (np.arange(SIZE // 2, dtype=np.float32) / (SIZE // 2))
    return {
        **{name: np.array(value, np.int64) for name, value in (numbers | lengths).items()},
        **{name: np.array(value, np.float32) for name, value in floats.items()},
        **(weights | targets | {"shared": shared, "frequencies": frequencies}),
    }
