"""The adapters of changed operators, and the judgement of each change."""

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import type_name
from xoptim.facts.schema import schema
from xoptim.facts.shapes import REDUCTIONS, Shape
from xoptim.opsets.call import ALLOWZERO_SINCE, Adapter, Call, Refused
from xoptim.opsets.changes import REFUSED, SAME_MEANING, additions, breaks, next_version, versions

_LOWEST: Final = float(np.finfo(np.float32).min)
_HIGHEST: Final = float(np.finfo(np.float32).max)


def integers_moved(*names: str) -> Adapter:
    """An adapter for lists of integers that became the operands after the first one.

    An empty list meant the same as no list for all these operators but Unsqueeze, and is left out.
    """

    def adapt(call: Call) -> None:
        for place, name in enumerate(names, 1):
            values = call.take(name)
            if values or (values is not None and call.op_type == "Unsqueeze"):
                call.set_input(place, call.integers(values, name))

    return adapt


def clip_bounds(call: Call) -> None:
    """Clip 11.

    A bound that is the end of the type of 32 bits is the default, and left out where it cannot
    matter.
    """
    bounds: tuple[tuple[int, str, float], ...] = ((1, "min", _LOWEST), (2, "max", _HIGHEST))
    for place, name, end in bounds:
        if name in call.attributes:
            value = call.take(name)
            if np.float32(value) != np.float32(end) or call.info().dtype != TensorProto.FLOAT:
                call.set_input(place, call.number(value, 0, name))


def pad_operands(call: Call) -> None:
    """Pad 11: ``pads`` and ``value`` became operands."""
    call.set_input(1, call.integers(call.take("pads"), "pads"))
    value = call.take("value")
    if value:
        call.set_input(2, call.number(value, 0, "value"))


def dropout_ratio(call: Call) -> None:
    """Dropout 12: the ratio became an operand.

    The mask of an inference became true everywhere, from false.
    """
    dropout_mask(call)
    if "ratio" in call.attributes:
        call.set_input(1, call.constant(call.take("ratio"), np.float32, "ratio"))


def dropout_mask(call: Call) -> None:
    """Dropout 10: the mask became Boolean, and is left out."""
    if call.is_result_read(1):
        raise Refused("its mask is read, which has other values in the newer set")
    del call.outputs[1:]


