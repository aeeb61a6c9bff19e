"""How operators carry a part of an axis: the same part of the result from parts of the operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from xoptim.facts.families import BROADCASTING, ELEMENTWISE, REDUCTIONS
from xoptim.facts.info import Shape
from xoptim.match import GraphView, Node

from .._axes import axis_of, permutation


@dataclass(frozen=True)
class Part:
    """Some positions of one axis of a result.

    Attributes:
        axis: counted from the front.
        drops: whether the axis goes: one position is taken.
        may_be_empty: whether it is not known that there is a position.
    """

    axis: int
    drops: bool
    may_be_empty: bool


@dataclass(frozen=True)
class Carried:
    """A node that computes a part of its result.

    Attributes:
        operands: the axis of each operand, by its place, of which the part is needed; all others stay.
        attributes: those that change.
        given: constants that replace operands, by place.
    """

    operands: Mapping[int, int]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[int, np.ndarray[Any, Any]] = field(default_factory=dict)


Carry = Callable[[GraphView, Node, Shape, Part], "Carried | None"]
"""Returns how a node computes a part of its result, whose shape is given."""


def _elementwise(g: GraphView, node: Node, shape: Shape, part: Part) -> Carried | None:
    return Carried({0: part.axis}) if g.info(node.input[0]).rank == len(shape) else None


def _broadcast(g: GraphView, node: Node, shape: Shape, part: Part) -> Carried | None:
    operands: dict[int, int] = {}
    for place, name in enumerate(node.input):
        own = g.try_infer_shape(name)
        if own is None or len(own) > len(shape):
            return None
        axis = part.axis - (len(shape) - len(own))
        if axis < 0:
            # Without the axis, the axes before it move by one: an operand that does not reach to it is not concerned.
            continue
        if own[axis] == shape[part.axis]:
            operands[place] = axis
        elif own[axis] != 1 or part.drops:
            return None
    return Carried(operands) if operands else None


def _mat_mul(g: GraphView, node: Node, shape: Shape, part: Part) -> Carried | None:
    """Rows come from the first operand, columns from the second one; a batch axis from each that has it."""
    left, right = (g.try_infer_shape(name) for name in node.input)
    if left is None or right is None or min(len(left), len(right)) < 2:
        return None
    behind = len(shape) - part.axis
    if part.drops:  # rows of a matrix that is the same for the whole batch
        return Carried({0: part.axis}) if len(right) == 2 and behind >= 2 and len(left) >= 3 else None
    if behind <= 2:
        return Carried({0: part.axis - len(shape) + len(left)} if behind == 2 else {1: len(right) - 1})
    operands: dict[int, int] = {}
    for place, own in enumerate((left, right)):
        axis = len(own) - behind
        if axis >= 0 and own[axis] != 1:
            if own[axis] != shape[part.axis]:
                return None
            operands[place] = axis
    return Carried(operands) if operands else None


def _gemm(g: GraphView, node: Node, shape: Shape, part: Part) -> Carried | None:
    if part.drops:
        return None
    turned = node.get_attribute("transA" if part.axis == 0 else "transB")
    place = part.axis
    operands = {place: 1 - place if turned else place}
    if len(node.input) > 2 and node.input[2]:
        bias = g.try_infer_shape(node.input[2])
        if bias is None or len(bias) > 2:
            return None
        axis = part.axis - 2 + len(bias)
        if axis >= 0 and bias[axis] != 1:
            if bias[axis] != shape[part.axis]:
                return None
            operands[2] = axis
    return Carried(operands)


def _along(g: GraphView, node: Node, shape: Shape, part: Part) -> Carried | None:
    """Operators that work along the last axes, from ``axis`` on, or along one axis."""
    axis = axis_of(g, node)
    is_last = node.op_type in ("LayerNormalization", "RMSNormalization")
    if axis is None or axis >= len(shape) or (part.axis >= axis if is_last else part.axis == axis):
        return None
    if not is_last and node.opset < 13:  # they flatten their operand
        return None
    for own in (g.try_infer_shape(name) for name in node.input[1:] if name):  # scale and bias
        if own is None or len(own) > len(shape) - part.drops or any(dim != 1 for dim in own[: axis - len(shape)]):
            return None
    placed, rank = axis - (part.drops and part.axis < axis), len(shape) - part.drops
    is_written = node.get_attribute("axis") in (placed, placed - rank)
    return Carried({0: part.axis}, {} if is_written else {"axis": placed})


def _transpose(g: GraphView, node: Node, shape: Shape, part: Part) -> Carried | None:
    perm = permutation(g, node)
    if perm is None:
        return None
    chosen = perm[part.axis]
    left = [axis - (axis > chosen) for axis in perm if axis != chosen]
    return Carried({0: chosen}, {"perm": left} if part.drops else {})


def _reshape(g: GraphView, node: Node, shape: Shape, part: Part) -> Carried | None:
    """The axis, and those before it, stay. onnxruntime refuses -1 beside an empty axis."""
    source, target = g.try_infer_shape(node.input[0]), g.get_ints(node.input[1])
    axis = part.axis
    if source is None or target is None or node.get_attribute("allowzero") or source[: axis + 1] != shape[: axis + 1]:
        return None
    if -1 in target[:axis] + target[axis + 1 :] and part.may_be_empty:
        return None
    kept = [] if part.drops else [0]
    return Carried({0: axis}, given={1: np.array(target[:axis] + kept + target[axis + 1 :], np.int64)})


def _reduce(g: GraphView, node: Node, shape: Shape, part: Part) -> Carried | None:
    """Axes behind the one that is taken are reduced, and stay with size 1."""
    axes, rank = g.get_argument(node, "axes"), g.info(node.input[0]).rank
    if not isinstance(axes, list) or not axes or rank != len(shape) or not node.get_attribute("keepdims"):
        return None
    counted = [axis % rank for axis in axes if -rank <= axis < rank]
    if len(counted) < len(axes) or part.axis in counted:
        return None
    return Carried({0: part.axis}, {"axes": [axis - (part.axis < axis) for axis in counted]} if part.drops else {})


CARRIED: Final[Mapping[str, Carry]] = {
    **dict.fromkeys(sorted(ELEMENTWISE), _elementwise),
    **dict.fromkeys(BROADCASTING, _broadcast),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "Softmax", "LogSoftmax"), _along),
    **dict.fromkeys(REDUCTIONS, _reduce),
    "Gemm": _gemm,
    "MatMul": _mat_mul,
    "Reshape": _reshape,
    "Transpose": _transpose,
}
"""Operators that compute a part of their result from parts of their operands."""

MOVING: Final = frozenset(("Cast", "Reshape", "Transpose"))
"""Those that compute nothing."""
