"""The formula of attention: its parts, their shapes, and its scale."""

from typing import Any, Final

from xoptim.facts.shapes import Shape
from xoptim.match import ANY, GraphView, Match, PatternBuilder, Scalar, Symbol

from .._folding import scaled
from .._shapes import broadcasts_to


def scores_of(g: PatternBuilder, q: Symbol, keys: Symbol, factor: Scalar, s: Scalar) -> Symbol:
    """MatMul of queries and transposed keys, with an optional ``factor`` of the keys, and an
    optional factor or divisor ``s`` of the scores.
    """
    scores: Symbol = g.op.MatMul(q, g.op.Mul(keys, factor) if g.option("scaled_keys") else keys)
    scaling = g.choice("scaling", "", "Mul", "Div")
    return getattr(g.op, scaling)(scores, s) if scaling else scores


def scale_of(g: GraphView, m: Match, like: str) -> float | None:
    """The product of all factors of the scores in a match of `scores_of`.

    ``None`` if the product is not positive, or a factor adds axes to ``like``.
    The choice ``scaled_queries`` of the match is ``"Mul"`` or ``"Div"`` if the queries have a
    factor or divisor, the scalar ``first``. ``like`` is a tensor of the type of the scores, such as
    the queries.
    """
    scale: float | None = 1.0
    for name, operator in (
        (m.get("first"), m.get("scaled_queries")),
        (m.get("factor"), "Mul"),
        (m.get("s"), m.scaling),
    ):
        if name and scale:
            scale = (
                scaled(g, like, scale, name, division=operator == "Div")
                if broadcasts_to(g, name, like)
                else None
            )
    return scale if scale is not None and scale > 0 else None


WEIGHTS: Final = 3
"""The value of ``qk_matmul_output_mode`` with which the fourth result of Attention is the Softmax
of the scores.
"""
SEQUENCE_FIRST: Final = [1, 2, 0, 3]
"""Moves (length, batch, heads, size) to (batch, heads, length, size)."""
TO_SEQUENCE_FIRST: Final = [2, 0, 1, 3]
"""The inverse of `SEQUENCE_FIRST`."""
SPLITTING: Final = ([0, 2, 1, 3], SEQUENCE_FIRST)
"""Permutations that move the heads before the length, in both orders of batch and length."""
MERGING: Final = ([0, 2, 1, 3], TO_SEQUENCE_FIRST)
"""Permutations that move the heads after the length again."""


def is_swap(perm: list[int]) -> bool:
    """Whether a Transpose of four axes moves the last axis to the third place."""
    return len(perm) == 4 and perm[2] == 3


def is_merged_swap(perm: list[int]) -> bool:
    """Whether a Transpose moves the axis of the keys last, in a tensor (batch, keys, heads ·
    features) or (keys, batch · heads, features).
    """
    return perm in ([0, 2, 1], [1, 2, 0])


def merged_heads(g: PatternBuilder, k: Symbol, perm: Any) -> Symbol:
    """Keys of rank 3, transposed by ``perm`` before a Reshape splits off their heads."""
    keys: Symbol = g.op.Reshape(g.op.Transpose(k, perm=perm), g.symbol(), attributes=ANY)
    return keys


def scores_shape(g: GraphView, q: str, swapped: str, v: str) -> Shape | None:
    """The shape of the scores, (batch, heads, queries, keys).

    ``None`` when a shape is unknown, or the attention operators do not support it.

    Args:
        g: the graph.
        q: the queries, (batch, heads, queries, head size).
        swapped: the keys, (batch, heads, head size, keys), with a single head, or as many heads as
            the queries.
        v: the values, (batch, heads, keys, size).
    """
    queries, keys, values = (g.try_infer_shape(name) for name in (q, swapped, v))
    if (
        queries is None
        or keys is None
        or values is None
        or not len(queries) == len(keys) == len(values) == 4
    ):
        return None
    if queries[0] != keys[0] or values[:2] != keys[:2] or keys[1] not in (1, queries[1]):
        return None
    return (*queries[:3], keys[3])


def heads_in(g: GraphView, packed: str, split: Shape | None) -> int | None:
    """The number of heads in a packed tensor (batch, length, heads · size), or ``None``.

    ``split`` is the shape after the heads are split off and moved: (batch, heads, length, size).
    """
    if split is None or len(split) != 4:
        return None
    batch, heads, length, size = split
    if not isinstance(heads, int) or not isinstance(size, int):
        return None
    return heads if g.try_infer_shape(packed) == (batch, length, heads * size) else None
