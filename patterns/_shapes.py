"""Deductions about shapes that several patterns share."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from onnx import TensorProto, numpy_helper

from xoptim.facts.advice import Advice
from xoptim.facts.dims import Dim, SymbolicDim, is_nonzero, lower_bound, named, substitute
from xoptim.facts.shapes import Shape, broadcast_all
from xoptim.match import GraphView, Node, PatternRewriter

from ._nodes import is_op
from ._operators import MOVING

_HUGE: Final = 2**31
"""No axis is as long as this number; onnxruntime rejects constants of that length."""
_MAX_RESULTS: Final = 64
"""Maximum number of tensors that are visited to find the source of sizes."""

_MAX_ELEMENTS: Final = 1 << 12
"""Maximum number of elements of a constant that is read."""
Movement = tuple[str, list[int]]
"""Reshape and its target, Squeeze or Unsqueeze and axes, or Transpose and perm. The empty string
instead of an operator moves nothing. A Squeeze without axes removes all axes of size 1.
"""
_CONVERTING: Final = frozenset(("Cast", "Not", "Neg"))
COMBINING: Final = ("Sub", "Mul", "Where", "And", "Or", "Equal")
"""Operators that compute masks of numbers. Their results have the same bits in all runtimes."""
MIRRORED: Final = {
    "Less": "Greater",
    "LessOrEqual": "GreaterOrEqual",
    "Greater": "Less",
    "GreaterOrEqual": "LessOrEqual",
}
"""For each comparison, the one that gives the same result with swapped operands."""


def results_above(g: GraphView, node: Node) -> Iterator[str]:
    """Tensors on which a node depends, nearest first; at most about `_MAX_RESULTS`."""
    visited = dict.fromkeys(name for name in node.input if name)
    pending = list(visited)
    while pending:
        name = pending.pop(0)
        yield name
        producer = g.node_before(name)
        if producer is not None and len(visited) < _MAX_RESULTS:
            pending += [i for i in dict.fromkeys(producer.input) if i and i not in visited]
            visited.update(dict.fromkeys(pending))


def measured_tensors(g: GraphView, node: Node) -> Iterator[tuple[str, Shape]]:
    """The operands of the Shape nodes on which a node depends, with their shapes."""
    for name in results_above(g, node):
        producer = g.node_before(name)
        shape = g.try_infer_shape(producer.input[0]) if is_op(producer, "Shape") else None
        if shape is not None and producer is not None:
            yield producer.input[0], shape


def is_given_size(g: GraphView, dim: Dim) -> bool:
    """Whether a dimension is at least 1 if the first two dimensions of all inputs are.

    These are usually batch and sequence length, which the caller chooses. Other dimensions may be
    0, such as the length of a KV cache at the first step, or the number of nonzero elements.
    """
    if not isinstance(dim, SymbolicDim) or dim.is_anonymous:
        return False
    # All symbols are at least 0: past + n may be 1, and n - 1 may be 0. Substituting n + 1 for a
    # leading n states that n is at least 1, because the new symbol is at least 0.
    low = lower_bound(
        substitute(dim, {name: named(name) + 1 for name in dim.symbols & g.leading_symbols()})
    )
    return low is not None and low >= 1


def may_be_empty(g: GraphView, dims: Sequence[Dim]) -> str:
    """The reason to refuse if one of these dimensions may be 0, with the assumption against it.

    Empty if no dimension may be 0. (Some kernels fail for empty tensors.)
    """
    dim = next((dim for dim in dims if not is_nonzero(dim) and not is_given_size(g, dim)), None)
    if dim is None:
        return ""
    unknown = isinstance(dim, SymbolicDim) and dim.is_anonymous
    return (
        "an unknown dimension may be 0"
        if unknown
        else f"a dimension may be 0, unless {dim} >= 1 is assumed ({Advice('assume')})"
    )


def dynamic_sizes(g: GraphView, name: str) -> tuple[Dim, ...] | None:
    """The elements of an int64 vector if all are known and one is a symbol, or ``None``."""
    info = g.info(name)
    if info.data is None or info.rank != 1 or info.dtype != TensorProto.INT64:
        return None
    return None if all(type(dim) is int for dim in info.data) else info.data


def find_run(shape: Shape, dims: Sequence[Dim]) -> int | None:
    """The first index at which a shape contains the dimensions ``dims`` in a row, or ``None``."""
    count = len(dims)
    for start in range(len(shape) - count + 1):
        if shape[start : start + count] == tuple(dims):
            return start
    return None


def axes_part(shape: Shape, start: int, count: int) -> dict[str, Any]:
    """The attributes of a Shape that returns ``count`` dimensions from the axis ``start`` on."""
    end = start + count
    return {"start": start or None, "end": end if end < len(shape) else None}


def reshape_target(
    g: GraphView, source: Shape, result: Shape, inferred: Sequence[int] = ()
) -> list[int] | None:
    """A constant target for a Reshape (without ``allowzero``) between two shapes, or ``None``.

    A static size is a number, a symbolic size at the same index is copied by 0, and at most one
    other size is -1. onnxruntime rejects a -1 if a copied size is 0, so copied sizes must then be
    known not to be 0. This is not required if the -1 is at one of the axes ``inferred``, which are
    -1 in the present target as well: the original then fails, too.
    """
    target: list[int] = []
    for position, dim in enumerate(result):
        is_kept = position < len(source) and dim == source[position]
        if isinstance(dim, int) and (dim or not is_kept):
            if not 0 < dim < _HUGE:
                return None
            target.append(dim)
        else:
            target.append(0 if is_kept else -1)
    unknown = [position for position, size in enumerate(target) if size < 0]
    if len(unknown) > 1:
        return None
    if unknown and not set(unknown) <= set(inferred):
        copied = [source[position] for position, size in enumerate(target) if size == 0]
        if not all(is_nonzero(dim) or is_given_size(g, dim) for dim in copied):
            return None
    return target


def movement_between(g: GraphView, source: Shape, result: Shape) -> Movement | None:
    """The Unsqueeze, the Squeeze, or the Reshape with a constant target, between two shapes.

    ``None`` if there is none.
    """
    for op_type, axes in (
        ("Unsqueeze", inserted_ones(source, result)),
        ("Squeeze", inserted_ones(result, source)),
    ):
        if axes is not None:
            return op_type, axes
    target = reshape_target(g, source, result)
    return None if target is None else ("Reshape", target)


def moved(
    g: PatternRewriter,
    name: str,
    op_type: str,
    numbers: Sequence[int],
    outputs: int | Sequence[str] = 1,
) -> str:
    """A tensor after a `Movement`.

    ``outputs`` may be the name that the result must have.
    """
    if not op_type:
        return name
    if op_type == "Reshape":
        return str(g.op.Reshape(name, np.array(numbers, dtype=np.int64), outputs=outputs))
    parameter = "perm" if op_type == "Transpose" else "axes"
    return str(getattr(g.op, op_type)(name, outputs=outputs, **{parameter: list(numbers) or None}))


def expand_target(source: Shape, result: Shape) -> list[int] | None:
    """A constant target for an Expand between two shapes, or ``None``. A 1 keeps an axis."""
    lead = len(result) - len(source)
    target: list[int] = []
    for position, dim in enumerate(result):
        if position >= lead and dim == source[position - lead]:
            target.append(1)
        elif isinstance(dim, int):
            target.append(dim)
        else:
            return None
    return target


def inserted_ones(source: Shape, result: Shape) -> list[int] | None:
    """The axes of size 1 that an Unsqueeze from one shape to another inserts.

    ``None`` if no Unsqueeze does it.
    """
    axes: list[int] = []
    for position, dim in enumerate(result):
        source_axis = position - len(axes)
        if dim == 1 and not (source_axis < len(source) and source[source_axis] == 1):
            axes.append(position)
        elif source_axis >= len(source) or dim != source[source_axis]:
            return None
    return axes if axes and len(result) - len(axes) == len(source) else None


def same_dims(a: Sequence[Dim] | None, b: Sequence[Dim] | None) -> bool:
    """Whether two shapes are known and equal."""
    return a is not None and b is not None and tuple(a) == tuple(b)


def broadcast_shape(g: GraphView, names: Sequence[str]) -> Shape | None:
    """The shape to which tensors broadcast; ``None`` if one of their shapes is unknown."""
    return broadcast_all([g.try_infer_shape(name) for name in names])


def unstretched(g: GraphView, name: str) -> str | None:
    """The operand of the Expand that computes a tensor, or of a Tile.

    ``None`` for other tensors, and unless the Tile is known to repeat dimensions of size 1 only.
    """
    node = g.node_before(name)
    if not is_op(node, "Expand", "Tile"):
        return None
    if node.op_type == "Tile":
        source, result = g.try_infer_shape(node.input[0]), g.try_infer_shape(name)
        # The Tile may be invalid if it is in a branch that never runs.
        if source is None or result is None or len(source) != len(result):
            return None
        if any(a != 1 and a != b for a, b in zip(source, result, strict=True)):
            return None
    return node.input[0]


def uniform_value(g: GraphView, name: str, depth: int = 12) -> np.ndarray | None:
    """The value of all elements of a tensor, as an array of rank 0.

    ``None`` if the elements are not known to be equal.
    """
    shape = g.static_shape(name)
    constant = (
        g.get_computed_constant(name)
        if shape is not None and 0 < math.prod(shape) <= _MAX_ELEMENTS
        else None
    )
    node = g.node_before(name)
    if constant is not None:
        return _only_element(constant)
    if (
        node is None
        or node.domain
        or not depth
        or (node.output[0] != name and node.op_type != "Split")
    ):
        return None
    if node.op_type == "ConstantOfShape":
        value = node.attribute.get("value")
        return (
            numpy_helper.to_array(value).reshape(())
            if isinstance(value, TensorProto)
            else np.zeros((), np.float32)
        )
    # A Resize that crops may read outside of its operand, where it uses extrapolation_value.
    copies = node.op_type == "Resize" and node.get_attribute("mode") == "nearest"
    if node.op_type in MOVING or (
        copies and node.get_attribute("coordinate_transformation_mode") != "tf_crop_and_resize"
    ):
        return uniform_value(g, node.input[0], depth - 1)
    if node.op_type in _CONVERTING:
        inner = uniform_value(g, node.input[0], depth - 1)
        results = None if inner is None else g.evaluate(node, [inner])
        return None if results is None else results[0].reshape(())
    decided = _decided(g, node, depth - 1) if node.op_type in MIRRORED else None
    return (
        _combined(g, node, depth - 2) if decided is None and node.op_type in COMBINING else decided
    )


def _combined(g: GraphView, node: Node, depth: int) -> np.ndarray | None:
    """The value of a node whose operands each have a single value, or ``None``."""
    numbers: list[np.ndarray | None] = []
    for name in node.input if depth > 0 else ():
        numbers.append(uniform_value(g, name, depth))
        if numbers[-1] is None:
            return None
    results = g.evaluate(node, numbers) if numbers else None
    return None if results is None else results[0].reshape(())


def _decided(g: GraphView, node: Node, depth: int) -> np.ndarray | None:
    """The result of comparing the integers of a Range with a number, if it is the same for all.

    It is the same if the smallest integer, which is the first, is large enough; else ``None``.
    """
    (a, b), op_type = node.input, node.op_type
    low, number = least_position(g, a, depth), uniform_value(g, b, depth)
    if low is None:
        low, number, op_type = (
            least_position(g, b, depth),
            uniform_value(g, a, depth),
            MIRRORED[op_type],
        )
    if low is None or number is None:
        return None
    if low > number or (low == number and op_type in ("GreaterOrEqual", "Less")):
        return np.array(op_type in ("Greater", "GreaterOrEqual"))
    return None


def _only_element(constant: np.ndarray) -> np.ndarray | None:
    """The first element of a constant, if all elements have the same bits, or ``None``."""
    first = constant.ravel()[:1]
    is_uniform = constant.size == 1 or (
        constant.dtype != object and constant.tobytes() == first.tobytes() * constant.size
    )
    return first.reshape(()) if is_uniform else None


def least_position(g: GraphView, name: str, depth: int = 8) -> int | None:
    """The first of ascending integers that a Range computes; ``None`` for other tensors."""
    node = g.node_before(name)
    if is_op(node, "Range"):
        first, step = (g.get_constant_scalar(node.input[index]) for index in (0, 2))
        return first if isinstance(first, int) and isinstance(step, int) and step > 0 else None
    return (
        least_position(g, node.input[0], depth - 1)
        if node is not None and depth and is_op(node, *MOVING)
        else None
    )


def broadcasts_to(g: GraphView, name: str, other: str) -> bool:
    """Whether a tensor is known to broadcast to the shape of the tensor ``other``."""
    shape, target = g.try_infer_shape(name), g.try_infer_shape(other)
    if shape is None or target is None or len(shape) > len(target):
        return False
    # Broadcasting aligns the last axes.
    return all(dim in (1, size) for dim, size in zip(shape[::-1], target[::-1], strict=False))
