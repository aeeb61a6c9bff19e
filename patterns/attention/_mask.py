"""Masks that are added to the scores of an attention."""

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import is_float, is_integer, numpy_dtype
from xoptim.facts.shapes import Shape, broadcast_all
from xoptim.match import GraphView, Node, PatternRewriter
from xoptim.operators.axes import reduced_axes

from .._nodes import is_op
from .._operators import MOVING

Source = tuple[str, int]
"""A tensor and one of its axes."""

_MOVING: Final = MOVING | {"Trilu"}
"""Operators whose results are elements of their first operand (Trilu adds zeros)."""
_CALCULATING: Final = frozenset(
    ("Abs", "Add", "Concat", "Max", "Min", "Mul", "Neg", "Sub", "Where")
)
"""Operators whose results are finite if all floating-point operands are finite and nothing
overflows.
"""
_MASK_OPERATORS: Final = _MOVING | {"Add", "Concat", "Min", "Where"}
"""Operators whose results hold neither NaN nor +infinity if no operand holds one."""
_BOUNDED: Final = _MOVING | {"Concat", "Max", "Min", "Where"}
"""Operators whose results are 0 or lie between the bounds of their operands."""
_SHAPE_START_OPSET: Final = 15
"""The first operator set in which Shape has the attributes ``start`` and ``end``."""
_MASK_FACTOR: Final = np.nextafter(np.float32(1), np.float32(0))
"""The factor of masks that `write_mask` writes: the largest float32 number below 1."""
MAX_DEPTH: Final = 24
"""Maximum number of nodes in a row that are followed up the graph."""
ABSORBING: Final = -1e30
"""A number that absorbs scores: score + number = number after rounding. If a query has it for all
keys, Softmax gives all keys the same weight.
"""


def is_finite_mask(g: GraphView, name: str, depth: int = MAX_DEPTH) -> bool:
    """Whether no element of a tensor is infinite or NaN, as long as nothing overflows.

    True if operators that move, select, add or multiply numbers compute the tensor from finite
    constants, integers, Booleans, and inputs that are assumed to be finite.
    """
    dtype = g.try_infer_type(name)
    if not is_float(dtype):
        return dtype == TensorProto.BOOL or is_integer(dtype)
    if g.assumes("finite", name) or is_zero_or_one(g, name):
        return True
    if g.is_constant(name):
        return (array := g.get_computed_constant(name)) is not None and bool(
            np.isfinite(array.astype(np.float64)).all()
        )
    node = g.node_before(name)
    if node is None or node.domain or not depth:
        return False
    if node.op_type in _MOVING or node.op_type == "Cast":
        return is_finite_mask(g, node.input[0], depth - 1)
    return node.op_type in _CALCULATING and all(
        is_finite_mask(g, operand, depth - 1) for operand in node.input
    )


def is_zero_or_one(g: GraphView, name: str) -> bool:
    """Whether all elements of an input are assumed to be 0 or 1."""
    return any(g.assumes(word, name) for word in ("bool", "ones", "right_padded"))


def is_below_infinity(g: GraphView, name: str, depth: int = MAX_DEPTH) -> bool:
    """Whether no element is NaN or +infinity. Inputs of the model are assumed to hold neither."""
    node = g.node_before(name)
    if g.is_constant(name) and is_float(g.try_infer_type(name)):
        array = g.get_computed_constant(name)
        return array is not None and bool((array < np.inf).all())
    if node is None:
        return True
    if node.domain or not depth or node.op_type not in _MASK_OPERATORS:
        return is_finite_mask(g, name)
    return all(
        is_below_infinity(g, operand, depth - 1)
        for operand in node.input
        if is_float(g.try_infer_type(operand))
    )


def lies_between(
    g: GraphView, name: str, lower: float, upper: float, depth: int = MAX_DEPTH
) -> bool:
    """Whether all numbers of a mask lie between a negative and a positive bound.

    Integers and Booleans pass without a check: they are indices and conditions.
    """
    if not depth:
        return False
    if not is_float(g.try_infer_type(name)) or is_zero_or_one(g, name):
        return True
    array, node = g.get_computed_constant(name), g.node_before(name)
    if array is not None:
        return bool(((array >= lower) & (array <= upper)).all())
    if is_op(node, "Mul"):
        factors = [g.get_constant_scalar(operand) for operand in node.input]
        index = next(
            (
                index
                for index, factor in enumerate(factors)
                if factor is not None and 0 <= factor <= 1
            ),
            None,
        )
        return index is not None and lies_between(g, node.input[1 - index], lower, upper, depth - 1)
    if node is None or node.domain:
        return False
    if node.op_type == "Cast":
        return g.try_infer_type(node.input[0]) == TensorProto.BOOL and upper >= 1
    return node.op_type in _BOUNDED and all(
        lies_between(g, operand, lower, upper, depth - 1) for operand in node.input
    )


