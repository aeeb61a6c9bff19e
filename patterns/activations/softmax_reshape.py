import math
from typing import Final

from onnx import TensorProto

from xoptim.facts.dims import is_nonzero
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._shapes import reshape_target

_MIN_ELEMENTS: Final = 512
"""Minimum number of elements: for smaller tensors, the rewrite is not faster."""
_ASSUMED_SIZE: Final = 16
"""Size that is assumed for a dynamic dimension."""


class SoftmaxReshapePattern(EasyPatternOptimization):
    """Softmax(x, axis=1), two axes after it → Reshape(Softmax(Reshape(x, [0, 0, -1]), axis=1)). The
    same for LogSoftmax.

    What: merges the axes after the axis of the Softmax.
    Why: onnxruntime's CPU kernel first moves the axis to the end. If several axes follow, this move
    takes ten times as long as the Softmax. Measured 0.12 to 0.35 of the time in segmentation and
    detection models.
    Refuses when:
    1. fewer than two axes follow, or all of them have size 1.
    2. the shape is unknown. Or a dimension up to the axis may be 0, and a dimension after the axis
       is dynamic. Or two dimensions after the axis are dynamic, before operator set 14.
    3. the tensor is small: the two Reshapes take more time than the Softmax saves.
    4. the type is not float32: in float64, NaN and infinities in x changed other results.
    """

    phase = "target"
    min_opset = 13
    providers = ("cpu",)
    operand_types = {"x": {TensorProto.FLOAT}}  # (4)
    derives = ("operator", "softmax_axis", "there", "back")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        # Before operator set 13, Softmax normalizes over all axes from ``axis`` on.
        axis = g.capture("axis", optional=True)
        return g.either(
            lambda: g.op.Softmax(x, axis=axis),
            lambda: g.op.LogSoftmax(x, axis=axis),
            name="logarithm",
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        softmax, shape = m.nodes[0], g.try_infer_shape(m.x)
        if not shape:  # (2)
            return self.none(softmax, msg="the rank is unknown or 0")
        axis = (-1 if m.axis is None else m.axis) % len(shape)
        following = shape[axis + 1 :]
        if len(following) < 2 or all(dim == 1 for dim in following):  # (1)
            return self.none(softmax, msg="fewer than two axes follow, or all of them have size 1")
        if (
            math.prod(dim if isinstance(dim, int) else _ASSUMED_SIZE for dim in shape)
            < _MIN_ELEMENTS
        ):  # (3)
            return self.none(softmax, msg="the tensor is too small for a gain")
        merged = (*shape[: axis + 1], math.prod(following[1:], start=following[0]))
        there, back = reshape_target(g, shape, merged), reshape_target(g, merged, shape)
        is_ambiguous = there is None or (
            -1 in there and not all(map(is_nonzero, shape[: axis + 1]))
        )
        if is_ambiguous or (back is None and softmax.opset < 14):
            # (2)
            return self.none(
                softmax, msg="a dimension may be 0, or two are unknown, which needs opset 14"
            )
        return m.derive(operator=softmax.op_type, softmax_axis=axis, there=there, back=back)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        operator: str,
        softmax_axis: int,
        there: list[int],
        back: list[int] | None,
    ) -> str:
        # If no constant target exists, Shape reads the dimensions from the operand.
        y = getattr(g.op, operator)(g.op.Reshape(x, there), axis=softmax_axis)
        return str(
            g.op.Reshape(y, g.op.Shape(x), allowzero=1) if back is None else g.op.Reshape(y, back)
        )

    _known, _unknown = "float[n,3,16,16]", "float[2,3,h,w]"
    examples = Example.pairs(
        f"agraph ({_known} x) => ({_known} y) {{ y = Softmax <axis = 1> (x) }}",
        "<int64[3] s = {0, 3, 256}, int64[4] t = {0, 3, 16, 16}> { a = Reshape(x, s) "
        "b = Softmax <axis = 1> (a) y = Reshape(b, t) }",
        f"agraph ({_unknown} x) => ({_unknown} y) {{ y = LogSoftmax <axis = -3> (x) }}",
        "<int64[3] s = {2, 3, -1}> { a = Reshape(x, s) b = LogSoftmax <axis = 1> (a) t = Shape(x) "
        "y = Reshape <allowzero = 1> (b, t) }",
    )
