"""Small models with one attention, in the forms that exporters write."""

from typing import Final, NamedTuple

import numpy as np
import onnx

from tests.patterns.attention import forms
from tests.patterns.attention.forms import HEADS, SIZE
from tests.support import parse

GROUPS: Final = 2
LONGEST: Final = 520
"""Positions of stored tables."""


class Form(NamedTuple):
    """How an exporter writes an attention.

    Attributes:
        queries, keys, scores, mask: keys of the tables in `forms`.
        groups: heads of keys and values; each serves as many queries.
        packed: whether the heads are split off tensors of three axes, and merged again.
        past: whether keys and values of earlier calls come first; ``mask`` is about these too.
        repeat: how keys and values are repeated for their group of queries.
        rotary: a key of `forms.COSINES`, if there is a rotary embedding; ``positions`` a key of
            `forms.POSITIONS`.
        bmm: whether batches and heads are one axis in products, as the operator for batches of
            matrices requires it.
    """

    queries: str = "plain"
    keys: str = "swapped"
    scores: str = "multiplied"
    mask: str = "none"
    groups: int = HEADS
    packed: bool = True
    past: bool = False
    repeat: str = "Expand"
    rotary: str = ""
    positions: str = "given"
    bmm: bool = False


def model_of(form: Form, opset: int = 23) -> onnx.ModelProto:
    """A model with the inputs ``x`` (batch, length, features) and ``mask`` (batch, length), 0 where
    there is padding.
    """
    wide, narrow = HEADS * SIZE, form.groups * SIZE
    lines = [
        "qx = MatMul(x, wq) kx0 = MatMul(x, wk) vx = MatMul(x, wv)",
        "qr = Reshape(qx, split_q) qt = Transpose <perm = [0, 2, 1, 3]> (qr)",
        (
            "kr0 = Reshape(kx0, split_k) vr = Reshape(vx, split_k) "
            "v0 = Transpose <perm = [0, 2, 1, 3]> (vr)"
        ),
        *_rotated(form),
        forms.QUERIES[form.queries],
        *_repeated(form),
        forms.KEYS[form.keys],
        "kk = Mul(kt, root)" if form.queries == "root" else "kk = Identity(kt)",
        *_weighted(form),
        (
            "yr = Transpose <perm = [0, 2, 1, 3]> (y4) y = Reshape(yr, whole)"
            if form.packed
            else "y = Identity(y4)"
        ),
    ]
    keys = "t" if form.past else "n"
    given = f"float[b,n,{wide}] x, int64[b,{keys}] mask, int64[b,n] positions"
    given += (
        f", float[b,1,n,{keys}] hiding, float[b,{HEADS},n,{keys}] heads_hiding, bool[b,1,n,{keys}] "
        "seen_keys"
    )
    result = "float[b,n,f] y" if form.packed else "float[b,h,n,f] y"
    if form.past:
        cache = f"float[b,{form.groups},p,{SIZE}]"
        given += f", {cache} past_key, {cache} past_value"
        result += "".join(f", float[b,{form.groups},t,{SIZE}] {name}" for name in ("key", "value"))
    model = parse(f"agraph ({given}) => ({result}) {{ {' '.join(lines)} }}", opset)
    read = {name for node in model.graph.node for name in node.input}
    for value in [value for value in model.graph.input if value.name not in read]:
        model.graph.input.remove(value)
    constants = _numbers(form) | _weights(wide, narrow)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value), name)
        for name, value in constants.items()
        if name in read
    )
    return model


