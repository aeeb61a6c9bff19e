"""Operators that return their operand unchanged, because of their constants or attributes."""

import math
from typing import ClassVar

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import is_float, is_integer, numpy_dtype
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.trace import ANY, Constant, Optional, Symbol

from .._deductions import keeps_shape
from .._folding import constant
from .._nodes import axis_of, is_op, size_along
from .._selections import far


class _IdentityOperator(EasyPatternOptimization):
    """An operator that returns its operand ``x``.

    Why: saves a copy of the tensor.
    """

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x


class BatchNormalizationPattern(_IdentityOperator):
    """BatchNormalization(x, scale, bias, mean, variance) → x if the parameters are neutral

    What: drops a normalization in inference mode that multiplies by 1 and adds 0.
    Refuses when:
    1. the mean or the bias is not 0, or the scale or variance + epsilon is not 1. (The sum is
       rounded to the type of the parameters.)
    """

    exactness = "rounding"  # -0 + 0 is 0
    min_opset = 7

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Constant, o: Constant, m: Constant, v: Constant
    ) -> Symbol:
        return g.op.BatchNormalization(x, s, o, m, v, epsilon=g.capture("epsilon"), momentum=ANY)

    @np.errstate(all="ignore")  # parameters that are not finite fail the comparisons
    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        scale, bias, mean, variance = (constant(g, name) for name in (m.s, m.o, m.m, m.v))
        # In the type of the parameters, rounding may drop a small epsilon.
        inexact = (variance + variance.dtype.type(m.epsilon)).astype(scale.dtype) != 1
        changes = (scale != 1).any() or bias.any() or mean.any() or inexact.any()
        return not changes or self.none(m.nodes[0], msg="the parameters change the values")  # (1)

    examples = Example.only(
        "agraph (float[n,2] x) => (float[n,2] y) <float[2] s = {1, 1}, float[2] o = {0, 0}, "
        "float[2] m = {0, 0}, float[2] v = {1, 1}> { "
        "t = BatchNormalization <epsilon = 1e-9> (x, s, o, m, v) y = Relu(t) }",
        "{ y = Relu(x) }",
    )


