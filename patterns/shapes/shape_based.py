"""Operators that known shapes make simpler."""

import numpy as np

from xoptim.facts.dims import is_nonzero
from xoptim.facts.shapes import broadcast_shapes
from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._deductions import reshapes_as_inferred
from .._shapes import expand_target, inserted_ones, reshape_target, same_dims

_END = np.iinfo(np.int64).max


class _ShapeBased(EasyPatternOptimization):
    """An operator with operands whose shapes are known."""


class ShapeBasedExpandPattern(_ShapeBased):
    """Expand(x, computed shape) → Expand(x, constant), or x

    What: writes 1 where the size of x stays, and the number where it is stretched; drops an Expand
    that stretches nothing.
    Why: the chain that computes the shape is left without a reader.
    Refuses when:
    1. a shape is unknown, or an axis is stretched to a size that is not a number.
    2. the shape is constant already and something is stretched.
    """

    min_opset = 8
    derives = ("target",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Symbol) -> Symbol:
        return g.op.Expand(x, shape)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        source, result = g.try_infer_shape(m.x), g.try_infer_shape(m.outputs[0])
        if same_dims(source, result):
            return m.derive(target=None)
        if g.is_constant(m.shape):  # (2)
            return self.none(m.nodes[0], msg="the shape is constant already")
        target = None if source is None or result is None else expand_target(source, result)
        if target is None:  # (1)
            return self.none(
                m.nodes[0],
                msg=lambda: f"a shape is unknown, or {source} expands to dynamic {result}",
            )
        return m.derive(target=target)

    def apply_pattern(self, g: PatternRewriter, x: str, target: list[int] | None) -> str:
        return x if target is None else g.op.Expand(x, np.array(target, dtype=np.int64))

    examples = Example.pairs(
        "agraph (float[batch,2,1,seq] x) => (float[batch,2,4,seq] y) <int64[2] n = {2, 4}> { "
        "b = Shape <end = 1> (x) s = Shape <start = 3> (x) t = Concat <axis = 0> (b, n, s) "
        "y = Expand(x, t) }",
        "<int64[4] t = {1, 1, 4, 1}> { y = Expand(x, t) }",
        "agraph (float[a,b] x) => (float[a,b] y) { s = Shape(x) e = Expand(x, s) y = Neg(e) }",
        "{ y = Neg(x) }",
    )


