"""Adapters to older operator sets: other forms, new attributes, and new values of attributes."""

from typing import Any, Final

import numpy as np
from onnx import TensorProto
from onnx.numpy_helper import to_array

from xoptim.facts.dims import Dim, lower_bound
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.shapes import Shape
from xoptim.operators.registry import Trait, operators_with
from xoptim.operators.slicing import LAST_END
from xoptim.passes.opsets.call import Adapter, OpsetCall, Refused
from xoptim.passes.opsets.downward_operands import counted_from_start

_FLOATS: Final = (
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16),
    TensorProto.BFLOAT16,
)
_WHERE_SINCE: Final = 9


def without(*names: str) -> Adapter:
    """An adapter for attributes that only affect types that the older set does not have."""

    def adapt(call: OpsetCall) -> None:
        for name in names:
            call.attributes.pop(name, None)

    return adapt


def no_value(name: str, *values: Any) -> Adapter:
    """An adapter for an attribute with new values, which are refused."""

    def adapt(call: OpsetCall) -> None:
        if call.get(name) in values:
            raise Refused(f"{name}={call.get(name)!r} has no equivalent there")

    return adapt


def last_axis(call: OpsetCall) -> None:
    """Softmax, LogSoftmax and Hardmax 13: before, they work along an axis and all axes after it.

    If an axis after it is longer than 1, the axis is moved to the end and back.
    """
    axis, shape = call.get("axis"), call.info().shape
    if shape is None:
        if axis != -1:
            raise Refused("the rank is unknown, and its axis may not be the last one")
        call.attributes["axis"] = -1
        return
    axis %= max(len(shape), 1)
    is_last = all(size == 1 for size in shape[axis + 1 :])
    call.attributes["axis"] = axis if is_last else len(shape) - 1
    if is_last:
        return
    order = list(range(len(shape)))
    order[axis], order[-1] = order[-1], order[axis]
    call.inputs[0] = call.make("Transpose", call.inputs[:1], perm=order)
    call.finish("Transpose", [], perm=order)


def not_training(call: OpsetCall) -> None:
    """BatchNormalization 14: an attribute tells training from inference."""
    if call.take("training_mode"):
        raise Refused("it is a training step (training_mode)")
    if call.is_result_read(1) or call.is_result_read(2):
        raise Refused("its running mean or variance is read")
    del call.outputs[1:]


def scatter_older(call: OpsetCall) -> None:
    """ScatterElements 11: before, it has the name Scatter."""
    call.op_type, call.version = "Scatter", 10
    rank = call.info().rank
    call.attributes["axis"] = counted_from_start([call.get("axis")], rank)[0]


def part_of_shape(call: OpsetCall) -> None:
    """Shape 15: ``start`` and ``end`` become a Slice of the shape."""
    start, end = call.take("start"), call.take("end")
    if not start and end is None:
        return
    shape = call.make("Shape", call.inputs[:1])
    bounds = ((start, "starts"), (LAST_END if end is None else end, "ends"))
    call.inputs = [shape, *(call.integers(value, hint) for value, hint in bounds)]
    # with explicit axes, for sets before 11
    call.inputs.append(call.integers(0, "axes"))
    call.op_type, call.version = "Slice", 13


def no_zeros(call: OpsetCall) -> None:
    """Reshape 14: with ``allowzero``, a 0 in the shape is a dimension of size 0, and not copied."""
    if not call.take("allowzero"):
        return
    value, data = call.value(1), call.info(1).data
    if value is not None:
        data = tuple(int(size) for size in np.ravel(value))
    if data is not None and -1 in data:
        return  # with ``allowzero``, a 0 next to -1 is an error
    shape = call.info(0).shape or ()
    if data is None or not all(_is_kept(size, shape[i : i + 1]) for i, size in enumerate(data)):
        raise Refused(
            "its shape may contain a 0 (allowzero), which would copy an input dimension there"
        )


def _is_kept(size: Dim, copied: Shape) -> bool:
    """Whether a size is not 0, or equal to the dimension that a 0 copies."""
    if isinstance(size, int) and size:
        return True
    return (lower_bound(size) or 0) > 0 or copied == (size,)


def integer_remainder(call: OpsetCall) -> None:
    """Mod 28: without ``fmod``, it also takes floating-point numbers."""
    if not call.get("fmod") and call.info().dtype in (0, *_FLOATS):
        raise Refused("it may compute a floored remainder of floating-point numbers (fmod=0)")


def third_operand(call: OpsetCall) -> None:
    """Gemm 11: the third operand may be omitted; a zero takes its place."""
    if not call.has_input(2):
        call.set_input(2, call.number(0.0, 0, "C"))


def indices_from_start(call: OpsetCall) -> None:
    """Gather 11: indices may be negative."""
    axis, shape, value = call.get("axis"), call.info().shape, call.value(1)
    if value is not None and not np.any(value < 0):
        return
    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    if value is not None and isinstance(size, int):
        call.inputs[1] = call.constant(np.where(value < 0, value + size, value), value.dtype, "i")
        return
    if call.scratch.target < _WHERE_SINCE or not call.info(1).dtype:
        raise Refused("its indices may be negative")
    call.inputs[1] = _indices_at_run_time(call, axis)