class CastPattern(_IdentityOperator):
    """Cast(x, to=type of x) → x

    What: drops a cast that changes nothing.
    Refuses when:
    1. the type of x is unknown or another one.
    2. the result is a float16 output, and another Cast reads x: onnxruntime's CPU provider rounds
       to float16 before an output, but not before a Cast.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Cast(x, to=g.capture("to"), attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        cast = m.nodes[0]
        if g.try_infer_type(m.x) != m.to:  # (1)
            return self.none(cast, msg="the types differ or are unknown")
        casts = [node for node in g.next_nodes(m.x) if is_op(node, "Cast") and node is not cast]
        is_rounded = m.to == TensorProto.FLOAT16 and g.is_output(cast.output[0]) and bool(casts)
        # (2)
        return not is_rounded or self.none(cast, msg="x would be rounded before another Cast")

    examples = Example.only(
        "agraph (float[a] x) => (float[a] y) { t = Cast <to = 1> (x) y = Relu(t) }",
        "{ y = Relu(x) }",
    )


class DropoutPattern(_IdentityOperator):
    """Dropout(x) in inference mode → x

    What: removes a Dropout that drops nothing.
    Refuses when:
    1. it may be in training mode: training_mode is an operand that is not constant false, and the
       ratio is not 0.
    2. another node reads the mask (checked by the engine, since the mask would be missing).
    """

    min_opset = 7

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, ratio: Optional, training: Optional
    ) -> Symbol:
        # The pattern does not return the mask (2). Before operator set 12, there is no
        # training_mode.
        return g.op.Dropout(x, ratio, training, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        is_off = (
            not m.training
            or g.get_constant_scalar(m.training) is False
            or g.get_constant_scalar(m.ratio) == 0
        )
        return is_off or self.none(m.nodes[0], msg="the Dropout may be in training mode")  # (1)

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) { t = Dropout <ratio = 0.3> (x) y = Relu(t) }",
            "{ y = Relu(x) }",
            opset=10,
        ),
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <float r = {0.5}, bool m = {0}> { "
            "t = Dropout(x, r, m) y = Relu(t) }",
            "{ y = Relu(x) }",
        ),
        Example(
            "agraph (float[a,b] x, bool mode) => (float[a,b] y) <float r = {0}> { "
            "t = Dropout(x, r, mode) y = Relu(t) }",
            "{ y = Relu(x) }",
        ),
    )


class IdentityClipPattern(_IdentityOperator):
    """Clip(x) between the limits of its type → x

    What: drops a Clip whose bounds include all values of the type.
    Refuses when:
    1. the type is unknown, or a bound is inside the range of the type or not constant.
    2. a bound of floats is absent: the default is the largest finite number, which clips infinity.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Clip(
            x, min=g.capture("low", optional=True), max=g.capture("high", optional=True)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        dtype = g.try_infer_type(m.x)
        if is_float(dtype):
            if m.low == -math.inf and m.high == math.inf:
                return True
            return self.none(m.nodes[0], msg="a bound is finite or missing")  # (1) (2)
        limits = np.iinfo(numpy_dtype(dtype)) if is_integer(dtype) else None
        spans = limits is not None and m.low in (None, limits.min) and m.high in (None, limits.max)
        # (1)
        return spans or self.none(m.nodes[0], msg="a bound is inside the range of the type")

    examples = Example.only(
        "agraph (int64[a,b] x) => (int64[a,b] y) { t = Clip(x) y = Neg(t) }", "{ y = Neg(x) }"
    )


class IdentityGatherPattern(_IdentityOperator):
    """Gather(x, 0, 1, ..., n - 1) → x, and Gather(x, Range(0, n, 1)) → x, if the axis has size n

    What: drops a Gather that takes all indices of an axis in order.
    Why: saves a copy of the tensor, slice by slice.
    Refuses when:
    1. the size of the axis is not known to be the number of indices, or these are not a vector.
    2. the indices are not 0, 1, 2, ...
    """

    interior = "keep"
    former_names = ("RangeGather",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        indices = g.op.Range(0, g.symbol(), 1) if g.option("counted") else g.constant("indices")
        return g.op.Gather(x, indices, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # Sizes are compared first, because reading the indices takes longer.
        node, name = m.nodes[-1], m.nodes[-1].input[1]
        size = size_along(g, m.x, axis_of(g, node))
        # A model may declare the names of x for a shorter Range.
        count = g.infer(m.nodes[0])[0].shape if m.counted else g.try_infer_shape(name)
        if size is None or count != (size,):  # (1)
            return self.none(
                node, msg="the number of indices is not known to be the size of the axis"
            )
        indices = None if m.counted else g.get_computed_constant(name)
        in_order = m.counted or (
            indices is not None and np.array_equal(indices, np.arange(len(indices)))
        )
        return in_order or self.none(node, msg="the indices are not 0, 1, 2, ...")  # (2)

    examples = Example.pairs(
        "agraph (float[a,3] x) => (float[a,3] y) <int64[3] i = {0, 1, 2}> { "
        "t = Gather <axis = -1> (x, i) y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[3,16] x) => (float[3,16] y) <int64[3] i = {0, 1, 2}> { t = Gather(x, i) "
        "y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a,b] x, bool[b] z) => (float[a,b] y) <int64 i = {0}, int64 j = {1}> "
        "{ n = Size(z) r = Range(i, n, j) t = Gather <axis = -1> (x, r) y = Neg(t) }",
        "{ y = Neg(x) }",
    )


class IdentityPadPattern(_IdentityOperator):
    """Pad(x, zeros) → x

    What: drops a Pad that adds nothing, in any mode.
    Refuses when:
    1. a pad is not 0 or not constant. (An equal shape is not enough: a negative pad at one end may
       cancel a positive pad at the other end.)
    """

    min_opset = 2

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        # (1)
        return g.op.Pad(x, pads=lambda pads: pads is not None and not any(pads), attributes=ANY)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <int64[4] p = {0, 0, 0, 0}> { t = Pad(x, p) "
        "y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a,b] x) => (float[a,b] y) <int64[2] p = {0, 0}, float v = {1.5}, int64[1]"
        ' axes = {-1}> { t = Pad <mode = "reflect"> (x, p, v, axes) y = Relu(t) }',
        "{ y = Relu(x) }",
    )


class IdentityResizePattern(_IdentityOperator):
    """Resize(x) or Upsample(x) by scales of 1 → x

    What: drops a Resize that keeps the size.
    Why: saves a copy of the tensor, or an interpolation.
    Refuses when:
    1. a scale is not 1 or not constant, or the sizes are not known to be those of x.
    2. the Resize crops (tf_crop_and_resize): the result may be a magnified part of x.
    """

    min_opset = 7

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, first: Optional, scales: Optional, sizes: Optional
    ) -> Symbol:
        # Upsample, and Resize before operator set 11, have scales as an attribute or as the second
        # operand. Since operator set 11, roi is the second operand.
        if g.option("resize"):
            return g.op.Resize(x, first, scales, sizes, attributes=ANY)
        return g.op.Upsample(x, first, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # If there are sizes, onnxruntime ignores the scales.
        node = m.nodes[0]
        if g.get_attribute(node, "coordinate_transformation_mode") == "tf_crop_and_resize":  # (2)
            return self.none(node, msg="the Resize crops (tf_crop_and_resize)")
        if m.sizes:
            # (1)
            return keeps_shape(g, node) or self.none(node, msg="the sizes differ or are unknown")
        name = m.scales if m.resize and node.opset >= 11 else m.first
        scales = g.get_computed_constant(name) if name else node.attribute.get("scales")
        keeps = scales is not None and np.size(scales) and np.all(np.equal(scales, 1))
        return bool(keeps) or self.none(node, msg="the scales are not 1, or unknown")  # (1)

    examples = (
        Example(
            "agraph (float[1,2,a,b] x) => (float[1,2,a,b] y) <float[4] s = {1, 1, 1, 1}> "
            '{ t = Resize <mode = "linear"> (x, , s) y = Relu(t) }',
            "{ y = Relu(x) }",
        ),
        Example(
            "agraph (float[1,2,a,b] x) => (float[1,2,a,b] y) <float[4] s = {1, 1, 1, 1}> { "
            "t = Upsample(x, s) y = Relu(t) }",
            "{ y = Relu(x) }",
            opset=9,
        ),
    )


class IdentitySlicePattern(_IdentityOperator):
    """Slice(x) from the first to the last index → x

    What: drops a Slice with steps of 1 whose bounds include complete axes, or whose result has the
    shape of x.
    Why: saves a copy of the tensor, and the nodes that compute the bounds become unused.
    Refuses when:
    1. a step is not known to be 1: a reversed axis also keeps its size.
    2. the Slice may drop elements: a bound is inside an axis, and the shape changes or is unknown.
    """

    former_names = ("ShapeBasedSlice",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Slice(x, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        starts, ends, steps = (
            g.get_argument(m.nodes[0], name) for name in ("starts", "ends", "steps")
        )
        # (1)
        if steps is not None and not (isinstance(steps, list) and all(step == 1 for step in steps)):
            return self.none(m.nodes[0], msg="the steps are not known to be 1")
        are_constant = isinstance(starts, list) and isinstance(ends, list)
        everything = (
            are_constant
            and all(s == 0 or s <= -far(g) for s in starts)
            and all(e >= far(g) for e in ends)
        )
        # (2)
        return (
            everything
            or keeps_shape(g, m.nodes[0])
            or self.none(m.nodes[0], msg="the Slice may drop elements")
        )

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <int64[1] s = {0}, "
        "int64[1] e = {9223372036854775807}, int64[1] axes = {-1}, int64[1] one = {1}> { "
        "t = Slice(x, s, e, axes, one) y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a,3] x) => (float[a,3] y) <int64[1] s = {-3}, int64[1] e = {3}, "
        "int64[1] axes = {1}> { t = Slice(x, s, e, axes) y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a,b] x) => (float[a,b] y) <int64[1] zero = {0}, int64[1] one = {1}> "
        "{ d = Shape(x) n = Gather(d, one) s = Slice(x, zero, n, one) y = Neg(s) }",
        "{ y = Neg(x) }",
    )


class IdentityTilePattern(_IdentityOperator):
    """Tile(x, ones) → x

    What: drops a Tile that repeats nothing.
    Refuses when:
    1. a number of repetitions is not 1 or not constant.
    """

    min_opset = 6

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        # (1) For a tensor of rank 0, repeats is empty.
        return g.op.Tile(x, g.constant("repeats", lambda repeats: (repeats == 1).all()))

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) <int64[2] r = {1, 1}> { t = Tile(x, r) "
        "y = Relu(t) }",
        "{ y = Relu(x) }",
    )


class IdentityTransposePattern(_IdentityOperator):
    """Transpose(x) with all axes in order → x

    What: drops a Transpose that moves no axis.
    Refuses when:
    1. an axis moves. Or perm is absent, and its default is unknown, because the rank is unknown.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        # (1)
        return g.op.Transpose(
            x, perm=lambda perm: perm is not None and perm == list(range(len(perm)))
        )

    examples = Example.pairs(
        "agraph (float[a,b,c] x) => (float[a,b,c] y) { t = Transpose <perm = [0, 1, 2]> (x) "
        "y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a] x) => (float[a] y) { t = Transpose(x) y = Relu(t) }",
        "{ y = Relu(x) }",
    )


class SplitOnePattern(_IdentityOperator):
    """Split(x) with a single output → x

    What: drops a Split that does not split.
    Refuses when:
    1. there are other outputs, even unread ones: the first output is then not all of x.
    """

    min_opset = 2

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Split(x, attributes=ANY)  # with or without sizes: a single output is all of x

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        alone = len(node.output) == node.attribute.get("num_outputs", 1) == 1
        return alone or self.none(node, msg="the Split has several outputs")  # (1)

    examples = (
        Example(
            "agraph (float[a,4] x) => (float[a,4] y) { t = Split <axis = 1, num_outputs = 1> (x) "
            "y = Relu(t) }",
            "{ y = Relu(x) }",
        ),
        Example(
            "agraph (float[a,4] x) => (float[a,4] y) <int64[1] n = {4}> { "
            "t = Split <axis = 1> (x, n) y = Relu(t) }",
            "{ y = Relu(x) }",
            opset=13,
        ),
    )


class _OneOperand(_IdentityOperator):
    """One of the `operators`, with a single operand.

    Refuses when:
    1. there are several operands.
    """

    operators: ClassVar[tuple[str, ...]]

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return getattr(g.op, g.choice("operator", *self.operators))(x, attributes=ANY)  # (1)


class ConcatOnePattern(_OneOperand):
    """Concat(x) → x

    What: drops a Concat with a single operand.
    """

    operators = ("Concat",)

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) { t = Concat <axis = -1> (x) y = Relu(t) }",
        "{ y = Relu(x) }",
    )


class VariadicOnePattern(_OneOperand):
    """Sum(x), Mean(x), Max(x) or Min(x) → x

    What: drops a variadic operator with a single operand.
    """

    operators = ("Sum", "Max", "Min", "Mean")

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { t = Sum(x) y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a,b] x) => (float[a,b] y) { t = Min(x) y = Relu(t) }",
        "{ y = Relu(x) }",
    )