def magnitude_of(g: GraphView, name: str, depth: int = MAX_DEPTH) -> float:
    """A bound of the magnitudes of all numbers of a tensor; infinity if none is known.

    Integers and Booleans are bounded by their types, sums and products by their operands.
    """
    dtype, node = g.try_infer_type(name), g.node_before(name)
    if g.is_constant(name):
        array = g.get_computed_constant(name)
        return math.inf if array is None else float(np.abs(array.astype(np.float64)).max(initial=0))
    if dtype == TensorProto.BOOL:
        return 1.0
    if is_integer(dtype):
        return float(np.iinfo(numpy_dtype(dtype)).max) + 1
    if node is None or node.domain or not depth:
        return math.inf
    if node.op_type in _MOVING or node.op_type == "Cast":
        return magnitude_of(g, node.input[0], depth - 1)
    if node.op_type not in ("Add", "Sub", "Mul", "Where"):
        return math.inf
    operands = node.input[1:] if node.op_type == "Where" else node.input
    bounds = [magnitude_of(g, operand, depth - 1) for operand in operands]
    if node.op_type == "Where":
        return max(bounds)
    return math.prod(bounds) if node.op_type == "Mul" else sum(bounds)


def fits_scores(mask: Shape | None, scores: Shape) -> bool:
    """Whether a mask broadcasts to (batch, heads, queries, keys); its last axis is not checked."""
    if mask is None or not 0 < len(mask) <= len(scores):
        return False
    return all(
        size in (1, score_size)
        for size, score_size in zip(mask[-2::-1], scores[-2::-1], strict=False)
    )


def masks_fit_scores(g: GraphView, masks: Sequence[str], scores: Shape, values: str) -> bool:
    """Whether masks broadcast to the scores, (batch, heads, queries, keys).

    If the values have as many keys as the scores, the last axis of a mask is not checked: with a
    mask for another number of keys, the original model fails.
    """
    shapes = [g.try_infer_shape(name) for name in masks]
    if not all(shape is not None and fits_scores(shape, scores) for shape in shapes):
        return False
    return g.get_shape(values)[2] == scores[-1] or all(
        shape[-1] in (1, scores[-1]) for shape in shapes if shape
    )


def stretched_by(
    g: GraphView, masks: Sequence[str], scores: Shape, q: str, swapped: str
) -> list[tuple[Source, ...]]:
    """The tensors from which `stretch_mask` reads the numbers of queries and of keys.

    Empty for an axis that has its full length in the sum of the masks.
    """
    shape = broadcast_all([g.try_infer_shape(name) for name in masks]) or ()
    queries = () if shape[-2:-1] == scores[-2:-1] else sources_of(g, q, 2)
    return [queries, () if shape[-1:] == scores[-1:] else sources_of(g, swapped, 3)]


def sources_of(g: GraphView, name: str, axis: int, depth: int = MAX_DEPTH) -> tuple[Source, ...]:
    """Axes of preceding tensors whose lengths add up to the length of an axis.

    They are as far up the graph as shapes are known, at most ``depth`` nodes.
    A Shape of the tensor itself would be one more consumer of the keys, which blocks rewrites. If
    Attention appends the keys to the KV cache, this Shape would close a cycle.
    """
    node, shape = g.node_before(name), g.get_shape(name)
    if node is not None and depth and not isinstance(shape[axis], int):
        if is_op(node, "Concat") and node.get_attribute("axis") % len(shape) == axis:
            return tuple(
                source
                for operand in node.input
                for source in sources_of(g, operand, axis, depth - 1)
            )
        for operand in filter(None, node.input):
            operand_shape = g.try_infer_shape(operand) or ()
            if shape[axis] in operand_shape:
                return sources_of(g, operand, operand_shape.index(shape[axis]), depth - 1)
    return ((name, axis),)


