"""Adapters of operators whose attributes became operands."""

from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.attributes import REDUCTIONS
from xoptim.passes.opsets.call import Adapter, OpsetCall, Refused

_LOWEST: Final = float(np.finfo(np.float32).min)
_HIGHEST: Final = float(np.finfo(np.float32).max)


def integers_moved(*names: str) -> Adapter:
    """An adapter for lists of integers that became the operands after the first one.

    An empty list meant the same as no list for all these operators but Unsqueeze, and is omitted.
    """

    def adapt(call: OpsetCall) -> None:
        for place, name in enumerate(names, 1):
            values = call.take(name)
            if values or (values is not None and call.op_type == "Unsqueeze"):
                call.set_input(place, call.integers(values, name))

    return adapt


def clip_bounds(call: OpsetCall) -> None:
    """Clip 11: the bounds became operands; for float32, the limits of the type are omitted."""
    bounds: tuple[tuple[int, str, float], ...] = ((1, "min", _LOWEST), (2, "max", _HIGHEST))
    for place, name, limit in bounds:
        if name in call.attributes:
            value = call.take(name)
            if np.float32(value) != np.float32(limit) or call.info().dtype != TensorProto.FLOAT:
                call.set_input(place, call.number(value, 0, name))


def pad_operands(call: OpsetCall) -> None:
    """Pad 11: ``pads`` and ``value`` became operands."""
    call.set_input(1, call.integers(call.take("pads"), "pads"))
    value = call.take("value")
    if value:
        call.set_input(2, call.number(value, 0, "value"))


def dropout_ratio(call: OpsetCall) -> None:
    """Dropout 12: the ratio became an operand, and the mask in inference is true, not false."""
    dropout_mask(call)
    if "ratio" in call.attributes:
        call.set_input(1, call.constant(call.take("ratio"), np.float32, "ratio"))


def dropout_mask(call: OpsetCall) -> None:
    """Dropout 10: the mask became Boolean; it is omitted."""
    if call.is_result_read(1):
        raise Refused("its mask is read, which has other values in the newer set")
    del call.outputs[1:]


def sizes_of_parts(call: OpsetCall) -> None:
    """Split 18: equal parts are no longer the default.

    Their sizes are written, or computed if unknown: onnxruntime does not accept the number of parts
    for a dimension of size 0.
    """
    if call.has_input(1):
        return
    count, shape, axis = len(call.outputs), call.info().shape, call.get("axis")
    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    if isinstance(size, int) and size % count == 0:
        call.set_input(1, call.integers([size // count] * count, "split"))
    else:
        part = call.make("Div", [call.size_of(axis), call.integers(count, "count")])
        call.set_input(1, call.make("Expand", [part, call.integers(count, "shape")]))


OPERANDS: Final[dict[tuple[str, int], Adapter]] = {
    **{(name, 18): integers_moved("axes") for name in REDUCTIONS if name != "ReduceSum"},
    ("ReduceSum", 13): integers_moved("axes"),
    ("Squeeze", 13): integers_moved("axes"),
    ("Unsqueeze", 13): integers_moved("axes"),
    ("Split", 13): integers_moved("split"),
    ("Split", 18): sizes_of_parts,
    ("Slice", 10): integers_moved("starts", "ends", "axes"),
    ("TopK", 10): integers_moved("k"),
    ("Clip", 11): clip_bounds,
    ("Pad", 11): pad_operands,
    ("Dropout", 10): dropout_mask,
    ("Dropout", 12): dropout_ratio,
    # The axis became an operand, with another default.
    ("DFT", 20): lambda call: call.set_input(2, call.constant(call.take("axis"), np.int64, "axis")),
}
"""By operator, and operator set that changes it."""
