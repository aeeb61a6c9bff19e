"""Sequences of tensors, and optional values.

One object holds the facts about all items. A dimension with an anonymous symbol may differ from
item to item, so it gets a new symbol when an item is read.
"""

from onnx import TensorProto

from xoptim.facts.dims import Dim, mod
from xoptim.facts.shapes import UNKNOWN, Info, normalized
from xoptim.operators.inference.arguments import (
    fresh_shape,
    integer,
    known,
    shape_of,
    shapes,
    vector,
)
from xoptim.operators.inference.shared import scalar_result
from xoptim.operators.inference.union import common, common_to_all, item_of
from xoptim.operators.protocols import NodeContext, Results
from xoptim.operators.registry import ALL_OPERANDS, Trait, carries, infers, register, steers, takes

register(Trait.KEEPS_NUMBER, "OptionalGetElement", "SequenceAt")
register(Trait.TAKES_EMPTY, "SequenceAt")
takes({1: "zero"}, "SequenceAt", "SequenceErase")
takes({2: "zero"}, "SequenceInsert")
takes({1: "one"}, "SplitToSequence")
carries("ConcatFromSequence", "Optional", "OptionalGetElement", "SequenceAt", "SplitToSequence")
carries("SequenceConstruct", operands=ALL_OPERANDS)
carries("SequenceInsert", operands=(0, 1))
steers(1, "SplitToSequence")


def _sequence(element: Info | None) -> Info:
    return Info(container="sequence", element=element)


def _items(info: Info | None) -> Info | None:
    return info.element if info is not None and info.container == "sequence" else None


@infers("SequenceConstruct")
def sequence_construct(ctx: NodeContext) -> Results:
    """Return the facts common to all inputs."""
    return [_sequence(common_to_all(ctx, ctx.inputs))]


@infers("SequenceInsert")
def sequence_insert(ctx: NodeContext) -> Results:
    """Inputs sequence, tensor, position."""
    return [_sequence(common(ctx, _items(ctx.input(0)), ctx.input(1)))]


@infers("SequenceAt")
def sequence_at(ctx: NodeContext) -> Results:
    """Inputs sequence, position."""
    return [item_of(ctx, _items(ctx.input(0)))]


@infers("SplitToSequence")
def split_to_sequence(ctx: NodeContext) -> Results:
    """Inputs tensor, split: one size for all chunks but the last (scalar), or each size (vector),
    by default 1.

    Only the default split can drop the axis (``keepdims`` 0).
    """
    x = ctx.input(0)
    if x is None or x.container:
        return [_sequence(UNKNOWN)]
    shape = x.shape
    if shape is None:
        return [_sequence(Info(x.dtype))]
    axis, keep = normalized(integer(ctx, "axis", 0), len(shape)), integer(ctx, "keepdims", 1)
    has_split, chunk = ctx.input(1) is not None, None
    if axis is None:
        chunk = fresh_shape(ctx, len(shape)) if has_split else None
    elif has_split or keep is not None:
        size = [known(ctx, _chunk(ctx, shape[axis]))] if has_split else [1] if keep else []
        chunk = (*shape[:axis], *size, *shape[axis + 1 :])
    return [_sequence(Info(x.dtype, chunk))]


def _chunk(ctx: NodeContext, size: Dim) -> Dim | None:
    """Size of every chunk, ``None`` where chunks differ or the size is unknown."""
    sizes = vector(ctx, 1)
    if not sizes:
        return None
    if len(sizes) > 1 or shape_of(ctx.input(1), 1) is not None:
        return sizes[0] if all(s == sizes[0] for s in sizes) else None
    chunk = sizes[0]
    divides = chunk is size or (type(chunk) is int and chunk > 0 and mod(size, chunk) == 0)
    return chunk if divides else None


@infers("ConcatFromSequence")
def concat_from_sequence(ctx: NodeContext) -> Results:
    """Joins the items along an axis, or along a new axis with ``new_axis``."""
    element = _items(ctx.input(0))
    if element is None or element.container:
        return [UNKNOWN]
    if element.shape is None:
        return [Info(element.dtype)]
    new_axis = integer(ctx, "new_axis", 0)
    shape = item_of(ctx, element).shape or ()
    axis = normalized(integer(ctx, "axis"), len(shape) + (1 if new_axis else 0))
    if axis is None or new_axis is None:
        return [Info(element.dtype)]
    tail = shape[axis:] if new_axis else shape[axis + 1 :]
    return [Info(element.dtype, (*shape[:axis], ctx.fresh(), *tail))]


shapes("SequenceLength", dtype=TensorProto.INT64, operands=())(scalar_result)
shapes("OptionalHasElement", dtype=TensorProto.BOOL, operands=())(scalar_result)
