"""Small models with one attention, in the forms that exporters write."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import onnx

from tests.support import parse

HEADS: Final = 4
GROUPS: Final = 2
SIZE: Final = 8

QUERIES: Final = {
    "plain": "q = Identity(q4)",
    "multiplied": "q = Mul(q4, scale)",
    "divided": "q = Div(q4, divisor)",
    "root": "q = Mul(q4, root)",
}
KEYS: Final = {
    "swapped": "k4 = Transpose <perm = [0, 2, 1, 3]> (kr) kt = Transpose <perm = [0, 1, 3, 2]> (k4)",
    "moved": "kt = Transpose <perm = [0, 2, 3, 1]> (kr)",
    "merged batches": (
        "k4 = Transpose <perm = [0, 2, 1, 3]> (kr) ks = Shape <start = 2, end = 3> (k4) "
        "three = Concat <axis = 0> (minus_one, ks, size) four = Concat <axis = 0> (minus_one, heads, size, ks) "
        "k3 = Reshape(k4, three) kx = Transpose <perm = [0, 2, 1]> (k3) kt = Reshape(kx, four)"
    ),
}
SCORES: Final = {
    "plain": "scaled = Identity(scores)",
    "multiplied": "scaled = Mul(scores, scale)",
    "divided": "scaled = Div(scores, divisor)",
}
PADDING: Final = "padded = Unsqueeze(mask, middle)"
CAUSAL: Final = (
    "n = Shape <start = 1, end = 2> (x) length = Squeeze(n) places = Range(none, length, single) "
    "columns = Unsqueeze(places, first) rows = Unsqueeze(places, second) "
)
MASKS: Final = {
    "none": "masked = Identity(scaled)",
    "lowest times": (
        f"{PADDING} there = Cast <to = 1> (padded) gone = Sub(one, there) bias = Mul(gone, low) masked = Add(scaled, bias)"
    ),
    "lowest chosen": f"{PADDING} there = Cast <to = 9> (padded) bias = Where(there, zero, low) masked = Add(bias, scaled)",
    "ten thousand": (
        f"{PADDING} there = Cast <to = 1> (padded) gone = Sub(one, there) bias = Mul(gone, large) masked = Add(scaled, bias)"
    ),
    "causal and padding": (
        f"{PADDING} there = Cast <to = 9> (padded) {CAUSAL} lower = LessOrEqual(columns, rows) "
        "both = And(lower, there) bias = Where(both, zero, low) masked = Add(scaled, bias)"
    ),
    "causal plus padding": (
        f"{PADDING} there = Cast <to = 9> (padded) {CAUSAL} lower = LessOrEqual(columns, rows) "
        "a = Where(lower, zero, low) c = Where(there, zero, low) bias = Add(a, c) masked = Add(scaled, bias)"
    ),
    "relative positions": (
        f"{CAUSAL} far = Sub(columns, rows) far_f = Cast <to = 1> (far) near = Abs(far_f) "
        "bias = Mul(near, slopes) masked = Add(scaled, bias)"
    ),
}

GUARD: Final = "odd = IsNaN(unguarded) weights = Where(odd, zero, unguarded)"
FINITE_MASKS: Final = {
    "scores replaced": f"{PADDING} there = Cast <to = 9> (padded) masked = Where(there, scaled, low)",
    "scores filled": f"{PADDING} there = Cast <to = 9> (padded) not_there = Not(there) masked = Where(not_there, low, scaled)",
    "scores replaced and masked": (
        f"{PADDING} there = Cast <to = 9> (padded) {CAUSAL} lower = LessOrEqual(columns, rows) "
        "kept = Where(lower, scaled, low) bias = Where(there, zero, low) masked = Add(kept, bias)"
    ),
    "guarded": f"{PADDING} there = Cast <to = 9> (padded) bias = Where(there, zero, infinite) masked = Add(scaled, bias)",
}
"""Masks that `MaskedAttention` accepts; the last one with a guard against NaN."""


class Form(NamedTuple):
    """How an exporter writes an attention.

    Attributes:
        queries, keys, scores, mask: keys of the tables above.
        groups: heads of keys and values; each serves as many queries.
        packed: whether the heads are split off tensors of three axes, and merged again.
        past: whether keys and values of earlier calls come first; ``mask`` is about these too.
    """

    queries: str = "plain"
    keys: str = "swapped"
    scores: str = "multiplied"
    mask: str = "none"
    groups: int = HEADS
    packed: bool = True
    past: bool = False


def model_of(form: Form, opset: int = 23) -> onnx.ModelProto:
    """A model with the inputs ``x`` (batch, length, features) and ``mask`` (batch, length), 0 where there is padding."""
    wide, narrow = HEADS * SIZE, form.groups * SIZE
    rng = np.random.default_rng(0)
    lines = [
        "qx = MatMul(x, wq) kx0 = MatMul(x, wk) vx = MatMul(x, wv)",
        "qr = Reshape(qx, split_q) q4 = Transpose <perm = [0, 2, 1, 3]> (qr)",
        "kr0 = Reshape(kx0, split_k) vr = Reshape(vx, split_k) v0 = Transpose <perm = [0, 2, 1, 3]> (vr)",
        QUERIES[form.queries],
        *_repeated(form),
        KEYS[form.keys],
        "scores = MatMul(q, kt)" if form.queries != "root" else "kk = Mul(kt, root) scores = MatMul(q, kk)",
        SCORES[form.scores],
        {**MASKS, **FINITE_MASKS}[form.mask],
        *(["unguarded = Softmax(masked)", GUARD] if form.mask == "guarded" else ["weights = Softmax <axis = -1> (masked)"]),
        "y4 = MatMul(weights, v)",
        "yr = Transpose <perm = [0, 2, 1, 3]> (y4) y = Reshape(yr, whole)" if form.packed else "y = Identity(y4)",
    ]
    result = "float[b,n,f] y" if form.packed else "float[b,h,n,f] y"
    constants = {
        "scale": np.float32(SIZE**-0.5), "divisor": np.float32(SIZE**0.5), "root": np.float32(SIZE**-0.25),
        "zero": np.float32(0), "one": np.float32(1), "low": np.finfo(np.float32).min, "infinite": np.float32(-np.inf),
        "large": np.float32(-10000),
        "slopes": -(0.5 ** np.arange(1, HEADS + 1, dtype=np.float32)).reshape(1, HEADS, 1, 1),
        "none": np.int64(0), "single": np.int64(1), "first": np.array([0]), "second": np.array([1]),
        "middle": np.array([1, 2]), "minus_one": np.array([-1]), "heads": np.array([HEADS]),
        "size": np.array([SIZE]), "split_q": np.array([0, 0, HEADS, SIZE]), "split_k": np.array([0, 0, form.groups, SIZE]),
        "whole": np.array([0, 0, wide]), "new": np.array([2]), "repeats": np.array([1, 1, HEADS // form.groups, 1, 1]),
        "regrouped": np.array([0, HEADS, -1, SIZE]),
    }  # fmt: skip
    for name, width in (("wq", wide), ("wk", narrow), ("wv", narrow)):
        constants[name] = rng.normal(size=(wide, width)).astype(np.float32) / 4
    given = f"float[b,n,{wide}] x, int64[b,{'t' if form.past else 'n'}] mask"
    if form.past:
        cache = f"float[b,{form.groups},p,{SIZE}]"
        given += f", {cache} past_key, {cache} past_value"
        result += "".join(f", float[b,{form.groups},t,{SIZE}] {name}" for name in ("key", "value"))
    text = f"agraph ({given}) => ({result}) {{ {' '.join(lines)} }}"
    model = parse(text, opset)
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items() if name in read
    )
    return model


def _repeated(form: Form) -> list[str]:
    """Keys ``kr`` (batch, length, heads, size) and values ``v`` (batch, heads, length, size) for all heads."""
    lines = []
    values = "v0"
    if form.past:
        lines = [
            "kq0 = Transpose <perm = [0, 2, 1, 3]> (kr0) key = Concat <axis = 2> (past_key, kq0)",
            "value = Concat <axis = -2> (past_value, v0)",
        ]
        values = "value"
    elif form.groups != HEADS:
        lines = ["key = Transpose <perm = [0, 2, 1, 3]> (kr0)"]
    if form.groups == HEADS:
        return [
            *lines,
            "kr = Transpose <perm = [0, 2, 1, 3]> (key)" if form.past else "kr = Identity(kr0)",
            f"v = Identity({values})",
        ]
    repeat = "{0} = Unsqueeze({1}, new) {0}e = Expand({0}, repeats) {2} = Reshape({0}e, regrouped)"
    return [
        *lines,
        repeat.format("ku", "key", "kq"),
        "kr = Transpose <perm = [0, 2, 1, 3]> (kq)",
        repeat.format("vu", values, "v"),
    ]


def feeds_of(batch: int, length: int, padding: str, past: int = 0) -> dict[str, np.ndarray]:
    """Values, and a mask: ``none``, ``left``, ``right`` (another number of places in each row), or ``all`` in the first row.

    Args:
        batch: number of rows.
        length: number of positions.
        padding: where the mask is 0.
        past: number of earlier positions, whose keys and values are given.
    """
    rng = np.random.default_rng(length)
    total = past + length
    mask = np.ones((batch, total), dtype=np.int64)
    for row in range(batch):
        count = min(row + 1, total - 1)
        if padding == "left":
            mask[row, :count] = 0
        elif padding == "right":
            mask[row, total - count :] = 0
    if padding == "all":
        mask[0] = 0
    given = {"x": (length, HEADS * SIZE), "past_key": (GROUPS, past, SIZE), "past_value": (GROUPS, past, SIZE)}
    values = {name: rng.normal(size=(batch, *shape)).astype(np.float32) for name, shape in given.items()}
    return {**values, "mask": mask}
