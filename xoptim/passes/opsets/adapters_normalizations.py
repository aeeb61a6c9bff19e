"""Adapters of normalizations, and of Softmax and its relatives."""

from typing import Final

from onnx import TensorProto

from xoptim.facts.shapes import Shape
from xoptim.operators.registry import Trait, operators_with
from xoptim.passes.opsets.call import ALLOWZERO_SINCE, Adapter, OpsetCall, Refused

_STASHED: Final = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


def one_axis(call: OpsetCall) -> None:
    """Softmax, LogSoftmax and Hardmax 13: they work along one axis.

    Before, they worked along ``axis`` and all axes after it, as if these were one axis. If at most
    one of these axes is longer than 1, it becomes the axis. Otherwise the tensor is flattened, and
    gets its shape back afterwards.
    """
    first = call.take("axis")
    shape = call.info().shape
    if first == -1:  # no axis follows, whatever the rank
        call.attributes["axis"] = -1
        return
    if shape is not None and -len(shape) <= first < len(shape):
        start = first % len(shape)
        axes = [axis for axis in range(start, len(shape)) if shape[axis] != 1]
        if len(axes) < 2:
            call.attributes["axis"] = axes[0] if axes else start
            return
    has_zeros = call.scratch.target >= ALLOWZERO_SINCE
    if not has_zeros and not _reshape_copies_zeros(shape, first):
        raise Refused(
            "a dimension may be 0, which Reshape cannot express before operator set "
            f"{ALLOWZERO_SINCE}"
        )
    sizes = call.make("Shape", [call.inputs[0]])
    call.inputs[0] = call.make("Flatten", [call.inputs[0]], axis=first)
    call.attributes["axis"] = 1
    call.finish("Reshape", [sizes], **({"allowzero": 1} if has_zeros else {}))


def _reshape_copies_zeros(shape: Shape | None, first: int) -> bool:
    """Whether Reshape can restore the dimensions that may be 0.

    A 0 in its shape copies the dimension of the flattened tensor at the same axis, which must be 0
    as well.
    """
    if shape is None:
        return False
    start = first % len(shape) if shape else 0
    copies = {0: (1,), 1: (0, 1)}.get(start, (0,))
    return all(
        axis in copies or (isinstance(size, int) and size > 0) for axis, size in enumerate(shape)
    )


def not_spatial(call: OpsetCall) -> None:
    """BatchNormalization 9: statistics for each element disappeared, and need other operators."""
    not_training(call)
    if call.take("spatial"):
        return
    x, scale, bias, mean, variance = call.inputs
    epsilon = call.number(call.take("epsilon"), 0, "epsilon")
    call.take("momentum")
    deviation = call.make("Sqrt", [call.make("Add", [variance, epsilon])])
    normal = call.make("Div", [call.make("Sub", [x, mean]), deviation])
    call.op_type, call.inputs = "Add", [call.make("Mul", [normal, scale]), bias]


def not_training(call: OpsetCall) -> None:
    """BatchNormalization 14: training became an attribute; before, more results meant training."""
    if any(call.outputs[1:]):
        raise Refused(
            "it is a training step (it has more than one result), which the newer set computes "
            "otherwise"
        )
    del call.outputs[1:]


def scale_of_channels(call: OpsetCall) -> None:
    """GroupNormalization 21: scale and bias have one number for each channel, not for each group.

    The numbers are repeated. The precision of the computation, which is an attribute now, stays the
    precision of the input.
    """
    info = call.info()
    if not info.dtype:
        raise Refused(
            f"the element type of {call.inputs[0]!r} is unknown, and so is the precision to "
            "compute in"
        )
    groups = call.get("num_groups")
    channels = info.shape[1] if info.shape is not None and len(info.shape) > 1 else None
    if isinstance(channels, int) and groups:
        sizes = call.integers([groups, channels // groups], "sizes")
    else:
        group_count = call.integers(groups, "groups")
        sizes = call.make(
            "Concat", [group_count, call.make("Div", [call.size_of(1), group_count])], axis=0
        )
    for index in (1, 2):
        expanded = call.make(
            "Expand",
            [call.make("Unsqueeze", [call.inputs[index], call.integers([1], "axes")]), sizes],
        )
        call.inputs[index] = call.make("Reshape", [expanded, call.integers([-1], "shape")])
    if info.dtype in _STASHED:
        call.attributes["stash_type"] = info.dtype


ONE_AXIS: Final = operators_with(Trait.SOFTMAX)
ONE_AXIS_SINCE: Final = 13
"""The operator set since which operators in `ONE_AXIS` work along one axis."""
NORMALIZATIONS: Final[dict[tuple[str, int], Adapter]] = {
    **{(name, ONE_AXIS_SINCE): one_axis for name in sorted(ONE_AXIS)},
    ("BatchNormalization", 9): not_spatial,
    ("BatchNormalization", 14): not_training,
    ("GroupNormalization", 21): scale_of_channels,
}
"""By operator, and operator set that changes it."""
