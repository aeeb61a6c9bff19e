"""Adapters of the changes up to operator set 7, such as broadcasting without attributes."""

from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.passes.opsets.adapters_operands import integers_moved
from xoptim.passes.opsets.call import Adapter, OpsetCall, Refused

_BROADCASTING: Final = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "And",
    "Or",
    "Xor",
    "Equal",
    "Greater",
    "Less",
    "Pow",
)
_ALIGNED_SINCE: Final = 7
"""Operator set since which shapes are aligned at their last axes."""
_IN_PLACE: Final = (
    "Abs",
    "Add",
    "BatchNormalization",
    "Ceil",
    "Clip",
    "Div",
    "Dropout",
    "Elu",
    "Exp",
    "Floor",
    "HardSigmoid",
    "InstanceNormalization",
    "LeakyRelu",
    "Log",
    "Max",
    "Mean",
    "Min",
    "Mul",
    "Neg",
    "PRelu",
    "Reciprocal",
    "Relu",
    "Sigmoid",
    "Sqrt",
    "Sub",
    "Sum",
    "Tanh",
)
"""Operators with an attribute that named operands to overwrite."""


def not_in_place(call: OpsetCall) -> None:
    """The attribute that named operands to overwrite, which never changed a result, disappeared."""
    call.attributes.pop("consumed_inputs", None)


def constants_of_selu(call: OpsetCall) -> None:
    """Selu 6: the constants have more digits."""
    not_in_place(call)
    for name in ("alpha", "gamma"):
        call.attributes[name] = call.get(name)


def broadcast(call: OpsetCall) -> None:
    """Operators of two operands, 7: shapes are aligned at their last axes; before, at an axis that
    an attribute could name.
    """
    is_broadcast, axis = call.take("broadcast"), call.take("axis")
    if not is_broadcast or axis is None:
        return
    ranks = call.info(0).rank, call.info(1).rank
    if ranks[0] is None or ranks[1] is None:
        raise Refused(
            "the rank of an operand is unknown, and the axis attribute aligns the operands"
        )
    after = ranks[0] - (axis + ranks[0] if axis < 0 else axis) - ranks[1]
    if after > 0:
        _append_axes(call, ranks[1], after)


def slopes_of_channels(call: OpsetCall) -> None:
    """PRelu 7: slopes are aligned at the last axes; before, there was one, or one per channel."""
    slopes, rank = call.info(1).shape, call.info(0).rank
    if slopes is None or rank is None:
        raise Refused("the shape of an operand is unknown, and decides how the slope broadcasts")
    if len(slopes) == 1 and slopes[0] != 1 and rank > 2:
        _append_axes(call, 1, rank - 2)


def _append_axes(call: OpsetCall, rank: int, count: int) -> None:
    """Append axes of size 1 to the second operand."""
    call.inputs[1] = call.make(
        "Unsqueeze", call.inputs[1:2], version=_ALIGNED_SINCE, axes=list(range(rank, rank + count))
    )


def only_in_test(call: OpsetCall) -> None:
    """BatchNormalization and Dropout 7: an attribute no longer distinguishes inference from
    training.
    """
    if not call.take("is_test"):
        raise Refused("it is a training step (is_test is 0)")


def named_type(call: OpsetCall) -> None:
    """Cast 6: the type is a number, not a name."""
    call.attributes["to"] = TensorProto.DataType.Value(str(call.get("to")).upper())


def whole_exponent(call: OpsetCall) -> None:
    """LpPool and GlobalLpPool 2: the exponent is an integer."""
    value = call.get("p")
    if value != int(value):
        raise Refused(f"the exponent {value} is not an integer")
    call.attributes["p"] = int(value)


def split_sizes(call: OpsetCall) -> None:
    """Split 2: the sizes became an attribute; the axis has a default."""
    if call.has_input(1):
        sizes = call.value(1)
        if sizes is None:
            raise Refused("its sizes are only known at run time")
        call.attributes["split"] = [int(size) for size in np.ravel(sizes)]
        del call.inputs[1:]
    call.attributes.setdefault("axis", 0)


def shape_moved(call: OpsetCall) -> None:
    """Reshape 5: the shape became an operand."""
    not_in_place(call)
    integers_moved("shape")(call)


EARLY: Final[dict[tuple[str, int], Adapter]] = {
    **{(name, 6): not_in_place for name in _IN_PLACE},
    **{(name, 7): broadcast for name in _BROADCASTING},
    ("Selu", 6): constants_of_selu,
    ("PRelu", 7): slopes_of_channels,
    ("BatchNormalization", 7): only_in_test,
    ("Dropout", 7): only_in_test,
    ("Cast", 6): named_type,
    ("LpPool", 2): whole_exponent,
    ("GlobalLpPool", 2): whole_exponent,
    # the axis has no default any more
    ("Concat", 4): lambda call: call.attributes.setdefault("axis", 1),
    ("Pad", 2): lambda call: call.attributes.update(pads=call.take("paddings")),
    ("Split", 2): split_sizes,
    ("Reshape", 5): shape_moved,
    ("Gemm", 7): lambda call: call.attributes.pop("broadcast", None),
}
"""By operator, and operator set that changes it."""