def _indices_at_run_time(call: OpsetCall, axis: int) -> str:
    """Indices of a Gather that are not negative, computed at run time."""
    dtype = call.info(1).dtype
    shape = call.make("Shape", call.inputs[:1])
    (index,) = counted_from_start([axis], call.info().rank)
    indices = call.inputs[1]
    length = call.make("Gather", [shape, call.constant(index, np.int64, "axis")], axis=0)
    if dtype != TensorProto.INT64:
        length = call.make("Cast", [length], to=dtype)
    is_negative = call.make("Less", [indices, call.constant(0, numpy_dtype(dtype), "zero")])
    return call.make("Where", [is_negative, call.make("Add", [indices, length]), indices])


def same_shapes(call: OpsetCall) -> None:
    """Max, Mean, Min and Sum 8: before, operands are not broadcast; Sum becomes Adds."""
    shapes = {call.scratch.info(name).static_shape for name in call.inputs}
    if len(shapes) == 1 and None not in shapes:
        return
    if call.op_type != "Sum":
        raise Refused("its operands are broadcast, or their shapes are unknown")
    if len(call.inputs) == 1:
        call.op_type = "Identity"
        return
    total, *names, last = call.inputs
    for name in names:
        total = call.make("Add", [total, name])
    call.op_type, call.inputs = "Add", [total, last]


def type_from_operand(call: OpsetCall) -> None:
    """CastLike 15: before, the type is an attribute of Cast."""
    dtype = call.info(1).dtype
    if not dtype:
        raise Refused(f"the element type of {call.inputs[1]!r} is unknown")
    call.op_type, call.inputs, call.attributes = "Cast", call.inputs[:1], {"to": dtype}


def filled(call: OpsetCall) -> None:
    """ConstantOfShape 9: before, Expand repeats a number."""
    value = call.attributes.pop("value", None)
    number = np.zeros(1, np.float32) if value is None else to_array(value)
    call.inputs.insert(0, call.constant(number.reshape(()), number.dtype, "value"))
    call.op_type, call.version = "Expand", 8


FORMS: Final[dict[tuple[str, int], Adapter]] = {
    **{(name, 13): last_axis for name in sorted(operators_with(Trait.SOFTMAX))},
    **{
        (name, 8): same_shapes
        for name in sorted(operators_with(Trait.VARIADIC) & operators_with(Trait.BROADCASTS))
    },
    ("BatchNormalization", 14): not_training,
    ("ScatterElements", 11): scatter_older,
    ("ScatterElements", 18): no_value("reduction", "max", "min"),
    ("ScatterND", 18): no_value("reduction", "max", "min"),
    ("Pad", 19): no_value("mode", "wrap"),
    ("Shape", 15): part_of_shape,
    ("Reshape", 14): no_zeros,
    ("Mod", 28): integer_remainder,
    ("Gemm", 11): third_operand,
    ("Gather", 11): indices_from_start,
    ("CastLike", 15): type_from_operand,
    ("ConstantOfShape", 9): filled,
    # Attributes for 8-bit floats, which the older sets do not have.
    ("Cast", 19): without("saturate"),
    ("Cast", 24): without("round_mode"),
    ("CastLike", 19): without("saturate"),
    ("CastLike", 24): without("round_mode"),
    # An attribute for 16-bit floats, which the older sets do not accept.
    ("Range", 27): without("stash_type"),
}
"""By operator, and operator set that changes or introduces it."""


def _not_blocked(call: OpsetCall) -> None:
    if call.take("block_size"):
        raise Refused("its scales belong to blocks of an axis (block_size)")


def type_by_zero_point(call: OpsetCall) -> None:
    """QuantizeLinear 21: without a zero point, an attribute has the type of the result."""
    _not_blocked(call)
    dtype = call.take("output_dtype")
    if not dtype or dtype == TensorProto.UINT8 or call.has_input(2):
        return
    scale = call.value(1)
    shape = call.info(1).static_shape if scale is None else scale.shape
    if shape is None:
        raise Refused(
            "it has a type of its own (output_dtype), and the shape of its scale is unknown"
        )
    call.set_input(2, call.constant(np.zeros(shape), numpy_dtype(dtype), "zero_point"))


def precision_of_scale(call: OpsetCall) -> None:
    """QuantizeLinear 23: an attribute has the type in which it divides."""
    precision = call.take("precision")
    if precision and precision != call.info(1).dtype:
        raise Refused("it divides in another precision than its scale has (precision)")


def type_of_scale(call: OpsetCall) -> None:
    """DequantizeLinear 23: an attribute has the type of the result."""
    dtype = call.take("output_dtype")
    if dtype and dtype != call.info(1).dtype:
        raise Refused("the type of its result is not the type of its scale (output_dtype)")


def one_scale(call: OpsetCall) -> None:
    """QuantizeLinear and DequantizeLinear 13: per-axis scales are new."""
    scale = call.value(1)
    if (call.info(1).rank if scale is None else scale.ndim) != 0:
        raise Refused("it has more than one scale, or an unknown number")
    call.attributes.pop("axis", None)


QUANTIZED: Final[dict[tuple[str, int], Adapter]] = {
    ("QuantizeLinear", 13): one_scale,
    ("QuantizeLinear", 19): without("saturate"),
    ("QuantizeLinear", 21): type_by_zero_point,
    ("QuantizeLinear", 23): precision_of_scale,
    ("DequantizeLinear", 13): one_scale,
    ("DequantizeLinear", 21): _not_blocked,
    ("DequantizeLinear", 23): type_of_scale,
}
"""By operator, and operator set that changes it."""
