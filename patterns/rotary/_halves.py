"""The two halves of heads that a rotary embedding turns, and one half of a tensor whose halves are equal."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from xoptim.facts.families import ELEMENTWISE
from xoptim.facts.shapes import normalized
from xoptim.match import GraphView, Node, PatternRewriter

from .._axes import axis_of, permutation, size_along
from .._folding import Array
from .._nodes import is_op
from .._parts import far, part_of

_DEEPEST: Final = 12


@dataclass
class Half:
    """How to compute one half, along the last axis, of a tensor whose halves are equal.

    Attributes:
        start: a result or a constant that is half of a tensor from which the whole one is computed.
        steps: the nodes that compute it, the last one first, each with the place of the operand that is halved.
        inserted: new axes of the start, before all steps.
    """

    start: str | Array = ""
    steps: list[tuple[Node, int]] = field(default_factory=list)
    inserted: list[int] = field(default_factory=list)

    def write(self, g: PatternRewriter) -> str:
        """Repeat the nodes on the half; returns the result."""
        name = self.start if isinstance(self.start, str) else g.make_initializer("", self.start, source="half")
        if self.inserted:
            name = g.op.Unsqueeze(name, axes=self.inserted)
        for node, place in reversed(self.steps):
            operands = [*node.input]
            operands[place] = name
            name = getattr(g.op, node.op_type)(*operands, **node.attribute)
        return name


def half_of(g: GraphView, name: str, interleaved: bool) -> Half | None:
    """The half of a tensor whose halves are equal: a constant, one that joins a tensor with itself, or computed from either.

    Where they are interleaved, the halves are the even and the odd elements along the last axis.
    """
    half = Half()
    for _ in range(_DEEPEST):
        array, node = g.get_computed_constant(name), g.node_before(name)
        if array is not None:
            first = _half_of_constant(array, interleaved)
            half.start = "" if first is None else first
            return None if first is None else half
        if node is None or node.domain:
            return None
        joined = _repeated(g, node)
        if interleaved:
            joined, half.inserted = _doubled(g, node)
        if joined is not None:
            half.start = joined
            return half
        place = _halved_operand(g, node)
        if place is None:
            return None
        half.steps.append((node, place))
        name = node.input[place]
    return None


def _half_of_constant(array: Array, interleaved: bool) -> Array | None:
    if array.ndim == 0 or array.shape[-1] % 2:
        return None
    first, second = (array[..., ::2], array[..., 1::2]) if interleaved else np.split(array, 2, axis=-1)
    return np.ascontiguousarray(first) if first.tobytes() == second.tobytes() else None


def _repeated(g: GraphView, node: Node) -> str | None:
    """The operand of a Concat of twice the same along the last axis."""
    is_repeated = node.op_type == "Concat" and len(node.input) == 2 and node.input[0] == node.input[1]
    return node.input[0] if is_repeated and axis_of(g, node) == _last(g, node.output[0]) else None


def _doubled(g: GraphView, node: Node) -> tuple[str | None, list[int]]:
    """The tensor whose elements stand twice in a row after a Reshape of its copies along a new last axis, and new axes."""
    is_paired = is_op(node, "Reshape") and _are_pairs(g, node.input[0], node.output[0])
    copies = g.node_before(node.input[0]) if is_paired else None
    if copies is None:
        return None, []
    if is_op(copies, "Expand", "Tile"):
        alone, pairs = g.try_infer_shape(copies.input[0]), g.try_infer_shape(copies.output[0])
        single = copies.input[0] if alone is not None and pairs is not None and alone == (*pairs[:-1], 1) else None
    else:
        single = _repeated(g, copies)
    before = None if single is None else g.node_before(single)
    if single is None or not is_op(before, "Unsqueeze"):
        return None, []
    axes, rank = g.get_argument(before, "axes"), g.info(single).rank
    if rank is None or not isinstance(axes, list) or rank - 1 not in (places := [axis % rank for axis in axes]):
        return None, []
    return before.input[0], sorted(place for place in places if place != rank - 1)


def _are_pairs(g: GraphView, name: str, whole: str) -> bool:
    """Whether a tensor has the shape (..., n, 2), and another one the shape (..., 2n)."""
    pairs = g.try_infer_shape(name) or ()
    if len(pairs) < 2 or pairs[-1] != 2 or not isinstance(pairs[-2], int):
        return False
    return g.try_infer_shape(whole) == (*pairs[:-2], 2 * pairs[-2])


def _last(g: GraphView, name: str) -> int | None:
    rank = g.info(name).rank
    return None if not rank else rank - 1


def _halved_operand(g: GraphView, node: Node) -> int | None:
    """The place of the operand that has the last axis of the result, element for element; ``None`` if there is none."""
    if node.op_type in ELEMENTWISE:
        return 0
    if node.op_type in ("Mul", "Add", "Sub", "Div"):
        return next((place for place in (0, 1) if _is_number(g, node.input[1 - place], node.input[place])), None)
    last = _last(g, node.input[0])
    if last is None:
        return None
    if node.op_type == "Transpose":
        perm = permutation(g, node)
        return 0 if perm and perm[-1] == last else None
    if node.op_type == "Gather":
        axis = axis_of(g, node)
        return 0 if axis is not None and axis < last else None
    if node.op_type in ("Unsqueeze", "Squeeze", "Slice"):
        of = _last(g, node.output[0]) if node.op_type == "Unsqueeze" else last
        return None if of is None or _cuts(g.get_argument(node, "axes"), of) else 0
    return None


def _is_number(g: GraphView, number: str, tensor: str) -> bool:
    """Whether an operand is a constant number that does not add axes to the other one."""
    rank, other = g.info(number).rank, g.info(tensor).rank
    return g.get_constant_scalar(number) is not None and rank is not None and other is not None and rank <= other


def _cuts(axes: Any, last: int) -> bool:
    """Whether a node has the last axis among its axes, or may have it."""
    return not isinstance(axes, list) or any(normalized(axis, last + 1) in (None, last) for axis in axes)


class Heads(NamedTuple):
    """The positions from ``start`` to before ``end`` along the last axis of a tensor with four axes."""

    name: str
    start: int
    end: int


def heads_of(g: GraphView, first: str, second: str, interleaved: bool) -> Heads | None:
    """The heads that two tensors with four axes are the halves of, ``None`` when they are not.

    The size of the first half is a number. Where the halves are interleaved, they are the even and the odd elements, and the
    first one may have a fifth axis of size 1.
    """
    shape = g.try_infer_shape(first)
    if shape is None or g.try_infer_shape(second) != shape or not isinstance(shape[3], int):
        return None
    if interleaved:
        whole = _every_second(g, first, 0)
        dims = None if whole is None else g.try_infer_shape(whole)
        is_whole = dims == (*shape[:3], 2 * shape[3]) and _every_second(g, second, 1) == whole
        return Heads(*part_of(g, whole, 3)) if whole is not None and is_whole else None
    root, start, middle = part_of(g, first, 3)
    end = middle + shape[3]
    return Heads(root, start, end) if part_of(g, second, 3) == (root, middle, end) else None


def _every_second(g: GraphView, name: str, start: int) -> str | None:
    """The tensor that a result holds every second element of along the last axis, from ``start`` on."""
    if g.info(name).rank == 5:
        return _column(g, name, start)
    node = g.node_before(name)
    if node is None or node.domain:
        return None
    if node.op_type == "Slice":
        starts, ends, axes, steps = (g.get_argument(node, key) for key in ("starts", "ends", "axes", "steps"))
        size = (g.try_infer_shape(node.input[0]) or (0,))[-1]
        is_all = isinstance(size, int) and isinstance(ends, list) and len(ends) == 1 and ends[0] >= min(size, far(g))
        return node.input[0] if is_all and starts == [start] and axes in ([3], [-1]) and steps == [2] else None
    pairs = node.input[0]
    if node.op_type == "Gather":
        if axis_of(g, node) != 4 or g.get_constant_scalar(node.input[1]) != start or g.info(node.input[1]).rank != 0:
            return None
    elif node.op_type == "Squeeze" and g.get_argument(node, "axes") in ([4], [-1]) and g.info(pairs).rank == 5:
        return _column(g, pairs, start)
    else:
        return None
    return _paired(g, g.node_before(pairs))


def _column(g: GraphView, name: str, start: int) -> str | None:
    """The tensor that a result holds one element of each pair of."""
    pairs, place, _ = part_of(g, name, 4) if size_along(g, name, 4) == 1 else ("", None, None)
    return _paired(g, g.node_before(pairs)) if place == start else None


def _paired(g: GraphView, node: Node | None) -> str | None:
    """The tensor of four axes, (..., 2n), that a Reshape makes (..., n, 2) of."""
    is_paired = is_op(node, "Reshape") and g.info(node.output[0]).rank == 5 and _are_pairs(g, node.output[0], node.input[0])
    return node.input[0] if node is not None and is_paired else None
