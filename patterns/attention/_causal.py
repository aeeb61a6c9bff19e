"""Attention masks that hide only later keys, and keys before a window."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.shapes import Shape
from xoptim.match import GraphView, Node

from .._folding import Array
from .._nodes import is_op
from ._mask import ABSORBING, MAX_DEPTH
from ._positions import Affine, moved, positions_of, spreads, uniform

_ONE: Final = Affine(1, {})

Conditions = tuple[Affine, ...]
"""Functions of the indices of a mask. A key is visible where all functions are 0 or more."""


class VisibleKeys(NamedTuple):
    """The keys that a query sees: its own key and earlier keys.

    Attributes:
        window: the number of keys, counted back from the query's own key; -1 for all of them.
    """

    window: int


def causal(g: GraphView, mask: str, scores: Shape, past: Dim) -> VisibleKeys | None:
    """The keys that each query sees; ``None`` where the mask is not known to be causal.

    Args:
        g: the graph.
        mask: an additive or Boolean mask; empty for none.
        scores: (batch, heads, queries, keys).
        past: the number of keys before the first query.
    """
    array = g.get_computed_constant(mask)
    if array is not None:
        return _causal_constant(array, scores, past)
    conditions = () if not mask else _mask_conditions(g, mask)
    shape = g.try_infer_shape(mask) if mask else ()
    if conditions is None or shape is None:
        return None
    has_one_query = scores[2] == 1
    axes = {axis for condition in conditions for axis in condition.steps}
    if not axes <= {-1, -2} or any(shape[axis] != scores[axis] for axis in axes):
        return None
    # The index of a query, plus the number of past keys, is at least the index of a visible key.
    not_later = Affine(past, {-1: -1} if has_one_query else {-2: 1, -1: -1})
    if not_later not in conditions and not has_one_query:
        return None
    windows = {
        _window_of(condition, not_later) for condition in conditions if condition != not_later
    }
    if not windows:
        return VisibleKeys(-1)
    window = windows.pop()
    return VisibleKeys(window) if window is not None and not windows else None


def _causal_constant(mask: Array, scores: Shape, past: Dim) -> VisibleKeys | None:
    """The result of `causal` for a constant mask."""
    _, _, queries, keys = scores
    if not isinstance(queries, int) or not isinstance(keys, int) or not isinstance(past, int):
        return None
    visible, hidden = (mask, ~mask) if mask.dtype == bool else (mask == 0, mask <= ABSORBING)
    if not (visible | hidden).all() or mask.ndim > 4:
        return None
    # From operator set 24 on, a mask may also have fewer keys than the scores.
    if any(
        dim not in (1, size) for dim, size in zip(mask.shape[::-1], (keys, queries), strict=False)
    ):
        return None
    pairs = np.broadcast_to(visible, (*visible.shape[:-2], queries, keys))
    if not pairs.size:
        return None
    rows = pairs.reshape(-1, queries, keys)
    distances = past + np.arange(queries)[:, None] - np.arange(keys)
    # There is no window, or it has as many keys as the last query sees, which are more than 0.
    for window in (-1, int(rows[0, -1].sum())):
        is_in_window = (distances < window) | (window < 0)
        if window and (rows == (is_in_window & (distances >= 0))).all():
            return VisibleKeys(window)
    return None


def _window_of(condition: Affine, not_later: Affine) -> int | None:
    """The number of keys that a query sees, if ``condition`` limits how far back they are.

    ``not_later`` is the condition that a key is not later than the query.
    """
    max_distance = condition.plus(not_later)
    if max_distance.steps or not isinstance(max_distance.start, int) or max_distance.start < 0:
        return None
    return max_distance.start + 1


def _mask_conditions(g: GraphView, mask: str, depth: int = MAX_DEPTH) -> Conditions | None:
    """The conditions under which an element of a mask is 0, or true; elsewhere it hides a key."""
    if g.try_infer_type(mask) == TensorProto.BOOL:
        return _boolean_conditions(g, mask, depth)
    if (number := uniform(g, mask)) is not None:
        return () if number == 0 else None
    node, shape = g.node_before(mask), g.try_infer_shape(mask)
    if node is None or node.domain or shape is None or not depth:
        return None
    if is_op(node, "Add"):
        return _of_operands(g, node, shape, lambda name: _mask_conditions(g, name, depth - 1))
    if is_op(node, "Mul"):
        return _scaled(g, node, depth)
    if is_op(node, "Where"):
        return _chosen(g, node, shape, depth)
    return _moved(g, node, _mask_conditions(g, node.input[0], depth - 1))


def _scaled(g: GraphView, node: Node, depth: int) -> Conditions | None:
    """The conditions of a mask times a factor from 0.5 to 1: the product still hides keys."""
    for mask, factor in (node.input, node.input[::-1]):
        number = uniform(g, factor)
        if number is not None and 0.5 <= number <= 1:
            return _mask_conditions(g, mask, depth - 1)
    return None


def _chosen(g: GraphView, node: Node, shape: Shape, depth: int) -> Conditions | None:
    """The conditions of Where(condition, mask, low) and Where(condition, low, mask)."""
    condition, *values = node.input
    for index, (mask, low) in enumerate((values, values[::-1])):
        number = uniform(g, low)
        if number is None or not number <= ABSORBING:
            continue
        conditions = _boolean_conditions(g, condition, depth - 1)
        if index:
            conditions = _negated(conditions)
        mask_conditions = _mask_conditions(g, mask, depth - 1)
        return _joined(g, shape, (condition, conditions), (mask, mask_conditions))
    return None


def _boolean_conditions(g: GraphView, name: str, depth: int) -> Conditions | None:
    """The conditions under which an element of a tensor of Booleans is true."""
    if (value := uniform(g, name)) is not None:
        return () if value else None
    node, shape = g.node_before(name), g.try_infer_shape(name)
    if node is None or node.domain or shape is None or not depth:
        return None
    if node.op_type in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        return _compared(g, node, shape)
    if is_op(node, "And"):
        return _of_operands(
            g, node, shape, lambda operand: _boolean_conditions(g, operand, depth - 1)
        )
    if is_op(node, "Not"):
        return _negated(_boolean_conditions(g, node.input[0], depth - 1))
    return _moved(g, node, _boolean_conditions(g, node.input[0], depth - 1))


def _compared(g: GraphView, node: Node, shape: Shape) -> Conditions | None:
    """The condition of a comparison of integers: a - b for a >= b, and a - b - 1 for a > b."""
    terms = [positions_of(g, operand) for operand in node.input]
    if not all(
        spreads(g, operand, shape, term) for operand, term in zip(node.input, terms, strict=True)
    ):
        return None
    first, second = terms
    if first is None or second is None:
        return None
    if node.op_type.startswith("Less"):
        first, second = second, first
    difference = first.plus(second, -1)
    return (difference if node.op_type.endswith("OrEqual") else difference.plus(_ONE, -1),)


def _negated(conditions: Conditions | None) -> Conditions | None:
    """The opposite of a single condition n >= 0, which is -n - 1 >= 0."""
    if conditions is None or len(conditions) != 1:
        return None
    return (Affine(-1, {}).plus(conditions[0], -1),)


def _of_operands(
    g: GraphView, node: Node, shape: Shape, conditions_of: Callable[[str], Conditions | None]
) -> Conditions | None:
    """The conditions of both operands of an Add or And, whose result has the shape ``shape``."""
    first, second = node.input
    return _joined(g, shape, (first, conditions_of(first)), (second, conditions_of(second)))


def _joined(g: GraphView, shape: Shape, *parts: tuple[str, Conditions | None]) -> Conditions | None:
    """The conditions of all tensors, which are broadcast to ``shape``, without duplicates.

    ``None`` where the conditions of a tensor are unknown, or change when it is broadcast.
    """
    union: list[Affine] = []
    for name, conditions in parts:
        if conditions is None or not all(
            spreads(g, name, shape, condition) for condition in conditions
        ):
            return None
        union += [condition for condition in conditions if condition not in union]
    return tuple(union)


def _moved(g: GraphView, node: Node, conditions: Conditions | None) -> Conditions | None:
    """The conditions in the result of a Transpose, Slice or other node that `moved` supports."""
    if conditions is None:
        return None
    results = [moved(g, node, condition) for condition in conditions]
    return None if None in results else tuple(result for result in results if result is not None)
