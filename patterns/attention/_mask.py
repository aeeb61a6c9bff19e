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
"""Operators that choose elements of their first operand (Trilu adds zeros)."""
_CALCULATING: Final = frozenset(
    ("Abs", "Add", "Concat", "Max", "Min", "Mul", "Neg", "Sub", "Where")
)
"""Operators whose results are finite where all floating-point operands are, as long as nothing
overflows.
"""
_CHOOSING: Final = _MOVING | {"Add", "Concat", "Min", "Where"}
"""Operators whose results hold no NaN and no +infinity where no operand does."""
_BOUNDED: Final = _MOVING | {"Concat", "Max", "Min", "Where"}
"""Operators whose results are 0 or lie between the bounds of their operands."""
_SHAPE_OF_AXES: Final = 15
"""The first operator set in which Shape returns some of the axes."""
_STEP: Final = np.nextafter(np.float32(1), np.float32(0))
"""The factor of masks that `write_mask` writes."""
MAX_DEPTH: Final = 24
"""Most nodes in a row that are followed up the graph."""
ABSORBING: Final = -1e30
"""Scores vanish compared with such a number: a row that is masked entirely gives all keys the same
weight.
"""


def is_finite_mask(g: GraphView, name: str, depth: int = MAX_DEPTH) -> bool:
    """Whether no element of a tensor is infinite or NaN, as long as nothing overflows.

    The numbers come from constants, integers, Booleans, and inputs that are assumed to be finite,
    through operators that move, select, add or multiply them.
    """
    dtype = g.try_infer_type(name)
    if not is_float(dtype):
        return dtype == TensorProto.BOOL or is_integer(dtype)
    if g.assumes("finite", name) or is_of_bits(g, name):
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


def is_of_bits(g: GraphView, name: str) -> bool:
    """Whether all elements of an input are assumed to be 0 or 1."""
    return any(g.assumes(word, name) for word in ("bool", "ones", "right_padded"))


def is_mask(g: GraphView, name: str, depth: int = MAX_DEPTH) -> bool:
    """Whether no element is NaN or +infinity; inputs are assumed to hold neither."""
    node = g.node_before(name)
    if g.is_constant(name) and is_float(g.try_infer_type(name)):
        array = g.get_computed_constant(name)
        return array is not None and bool((array < np.inf).all())
    if node is None:
        return True
    if node.domain or not depth or node.op_type not in _CHOOSING:
        return is_finite_mask(g, name)
    return all(
        is_mask(g, operand, depth - 1)
        for operand in node.input
        if is_float(g.try_infer_type(operand))
    )


