"""Two movements of elements as one."""

import math

import numpy as np

from xoptim.facts.shapes import normalized
from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._deductions import moved_zeros
from .._nodes import permutation
from .._shapes import reshape_target


class _MovementPair(EasyPatternOptimization):
    """Two operators that move elements, of which one is left."""


class TransposeReshapePattern(_MovementPair):
    """Transpose(x) that moves axes of size 1 only → Reshape(x)

    What: the elements stay in their order.
    Why: a Reshape may share the memory of its operand. Measured 0.75 to 0.89 of the time where the
    tensor is large, and as fast where it is small. It runs last, so that patterns that recognize
    layouts match the Transpose.
    Refuses when:
    1. another axis is moved, or the shape is not known.
    2. the target of the Reshape would have to be computed.
    3. two axes are not known: onnxruntime infers no length next to an empty axis, which Transpose
       allows.
    4. the provider has no kernel for the type, such as integers of 4 bits.
    """

    phase = "target"
    priority = 9
    min_opset = 5
    kernels = {"Reshape": "x"}  # (4)
    derives = ("target",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Transpose(x, perm=g.capture("perm", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, perm = g.try_infer_shape(m.x), permutation(g, m.nodes[0])
        # (1) an axis may be repeated by mistake
        if shape is None or perm is None or sorted(perm) != [*range(len(shape))]:
            return self.none(m.nodes[0], msg="the shape is unknown, or the axes are not valid")
        kept = [axis for axis in perm if shape[axis] != 1]
        if kept != sorted(kept):  # (1)
            return self.none(m.nodes[0], msg="the Transpose moves axes that may be larger than 1")
        target = reshape_target(g, shape, tuple(shape[axis] for axis in perm))
        if target is None:  # (2)
            return self.none(m.nodes[0], msg="the shape of the result is computed at run time")
        if -1 in target and 0 in target:  # (3)
            return self.none(
                m.nodes[0], msg="a dimension may be 0 next to a -1 in the target shape"
            )
        return m.derive(target=np.array(target, dtype=np.int64))

    def apply_pattern(self, g: PatternRewriter, x: str, target: np.ndarray) -> str:
        return g.op.Reshape(x, target)

    examples = Example.pairs(
        "agraph (float[1,n] x) => (float[n,1] y) { y = Transpose(x) }",
        "<int64[2] s = {-1, 1}> { y = Reshape(x, s) }",
        "agraph (float[b,1,3,4] x) => (float[b,3,1,4] y) { "
        "y = Transpose <perm = [0, 2, 1, 3]> (x) }",
        "<int64[4] s = {0, 3, 1, 4}> { y = Reshape(x, s) }",
    )


class ReshapeFlattenPattern(_MovementPair):
    """Flatten(Reshape(x, shape), axis) → Reshape(x, two numbers)

    What: reshapes to the matrix at once.
    Why: one node less.
    Refuses when:
    1. the target is not constant, or the axis is out of range.
    2. neither the rows nor the columns are given by positive numbers.
    """

    min_opset = 5
    derives = ("target",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Constant) -> Symbol:
        return g.op.Flatten(g.op.Reshape(x, shape), axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        target = g.get_ints(m.shape) or []
        axis = m.axis if m.axis == len(target) else normalized(m.axis, len(target))
        if axis is None:  # (1)
            return self.none(
                m.nodes[1], msg="the target shape is unknown, or the axis is out of range"
            )
        parts = [
            -1 if any(size <= 0 for size in part) else math.prod(part)
            for part in (target[:axis], target[axis:])
        ]
        if parts == [-1, -1]:  # (2)
            return self.none(m.nodes[1], msg="neither the rows nor the columns are static")
        return m.derive(target=np.array(parts, dtype=np.int64))

    def apply_pattern(self, g: PatternRewriter, x: str, target: np.ndarray) -> str:
        return g.op.Reshape(x, target)

    examples = Example.only(
        "agraph (float[a,24] x) => (float[a,24] y) <int64[3] s = {0, 4, 6}> { t = Reshape(x, s) "
        "y = Flatten(t) }",
        "<int64[2] s = {-1, 24}> { y = Reshape(x, s) }",
    )


class ReshapeSqueezePattern(_MovementPair):
    """Squeeze(Reshape(x, shape)) or Unsqueeze(Reshape(x, shape)) → Reshape(x, shape with those axes
    taken out or put in)

    What: reshapes to the final shape at once.
    Why: one node less.
    Refuses when:
    1. the target or the axes are not constant, there are none, or one is out of range.
    2. an axis that is taken out is not a 1 in the target.
    3. a 0 would move to a place where it copies another size.
    """

    min_opset = 5
    derives = ("target",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Constant) -> Symbol:
        middle = g.op.Reshape(x, shape)
        if g.option("squeeze"):
            return g.op.Squeeze(middle, axes=g.capture("axes"))
        return g.op.Unsqueeze(middle, axes=g.capture("axes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        target: list[int | None] = [*(g.get_ints(m.shape) or ())]
        rank = len(target) + (0 if m.squeeze else len(m.axes))
        axes = {normalized(axis, rank) for axis in m.axes}
        if None in axes or not axes or not target or len(axes) < len(m.axes):  # (1)
            return self.none(m.nodes[1], msg="the axes are missing or out of range")
        if m.squeeze and any(target[axis] != 1 for axis in axes if axis is not None):  # (2)
            return self.none(m.nodes[1], msg="an axis is not known to have size 1")
        rest = iter(range(len(target)))
        if m.squeeze:
            places: list[int | None] = [axis for axis in rest if axis not in axes]
        else:
            places = [None if axis in axes else next(rest) for axis in range(rank)]
        edited = moved_zeros(
            g.try_infer_shape(m.x),
            [(1, None) if p is None else (target[p] or 0, p) for p in places],
        )
        if edited is None:  # (3)
            return self.none(m.nodes[1], msg="a 0 in the target shape would copy another dimension")
        return m.derive(target=np.array(edited, dtype=np.int64))

    def apply_pattern(self, g: PatternRewriter, x: str, target: np.ndarray) -> str:
        return g.op.Reshape(x, target)

    examples = Example.pairs(
        "agraph (float[a,6] x) => (float[a,2,3] y) <int64[4] s = {0, 2, 1, 3}, "
        "int64[1] axes = {-2}> { t = Reshape(x, s) y = Squeeze(t, axes) }",
        "<int64[3] s = {0, 2, 3}> { y = Reshape(x, s) }",
        "agraph (float[a,6] x) => (float[1,b,3] y) <int64[2] s = {-1, 3}, int64[1] axes = {0}> "
        "{ t = Reshape(x, s) y = Unsqueeze(t, axes) }",
        "<int64[3] s = {1, -1, 3}> { y = Reshape(x, s) }",
    )
