"""How operators carry a permutation of axes: the same results in another layout from operands in another layout.

A value in the layout ``perm`` is its Transpose by ``perm``: axis i there is axis ``perm[i]`` of the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.families import BROADCASTING, ELEMENTWISE, POSITIONAL, REDUCTIONS
from xoptim.match import AT_RUN_TIME, GraphView, Node

from .._axes import axis_of
from .._folding import FOLD_LIMIT
from ._reductions import reduced_axes

Perm = tuple[int, ...]

_STEP: Final = 32
"""Elements that a broadcast operator computes in the time that it takes from one run of elements to the next."""


@dataclass(frozen=True)
class Carried:
    """A node that works in another layout.

    Attributes:
        operands: layout of each operand, by its place, that is needed in another one; all others stay.
        results: layout of each result.
        attributes: those that change, which may be operands.
        given: constants that replace operands, by place.
        cost: what the operator takes besides its work, in copies of the first result, before and after.
        swapped: whether the two operands change places.
    """

    operands: Mapping[int, Perm]
    results: tuple[Perm, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[int, Any] = field(default_factory=dict)
    cost: tuple[int, int] = (0, 0)
    swapped: bool = False


Carry = Callable[[GraphView, Node, Perm], "Carried | None"]
"""Returns how a node works when its first operand, of an operator that broadcasts or concatenates its result, has a layout."""


def inverse(perm: Sequence[int]) -> Perm:
    """The permutation that undoes another one."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def composed(first: Sequence[int], second: Sequence[int]) -> Perm:
    """The permutation that has the effect of two in a row."""
    return tuple(first[axis] for axis in second)


def is_identity(perm: Sequence[int]) -> bool:
    """Whether a permutation leaves each axis in its place."""
    return list(perm) == list(range(len(perm)))


def relaid(array: np.ndarray, perm: Perm) -> np.ndarray:
    """A constant, which may have fewer axes than the tensors that it is broadcast to, in a layout of these."""
    lead = len(perm) - array.ndim
    moved = array.reshape((1,) * lead + array.shape).transpose(perm)
    ones = next((axis for axis, size in enumerate(moved.shape) if size != 1), moved.ndim)
    return np.ascontiguousarray(moved.reshape(moved.shape[min(lead, ones) :]))


def can_be_relaid(g: GraphView, name: str) -> bool:
    """Whether a value is a constant that can be stored in another layout without a larger model."""
    shape = g.static_shape(name) if g.is_constant(name) else None
    return shape is not None and (math.prod(shape) <= FOLD_LIMIT or (g.is_stored(name) and g.is_exclusive(name)))