def sizes_of_parts(call: Call) -> None:
    """Split 18: equal parts are no longer meant where nothing is written.

    Their sizes are, and are computed where they are unknown: onnxruntime does not take their number
    for an empty axis.
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
"""By operator, and the operator set that defines it anew."""

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
"""Operator set since which shapes are aligned at their ends."""
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
"""Operators that could name operands to overwrite."""
_RENAMED_MODES: Final = {"bilinear": "linear", "bicubic": "cubic"}
_COORDINATES: Final = 11
"""Operator set in which Resize got attributes for the positions of pixels."""
_STASHED: Final = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


def not_in_place(call: Call) -> None:
    """The attribute that named operands to overwrite, which never changed a result, disappeared."""
    call.attributes.pop("consumed_inputs", None)


def constants_of_selu(call: Call) -> None:
    """Selu 6: the constants have more digits."""
    not_in_place(call)
    for name in ("alpha", "gamma"):
        call.attributes[name] = call.get(name)


def broadcast(call: Call) -> None:
    """Operators of two operands, 7: shapes are aligned at their ends.

    Before, at an axis that an attribute could name.
    """
    is_broadcast, axis = call.take("broadcast"), call.take("axis")
    if not is_broadcast or axis is None:
        return
    ranks = call.info(0).rank, call.info(1).rank
    if ranks[0] is None or ranks[1] is None:
        raise Refused("the rank of an operand is unknown, and an axis aligns them")
    after = ranks[0] - (axis + ranks[0] if axis < 0 else axis) - ranks[1]
    if after > 0:
        _append_axes(call, ranks[1], after)


def slopes_of_channels(call: Call) -> None:
    """PRelu 7: the slopes are aligned at the end of the shape.

    Before, they were one number, or one for each channel.
    """
    slopes, rank = call.info(1).shape, call.info(0).rank
    if slopes is None or rank is None:
        raise Refused(
            "the shape of an operand is unknown, and decides which slope belongs to an element"
        )
    if len(slopes) == 1 and slopes[0] != 1 and rank > 2:
        _append_axes(call, 1, rank - 2)


def _append_axes(call: Call, rank: int, count: int) -> None:
    """Append axes of length 1 to the second operand."""
    call.inputs[1] = call.make(
        "Unsqueeze", call.inputs[1:2], version=_ALIGNED_SINCE, axes=list(range(rank, rank + count))
    )


def only_in_test(call: Call) -> None:
    """BatchNormalization and Dropout 7: an attribute no longer distinguishes inference from
    training.
    """
    if not call.take("is_test"):
        raise Refused("it is a training step (is_test is 0)")


def named_type(call: Call) -> None:
    """Cast 6: the type is a number, not a name."""
    call.attributes["to"] = TensorProto.DataType.Value(str(call.get("to")).upper())


def whole_exponent(call: Call) -> None:
    """LpPool and GlobalLpPool 2: the exponent is an integer."""
    value = call.get("p")
    if value != int(value):
        raise Refused(f"the exponent {value} is not an integer")
    call.attributes["p"] = int(value)


def split_sizes(call: Call) -> None:
    """Split 2: the sizes became an attribute; the axis has a default."""
    if call.has_input(1):
        sizes = call.value(1)
        if sizes is None:
            raise Refused("its sizes are only known when the model runs")
        call.attributes["split"] = [int(size) for size in np.ravel(sizes)]
        del call.inputs[1:]
    call.attributes.setdefault("axis", 0)


def shape_moved(call: Call) -> None:
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
"""By operator, and the operator set that defines it anew."""


def upsample_renamed(call: Call) -> None:
    """Upsample 10: it is Resize. Its scales are 1 or more, so that ``nearest`` rounds down."""
    call.op_type = "Resize"
    if call.scratch.target >= _COORDINATES:
        _place_scales(call, call.inputs[1], "floor")
        call.version = _COORDINATES


def resize_coordinates(call: Call) -> None:
    """Resize 11: the positions of pixels, and the nearest one of them, became attributes with other
    defaults.

    Before, the coordinate of a pixel was its index divided by the scale. ``nearest`` took the pixel
    below where an axis grows and the pixel above where it shrinks, as onnxruntime computes it; ONNX
    leaves this open. One Resize rounds all axes in the same way, so scales of both kinds, or
    unknown ones, are applied by two: the axes that grow first.
    """
    scales = call.inputs[1]
    if call.get("mode") != "nearest":
        return _place_scales(call, scales, "")
    value = call.value(1)
    if value is not None and bool((value >= 1).all()):
        return _place_scales(call, scales, "floor")
    if value is None or not bool((value <= 1).all()):
        one, roi = call.constant([1.0], np.float32, "one"), call.constant([], np.float32, "roi")
        larger = [call.inputs[0], roi, call.make("Max", [scales, one])]
        call.inputs[0] = call.make(
            "Resize", larger, version=_COORDINATES, mode="nearest", **_meaning("floor")
        )
        scales = call.make("Min", [scales, one])
    return _place_scales(call, scales, "ceil")


def _place_scales(call: Call, scales: str, nearest: str) -> None:
    """Write a Resize of operator set 11 that has these scales, in the meaning of Upsample."""
    call.inputs[1:] = [call.constant([], np.float32, "roi"), scales]
    call.attributes.update(_meaning(nearest))


def _meaning(nearest: str) -> dict[str, str]:
    given = {"coordinate_transformation_mode": "asymmetric"}
    return {**given, "nearest_mode": nearest} if nearest else given


def resize_operands(call: Call) -> None:
    """Resize 13: the region and the scales are left out where they are empty.

    A mode of coordinates disappeared.
    """
    if call.get("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        raise Refused("the coordinates tf_half_pixel_for_nn exist no longer")
    for place in (1, 2):
        shape = call.info(place).shape
        value = call.value(place)
        if shape == (0,) or (value is not None and value.size == 0):
            call.inputs[place] = ""


def sample_modes(call: Call) -> None:
    """GridSample 20: the modes of interpolation have names for any number of axes."""
    mode = call.attributes.get("mode")
    if mode is not None:
        call.attributes["mode"] = _RENAMED_MODES.get(call.get("mode"), mode)


IMAGES: Final[dict[tuple[str, int], Adapter]] = {
    ("Upsample", 9): lambda call: call.set_input(
        1, call.constant(call.take("scales"), np.float32, "scales")
    ),
    ("Upsample", 10): upsample_renamed,
    ("Resize", 11): resize_coordinates,
    ("Resize", 13): resize_operands,
    ("GridSample", 20): sample_modes,
    # The positions of pixels became an attribute with another default.
    ("RoiAlign", 16): lambda call: call.attributes.update(
        coordinate_transformation_mode="output_half_pixel"
    ),
}
"""By operator, and the operator set that defines it anew."""


def one_axis(call: Call) -> None:
    """Softmax, LogSoftmax and Hardmax 13: they work along one axis.

    Before, they worked along ``axis`` and all axes after it, as if these were one. Where at most
    one of them is longer than 1, that is the axis. Elsewhere, the tensor is flattened first, and
    gets its shape back.
    """
    first = call.take("axis")
    shape = call.info().shape
    if first == -1:  # no axis follows, whatever the rank
        call.attributes["axis"] = -1
        return
    if shape is not None and -len(shape) <= first < len(shape):
        start = first % len(shape)
        long = [axis for axis in range(start, len(shape)) if shape[axis] != 1]
        if len(long) < 2:
            call.attributes["axis"] = long[0] if long else start
            return
    has_zeros = call.scratch.target >= ALLOWZERO_SINCE
    if not has_zeros and not _reshape_copies_zeros(shape, first):
        raise Refused(
            "an axis may be empty, which Reshape cannot write before operator set "
            f"{ALLOWZERO_SINCE}"
        )
    sizes = call.make("Shape", [call.inputs[0]])
    call.inputs[0] = call.make("Flatten", [call.inputs[0]], axis=first)
    call.attributes["axis"] = 1
    call.finish("Reshape", [sizes], **({"allowzero": 1} if has_zeros else {}))


def _reshape_copies_zeros(shape: Shape | None, first: int) -> bool:
    """Whether each size of 0 is 0 too at the same place of the flattened tensor, from which Reshape
    copies it.
    """
    if shape is None:
        return False
    start = first % len(shape) if shape else 0
    copied = {0: (1,), 1: (0, 1)}.get(start, (0,))
    return all(
        axis in copied or (isinstance(size, int) and size > 0) for axis, size in enumerate(shape)
    )


def not_spatial(call: Call) -> None:
    """BatchNormalization 9: statistics of each element, not of each channel, are computed by
    hand.
    """
    not_training(call)
    if call.take("spatial"):
        return
    x, scale, bias, mean, variance = call.inputs
    epsilon = call.number(call.take("epsilon"), 0, "epsilon")
    call.take("momentum")
    deviation = call.make("Sqrt", [call.make("Add", [variance, epsilon])])
    normal = call.make("Div", [call.make("Sub", [x, mean]), deviation])
    call.op_type, call.inputs = "Add", [call.make("Mul", [normal, scale]), bias]


def not_training(call: Call) -> None:
    """BatchNormalization 14: training became an attribute.

    Results that only training has were a sign of it before.
    """
    if any(call.outputs[1:]):
        raise Refused(
            "it is a training step (it has more than one result), which the newer set computes "
            "otherwise"
        )
    del call.outputs[1:]


def scale_of_channels(call: Call) -> None:
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
        of_groups = call.integers(groups, "groups")
        sizes = call.make(
            "Concat", [of_groups, call.make("Div", [call.size_of(1), of_groups])], axis=0
        )
    for place in (1, 2):
        table = call.make(
            "Expand",
            [call.make("Unsqueeze", [call.inputs[place], call.integers([1], "axes")]), sizes],
        )
        call.inputs[place] = call.make("Reshape", [table, call.integers([-1], "shape")])
    if info.dtype in _STASHED:
        call.attributes["stash_type"] = info.dtype


ONE_AXIS: Final = ("Softmax", "LogSoftmax", "Hardmax")
ONE_AXIS_SINCE: Final = 13
"""The operator set since which they work along one axis."""
NORMALIZATIONS: Final[dict[tuple[str, int], Adapter]] = {
    **{(name, ONE_AXIS_SINCE): one_axis for name in ONE_AXIS},
    ("BatchNormalization", 9): not_spatial,
    ("BatchNormalization", 14): not_training,
    ("GroupNormalization", 21): scale_of_channels,
}
"""By operator, and the operator set that defines it anew."""


def scatter_renamed(call: Call) -> None:
    """Scatter 11: it is ScatterElements."""
    call.op_type = "ScatterElements"


def fewer_types(call: Call) -> None:
    """An operator that lost element types, and did not change otherwise."""
    dtype, new = call.info().dtype, schema(call.op_type, "", call.scratch.target)
    if dtype and new is not None and f"tensor({type_name(dtype)})" not in new.inputs[0].types:
        raise Refused(f"it no longer takes elements of type {type_name(dtype)}")


ADAPTERS: Final[dict[tuple[str, int], Adapter]] = {
    **EARLY,
    **OPERANDS,
    **IMAGES,
    **NORMALIZATIONS,
    ("Scatter", 11): scatter_renamed,
    ("Erf", 13): fewer_types,
    ("ReduceLogSum", 28): fewer_types,
    ("ReduceLogSumExp", 28): fewer_types,
}
"""By operator, and the operator set that defines it anew."""


class Judgement(NamedTuple):
    """The effect of a change on calls of an operator: ``adapter`` changes them, ``refusal``
    excludes them, or neither.
    """

    adapter: Adapter | None = None
    refusal: str = ""


@cache
def judge(op_type: str, version: int) -> Judgement:
    """The judgement of the change of a standard operator that an operator set defines anew.

    A change without an adapter is accepted when the operator only got more element types, and its
    text is the same; or when every call stays valid and the change was reviewed.
    """
    step = (op_type, version)
    if step in ADAPTERS:
        return Judgement(ADAPTERS[step])
    broken = breaks(*step)
    if step in REFUSED:
        return Judgement(refusal=REFUSED[step])
    if broken:
        return Judgement(refusal=f"it lost {', '.join(broken)}, and there is no adapter for that")
    new = () if step in SAME_MEANING else additions(*step)
    return Judgement(
        refusal=f"it got another {', '.join(new)}, which has not been reviewed" if new else ""
    )


@cache
def is_unchanged(op_type: str, start: int, target: int) -> bool:
    """Whether all calls of an operator mean the same in two operator sets and all between them."""
    return all(
        judge(op_type, version) == Judgement()
        for version in versions(op_type)
        if start < version <= target
    )


def raised(call: Call) -> list[Call]:
    """The calls, in order, that compute the same as one call in the operator set to which its node
    is raised.

    Raises `Refused` when there are none; ``version`` is the operator set that changed the operator.
    """
    target = call.scratch.target
    while (version := next_version(call.op_type, call.version, target)) is not None:
        judgement = judge(call.op_type, version)
        if judgement.refusal:
            raise Refused(judgement.refusal, version)
        if judgement.adapter is not None:
            try:
                judgement.adapter(call)
            except Refused as refusal:
                raise Refused(str(refusal), refusal.version or version) from None
        call.version = max(call.version, version)
    while call.inputs and not call.inputs[-1]:
        call.inputs.pop()
    before, after = (
        [part for each in calls for part in raised(each)] for calls in (call.before, call.after)
    )
    return [*before, call, *after]
