"""Adapters to older operator sets: operands become attributes again.

An adapter writes a call in the form before an operator set. Operands that become attributes must be
constants.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.attributes import REDUCTIONS
from xoptim.facts.dtypes import numpy_dtype
from xoptim.operators.registry import Trait, operators_with
from xoptim.passes.opsets.call import Adapter, OpsetCall, Refused

_BROADCAST_SINCE: Final = 8
"""Operator set since which Max and Min broadcast their operands."""
_DEFAULT_BOUNDS: Final[dict[int, tuple[float | None, float | None]]] = {
    TensorProto.FLOAT: (None, None),
    TensorProto.FLOAT16: (float(np.finfo(np.float16).min), float(np.finfo(np.float16).max)),
}
"""The bounds of a Clip without bounds, by element type; ``None`` for the attribute's default."""
_COPYING_REDUCTIONS: Final = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
"""Reductions that return the operand if no axis is reduced."""


def constant_operand(call: OpsetCall, place: int, name: str) -> np.ndarray:
    """The value of an operand, of rank 1. Raises `Refused` when it is only known at run time."""
    value = call.value(place)
    if value is None:
        raise Refused(f"its operand {name} must be constant there, and is computed at run time")
    return np.ravel(value)


def integers_back(*names: str) -> Adapter:
    """An adapter for lists of integers that are the operands after the first one."""

    def adapt(call: OpsetCall) -> None:
        for place, name in enumerate(names, 1):
            if call.has_input(place):
                call.attributes[name] = [int(i) for i in constant_operand(call, place, name)]
        del call.inputs[1:]

    return adapt


def reduced_axes(call: OpsetCall) -> None:
    """Reductions 13 and 18: axes are an operand, which may be empty."""
    axes = constant_operand(call, 1, "axes") if call.has_input(1) else np.array([], np.int64)
    is_copy = bool(call.take("noop_with_empty_axes")) and not axes.size
    del call.inputs[1:]
    if not is_copy:
        call.attributes.update({"axes": [int(axis) for axis in axes]} if axes.size else {})
        return
    if call.op_type not in _COPYING_REDUCTIONS:
        raise Refused("it reduces no axis (noop_with_empty_axes), which has no equivalent there")
    call.op_type, call.attributes = "Identity", {}


def slice_attributes(call: OpsetCall) -> None:
    """Slice 10: starts, ends and axes are operands, and steps are new."""
    if call.has_input(4) and np.any(constant_operand(call, 4, "steps") != 1):
        raise Refused("its steps are not 1")
    del call.inputs[4:]
    integers_back("starts", "ends", "axes")(call)


def slice_axes(call: OpsetCall) -> None:
    """Slice 11: axes and steps may be negative."""
    if call.has_input(4) and np.any(constant_operand(call, 4, "steps") < 0):
        raise Refused("it has a negative step")
    if call.has_input(3):
        axes = counted_from_start(constant_operand(call, 3, "axes"), call.info().rank)
        call.set_input(3, call.integers(axes, "axes"))


def counted_from_start(axes: Sequence[int] | np.ndarray, rank: int | None) -> list[int]:
    """Axes that may be negative, counted from the first one of ``rank`` axes.

    Raises `Refused` when one is negative and the rank is unknown.
    """
    if rank is None and any(axis < 0 for axis in axes):
        raise Refused("an axis is negative, and the rank is unknown")
    return [int(axis) if axis >= 0 else int(axis) + (rank or 0) for axis in axes]


def positive_axes(name: str, further: int = 0) -> Adapter:
    """An adapter for axes that may be negative.

    They refer to a shape with ``further`` axes more than the first operand has; -1 for one more per
    axis in the attribute.
    """

    def adapt(call: OpsetCall) -> None:
        value = call.get(name)
        if value is None:
            return
        axes = value if isinstance(value, list) else [value]
        rank = call.info().rank
        if rank is not None:
            rank += len(axes) if further < 0 else further
        positive = counted_from_start(axes, rank)
        if positive != axes:
            # Shape inference of the older sets expects them in order.
            call.attributes[name] = sorted(positive) if isinstance(value, list) else positive[0]

    return adapt