def lies_between(
    g: GraphView, name: str, least: float, most: float, depth: int = MAX_DEPTH
) -> bool:
    """Whether all numbers of a mask lie between a negative and a positive bound.

    Integers and Booleans count as such: they are positions, or 0 and 1.
    """
    if not depth or not is_float(g.try_infer_type(name)) or is_of_bits(g, name):
        return bool(depth)
    array, node = g.get_computed_constant(name), g.node_before(name)
    if array is not None:
        return bool(((array >= least) & (array <= most)).all())
    if is_op(node, "Mul"):
        factors = [g.get_constant_scalar(operand) for operand in node.input]
        place = next(
            (
                place
                for place, factor in enumerate(factors)
                if factor is not None and 0 <= factor <= 1
            ),
            None,
        )
        return place is not None and lies_between(g, node.input[1 - place], least, most, depth - 1)
    if node is None or node.domain:
        return False
    if node.op_type == "Cast":
        return g.try_infer_type(node.input[0]) == TensorProto.BOOL and most >= 1
    return node.op_type in _BOUNDED and all(
        lies_between(g, operand, least, most, depth - 1) for operand in node.input
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
    """Whether a mask, its last axis aside, broadcasts to (batch, heads, queries, keys)."""
    if mask is None or not 0 < len(mask) <= len(scores):
        return False
    return all(
        size in (1, wanted) for size, wanted in zip(mask[-2::-1], scores[-2::-1], strict=False)
    )


def has_keys(g: GraphView, masks: Sequence[str], scores: Shape, values: str) -> bool:
    """Whether masks broadcast to the scores.

    Where the values have as many keys as the scores, the last axis of a mask needs no check.
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
    """The sources of the numbers of queries and of keys; empty for an axis that the sum of the
    masks has already.
    """
    shape = broadcast_all([g.try_infer_shape(name) for name in masks]) or ()
    queries = () if shape[-2:-1] == scores[-2:-1] else sources_of(g, q, 2)
    return [queries, () if shape[-1:] == scores[-1:] else sources_of(g, swapped, 3)]


def sources_of(g: GraphView, name: str, axis: int, depth: int = MAX_DEPTH) -> tuple[Source, ...]:
    """Axes of tensors whose lengths add up to the length of an axis, as far up the graph as such
    tensors are found.

    A Shape of the tensor itself would block rewrites of the keys, and be part of a cycle where the
    operator appends the keys to earlier keys.
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
            above = g.try_infer_shape(operand) or ()
            if shape[axis] in above:
                return sources_of(g, operand, above.index(shape[axis]), depth - 1)
    return ((name, axis),)


def write_mask(
    g: PatternRewriter, mask: str, stretched: Sequence[tuple[Source, ...]], *, marked: bool = False
) -> str:
    """A float32 mask as onnxruntime's kernels require it: expanded to the numbers of queries and
    keys.

    The kernels return zeros for a row whose mask is the lowest number of its type everywhere, as if
    the mask were -infinity, where ONNX gives all keys the same weight. A factor one step below 1
    avoids the lowest number, and keeps 0 and -infinity. A row that is -infinity everywhere is NaN
    by the formula: with ``marked``, its factor is NaN. (So is the factor of a row with infinity or
    NaN, for which kernels and formula give NaN anyway.) ``stretched`` is as in `stretch_mask`.
    """
    array = g.get_computed_constant(mask)
    if marked:
        mask = g.op.Mul(
            mask, g.op.Add(g.op.Mul(g.op.ReduceMax(mask, axes=[-1], keepdims=1), 0.0), _STEP)
        )
    elif array is None or (array == np.finfo(np.float32).min).any():
        mask = g.op.Mul(mask, _STEP)
    return stretch_mask(g, mask, stretched)


def read_mask(g: GraphView, name: str) -> str | None:
    """The mask that `write_mask` multiplied, or the same mask with fewer leading axes.

    ``None`` for a tensor that `write_mask` did not write, or expanded. The kernels of com.microsoft
    compute the formula for any mask, so they can read the mask itself. (Without a mark, Attention
    gives 0 for a row that is -infinity everywhere: then the mask has to be finite.)
    """
    product = g.node_before(name)
    if not is_op(product, "Mul"):
        return None
    for mask, factor in permutations(product.input):
        is_step = g.get_constant_scalar(factor) == _STEP
        if (is_step and is_finite_mask(g, mask)) or _is_mark(g, mask, g.node_before(factor)):
            return mask
    return None


def _is_mark(g: GraphView, mask: str, total: Node | None) -> bool:
    """Whether a node adds the step below 1 to the maxima of the rows of a mask, times 0."""
    product = _other_operand(g, total, "Add", _STEP)
    maxima = product and _other_operand(g, g.node_before(product), "Mul", 0)
    node = g.node_before(maxima) if maxima else None
    if not is_op(node, "ReduceMax") or not node.get_attribute("keepdims", 1):
        return False
    rows, shape, inner = node.input[0], g.try_infer_shape(node.input[0]), g.try_infer_shape(mask)
    if not shape or not inner or reduced_axes(g, node) != {len(shape) - 1}:
        return False
    above = g.node_before(rows)
    is_unsqueezed = is_op(above, "Unsqueeze") and above.input[0] == mask
    return rows == mask or (is_unsqueezed and shape[-len(inner) :] == inner)


def _other_operand(g: GraphView, node: Node | None, op_type: str, number: float) -> str | None:
    """The operand of an Add or Mul whose other operand is a number."""
    if not is_op(node, op_type):
        return None
    places = permutations(node.input)
    return next((name for name, other in places if g.get_constant_scalar(other) == number), None)


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
    number = sum(size for name, axis in sources if isinstance(size := g.get_shape(name)[axis], int))
    symbolic = [
        (name, axis) for name, axis in sources if not isinstance(g.get_shape(name)[axis], int)
    ]
    total = "" if symbolic else np.array([number if sources else 1], dtype=np.int64)
    for name, axis in symbolic:
        length = _size(g, name, axis)
        total = g.op.Add(total, length) if isinstance(total, str) and total else length
    return g.op.Add(total, np.array([number], dtype=np.int64)) if symbolic and number else total


def _size(g: PatternRewriter, name: str, axis: int) -> str:
    """The length of an axis as a vector of one element."""
    if g.main_opset >= _SHAPE_OF_AXES:
        return str(g.op.Shape(name, start=axis, end=axis + 1))
    return str(g.op.Gather(g.op.Shape(name), np.array([axis], dtype=np.int64)))
