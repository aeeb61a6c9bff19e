"""Multi-head latent attention (DeepSeek): a MatMul projects latents to keys and values.

All heads share the latents. For few queries, it is faster to project the queries and the results.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim, product, upper_bound
from xoptim.facts.shapes import Shape
from xoptim.match import GraphView, Node, PatternRewriter
from xoptim.operators.axes import permutation

from .._folding import constant
from .._nodes import is_op
from .._selections import part_of
from .._shapes import Movement, moved, movement_between

_NUM_AXES: Final = 4
"""Number of axes of tensors with their heads split off: queries, keys, values and scores."""
_SCALING: Final = ("Mul", "Div")
_MAX_NODES: Final = 4
"""Maximum number of nodes between scores and Softmax: Mul, Div, Add or Where."""
_MAX_WEIGHT: Final = 2.0**32
"""Largest magnitude of a weight. With larger weights, sums in another order may overflow."""
_GAIN: Final = 4
"""Minimum ratio of the multiplications before and after. It exceeds 1, because a multiplication
takes longer in a MatMul with few rows. At this limit, 32 queries take 0.14 of the time with 1024
keys, and 0.75 with 32 keys (16 heads, rank 512).
"""
_MAX_LOSS: Final = 1.1
"""Maximum ratio of all multiplications after and before, where there are few keys. At a ratio of
1.01 (one query, one key, rank 512), the measured time is 0.52. At a ratio of 1.18 (8 queries, 8
keys, rank 128), the rewrite was measured to be slower.
"""


class Projection(NamedTuple):
    """A range of the features that a MatMul computes from latents for each head.

    Attributes:
        latents: of shape (batch, length, rank) or (batch, 1, length, rank).
        weights: a constant of shape (rank, heads · width).
        heads: number of heads.
        width: number of features of a head.
        start: the first feature of the range.
        size: number of features of the range.
        rank: number of features of a latent.
        batch: number of sequences.
        length: number of positions.
        transpose: the node whose result is the projection.
    """

    latents: str
    weights: str
    heads: int
    width: int
    start: int
    size: int
    rank: int
    batch: Dim
    length: Dim
    transpose: Node


def projection_of(g: GraphView, name: str, perm: Sequence[int]) -> Projection | None:
    """The projection that computes a tensor from latents.

    The result of the MatMul is split into (batch, length, heads, width). The tensor is a range of
    the last axis, transposed by ``perm``. ``None`` if the tensor is computed in another way, if
    another node reads an intermediate result, or if the type is not float32.
    """
    transpose = g.node_before(name)
    if not is_op(transpose, "Transpose") or permutation(g, transpose) != [*perm]:
        return None
    part, shape = transpose.input[0], g.try_infer_shape(transpose.input[0])
    if shape is None or len(shape) != _NUM_AXES or not isinstance(shape[3], int):
        return None
    split, start, end = part_of(g, part, 3)
    reshape = g.node_before(split)
    if not is_op(reshape, "Reshape"):
        return None
    matmul = g.node_before(reshape.input[0])
    if not is_op(matmul, "MatMul") or not g.is_constant(matmul.input[1]):
        return None
    latents, weights = (g.try_infer_shape(operand) for operand in matmul.input)
    split_shape = g.try_infer_shape(split)
    if latents is None or weights is None or split_shape is None or len(weights) != 2:
        return None
    batch, length, heads, width = split_shape
    rank = weights[0]
    if not isinstance(rank, int) or not isinstance(heads, int) or not isinstance(width, int):
        return None
    if _sequence_shape(latents) != (batch, length, rank) or weights[1] != heads * width:
        return None
    if not g.is_exclusive(name) or not g.is_exclusive(part):
        return None
    if g.is_constant(matmul.input[0]) or g.try_infer_type(name) != TensorProto.FLOAT:
        return None
    return Projection(
        latents=matmul.input[0],
        weights=matmul.input[1],
        heads=heads,
        width=width,
        start=start,
        size=end - start,
        rank=rank,
        batch=batch,
        length=length,
        transpose=transpose,
    )


def has_bounded_weights(g: GraphView, projected: Projection) -> bool:
    """Whether all weights of a projection are finite, with magnitudes up to 2^32."""
    return bool((np.abs(constant(g, projected.weights)) <= _MAX_WEIGHT).all())


def _sequence_shape(shape: Shape) -> Shape | None:
    """(batch, length, features), from this shape or (batch, 1, length, features)."""
    if len(shape) == _NUM_AXES and shape[1] == 1:
        return shape[0], *shape[2:]
    return shape if len(shape) == _NUM_AXES - 1 else None


def heads_shape(g: GraphView, name: str, projected: Projection) -> Shape | None:
    """The shape (batch, heads, queries, ...) of a tensor.

    ``None`` where batch or heads differ from the batch or heads of the projection.
    """
    shape = g.try_infer_shape(name)
    if shape is None or len(shape) != _NUM_AXES:
        return None
    return shape if shape[:2] == (projected.batch, projected.heads) else None


def saves(queries: Dim, projected: Projection) -> bool:
    """Whether queries are so few that it is faster not to project the latents.

    For n queries, the multiplications per key and head are (rank + n) · size with the projection
    of the latents, and n · rank without it. Without it, each head also needs n · rank · size
    multiplications to project the queries or the result. They count if there are few keys.
    """
    max_queries, max_keys = upper_bound(queries), upper_bound(projected.length)
    if not isinstance(max_queries, int):
        return False
    rank, size = projected.rank, projected.size
    old_cost, new_cost = (rank + max_queries) * size, max_queries * rank
    if isinstance(max_keys, int) and new_cost * (max_keys + size) > _MAX_LOSS * old_cost * max_keys:
        return False
    return _GAIN * new_cost <= old_cost


class Rows(NamedTuple):
    """Movements that merge the heads into the rows of one matrix, and split them again.

    Attributes:
        join: from (batch, heads, queries, n) to (batch, 1, heads · queries, n).
        split: from (batch, 1, heads · queries, m) to (batch, heads, queries, m).
    """

    join: Movement
    split: Movement


def rows_of(g: GraphView, shape: Shape, before: Dim, after: Dim) -> Rows | None:
    """The movements for a MatMul by a tensor that all heads share; ``None`` if a size may be 0.

    Args:
        g: the graph.
        shape: (batch, heads, queries, ...).
        before: the last dimension of the operand.
        after: the last dimension of the result.
    """
    batch, heads, queries, *_ = shape
    merged = batch, 1, product((heads, queries))
    join = movement_between(g, (batch, heads, queries, before), (*merged, before))
    split = movement_between(g, (*merged, after), (batch, heads, queries, after))
    return None if join is None or split is None else Rows(join, split)


def shared_mat_mul(
    g: PatternRewriter, x: str, rows: Rows, shared: str, outputs: int | Sequence[str] = 1
) -> str:
    """The MatMul of ``x`` (batch, heads, queries, n) by ``shared`` (batch, 1, n, m).

    The heads become rows of one matrix. ``outputs`` may be the name that the result must have.
    """
    matrix = moved(g, x, *rows.join)
    return moved(g, g.op.MatMul(matrix, shared), *rows.split, outputs=outputs)


def with_axis(g: PatternRewriter, projected: Projection) -> str:
    """The latents with shape (batch, 1, length, rank)."""
    if g.info(projected.latents).rank == _NUM_AXES:
        return projected.latents
    return str(g.op.Unsqueeze(projected.latents, [1]))


def weights_of(g: PatternRewriter, projected: Projection, perm: Sequence[int]) -> str:
    """The weights of the projected features, (rank, heads, size), transposed by ``perm``."""
    shape = [projected.rank, projected.heads, projected.width]
    split = g.op.Reshape(projected.weights, np.array(shape, np.int64))
    end = projected.start + projected.size
    part = split
    if projected.size < projected.width:
        part = g.op.Slice(split, [projected.start], [end], [2])
    return str(g.op.Transpose(part, perm=[*perm]))


def are_probabilities(g: GraphView, name: str) -> bool:
    """Whether a tensor is the result of Softmax, possibly with NaN replaced by a number.

    A result of Softmax has no infinities, so the order of sums decides only rounding.
    """
    node = g.node_before(name)
    if is_op(node, "Where"):
        branches = [branch for branch in node.input[1:] if not _is_finite_constant(g, branch)]
        return len(branches) == 1 and is_op(g.node_before(branches[0]), "Softmax")
    return is_op(node, "Softmax")


def _is_finite_constant(g: GraphView, name: str) -> bool:
    number = g.get_constant_scalar(name)
    return number is not None and math.isfinite(number)


def becomes_probabilities(g: GraphView, name: str) -> bool:
    """Whether Softmax along the last axis is the only consumer of the scores.

    A factor, a bias and a mask may come between. If a query has an infinite element, its scores are
    infinite or NaN in any order of sums, and its probabilities are all NaN.
    """
    node = g.next_node(name)
    for _ in range(_MAX_NODES):
        if not g.is_exclusive(name) or not is_op(node, "Add", "Where", *_SCALING):
            break
        if node.op_type in _SCALING and g.get_constant_scalar(node.input[1]) in (None, 0):
            return False
        name = node.output[0]
        node = g.next_node(name)
    rank = g.info(name).rank
    is_last = is_op(node, "Softmax") and node.attribute.get("axis", -1) in (-1, (rank or 0) - 1)
    return is_last and g.is_exclusive(name)


def example(inputs: str, result: str, body: str) -> str:
    """The text of a graph with latents ``c`` of 4 features.

    A MatMul by ``w`` projects the latents to 12 features: 2 heads of 2 + 4 features (``sizes``).

    Args:
        inputs: the declarations of the other inputs.
        result: the type of the output ``y``.
        body: the nodes.
    """
    weights = ", ".join(str((7 * number) % 11 - 5) for number in range(48))
    return (
        f"agraph ({inputs}, float[2,t,4] c) => ({result} y) <float[4,12] w = {{{weights}}}, "
        "int64[4] heads = {0, 0, 2, 6}, int64[2] sizes = {2, 4}, int64[3] whole = {4, 2, 6}, "
        "int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] six = {6}, "
        "int64[1] zero = {0}, int64[1] four = {4}, int64[4] back = {2, 2, 1, 4}, "
        "int64[4] rows = {2, 1, 2, 0}, int64[4] copies = {1, 2, 1, 1}, "
        "int64[4] joined = {2, 1, 2, 6}, int64[4] scores = {2, 2, 1, 0}, float half = {0.5}> "
        f"{{ {body} }}"
    )
