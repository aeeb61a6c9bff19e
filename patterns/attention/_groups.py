"""Grouped-query attention: several query heads share a head of the keys and values."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xoptim.facts.shapes import Shape
from xoptim.match import GraphView, Node, PatternRewriter

from .._deductions import reshapes_as_inferred
from .._nodes import axis_of, is_op
from ._formula import heads_in


class SharedHeads(NamedTuple):
    """Heads of keys or values, before they are repeated to the number of query heads.

    Attributes:
        name: the tensor; it may lack the axis of a single head.
        shape: its shape with this axis, (batch, heads, length, size).
    """

    name: str
    shape: Shape

    def with_four_axes(self, g: PatternRewriter) -> str:
        """The tensor, after an Unsqueeze if it lacks the axis of a single head."""
        return self.name if g.info(self.name).rank == 4 else g.op.Unsqueeze(self.name, axes=[1])


class PackedHeads(NamedTuple):
    """Heads before they are split off the features and repeated.

    Attributes:
        name: a tensor (batch, length, features).
        heads: the number of heads in the features.
    """

    name: str
    heads: int


def key_head_indices(key_heads: int, heads: int) -> np.ndarray:
    """The index of the key head of each query head: 0, 0, 1, 1 for 2 key heads and 4 heads."""
    return np.arange(heads, dtype=np.int64) // (heads // key_heads)


def shared_heads(g: GraphView, name: str) -> SharedHeads | None:
    """The heads of a tensor (batch, heads, length, size) before each is repeated equally often.

    A Gather may repeat them, or Unsqueeze, Expand (or Tile) and Reshape. A single head may be
    repeated by Expand (or Tile) alone.
    """
    shape, node = g.try_infer_shape(name), g.node_before(name)
    if shape is None or len(shape) != 4 or not isinstance(shape[1], int) or node is None:
        return None
    if is_op(node, "Expand", "Tile"):
        source = g.try_infer_shape(node.input[0])
        shared = (
            None if source is None or source[1:2] != (1,) else SharedHeads(node.input[0], source)
        )
    else:
        shared = (
            _gathered(g, node, shape[1]) if is_op(node, "Gather") else _expanded(g, node, shape)
        )
    if (
        shared is None
        or len(shared.shape) != 4
        or shared.shape != (shape[0], shared.shape[1], *shape[2:])
    ):
        return None
    return shared


def _gathered(g: GraphView, node: Node, heads: int) -> SharedHeads | None:
    source, indices = g.try_infer_shape(node.input[0]), g.get_computed_constant(node.input[1])
    count = source[1] if source is not None and len(source) == 4 and axis_of(g, node) == 1 else None
    if (
        source is None
        or indices is None
        or not isinstance(count, int)
        or not count
        or heads % count
    ):
        return None
    return (
        SharedHeads(node.input[0], source)
        if np.array_equal(indices, key_head_indices(count, heads))
        else None
    )


def _expanded(g: GraphView, node: Node, shape: Shape) -> SharedHeads | None:
    expand = g.node_before(node.input[0]) if is_op(node, "Reshape") else None
    if not is_op(expand, "Expand", "Tile") or not reshapes_as_inferred(g, node):
        return None
    unsqueeze, expanded = g.node_before(expand.input[0]), g.try_infer_shape(node.input[0])
    source = g.try_infer_shape(unsqueeze.input[0]) if is_op(unsqueeze, "Unsqueeze") else None
    if source is None or not is_op(unsqueeze, "Unsqueeze") or expanded is None:
        return None
    axes = g.get_argument(unsqueeze, "axes")
    if axes == [1, 2] and len(source) == 3:
        source = (source[0], 1, *source[1:])
    elif axes != [2] or len(source) != 4:
        return None
    count = source[1]
    if not isinstance(count, int) or not isinstance(shape[1], int) or not count or shape[1] % count:
        return None
    return (
        SharedHeads(unsqueeze.input[0], source)
        if expanded == (*source[:2], shape[1] // count, *source[2:])
        else None
    )


def packed_heads(g: GraphView, name: str) -> PackedHeads | None:
    """The source of a tensor (batch, heads, length, size).

    A Reshape splits the heads off the last axis of the source, and a Transpose moves them before
    the length. They may then be repeated. ``None`` for other tensors.
    """
    shared = shared_heads(g, name)
    name = shared.name if shared is not None else name
    transpose, split = g.node_before(name), g.try_infer_shape(name)
    if not is_op(transpose, "Transpose") or transpose.attribute.get("perm") != [0, 2, 1, 3]:
        return None
    reshape = g.node_before(transpose.input[0])
    heads = heads_in(g, reshape.input[0], split) if is_op(reshape, "Reshape") else None
    return (
        None
        if heads is None or not is_op(reshape, "Reshape")
        else PackedHeads(reshape.input[0], heads)
    )


def packed_keys(g: GraphView, keys: str, swapped: str, perm: Sequence[int]) -> PackedHeads | None:
    """`packed_heads` for transposed keys.

    A Transpose of ``keys`` by ``perm`` precedes or follows the Reshape that splits off the heads.
    ``swapped`` is their result, (batch, heads, head size, keys).
    """
    if perm == [0, 1, 3, 2]:
        return packed_heads(g, keys)
    if perm not in ([0, 2, 3, 1], [0, 2, 1]):
        return None
    shape = g.try_infer_shape(swapped)
    split = None if shape is None or len(shape) != 4 else (*shape[:2], shape[3], shape[2])
    reshape = g.node_before(keys)
    if len(perm) == 4:
        keys = reshape.input[0] if is_op(reshape, "Reshape") else ""
    heads = heads_in(g, keys, split) if keys else None
    return None if heads is None else PackedHeads(keys, heads)