def write_mask(
    g: PatternRewriter, mask: str, stretched: Sequence[tuple[Source, ...]], *, marked: bool = False
) -> str:
    """A float32 mask as onnxruntime's kernels require it, with all queries and keys.

    If a row of the mask has the lowest float32 number everywhere, the kernels return zeros, as for
    -infinity. ONNX gives all keys the same weight. So the mask is multiplied by the float32 number
    next to 1, which changes the lowest number, but neither 0 nor -infinity.

    If a row is -infinity everywhere, the formula gives NaN, but the kernels return zeros. With
    ``marked``, the factor of a row is NaN if its maximum is infinite or NaN. (For +infinity and
    NaN, formula and kernels give NaN anyway.) ``stretched`` is as in `stretch_mask`.
    """
    array = g.get_computed_constant(mask)
    if marked:
        mask = g.op.Mul(
            mask, g.op.Add(g.op.Mul(g.op.ReduceMax(mask, axes=[-1], keepdims=1), 0.0), _MASK_FACTOR)
        )
    elif array is None or (array == np.finfo(np.float32).min).any():
        mask = g.op.Mul(mask, _MASK_FACTOR)
    return stretch_mask(g, mask, stretched)


def read_mask(g: GraphView, name: str) -> str | None:
    """The mask that `write_mask` multiplied, or the same mask with fewer leading axes.

    ``None`` for a tensor that `write_mask` did not write, or that it expanded. The kernels of
    com.microsoft compute the formula for any mask, so they can read the mask without the factor.
    An unmarked mask has to be finite: Attention gives 0 for a row of -infinity, the formula NaN.
    """
    product = g.node_before(name)
    if not is_op(product, "Mul"):
        return None
    for mask, factor in permutations(product.input):
        is_mask_factor = g.get_constant_scalar(factor) == _MASK_FACTOR
        if (is_mask_factor and is_finite_mask(g, mask)) or _is_mark(g, mask, g.node_before(factor)):
            return mask
    return None


def _is_mark(g: GraphView, mask: str, total: Node | None) -> bool:
    """Whether a node computes ReduceMax(mask) · 0 + `_MASK_FACTOR`, the factor of a marked mask."""
    product = _operand_beside(g, total, "Add", _MASK_FACTOR)
    maxima = product and _operand_beside(g, g.node_before(product), "Mul", 0)
    node = g.node_before(maxima) if maxima else None
    if not is_op(node, "ReduceMax") or not node.get_attribute("keepdims", 1):
        return False
    rows, mask_shape = node.input[0], g.try_infer_shape(mask)
    shape = g.try_infer_shape(rows)
    if not shape or not mask_shape or reduced_axes(g, node) != {len(shape) - 1}:
        return False
    unsqueeze = g.node_before(rows)
    is_unsqueezed = is_op(unsqueeze, "Unsqueeze") and unsqueeze.input[0] == mask
    return rows == mask or (is_unsqueezed and shape[-len(mask_shape) :] == mask_shape)


def _operand_beside(g: GraphView, node: Node | None, op_type: str, number: float) -> str | None:
    """The operand of an Add or Mul whose other operand is ``number``, in either order."""
    if not is_op(node, op_type):
        return None
    pairs = permutations(node.input)
    return next((name for name, scalar in pairs if g.get_constant_scalar(scalar) == number), None)


def stretch_mask(g: PatternRewriter, mask: str, stretched: Sequence[tuple[Source, ...]]) -> str:
    """A mask expanded to the numbers of queries and keys; ``stretched`` is as `stretched_by`
    returns it.
    """
    if not any(stretched):
        return mask
    parts = [_length(g, sources) for sources in stretched]
    if all(isinstance(part, np.ndarray) for part in parts):
        return g.op.Expand(mask, np.concatenate(parts))
    return g.op.Expand(mask, g.op.Concat(*parts, axis=0))


def _length(g: PatternRewriter, sources: Sequence[Source]) -> np.ndarray | str:
    """The sum of lengths as a vector of one element; 1 without sources."""
    static_length = sum(
        size for name, axis in sources if isinstance(size := g.get_shape(name)[axis], int)
    )
    symbolic_axes = [
        (name, axis) for name, axis in sources if not isinstance(g.get_shape(name)[axis], int)
    ]
    total = "" if symbolic_axes else np.array([static_length if sources else 1], dtype=np.int64)
    for name, axis in symbolic_axes:
        length = _size(g, name, axis)
        total = g.op.Add(total, length) if isinstance(total, str) and total else length
    if symbolic_axes and static_length:
        return g.op.Add(total, np.array([static_length], dtype=np.int64))
    return total


def _size(g: PatternRewriter, name: str, axis: int) -> str:
    """The length of an axis as a vector of one element."""
    if g.main_opset >= _SHAPE_START_OPSET:
        return str(g.op.Shape(name, start=axis, end=axis + 1))
    return str(g.op.Gather(g.op.Shape(name), np.array([axis], dtype=np.int64)))
