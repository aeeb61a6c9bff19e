"""Tensors whose elements follow from their indices: all equal, or affine such as positions."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from xoptim.facts.dims import Dim, is_nonnegative
from xoptim.facts.dtypes import is_integer, numpy_dtype
from xoptim.facts.shapes import Shape
from xoptim.match import GraphView, Node

from .._deductions import known_values, reshapes_as_inferred
from .._folding import Array
from .._nodes import is_op, permutation
from .._operators import ELEMENTWISE, MOVING, STRETCHING

_MAX_DEPTH: Final = 32
"""Maximum number of nodes in a row that are followed up the graph."""
_MAX_ELEMENTS: Final = 1 << 16
"""Constants of more elements are not read."""


class Affine(NamedTuple):
    """A tensor of integers that are affine in their indices: start + Σ step · index.

    Attributes:
        start: the element at the indices 0.
        steps: the step along each axis; axes are counted from the last: -1, -2, ...
            An axis along which the integers are equal is absent.
    """

    start: Dim
    steps: Mapping[int, int]

    def plus(self, other: "Affine", factor: int = 1) -> "Affine":
        """The sum of these integers and ``factor`` times ``other``."""
        axes = {*self.steps, *other.steps}
        steps = {axis: self.steps.get(axis, 0) + factor * other.steps.get(axis, 0) for axis in axes}
        nonzero = {axis: step for axis, step in steps.items() if step}
        return Affine(self.start + factor * other.start, nonzero)


def positions_of(g: GraphView, name: str, depth: int = _MAX_DEPTH) -> Affine | None:
    """The integers of a tensor; ``None`` where they are not known to be affine."""
    info = g.info(name)
    if not is_integer(info.dtype) or info.shape is None or not depth:
        return None
    if info.data is not None and len(info.data) == 1:
        return Affine(info.data[0], {})
    if g.is_constant(name):
        array = g.get_computed_constant(name)
        return None if array is None or array.size > _MAX_ELEMENTS else _of_constant(array)
    node = g.node_before(name)
    if node is None or node.domain:
        return None
    if node.op_type == "Range":
        start, delta = positions_of(g, node.input[0], depth - 1), g.get_ints(node.input[2])
        if start is None or delta is None:
            return None
        return Affine(start.start, {} if info.shape == (1,) else {-1: delta[0]})
    if node.op_type in ("Add", "Sub"):
        terms = [positions_of(g, operand, depth - 1) for operand in node.input]
        first, second = terms
        if first is None or second is None:
            return None
        if not all(
            spreads(g, operand, info.shape, term)
            for operand, term in zip(node.input, terms, strict=True)
        ):
            return None
        return first.plus(second, 1 if node.op_type == "Add" else -1)
    if is_op(node, "CumSum"):
        return _counted(g, node)
    positions = positions_of(g, node.input[0], depth - 1) if node.input else None
    return None if positions is None else moved(g, node, positions)


def _of_constant(array: Array) -> Affine | None:
    axes = [axis for axis, size in enumerate(array.shape) if size > 1]
    if len(axes) > 1 or not array.size:
        return None
    elements = array.ravel().astype(np.int64)
    steps = np.unique(np.diff(elements))
    if steps.size > 1:
        return None
    axis_steps = {axes[0] - array.ndim: int(steps[0])} if axes and steps[0] else {}
    return Affine(int(elements[0]), axis_steps)


def _counted(g: GraphView, node: Node) -> Affine | None:
    """1, 2, 3, ... for the CumSum of ones."""
    rank, axis, addend = (
        g.info(node.input[0]).rank,
        g.get_ints(node.input[1]),
        uniform(g, node.input[0]),
    )
    if not rank or axis is None or addend is None or addend != 1:
        return None
    if node.get_attribute("exclusive", 0) or node.get_attribute("reverse", 0):
        return None
    return Affine(1, {axis[0] % rank - rank: 1})


def spreads(g: GraphView, name: str, shape: Shape, numbers: Affine | None) -> bool:
    """Whether broadcasting a tensor to a shape keeps the axes along which its integers differ."""
    tensor_shape = g.try_infer_shape(name)
    if numbers is None or tensor_shape is None:
        return False
    return all(tensor_shape[axis] == shape[axis] for axis in numbers.steps)


def moved(g: GraphView, node: Node, numbers: Affine) -> Affine | None:
    """The integers in the result of a node whose first operand holds ``numbers``.

    The node is a Cast, Identity, Expand, Unsqueeze, Squeeze, Reshape, Transpose or Slice. ``None``
    for other nodes, and where the integers are not known to be affine in the indices of the result.
    """
    source, result = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    if source is None or result is None:
        return None
    if is_op(node, "Cast", "Identity"):
        return numbers
    if is_op(node, "Expand"):
        return numbers if spreads(g, node.input[0], result, numbers) else None
    if is_op(node, "Unsqueeze", "Squeeze", "Reshape"):
        return _reshaped(numbers, source, result) if reshapes_as_inferred(g, node) else None
    if is_op(node, "Transpose"):
        perm = permutation(g, node)
        rank = len(source)
        new_axes = (
            {} if perm is None else {axis - rank: index - rank for index, axis in enumerate(perm)}
        )
        return (
            Affine(numbers.start, {new_axes[a]: step for a, step in numbers.steps.items()})
            if perm
            else None
        )
    return _cut(g, node, numbers, len(source)) if is_op(node, "Slice") else None


def _reshaped(numbers: Affine, source: Shape, result: Shape) -> Affine | None:
    """The numbers after axes of size 1 were added or dropped."""
    source_axes = [axis - len(source) for axis, size in enumerate(source) if size != 1]
    result_axes = [axis - len(result) for axis, size in enumerate(result) if size != 1]
    if [source[axis] for axis in source_axes] != [result[axis] for axis in result_axes]:
        return None
    new_axes = dict(zip(source_axes, result_axes, strict=True))
    return Affine(
        numbers.start,
        {new_axes[axis]: step for axis, step in numbers.steps.items() if axis in new_axes},
    )


def _cut(g: GraphView, node: Node, numbers: Affine, rank: int) -> Affine | None:
    """The numbers in the result of a Slice with known starts and steps of 1; else ``None``."""
    starts = known_values(g, node.input[1]) if len(node.input) > 1 else None
    axes, steps = g.get_argument(node, "axes"), g.get_argument(node, "steps")
    if (
        starts is None
        or not isinstance(axes, list)
        or (steps is not None and steps != [1] * len(axes))
    ):
        return None
    for axis, start in zip(axes, starts, strict=True):
        step = numbers.steps.get(axis % rank - rank, 0)
        if step and not is_nonnegative(start):
            return None
        numbers = Affine(numbers.start + start * step if step else numbers.start, numbers.steps)
    return numbers


def uniform(g: GraphView, name: str, depth: int = _MAX_DEPTH) -> Any:
    """The value of all elements of a tensor, as an array of rank 0.

    ``None`` if the elements are not known to be equal.
    """
    if g.is_constant(name):
        array = g.get_computed_constant(name)
        is_equal = (
            array is not None and 0 < array.size <= _MAX_ELEMENTS and (array == array.flat[0]).all()
        )
        return array.reshape(-1)[0].reshape(()) if is_equal and array is not None else None
    if g.assumes("ones", name):
        return np.ones((), numpy_dtype(g.try_infer_type(name)))
    node = g.node_before(name)
    if node is None or node.domain or not depth:
        return None
    if node.op_type in MOVING or node.op_type == "GatherND":
        return uniform(g, node.input[0], depth - 1)
    if node.op_type not in ELEMENTWISE | STRETCHING or not all(node.input):
        return None
    operands = [uniform(g, operand, depth - 1) for operand in node.input]
    if any(operand is None for operand in operands):
        return None
    results = g.evaluate(node, operands)
    return results[0] if results and results[0].size == 1 else None