class ShapeBasedExpandBroadcastMatMulPattern(_ShapeBased):
    """MatMul(Expand(a), b) → MatMul(a, b), on either side

    What: the MatMul broadcasts the batch axes itself.
    Why: saves a copy of the operand for each matrix of the batch.
    Refuses when:
    1. a shape is unknown, or an operand is a vector, so that its axis is not a batch axis.
    2. the two axes of the matrix are stretched too.
    3. the other operand may not give the batch its shape, or may have an empty batch axis:
       onnxruntime does not broadcast it.
    """

    interior = "keep"
    min_opset = 8

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, shape: Symbol) -> Symbol:
        return (
            g.op.MatMul(g.op.Expand(a, shape), b)
            if g.option("left")
            else g.op.MatMul(a, g.op.Expand(b, shape))
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        matmul = m.nodes[-1]
        a, b, result = (
            g.try_infer_shape(m.a),
            g.try_infer_shape(m.b),
            g.try_infer_shape(matmul.output[0]),
        )
        if a is None or b is None or result is None or min(len(a), len(b)) < 2:  # (1)
            return self.none(matmul, msg="a shape is unknown, or an operand is a vector")
        stretched = g.try_infer_shape(m.nodes[0].output[0])
        if stretched is None or stretched[-2:] != (a if m.left else b)[-2:]:  # (2)
            return self.none(matmul, msg="the last two axes are expanded as well")
        batch = broadcast_shapes(a[:-2], b[:-2])
        fits = same_dims(batch, result[:-2]) and all(map(is_nonzero, batch or ()))
        # (3)
        return fits or self.none(
            matmul, msg="the other operand may not have the batch shape, or it may be 0"
        )

    def apply_pattern(self, g: PatternRewriter, a: str, b: str) -> str:
        return g.op.MatMul(a, b)

    examples = Example.only(
        "agraph (float[1,3,2] a, float[5,2,m] b) => (float[5,3,m] y) <int64[3] s = {5, 3, 2}> "
        "{ e = Expand(a, s) y = MatMul(e, b) }",
        "{ y = MatMul(a, b) }",
    )


class ShapeBasedReshapePattern(_ShapeBased):
    """Reshape(x, computed shape) → Reshape(x, constant), or Unsqueeze, or Squeeze

    What: writes sizes that are numbers as numbers, sizes of x in the same place as 0, and at most
    one other as -1. Where more sizes are unknown, but only axes of size 1 are added or removed,
    writes Unsqueeze or Squeeze.
    Why: the chain of Shape, Gather, Concat and similar operators that computes the shape is left
    without a reader.
    Refuses when:
    1. the shape is constant already.
    2. a shape is unknown, or two sizes are neither numbers nor copied.
    3. -1 would come next to a copied size that may be 0 at run time, because onnxruntime cannot
       solve for it then.
    4. a computed size may be 0 at run time: it would copy another size of x in its place.
    """

    min_opset = 5
    derives = ("target", "more", "fewer")

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Symbol) -> Symbol:
        # ``allowzero`` is ignored: the inferred shape of the result covers it
        return g.op.Reshape(x, shape, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if g.is_constant(m.shape):  # (1)
            return self.none(m.nodes[0], msg="the shape is constant already")
        if not reshapes_as_inferred(g, m.nodes[0]):  # (4)
            return self.none(
                m.nodes[0], msg="the target shape may contain a 0, which copies an input dimension"
            )
        # A declared shape is not enough: it may follow from a default that a caller overrides.
        source, result = g.try_infer_shape(m.x), g.infer(m.nodes[0])[0].shape
        if source is None or result is None:  # (2)
            return self.none(m.nodes[0], msg="a shape is unknown")
        target = reshape_target(
            g,
            source,
            result,
            [i for i, size in enumerate(g.info(m.shape).data or ()) if size == -1],
        )
        more, fewer = inserted_ones(source, result), inserted_ones(result, source)
        if target is None and more is None and fewer is None:  # (2) (3)
            return self.none(
                m.nodes[0], msg=lambda: f"a constant shape cannot express {result} for {source}"
            )
        return m.derive(target=target, more=more, fewer=fewer)

    def apply_pattern(
        self, g: PatternRewriter, x: str, target: list[int], more: list[int], fewer: list[int]
    ) -> str:
        if target is not None:
            return g.op.Reshape(x, np.array(target, dtype=np.int64))
        return g.op.Squeeze(x, axes=fewer) if more is None else g.op.Unsqueeze(x, axes=more)

    examples = Example.pairs(
        "agraph (float[batch,seq,6] x) => (float[batch,seq,2,3] y) <int64[2] heads = {2, 3}> "
        "{ s = Shape <end = 2> (x) t = Concat <axis = 0> (s, heads) y = Reshape(x, t) }",
        "<int64[4] t = {0, 0, 2, 3}> { y = Reshape(x, t) }",
        "agraph (float[a,b] x) => (float[c] y) { s = Shape <start = 0, end = 1> (x) "
        "u = Shape <start = 1, end = 2> (x) t = Mul(s, u) y = Reshape(x, t) }",
        "<int64[1] t = {-1}> { y = Reshape(x, t) }",
    )


class ShapeBasedSliceEndPattern(_ShapeBased):
    """Slice(x, start, size of x) → Slice(x, start, end)

    What: writes the largest integer, which means the end, where the end is computed from the shape
    of x.
    Why: the chain that computes it is left without a reader.
    Refuses when:
    1. the ends are constant already, or not all known to be numbers or the size of their axis.
    2. the axes are not constant, or a step is not known to be positive.
    """

    min_opset = 10
    derives = ("last",)

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        starts: Symbol,
        ends: Symbol,
        axes: Optional,
        steps: Optional,
    ) -> Symbol:
        return g.op.Slice(x, starts, ends, axes, steps)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, ends = g.try_infer_shape(m.x), g.info(m.ends).data
        # (1)
        if shape is None or ends is None or g.is_constant(m.ends) or g.try_infer_type(m.ends) != 7:
            return self.none(m.nodes[0], msg="the ends are constant already, or unknown")
        axes = g.get_ints(m.axes) if m.axes else list(range(len(ends)))
        steps = g.get_ints(m.steps) if m.steps else [1]
        if axes is None or steps is None or len(axes) != len(ends) or min(steps) < 1:  # (2)
            return self.none(
                m.nodes[0], msg="the axes are unknown, or a step is not known to be positive"
            )
        whole = [end == shape[axis] for end, axis in zip(ends, axes, strict=True)]
        if not all(w or isinstance(end, int) for w, end in zip(whole, ends, strict=True)):  # (1)
            return self.none(m.nodes[0], msg="an end is neither a number nor the size of its axis")
        return m.derive(last=[_END if w else end for w, end in zip(whole, ends, strict=True)])

    def apply_pattern(
        self, g: PatternRewriter, x: str, starts: str, last: list[int], axes: str, steps: str
    ) -> str:
        return g.op.Slice(x, starts, np.array(last, dtype=np.int64), axes, steps)

    examples = Example.only(
        "agraph (float[a,b] x, bool[b] z) => (float[a,c] y) <int64[1] one = {1}, int64[1] k = {0}> "
        "{ n = Size(z) e = Unsqueeze(n, k) y = Slice(x, one, e, one) }",
        "<int64[1] one = {1}, int64[1] e = {9223372036854775807}> { y = Slice(x, one, e, one) }",
    )
