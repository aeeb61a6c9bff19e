"""Masks of attention that hide nothing but later keys, and keys that are too far back."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.shapes import Shape
from xoptim.match import GraphView, Node

from .._folding import Array
from .._nodes import is_op
from ._positions import Affine, moved, positions_of, spreads, uniform

_DEPTH: Final = 24
_ABSORBING: Final = -1e30
"""Scores vanish compared with such a number in a sum, as long as they are finite."""
_ONE: Final = Affine(1, {})

Conditions = tuple[Affine, ...]
"""Numbers that all have to be 0 or more."""


class Seen(NamedTuple):
    """Which keys a query sees: its own, and as many before it as the window holds, -1 for all."""

    window: int


def causal(g: GraphView, mask: str, scores: Shape, past: Dim) -> Seen | None:
    """The keys that a mask leaves, where each query sees its own key and earlier ones only.

    ``None`` where others are seen, or it is not known.

    Args:
        g: the graph.
        mask: a mask that is added, or of Booleans; empty for none.
        scores: (batch, heads, queries, keys).
        past: the number of keys before the first query's own.
    """
    array = g.get_computed_constant(mask)
    if array is not None:
        return _written_out(array, scores, past)
    found = () if not mask else _seen(g, mask)
    shape = g.try_infer_shape(mask) if mask else ()
    if found is None or shape is None:
        return None
    is_one = scores[2] == 1
    used = {axis for each in found for axis in each.steps}
    if not used <= {-1, -2} or any(shape[axis] != scores[axis] for axis in used):
        return None
    own = Affine(past, {-1: -1} if is_one else {-2: 1, -1: -1})
    if own not in found and not is_one:
        return None
    windows = {_window(each, own) for each in found if each != own}
    if not windows:
        return Seen(-1)
    window = windows.pop()
    return Seen(window) if window is not None and not windows else None


def _written_out(mask: Array, scores: Shape, past: Dim) -> Seen | None:
    """The same for the numbers of a mask."""
    _, _, queries, keys = scores
    if not isinstance(queries, int) or not isinstance(keys, int) or not isinstance(past, int):
        return None
    seen = mask if mask.dtype == bool else mask == 0
    if not (seen | (mask <= _ABSORBING)).all() or mask.ndim > 4:
        return None
    rows = np.broadcast_to(seen, (*seen.shape[:-2], queries, keys)).reshape(-1, queries, keys)
    distances = past + np.arange(queries)[:, None] - np.arange(keys)
    window = int(rows[0, -1].sum())
    for number in (-1, window):
        near = (distances < number) | (number < 0)
        if number and (rows == (near & (distances >= 0))).all():
            return Seen(number)
    return None


def _window(found: Affine, own: Affine) -> int | None:
    """The number of keys that a query sees by a condition, if it is one about distances."""
    far = found.plus(own)
    if far.steps or not isinstance(far.start, int) or far.start < 0:
        return None
    return far.start + 1


def _seen(g: GraphView, mask: str, depth: int = _DEPTH) -> Conditions | None:
    """The conditions under which an element of a mask hides nothing; all others hide."""
    if g.try_infer_type(mask) == TensorProto.BOOL:
        return _conditions(g, mask, depth)
    if (number := uniform(g, mask)) is not None:
        return () if number == 0 else None
    node, shape = g.node_before(mask), g.try_infer_shape(mask)
    if node is None or node.domain or shape is None or not depth:
        return None
    if is_op(node, "Add"):
        return _both(g, node, shape, lambda name: _seen(g, name, depth - 1))
    if is_op(node, "Mul"):
        return _scaled(g, node, depth)
    if is_op(node, "Where"):
        return _chosen(g, node, shape, depth)
    return _moved(g, node, _seen(g, node.input[0], depth - 1))


def _scaled(g: GraphView, node: Node, depth: int) -> Conditions | None:
    """The conditions of a mask times a number near 1, which keeps what hides."""
    for mask, factor in (node.input, node.input[::-1]):
        number = uniform(g, factor)
        if number is not None and 0.5 <= number <= 1:
            return _seen(g, mask, depth - 1)
    return None


def _chosen(g: GraphView, node: Node, shape: Shape, depth: int) -> Conditions | None:
    """The conditions of Where(condition, mask, low) and Where(condition, low, mask)."""
    condition, *values = node.input
    for place, (mask, low) in enumerate((values, values[::-1])):
        number = uniform(g, low)
        if number is None or not number <= _ABSORBING:
            continue
        chosen = _conditions(g, condition, depth - 1)
        if place:
            chosen = _negated(chosen)
        rest = _seen(g, mask, depth - 1)
        return _joined(g, shape, (condition, chosen), (mask, rest))
    return None


def _conditions(g: GraphView, name: str, depth: int) -> Conditions | None:
    """The conditions under which an element of a tensor of Booleans is true."""
    if (value := uniform(g, name)) is not None:
        return () if value else None
    node, shape = g.node_before(name), g.try_infer_shape(name)
    if node is None or node.domain or shape is None or not depth:
        return None
    if node.op_type in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        return _compared(g, node, shape)
    if is_op(node, "And"):
        return _both(g, node, shape, lambda operand: _conditions(g, operand, depth - 1))
    if is_op(node, "Not"):
        return _negated(_conditions(g, node.input[0], depth - 1))
    return _moved(g, node, _conditions(g, node.input[0], depth - 1))


def _compared(g: GraphView, node: Node, shape: Shape) -> Conditions | None:
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


def _negated(found: Conditions | None) -> Conditions | None:
    """The conditions where one does not hold: -n - 1 is 0 or more."""
    if found is None or len(found) != 1:
        return None
    return (Affine(-1, {}).plus(found[0], -1),)


def _both(
    g: GraphView, node: Node, shape: Shape, of: Callable[[str], Conditions | None]
) -> Conditions | None:
    first, second = node.input
    return _joined(g, shape, (first, of(first)), (second, of(second)))


def _joined(g: GraphView, shape: Shape, *parts: tuple[str, Conditions | None]) -> Conditions | None:
    """The conditions of tensors that are broadcast to a shape, each once."""
    found: list[Affine] = []
    for name, conditions in parts:
        if conditions is None or not all(spreads(g, name, shape, each) for each in conditions):
            return None
        found += [each for each in conditions if each not in found]
    return tuple(found)


def _moved(g: GraphView, node: Node, found: Conditions | None) -> Conditions | None:
    """The conditions in the result of a node that moves its first operand."""
    if found is None:
        return None
    results = [moved(g, node, each) for each in found]
    return None if None in results else tuple(each for each in results if each is not None)
