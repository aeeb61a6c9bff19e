"""Attention by its formula: softmax(q · kᵀ · scale + mask) · v, with four axes (batch, heads,
length, size).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import GraphView, PatternRewriter

SWAPPED: Final = [0, 2, 1, 3]
"""The permutation that exchanges the axes of positions and of heads."""


class Masked(NamedTuple):
    """The names of the numbers to add to the scores, and of the flags of queries that see no key.

    The name of an absent tensor is empty.
    """

    added: str = ""
    hidden: str = ""


def number(value: float, dtype: int) -> np.ndarray:
    """A scalar of an element type."""
    return np.array(value, numpy_dtype(dtype))


def lowest(dtype: int) -> np.ndarray:
    """The lowest number of a floating-point type."""
    return np.array(np.finfo(numpy_dtype(dtype)).min)


def split_heads(g: PatternRewriter, x: str, heads: int, size: int) -> str:
    """(batch, length, heads · size) as (batch, heads, length, size)."""
    return g.op.Transpose(g.op.Reshape(x, np.array([0, 0, heads, size])), perm=SWAPPED)


def merged_heads(g: PatternRewriter, x: str, features: int) -> str:
    """The inverse of `split_heads`."""
    return g.op.Reshape(g.op.Transpose(x, perm=SWAPPED), np.array([0, 0, features]))


def repeated_heads(g: PatternRewriter, x: str, count: int, heads: int) -> str:
    """Repeat each of ``count`` heads of keys or values for each query head of its group."""
    return (
        x if count == heads else g.op.Gather(x, np.repeat(np.arange(count), heads // count), axis=1)
    )


def scores_of(g: PatternRewriter, q: str, k: str, scale: float) -> str:
    """The scores, (batch, heads, queries, keys)."""
    scaled = q if scale == 1 else g.op.Mul(q, scale)
    return g.op.MatMul(scaled, g.op.Transpose(k, perm=[0, 1, 3, 2]))


def capped(g: PatternRewriter, scores: str, cap: float) -> str:
    """The scores, smoothly limited to the range from -cap to cap; unchanged for a cap of 0."""
    return g.op.Mul(g.op.Tanh(g.op.Div(scores, cap)), cap) if cap else scores


def weights_of(g: PatternRewriter, scores: str, mask: Masked, dtype: int) -> str:
    """The weights of the keys, 0 for a query that sees no key."""
    total = g.op.Add(scores, mask.added) if mask.added else scores
    weights = g.op.Softmax(total, axis=-1)
    return g.op.Where(mask.hidden, number(0, dtype), weights) if mask.hidden else weights


def causal_mask(g: PatternRewriter, q: str, k: str, past: str) -> str:
    """Whether a key is at or before a query, (queries, keys).

    ``past``: the keys before the first query; empty for none.
    """
    first = _length(g, past) if past else 0
    last = g.op.Add(_scalar(g, first), _scalar(g, _length(g, q)))
    rows = g.op.Range(_scalar(g, first), last, _scalar(g, 1))
    columns = g.op.Range(_scalar(g, 0), _scalar(g, _length(g, k)), _scalar(g, 1))
    return g.op.LessOrEqual(columns, g.op.Unsqueeze(rows, axes=[1]))


def _length(g: PatternRewriter, x: str) -> int | str:
    """The length of axis 2: a number, or the name of a scalar."""
    size = g.get_shape(x)[2]
    return size if isinstance(size, int) else g.op.Squeeze(g.op.Shape(x, start=2, end=3), axes=[0])


def _scalar(g: PatternRewriter, count: int | str) -> str:
    """The name of an integer scalar."""
    if isinstance(count, str):
        return count
    return g.make_initializer("position", np.array(count, dtype=np.int64))


def masked(g: PatternRewriter, mask: str, causal: str, dtype: int, *, is_safe: bool) -> Masked:
    """The numbers to add to the scores for a Boolean or additive mask, and for a causal mask.

    ``causal`` is the result of `causal_mask`, or empty. For a query that sees no key, the operator
    gives 0, but the formula gives NaN or the mean of the values. ``is_safe`` is whether the mask
    leaves each query a key.
    """
    least = lowest(dtype)
    added = mask
    if mask and g.info(mask).dtype == TensorProto.BOOL:
        added = g.op.Where(mask, number(0, dtype), least)
    if causal:
        added = g.op.Where(causal, added or number(0, dtype), least)
    # A causal mask may hide the only keys that the mask leaves.
    is_shown = not mask or (is_safe and not causal)
    return Masked(added) if is_shown else with_hidden(g, added, dtype)


def with_hidden(g: PatternRewriter, added: str, dtype: int) -> Masked:
    """Numbers to add to the scores, and flags of the queries that see no key."""
    largest = g.op.ReduceMax(added, axes=[-1], keepdims=1)
    return Masked(added, g.op.LessOrEqual(largest, lowest(dtype)))


def is_safe_mask(g: GraphView, mask: str) -> bool:
    """Whether a mask is absent, or is constant and leaves each query a key."""
    array = g.get_computed_constant(mask) if mask else None
    if array is None or not array.size:
        return not mask
    if array.dtype == bool:
        return bool(array.any(axis=-1).all())
    return bool((array.max(axis=-1) > np.finfo(array.dtype).min / 2).all())


def fits(g: GraphView, mask: str, total: Dim) -> bool:
    """Whether a mask has two to four axes, and its last axis is known to be as long as the keys."""
    shape = g.try_infer_shape(mask)
    return shape is not None and 1 < len(shape) <= 4 and shape[-1] == total


def padded(g: PatternRewriter, padding: str, value: float, dtype: int) -> str:
    """Numbers to add to scores, (batch, 1, 1, keys): 0 for positive ``padding``, else ``value``."""
    counts = g.op.Greater(padding, np.array(0, np.int32))
    added = g.op.Where(counts, number(0, dtype), number(value, dtype))
    return g.op.Unsqueeze(added, axes=[1, 2])


class ExtraOperands(NamedTuple):
    """The operands after queries, keys and values. An absent operand is empty."""

    bias: str = ""
    padding: str = ""
    mask: str = ""
    past_key: str = ""
    past_value: str = ""


def multi_head(
    g: PatternRewriter,
    packed: tuple[str, str, str],
    extra: ExtraOperands,
    heads: int,
    widths: list[int],
    written: Mapping[str, Any],
) -> tuple[str, str, str]:
    """The results of com.microsoft.MultiHeadAttention: y, and all keys and values.

    Args:
        g: the graph.
        packed: queries, keys and values after the bias is added, (batch, length, features), or for
            keys and values (batch, heads, length, size).
        extra: mask, padding, and earlier keys and values.
        heads: number of heads.
        widths: number of features in all heads of queries, of keys, and of values.
        written: the attributes.
    """
    q, k, v = packed
    dtype = g.info(q).dtype
    sizes = [width // heads for width in widths]
    q = split_heads(g, q, heads, sizes[0])
    if g.info(k).rank == 3:
        k, v = (split_heads(g, x, heads, size) for x, size in zip((k, v), sizes[1:], strict=True))
    if extra.past_key:
        k = g.op.Concat(extra.past_key, k, axis=2)
        v = g.op.Concat(extra.past_value, v, axis=2)
    causal = causal_mask(g, q, k, extra.past_key) if written.get("unidirectional") == 1 else ""
    value = written.get("mask_filter_value", -10000.0)
    scores = scores_of(g, q, k, written.get("scale", 0.0) or sizes[0] ** -0.5)
    added = _added(g, extra, causal, value, dtype)
    weights = g.op.Softmax(g.op.Add(scores, added) if added else scores, axis=-1)
    return merged_heads(g, g.op.MatMul(weights, v), widths[2]), k, v


def _added(g: PatternRewriter, extra: ExtraOperands, causal: str, value: float, dtype: int) -> str:
    """The numbers to add to the scores, among them ``value`` for keys that are padding; or empty.

    A query that sees no key needs no care: kernels of com.microsoft compute the formula then, too.
    """
    added = padded(g, extra.padding, value, dtype) if extra.padding else ""
    if causal:
        added = g.op.Where(causal, added or number(0, dtype), lowest(dtype))
    if extra.mask:
        added = g.op.Add(extra.mask, added) if added else extra.mask
    return added