def clip_attributes(call: OpsetCall) -> None:
    """Clip 11: the bounds are operands; if an attribute cannot hold one, Max and Min apply them."""
    bounds = call.value(1), call.value(2)
    is_constant = all(bounds[i] is not None or not call.has_input(i + 1) for i in (0, 1))
    if (
        is_constant
        and all(value is None or _is_short(value) for value in bounds)
        and not _are_swapped(*bounds)
    ):
        defaults = _DEFAULT_BOUNDS.get(call.info().dtype, (-np.inf, np.inf))
        for name, value, default in zip(("min", "max"), bounds, defaults, strict=True):
            if value is not None or default is not None:
                call.attributes[name] = default if value is None else float(value.item())
        del call.inputs[1:]
        return
    if call.scratch.target < _BROADCAST_SINCE:
        raise Refused("a bound is computed at run time, or the bounds are swapped")
    if call.info().dtype not in _DEFAULT_BOUNDS and call.info().dtype != TensorProto.DOUBLE:
        raise Refused(
            "a bound is computed at run time, and its type is unknown or not floating-point"
        )
    dtype = numpy_dtype(call.info().dtype)
    limits = np.finfo(dtype)
    x, lower, upper = (*call.inputs, "", "")[:3]
    # A bound that is omitted is the limit of the type: infinite numbers become finite.
    lower = lower or call.constant(limits.min, dtype, "min")
    upper = upper or call.constant(limits.max, dtype, "max")
    call.op_type, call.inputs = "Min", [call.make("Max", [x, lower]), upper]


def _is_short(value: np.ndarray) -> bool:
    """Whether a value is one number, which float32 represents exactly."""
    return value.size == 1 and bool(value.astype(np.float32).astype(value.dtype) == value)


def _are_swapped(lower: np.ndarray | None, upper: np.ndarray | None) -> bool:
    """Whether the lower bound is above the upper one, which kernels of the attributes refuse."""
    return lower is not None and upper is not None and bool(lower.item() > upper.item())


def pads_of_all_axes(call: OpsetCall) -> None:
    """Pad 18: ``axes`` names the axes that are padded."""
    if not call.has_input(3):
        return
    rank = call.info().rank
    if rank is None:
        raise Refused("it names axes, and the rank is unknown")
    axes = np.array(counted_from_start(constant_operand(call, 3, "axes"), rank), np.int64)
    indices = np.concatenate([axes, axes + rank])
    value = call.value(1)
    if value is not None:
        pads = np.zeros(2 * rank, np.int64)
        pads[indices] = np.ravel(value)
        call.inputs[1] = call.integers(pads, "pads")
    else:
        zeros = call.integers(np.zeros(2 * rank), "zeros")
        operands = [zeros, call.integers(indices, "places"), call.inputs[1]]
        call.inputs[1] = call.make("ScatterElements", operands, version=18)
    del call.inputs[3:]


def pad_attributes(call: OpsetCall) -> None:
    """Pad 11: ``pads`` and the value are operands."""
    call.attributes["pads"] = [int(pad) for pad in constant_operand(call, 1, "pads")]
    if call.has_input(2):
        value = constant_operand(call, 2, "value")
        if not _is_short(value):
            raise Refused("its value is no number of float32")
        call.attributes["value"] = float(value.item())
    del call.inputs[1:]


def dropout_attribute(call: OpsetCall) -> None:
    """Dropout 12: the ratio is an operand, and a third operand tells training from inference."""
    if call.has_input(2):
        training = call.value(2)
        if training is None or training.any():
            raise Refused("it may be a training step (training_mode)")
    without_mask(call)
    ratio = call.value(1)
    if ratio is not None:
        call.attributes["ratio"] = float(ratio.item())
    call.attributes.pop("seed", None)  # inference draws no random numbers
    del call.inputs[1:]