def _numbers(form: Form) -> dict[str, np.ndarray | np.generic]:
    width = forms.ROTARY_WIDTH.get(form.rotary, SIZE)
    angles = np.tile(np.arange(LONGEST)[:, None] * 10.0 ** -np.arange(0, width, 2), 2).astype(
        np.float32
    )
    return {
        "scale": np.float32(SIZE**-0.5), "divisor": np.float32(SIZE**0.5),
        "root": np.float32(SIZE**-0.25), "zero": np.float32(0), "one": np.float32(1),
        "low": np.finfo(np.float32).min, "infinite": np.float32(-np.inf),
        "large": np.float32(-10000), "cap": np.float32(5),
        "slopes": -(0.5 ** np.arange(1, HEADS + 1, dtype=np.float32)).reshape(1, HEADS, 1, 1),
        "buckets": np.random.default_rng(1).normal(size=(9, HEADS)).astype(np.float32),
        "lowest_bucket": np.int64(-4), "highest_bucket": np.int64(4),
        "stored_lower": np.tri(LONGEST, dtype=bool)[None, None], "none": np.int64(0),
        "single": np.int64(1), "window": np.int64(3), "first": np.array([0]),
        "second": np.array([1]), "third": np.array([2]), "fourth": np.array([3]),
        "fifth": np.array([4]), "end": np.array([2**63 - 1]), "middle": np.array([1, 2]),
        "minus_one": np.array([-1]), "heads": np.array([HEADS]), "size": np.array([SIZE]),
        "split_q": np.array([0, 0, HEADS, SIZE]), "split_k": np.array([0, 0, form.groups, SIZE]),
        "whole": np.array([0, 0, HEADS * SIZE]), "new": np.array([2]),
        "all_heads": np.array([1, HEADS, 1, 1]),
        "repeats": np.array([1, 1, HEADS // form.groups, 1, 1]),
        "regrouped": np.array([0, HEADS, -1, SIZE]),
        "members": np.arange(HEADS) // (HEADS // form.groups), "half": np.array([width // 2]),
        "width": np.array([width]),
        "frequencies": (10.0 ** -np.arange(0, width, 2)).astype(np.float32)[None, None],
        "doubled": np.array([0, 0, width]), "paired": np.array([0, 0, 0, width]),
        "cosines": np.cos(angles), "sines": np.sin(angles),
    }  # fmt: skip


def _weights(wide: int, narrow: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    widths = {"wq": wide, "wk": narrow, "wv": narrow}
    return {
        name: rng.normal(size=(wide, width)).astype(np.float32) / 4
        for name, width in widths.items()
    }


def _rotated(form: Form) -> list[str]:
    """Queries ``q4`` and keys ``kq0``, (batch, heads, length, size)."""
    moved = "kr1 = Transpose <perm = [0, 2, 1, 3]> (kr0)"
    if not form.rotary:
        return [
            "q4 = Identity(qt)",
            *([moved, "kq0 = Identity(kr1)"] if form.past or form.groups != HEADS else []),
        ]
    lines = [moved, forms.POSITIONS[form.positions], forms.COSINES[form.rotary]]
    lines.append("cos_4 = Unsqueeze(cos_3, second) sin_4 = Unsqueeze(sin_3, second)")
    turn = (forms.STRIDES if form.rotary == "strides" else forms.HALVES) + " " + forms.ROTATED
    for source, result in (("qt", "q4"), ("kr1", "kq0")):
        if form.rotary == "partial":
            lines.append(
                f"{source}_x = Slice({source}, first, width, fourth) "
                f"{source}_rest = Slice({source}, width, end, fourth)"
            )
            lines.append(turn.format(f"{source}_y", f"{source}_x"))
            lines.append(f"{result} = Concat <axis = -1> ({source}_y, {source}_rest)")
        else:
            lines.append(turn.format(result, source))
    return lines


def _repeated(form: Form) -> list[str]:
    """Keys ``kr`` (batch, length, heads, size) and values ``v`` (batch, heads, length, size) for
    all heads.
    """
    lines, keys, values = [], "kq0", "v0"
    if form.past:
        lines = [
            "key = Concat <axis = 2> (past_key, kq0)",
            "value = Concat <axis = -2> (past_value, v0)",
        ]
        keys, values = "key", "value"
    if form.groups == HEADS:
        moved = (
            f"kr = Transpose <perm = [0, 2, 1, 3]> ({keys})"
            if form.past or form.rotary
            else "kr = Identity(kr0)"
        )
        return [*lines, moved, f"v = Identity({values})"]
    repeat = {
        "Expand": (
            "{0} = Unsqueeze({1}, new) {0}e = Expand({0}, repeats) {2} = Reshape({0}e, regrouped)"
        ),
        "Tile": (
            "{0} = Unsqueeze({1}, new) {0}e = Tile({0}, repeats) {2} = Reshape({0}e, regrouped)"
        ),
        "Concat": (
            "{0} = Unsqueeze({1}, new) {0}e = Concat <axis = 2> ({0}, {0}) {2} = Reshape({0}e, "
            "regrouped)"
        ),
        "Expand alone": "{2} = Expand({1}, all_heads)",
        "Gather": "{2} = Gather <axis = 1> ({1}, members)",
    }[form.repeat]
    kept = "kr = Transpose <perm = [0, 2, 1, 3]> (kq)"
    return [*lines, repeat.format("ku", keys, "kq"), kept, repeat.format("vu", values, "v")]


def _weighted(form: Form) -> list[str]:
    """The result ``y4`` (batch, heads, length, size)."""
    tables = (
        forms.MASKS,
        forms.MORE_MASKS,
        forms.INFINITE,
        forms.GIVEN,
        forms.FINITE_MASKS,
        forms.STORED,
        forms.GUARDED,
        forms.LATER_GUARDED,
    )
    masked = next(table[form.mask] for table in tables if form.mask in table)
    scores = {**forms.SCORES, **forms.MORE_SCORES}[form.scores]
    softmax = "weights = Softmax <axis = -1> (masked)"
    if form.mask in forms.GUARDED or form.mask in forms.LATER_GUARDED:
        softmax = f"unguarded = Softmax(masked) {forms.GUARD}"
    if not form.bmm:
        return ["scores = MatMul(q, kk)", scores, masked, softmax, "y4 = MatMul(weights, v)"]
    softmax = "masked_3 = Reshape(masked, shape_3) weights = Softmax <axis = -1> (masked_3)"
    return [
        (
            "of_q = Shape(q) batch = Slice(of_q, first, second) batches = Mul(batch, heads) "
            "queries = Slice(of_q, third, fourth)"
        ),
        (
            "of_v = Shape(v) keys = Slice(of_v, third, fourth) "
            "rows_of_3 = Concat <axis = 0> (batches, minus_one, size)"
        ),
        "q_3 = Reshape(q, rows_of_3) v_3 = Reshape(v, rows_of_3)",
        (
            "k_4 = Transpose <perm = [0, 1, 3, 2]> (kk) k_3 = Reshape(k_4, rows_of_3) "
            "kt_3 = Transpose <perm = [0, 2, 1]> (k_3)"
        ),
        (
            "shape_3 = Concat <axis = 0> (batches, queries, keys) "
            "shape_4 = Concat <axis = 0> (batch, heads, queries, keys)"
        ),
        "scores_3 = MatMul(q_3, kt_3) scores = Reshape(scores_3, shape_4)",
        scores,
        masked,
        softmax,
        (
            "y3 = MatMul(weights, v_3) shape_y = Concat <axis = 0> (batch, heads, queries, size) "
            "y4 = Reshape(y3, shape_y)"
        ),
    ]


def feeds_of(
    batch: int, length: int, padding: str, past: int = 0, groups: int = GROUPS
) -> dict[str, np.ndarray]:
    """Values, and a mask: ``none``, ``left``, ``right`` (another number of places in each row), or
    ``all`` in the first row.

    Args:
        batch: number of rows.
        length: number of positions.
        padding: where the mask is 0.
        past: number of earlier positions, whose keys and values are given.
        groups: heads of keys and values.
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
    given = {
        "x": (length, HEADS * SIZE),
        "past_key": (groups, past, SIZE),
        "past_value": (groups, past, SIZE),
    }
    values = {
        name: rng.normal(size=(batch, *shape)).astype(np.float32) for name, shape in given.items()
    }
    # Positions count from the first place that is not padding, as generation with padding on the
    # left gives them.
    positions = np.maximum(mask.cumsum(axis=1) - 1, 0)[:, past:]
    seen = np.tril(np.ones((length, total), dtype=bool), past) & (mask[:, None, None] == 1)
    seen |= np.eye(length, total, past, dtype=bool)  # a query has at least its own key
    hiding = np.where(seen, rng.normal(size=(batch, HEADS, length, total)), -np.inf).astype(
        np.float32
    )
    masks = {"seen_keys": seen, "hiding": hiding[:, :1], "heads_hiding": hiding}
    return {**values, **masks, "mask": mask, "positions": positions}
