"""How operators work in another layout, with the axes of their operands and results permuted.

A value in the layout ``perm`` is its Transpose by ``perm``: axis i there is axis ``perm[i]`` of the
value.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from xoptim.match import GraphView, Node
from xoptim.match.axes import parameters
from xoptim.operators.axes import Labels, axis_of
from xoptim.operators.registry import axes_of

from .._folding import FOLD_LIMIT
from .._operators import BROADCASTING, ELEMENTWISE, POSITIONAL, REDUCTIONS, STRETCHING

Perm = tuple[int, ...]

_NORMALIZED: Final = ("Softmax", "LogSoftmax", "Hardmax")
_STEP: Final = 32
"""Elements that a broadcast operator computes in the time that it takes from one run of elements to
the next.
"""


@dataclass(frozen=True)
class Carried:
    """A node that works in another layout.

    Attributes:
        operands: layout of each operand that changes its layout, by its place.
        results: layout of each result.
        changed: parameters that change.
        cost: what the operator takes besides its work, in copies of the first result, before and
            after.
        swapped: whether the two operands change places.
    """

    operands: Mapping[int, Perm]
    results: tuple[Perm, ...]
    changed: Mapping[str | int, Any]
    cost: tuple[int, int]
    swapped: bool


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
    """A constant in a layout of the tensors that it is broadcast to, which may have more axes."""
    lead = len(perm) - array.ndim
    moved = array.reshape((1,) * lead + array.shape).transpose(perm)
    ones = next((axis for axis, size in enumerate(moved.shape) if size != 1), moved.ndim)
    return np.ascontiguousarray(moved.reshape(moved.shape[min(lead, ones) :]))


def can_be_relaid(g: GraphView, name: str) -> bool:
    """Whether a value is a constant that can be stored in another layout without a larger model."""
    shape = g.static_shape(name) if g.is_constant(name) else None
    return shape is not None and (
        math.prod(shape) <= FOLD_LIMIT or (g.is_stored(name) and g.is_exclusive(name))
    )


def carried(g: GraphView, node: Node, value: str, perm: Perm) -> Carried | None:
    """How a node works when one of its operands or results has a layout.

    ``None`` when it cannot, or that is not known.
    """
    axes = (
        axes_of(g, node) if node.op_type not in ELEMENTWISE or g.has_type(node.input[0]) else None
    )
    if axes is None:
        return None
    operand_labels = (
        operand.labels
        for name, operand in zip(node.input, axes.operands, strict=True)
        if name == value and operand
    )
    result_labels = (
        labels for name, labels in zip(node.output, axes.results, strict=True) if name == value
    )
    labels = next(iter((*result_labels, *operand_labels)), ())
    moved = (
        axes.reordered(tuple(labels[axis] for axis in perm)) if len(labels) == len(perm) else None
    )
    if moved is None:
        return None
    results = tuple(map(_between, axes.results, moved.results))
    operands: dict[int, Perm] = {}
    for place, (old, new) in enumerate(zip(axes.operands, moved.operands, strict=True)):
        if (
            old is None
            or new is None
            or all(dim == 1 for dim in g.try_infer_shape(node.input[place]) or ())
        ):
            continue
        if old.is_apart and new.labels == old.labels:
            continue
        lead = len(results[0]) - len(old.labels)
        if lead and old.broadcasts and {*moved.results[0][lead:]} != {*old.labels}:
            if not can_be_relaid(g, node.input[place]):
                return None
            operands[place] = results[0]
        elif new.labels != old.labels:
            operands[place] = _between(old.labels, new.labels)
    changed = parameters(g, node, moved)
    if node.op_type == "Resize" and not _interpolates_along_the_last(g, node, results[0]):
        return None
    return Carried(
        operands, results, changed, _cost(g, node, results[0]), moved.fixed != axes.fixed
    )


def _between(old: Labels, new: Labels) -> Perm:
    return tuple(old.index(label) for label in new)


def _interpolates_along_the_last(g: GraphView, node: Node, perm: Perm) -> bool:
    """Whether a Resize interpolates along the last two axes only: onnxruntime is slow along others,
    or has no kernel.
    """
    source, result = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    if source is None or result is None:
        return False
    resized = {place for place, axis in enumerate(perm) if source[axis] != result[axis]}
    return node.get_attribute("mode") in (None, "nearest") or resized <= {
        len(perm) - 2,
        len(perm) - 1,
    }


def _cost(g: GraphView, node: Node, perm: Perm) -> tuple[int, int]:
    """The cost of a node besides its work, before and after.

    Along another axis than the last one, onnxruntime permutes the operand of a Softmax before and
    after it.
    """
    if node.op_type in STRETCHING:
        return _waste(g, node, range(len(perm))), _waste(g, node, perm)
    axis, last = axis_of(g, node), len(perm) - 1
    return (2 * (axis != last), 2 * (perm[last] != axis)) if node.op_type in _NORMALIZED else (0, 0)


def _waste(g: GraphView, node: Node, perm: Sequence[int]) -> int:
    """The time that onnxruntime spends between the runs of a broadcast operator, in copies of the
    result.

    It computes one run of elements at a time, along the last axes that are broadcast alike, and
    takes as long for the step to the next run as for `_STEP` elements.
    """
    inferred = [shape for name in node.input if (shape := g.try_infer_shape(name)) is not None]
    shapes = [(*(1 for _ in range(len(perm) - len(shape))), *shape) for shape in inferred]
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


MOVING: Final = frozenset(
    (
        *(ELEMENTWISE - POSITIONAL),
        *BROADCASTING,
        "Concat",
        "DequantizeLinear",
        "Expand",
        "Gather",
        "Pad",
        "PRelu",
        "QuantizeLinear",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Unsqueeze",
    )
)
"""Operators with the same bits in any layout."""

SUMMING: Final = frozenset(
    (
        *POSITIONAL,
        *REDUCTIONS,
        "ArgMax",
        "ArgMin",
        "Hardmax",
        "LayerNormalization",
        "LogSoftmax",
        "MatMul",
        "Resize",
        "RMSNormalization",
        "Softmax",
    )
)
"""Operators that add up, meet a NaN, or round in another order in another layout."""

CHANGING_RANK: Final = frozenset((*REDUCTIONS, "ArgMax", "ArgMin", "Squeeze", "Gather"))
"""The layout of the operand determines the layout of the result, not the other way round."""