def _elementwise(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    return Carried({0: perm}, (perm,) * len(node.output)) if g.has_type(node.input[0]) else None


def _broadcast(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    operands: dict[int, Perm] = {}
    for place, name in enumerate(node.input):
        shape = g.try_infer_shape(name)
        if shape is None or len(shape) > len(perm):
            return None
        lead = len(perm) - len(shape)
        if all(dim == 1 for dim in shape):
            continue
        if not lead or can_be_relaid(g, name):
            operands[place] = perm
        elif is_identity(perm[:lead]):
            operands[place] = tuple(axis - lead for axis in perm[lead:])
        else:
            return None
    if g.info(node.output[0]).rank != len(perm):
        return None
    return Carried(operands, (perm,), cost=(_waste(g, node, range(len(perm))), _waste(g, node, perm)))


def _waste(g: GraphView, node: Node, perm: Sequence[int]) -> int:
    """The time that onnxruntime spends between the runs of a broadcast operator, in copies of the result.

    It computes one run of elements at a time, as far as the last axes are broadcast alike, and takes as long for the step to
    the next run as for `_STEP` elements.
    """
    known = [shape for name in node.input if (shape := g.try_infer_shape(name)) is not None]
    shapes = [(*(1 for _ in range(len(perm) - len(shape))), *shape) for shape in known]
    run, state = 1, None
    for axis in reversed(perm):
        sizes = [shape[axis] for shape in shapes]
        stretched = tuple(size == 1 for size in sizes)
        if all(stretched):
            continue
        if state not in (None, stretched):
            return _STEP // run
        state, size = stretched, next(size for size in sizes if size != 1)
        run *= size if isinstance(size, int) else _STEP
        if not 0 < run < _STEP:
            return 0
    return 0


def _concat(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    axis = _axis(g, node, perm)
    if axis is None or any(g.info(name).rank != len(perm) for name in node.input):
        return None
    return Carried(dict.fromkeys(range(len(node.input)), perm), (perm,), {"axis": axis})


def _along_axis(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    """Operators that work along one axis, and whose results all have the layout of the operand."""
    axis = _axis(g, node, perm)
    return None if axis is None else Carried({0: perm}, (perm,) * len(node.output), {"axis": axis})


def _softmax(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    """Before operator set 13 it flattens its operand.

    Along another axis than the last one, onnxruntime permutes the tensor before and after it.
    """
    found = _along_axis(g, node, perm) if node.opset >= 13 else None
    if found is None:
        return None
    last, axis = len(perm) - 1, found.attributes["axis"]
    return Carried(found.operands, found.results, found.attributes, cost=(2 * (perm[axis] != last), 2 * (axis != last)))


def _slice(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    axes = g.get_argument(node, "axes")
    if axes is None:
        starts = g.get_argument(node, "starts")
        shape = g.static_shape(node.input[1]) if starts is AT_RUN_TIME else (len(starts),)
        axes = None if shape is None else list(range(shape[0]))
    moved = _moved(axes, perm)
    # All of starts, ends, axes and steps have one type.
    if moved is None or (len(node.input) > 1 and g.try_infer_type(node.input[1]) != TensorProto.INT64):
        return None
    return Carried({0: perm}, (perm,), {"axes": moved})


def _pad(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    axes = g.get_argument(node, "axes")
    if axes is not None:
        moved = _moved(axes, perm)
        return None if moved is None else Carried({0: perm}, (perm,), {"axes": moved})
    pads = g.get_argument(node, "pads")
    if not isinstance(pads, list) or len(pads) != 2 * len(perm):
        return None
    return Carried({0: perm}, (perm,), {"pads": [pads[side + axis] for side in (0, len(perm)) for axis in perm]})


def _reduce(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    axes = reduced_axes(g, node)
    if axes is None:
        return None
    result = perm if node.get_attribute("keepdims") else without(perm, axes)
    if len(axes) in (0, len(perm)):  # in either case, axes that are not written stay so
        return Carried({0: perm}, (result,))
    moved = sorted(perm.index(axis) for axis in axes)
    return Carried({0: perm}, (result,), {"axis": moved[0]} if node.op_type.startswith("Arg") else {"axes": moved})


def without(perm: Perm, axes: set[int]) -> Perm:
    """A layout after some axes of the value, not of the layout, were removed."""
    left = [axis for axis in perm if axis not in axes]
    return tuple(sorted(left).index(axis) for axis in left)


def _squeeze(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    axes = g.get_argument(node, "axes")
    moved = _moved(axes, perm)
    if moved is None:
        return None
    return Carried({0: perm}, (without(perm, {axis % len(perm) for axis in axes}),), {"axes": sorted(moved)})


def _unsqueeze(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    """A new axis stands where it would without the permutation, but not last: broadcasting along the last axis is slow."""
    added = inserted_axes(g, node)
    if added is None or len(perm) + len(added) != g.info(node.output[0]).rank:
        return None
    others = [axis for axis in range(len(perm) + len(added)) if axis not in added]
    result = [others[axis] for axis in perm]
    for axis in added:
        result.insert(min(axis, len(result) - 1), axis)
    return Carried({0: perm}, (tuple(result),), {"axes": sorted(result.index(axis) for axis in added)})


def unsqueeze_above(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    """How an Unsqueeze works when its result has a layout."""
    added = inserted_axes(g, node)
    if added is None or len(perm) != g.info(node.output[0]).rank:
        return None
    return Carried({0: without(perm, set(added))}, (perm,), {"axes": sorted(perm.index(axis) for axis in added)})


def inserted_axes(g: GraphView, node: Node) -> list[int] | None:
    """The axes of the result that an Unsqueeze adds, counted from the front, in order."""
    axes, rank = g.get_argument(node, "axes"), g.info(node.output[0]).rank
    if not isinstance(axes, list) or rank is None or not all(-rank <= axis < rank for axis in axes):
        return None
    return sorted(axis % rank for axis in axes)


def _matmul(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    """Matrices that are transposed change places: (A · B)ᵀ = Bᵀ · Aᵀ."""
    last = len(perm) - 2
    names = (*node.input, node.output[0])
    if last < 0 or {*perm[last:]} != {last, last + 1} or any(g.info(name).rank != len(perm) for name in names):
        return None
    return Carried({0: perm, 1: perm}, (perm,), swapped=perm[last] != last)


def _gather(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    axis, indices = _axis(g, node, perm), g.info(node.input[1]).rank
    if axis is None or indices is None:
        return None
    chosen = perm[axis]
    blocks = [range(a, a + indices) if a == chosen else [a if a < chosen else a + indices - 1] for a in perm]
    return Carried({0: perm}, (tuple(a for block in blocks for a in block),), {"axis": axis})


def _quantize(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    """One scale, or one for each part along an axis; not one for each block."""
    shape = g.try_infer_shape(node.input[1])
    if shape is None or len(shape) > 1 or node.attribute.get("block_size"):
        return None
    found = _along_axis(g, node, perm) if shape and node.opset >= 13 else None
    return found or (Carried({0: perm}, (perm,)) if shape in ((), (1,)) else None)


def _resize(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    """Interpolation is fast along the last two axes, and slow or missing along others in onnxruntime."""
    if node.attribute.get("coordinate_transformation_mode") == "tf_crop_and_resize" or node.attribute.get("axes"):
        return None
    place = next((place for place in (3, 2) if len(node.input) > place and node.input[place]), None)
    factors = None if place is None else g.get_computed_constant(node.input[place])
    source, result = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    if place is None or factors is None or factors.shape != (len(perm),) or source is None or result is None:
        return None
    resized = {place for place, axis in enumerate(perm) if source[axis] != result[axis]}
    if node.get_attribute("mode") not in (None, "nearest") and not resized <= {len(perm) - 2, len(perm) - 1}:
        return None
    return Carried({0: perm}, (perm,), given={place: factors[list(perm)]})


def _sized(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    """Expand and Tile, whose second operand has a number for each axis. An Expand that adds axes ends the region."""
    sizes = g.get_ints(node.input[1])
    if sizes is None or len(sizes) > len(perm) or g.info(node.input[0]).rank != len(perm):
        return None
    sizes = [1] * (len(perm) - len(sizes)) + sizes
    return Carried({0: perm}, (perm,), given={1: np.array([sizes[axis] for axis in perm], np.int64)})


def _normalization(g: GraphView, node: Node, perm: Perm) -> Carried | None:
    """The axes that are normalized are the last ones, and stay."""
    axis = axis_of(g, node)
    if axis is None or not is_identity([place - axis for place in perm[axis:]]):
        return None
    trailing = len(perm) - axis
    shapes = [g.try_infer_shape(name) for name in node.input[1:] if name]
    if any(shape is None or any(dim != 1 for dim in shape[: max(0, len(shape) - trailing)]) for shape in shapes):
        return None
    return Carried({0: perm}, (perm,) * len(node.output))


def _axis(g: GraphView, node: Node, perm: Perm) -> int | None:
    """The axis of an operator in the layout."""
    axis = axis_of(g, node)
    return perm.index(axis) if axis is not None and axis < len(perm) else None


def _moved(axes: Any, perm: Perm) -> list[int] | None:
    """Axes of an operator in the layout, in their order."""
    rank = len(perm)
    if not isinstance(axes, list) or not all(-rank <= axis < rank for axis in axes):
        return None
    return [perm.index(axis % rank) for axis in axes]


MOVING: Final[Mapping[str, Carry]] = {
    **dict.fromkeys(sorted(ELEMENTWISE - POSITIONAL), _elementwise),
    **dict.fromkeys((*BROADCASTING, "PRelu"), _broadcast),
    "Concat": _concat,
    "DequantizeLinear": _quantize,
    "Expand": _sized,
    "Gather": _gather,
    "Pad": _pad,
    "QuantizeLinear": _quantize,
    "Slice": _slice,
    "Split": _along_axis,
    "Squeeze": _squeeze,
    "Tile": _sized,
    "Unsqueeze": _unsqueeze,
}
"""Operators with the same bits in any layout."""

SUMMING: Final[Mapping[str, Carry]] = {
    **dict.fromkeys(sorted(POSITIONAL), _elementwise),
    **dict.fromkeys((*REDUCTIONS, "ArgMax", "ArgMin"), _reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _normalization),
    "MatMul": _matmul,
    "Resize": _resize,
}
"""Operators that add up, meet a NaN, or round in another order in another layout."""

CHANGING_RANK: Final = frozenset((*REDUCTIONS, "ArgMax", "ArgMin", "Squeeze", "Unsqueeze", "Gather"))
"""The layout of the operand determines that of the result, not the other way round."""