def without_mask(call: OpsetCall) -> None:
    """Dropout 10 and 12: the mask has other values, or another type."""
    if call.is_result_read(1):
        raise Refused("its mask is read, which has other values there")
    del call.outputs[1:]


def parts_written(call: OpsetCall) -> None:
    """Split 18: with ``num_outputs``, the last part may be smaller; then the sizes are written."""
    parts = call.take("num_outputs")
    if not parts or call.has_input(1):
        return
    shape, axis = call.info().shape, call.get("axis")
    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    if not isinstance(size, int):
        call.set_input(1, _sizes_at_run_time(call, parts, axis))
    elif size % parts:
        length = -(-size // parts)
        starts = np.arange(parts) * length
        call.set_input(1, call.integers(np.clip(size - starts, 0, length), "split"))


def _sizes_at_run_time(call: OpsetCall, parts: int, axis: int) -> str:
    """The sizes of parts of an axis, the last of which may be smaller, as a computed operand."""
    shape = call.make("Shape", call.inputs[:1])
    size = call.make("Gather", [shape, call.integers(axis, "axis")], axis=0)
    rounded = call.make("Add", [size, call.integers(parts - 1, "parts")])
    length = call.make("Div", [rounded, call.integers(parts, "parts")])
    starts = call.make("Mul", [length, call.integers(np.arange(parts), "starts")])
    remaining = call.make("Min", [call.make("Sub", [size, starts]), length])
    return call.make("Max", [remaining, call.integers(0, "zero")])


def size_of_top(call: OpsetCall) -> None:
    """TopK 10: the number of elements is an operand, and may be 0."""
    count = int(constant_operand(call, 1, "K").item())
    if count < 1:
        raise Refused("it takes no elements")
    call.attributes["k"] = count
    del call.inputs[1:]


def largest_first(call: OpsetCall) -> None:
    """TopK 11: the smallest elements are the largest ones of the negated operand.

    Without ``sorted``, any order is correct.
    """
    call.attributes.pop("sorted", None)
    if call.take("largest"):
        return
    if call.info().dtype not in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE):
        raise Refused("it takes the smallest elements, of a type that may not be negated")
    call.inputs[0] = call.make("Neg", call.inputs[:1])
    if call.is_result_read(0):
        call.finish("Neg", [])


def axis_of_transform(call: OpsetCall) -> None:
    """DFT 20: the axis is an operand, with another default."""
    axis = constant_operand(call, 2, "axis").item() if call.has_input(2) else -2
    call.attributes["axis"] = int(axis)
    del call.inputs[2:]


LOWERED_OPERANDS: Final[dict[tuple[str, int], Adapter]] = {
    **{(name, 18): reduced_axes for name in REDUCTIONS if name != "ReduceSum"},
    ("ReduceSum", 13): reduced_axes,
    ("Squeeze", 13): integers_back("axes"),
    ("Unsqueeze", 13): integers_back("axes"),
    ("Split", 13): integers_back("split"),
    ("Split", 18): parts_written,
    ("Slice", 10): slice_attributes,
    ("Slice", 11): slice_axes,
    ("TopK", 10): size_of_top,
    ("TopK", 11): largest_first,
    ("Clip", 11): clip_attributes,
    ("Pad", 11): pad_attributes,
    ("Pad", 18): pads_of_all_axes,
    ("Dropout", 10): without_mask,
    ("Dropout", 12): dropout_attribute,
    ("DFT", 20): axis_of_transform,
    **{(name, 11): positive_axes("axis") for name in ("Compress", "Concat", "Flatten", "Split")},
    **{(name, 11): positive_axes("axis") for name in sorted(operators_with(Trait.SOFTMAX))},
    ("OneHot", 11): positive_axes("axis", 1),
    ("Squeeze", 11): positive_axes("axes"),
    ("Unsqueeze", 11): positive_axes("axes", -1),
}
"""By operator, and operator set that changes it."""
