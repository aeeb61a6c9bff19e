"""Operators in another layout: with permuted axes of their operands and results.

A value in the layout ``perm`` is its Transpose by ``perm``: axis i of the layout is axis
``perm[i]`` of the value.
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
"""Overhead of a broadcast operator in onnxruntime between two runs of adjacent elements, as the
number of elements that it computes in the same time.
"""


@dataclass(frozen=True)
class Carried:
    """A node that works in another layout.

    Attributes:
        operands: layout of each operand whose layout changes, by the index of the operand.
        results: layout of each result.
        changed: new values of parameters: attributes by name, operands by index.
        cost: overhead before and after the change, in copies of the first result.
        swapped: whether the two operands are exchanged.
    """

    operands: Mapping[int, Perm]
    results: tuple[Perm, ...]
    changed: Mapping[str | int, Any]
    cost: tuple[int, int]
    swapped: bool


def inverse(perm: Sequence[int]) -> Perm:
    """The inverse of a permutation."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def composed(first: Sequence[int], second: Sequence[int]) -> Perm:
    """The permutation that equals ``first`` followed by ``second``."""
    return tuple(first[axis] for axis in second)


def is_identity(perm: Sequence[int]) -> bool:
    """Whether a permutation moves no axis."""
    return list(perm) == list(range(len(perm)))


def relaid(array: np.ndarray, perm: Perm) -> np.ndarray:
    """A constant in the layout ``perm`` of the tensor that it is broadcast to.

    This tensor may have more axes than the constant.
    """
    lead = len(perm) - array.ndim
    moved = array.reshape((1,) * lead + array.shape).transpose(perm)
    ones = next((axis for axis, size in enumerate(moved.shape) if size != 1), moved.ndim)
    return np.ascontiguousarray(moved.reshape(moved.shape[min(lead, ones) :]))


def can_be_relaid(g: GraphView, name: str) -> bool:
    """Whether a value is a constant whose layout can be changed without a much larger model.

    It is small, or no other node reads it, so that the original is dropped.
    """
    shape = g.static_shape(name) if g.is_constant(name) else None
    return shape is not None and (
        math.prod(shape) <= FOLD_LIMIT or (g.is_stored(name) and g.is_exclusive(name))
    )


def carried(g: GraphView, node: Node, value: str, perm: Perm) -> Carried | None:
    """The form of a node in which its operand or result ``value`` has the layout ``perm``.

    ``None`` if there is no such form, or it is unknown.
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
    for index, (old, new) in enumerate(zip(axes.operands, moved.operands, strict=True)):
        if (
            old is None
            or new is None
            or all(dim == 1 for dim in g.try_infer_shape(node.input[index]) or ())
        ):
            continue
        if old.is_apart and new.labels == old.labels:
            continue
        lead = len(results[0]) - len(old.labels)
        if lead and old.broadcasts and {*moved.results[0][lead:]} != {*old.labels}:
            if not can_be_relaid(g, node.input[index]):
                return None
            operands[index] = results[0]
        elif new.labels != old.labels:
            operands[index] = _between(old.labels, new.labels)
    changed = parameters(g, node, moved)
    if node.op_type == "Resize" and not _interpolates_along_the_last(g, node, results[0]):
        return None
    return Carried(
        operands, results, changed, _cost(g, node, results[0]), moved.fixed != axes.fixed
    )


def _between(old: Labels, new: Labels) -> Perm:
    return tuple(old.index(label) for label in new)


def _interpolates_along_the_last(g: GraphView, node: Node, perm: Perm) -> bool:
    """Whether a Resize in the layout ``perm`` interpolates along the last two axes only.

    Along other axes, onnxruntime is slow, or has no kernel.
    """
    source, result = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    if source is None or result is None:
        return False
    resized = {index for index, axis in enumerate(perm) if source[axis] != result[axis]}
    return node.get_attribute("mode") in (None, "nearest") or resized <= {
        len(perm) - 2,
        len(perm) - 1,
    }


def _cost(g: GraphView, node: Node, perm: Perm) -> tuple[int, int]:
    """The overhead of a node before and after the change of layout.

    If a Softmax is not along the last axis, onnxruntime transposes its operand and its result: two
    copies.
    """
    if node.op_type in STRETCHING:
        return _waste(g, node, range(len(perm))), _waste(g, node, perm)
    axis, last = axis_of(g, node), len(perm) - 1
    return (2 * (axis != last), 2 * (perm[last] != axis)) if node.op_type in _NORMALIZED else (0, 0)


def _waste(g: GraphView, node: Node, perm: Sequence[int]) -> int:
    """The overhead of a broadcast operator between its runs, in copies of the result.

    onnxruntime computes one run of adjacent elements at a time: along the last axes in which the
    same operands have size 1. The step to the next run takes as long as `_STEP` elements.
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
"""Operators that give the same bits in any layout."""

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
"""Operators that give the same numbers in any layout, except for rounding and NaN. The order in
which they read elements changes, or onnxruntime rounds them differently at the end of a tensor.
"""

CHANGING_RANK: Final = frozenset((*REDUCTIONS, "ArgMax", "ArgMin", "Squeeze", "Gather"))
"""Operators whose result may have another rank. The layout of the operand determines the layout of
the result, but not the other way round.
"""
