"""A Gather and the movement before or after it."""

import numpy as np

from xoptim.match import (
    ANY,
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Scalar,
    Symbol,
)

from .._deductions import reshapes_as_inferred
from .._folding import constant
from .._nodes import axis_of
from .._shapes import same_dims


class _GatherPair(EasyPatternOptimization):
    """A Gather next to another operator that moves elements."""


class GatherGatherPattern(_GatherPair):
    """Gather(Gather(x, i), j) → Gather(x, i[j]) for constant i and j on one axis

    What: looks the positions up ahead of time.
    Why: saves a copy.
    Refuses when:
    1. the axes differ, or cannot be compared because the rank is unknown.
    2. i is not a vector, or j points outside of it.
    """

    derives = ("indices",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Constant, j: Constant) -> Symbol:
        return g.op.Gather(g.op.Gather(x, i, axis=g.capture("axis")), j, axis=g.capture("other"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank, first, second = (
            g.info(m.x).rank,
            g.get_computed_constant(m.i),
            g.get_computed_constant(m.j),
        )
        if m.axis != m.other and (not rank or m.axis % rank != m.other % rank):  # (1)
            return self.none(m.nodes[1], msg="the axes differ")
        if first is None or second is None or first.ndim != 1:  # (2)
            return self.none(m.nodes[0], msg="the first indices are not a vector")
        if ((second < -first.size) | (second >= first.size)).any():
            return self.none(m.nodes[1], msg="an index is out of range")
        return m.derive(indices=first[second])

    def apply_pattern(self, g: PatternRewriter, x: str, axis: int, indices: object) -> str:
        return g.op.Gather(x, indices, axis=axis)

    examples = Example.only(
        "agraph (float[a,5] x) => (float[a] y) <int64[2] i = {4, 1}, int64 j = {-2}> "
        "{ t = Gather <axis = 1> (x, i) y = Gather <axis = 1> (t, j) }",
        "<int64 i = {4}> { y = Gather <axis = 1> (x, i) }",
    )


class TransposeGatherPattern(_GatherPair):
    """Gather(Transpose(x), i, axis=k) → Gather(x, i, axis=...)

    What: takes the same positions of x, if the remaining axes are then in order.
    Why: the Transpose copies the whole tensor, and only a part is read.
    Refuses when:
    1. the rank of the indices is unknown, or it is not 0 and the axis is at another place in x.
    2. the axes that remain are in another order than in x.
    """

    interior = "keep"
    derives = ("place",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, indices: Symbol) -> Symbol:
        return g.op.Gather(
            g.op.Transpose(x, perm=g.capture("perm")), indices, axis=g.capture("axis")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        axis, rank = m.axis % len(m.perm), g.info(m.indices).rank
        remaining = [place for position, place in enumerate(m.perm) if position != axis]
        if rank is None or (rank and m.perm[axis] != axis):  # (1)
            return self.none(m.nodes[1], msg="the Transpose moves the axis of the Gather")
        if remaining != sorted(remaining):  # (2)
            return self.none(m.nodes[0], msg="the Transpose reorders the axes that remain")
        return m.derive(place=m.perm[axis])

    def apply_pattern(self, g: PatternRewriter, x: str, indices: str, place: int) -> str:
        return g.op.Gather(x, indices, axis=place)

    examples = Example.only(
        "agraph (float[a,b,3,c] x) => (float[a,b,c] y) <int64 i = {1}> "
        "{ t = Transpose <perm = [2, 0, 1, 3]> (x) y = Gather <axis = 0> (t, i) }",
        "<int64 i = {1}> { y = Gather <axis = 2> (x, i) }",
    )


class GatherSqueezePattern(_GatherPair):
    """Gather(x, 0, axis=k) → Squeeze(x, k), when the axis has size 1

    What: removes the axis, since it has only one position.
    Why: Squeeze needs no copy, and cancels an Unsqueeze that often follows.
    Refuses when:
    1. the index is not a constant scalar of rank 0, 0 or -1.
    2. the size of the axis is not known to be 1.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, index: Scalar) -> Symbol:
        return g.op.Gather(x, index, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.x)
        if g.info(m.index).rank != 0 or g.get_constant_scalar(m.index) not in (0, -1):  # (1)
            return self.none(m.nodes[0], msg="the index is not the scalar 0")
        fits = shape is not None and -len(shape) <= m.axis < len(shape) and shape[m.axis] == 1
        return fits or self.none(m.nodes[0], msg="the axis is not known to have size 1")  # (2)

    def apply_pattern(self, g: PatternRewriter, x: str, axis: int) -> str:
        return g.op.Squeeze(x, axes=[axis])

    examples = Example.only(
        "agraph (float[a,1] x) => (float[a] y) <int64 i = {0}> { y = Gather <axis = -1> (x, i) }",
        "<int64[1] k = {-1}> { y = Squeeze(x, k) }",
    )


class GatherUnsqueezePattern(_GatherPair):
    """Unsqueeze(Gather(x, i, axis=k), axes=k) → Gather(x, [i], axis=k)

    What: indices of rank 1 keep the axis.
    Why: one node less.
    Refuses when:
    1. the index is not a constant scalar of rank 0.
    2. another axis is put back, or the axes cannot be compared because the rank is unknown.
    """

    derives = ("vector",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, index: Scalar) -> Symbol:
        return g.op.Unsqueeze(g.op.Gather(x, index, axis=g.capture("axis")), axes=g.capture("axes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank
        if g.info(m.index).rank != 0:  # (1)
            return self.none(m.nodes[0], msg="the index is not a scalar (rank 0)")
        # (2)
        if (
            not rank
            or not isinstance(m.axes, list)
            or [axis % rank for axis in m.axes] != [m.axis % rank]
        ):
            return self.none(m.nodes[1], msg="the Unsqueeze adds another axis")
        return m.derive(vector=np.atleast_1d(constant(g, m.index)))

    def apply_pattern(self, g: PatternRewriter, x: str, vector: np.ndarray, axis: int) -> str:
        return g.op.Gather(x, vector, axis=axis)

    examples = Example.only(
        "agraph (float[a,3,b] x) => (float[a,1,b] y) <int64 i = {-1}, int64[1] k = {1}> "
        "{ t = Gather <axis = -2> (x, i) y = Unsqueeze(t, k) }",
        "<int64[1] i = {-1}> { y = Gather <axis = -2> (x, i) }",
    )


class GatherVectorSqueezePattern(_GatherPair):
    """Squeeze(Gather(x, Unsqueeze(i), axis=k), k) → Gather(x, i, axis=k)

    What: gives the position as a number; where a Squeeze leaves one of the axes of i, it leaves
    none.
    Why: one or two nodes less; experts of a model are chosen this way.
    Refuses when:
    1. the rank of x or the position is unknown, or the position is not a vector of one element.
    2. another axis is taken out.
    """

    derives = ("rank",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        above = g.op.Unsqueeze if g.option("unsqueezed") else g.op.Squeeze
        return g.op.Squeeze(
            g.op.Gather(x, above(i, axes=g.capture("axes")), axis=g.capture("axis")),
            axes=g.capture("dropped"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank, shape = g.info(m.x).rank, g.try_infer_shape(m.i)
        if not rank or shape is None or g.try_infer_shape(m.nodes[0].output[0]) != (1,):  # (1)
            return self.none(
                m.nodes[1], msg="the indices are not a vector of one element, or a rank is unknown"
            )
        if [axis % rank for axis in m.dropped] != [axis_of(g, m.nodes[1])]:  # (2)
            return self.none(m.nodes[2], msg="the Squeeze removes another axis")
        return m.derive(rank=len(shape))

    def apply_pattern(self, g: PatternRewriter, x: str, i: str, axis: int, rank: int) -> str:
        return g.op.Gather(x, g.op.Squeeze(i, axes=list(range(rank))) if rank else i, axis=axis)

    _start = "agraph (float[a,9,b] x, int64[1,1] i) => (float[a,b] y) "
    examples = Example.pairs(
        "agraph (float[a,9,b] x, int64 i) => (float[a,b] y) <int64[1] o = {0}, int64[1] k = {1}> "
        "{ u = Unsqueeze(i, o) g = Gather <axis = 1> (x, u) y = Squeeze(g, k) }",
        "{ y = Gather <axis = 1> (x, i) }",
        _start
        + "<int64[1] o = {0}, int64[1] k = {1}> { u = Squeeze(i, o) g = Gather <axis = 1> (x, u) y"
        " = Squeeze(g, k) }",
        _start + "<int64[2] o = {0, 1}> { u = Squeeze(i, o) y = Gather <axis = 1> (x, u) }",
        ranges=(("i", 0, 8),),
    )


class UnsqueezeGatherReshapePattern(_GatherPair):
    """Reshape(Gather(Unsqueeze(x), i)) → Gather(x, i), the same for Squeeze

    What: takes the positions of the tensor without the new axes.
    Why: two nodes less; torch writes ``x[None, i]`` this way, and the tokens of the experts of a
    model.
    Refuses when:
    1. a shape is unknown, or the positions are taken along a new axis.
    2. the result is not known to have the shape of the new Gather, whatever the sizes are at run
       time.
    """

    interior = "keep"
    min_opset = 5
    derives = ("place",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol, target: Symbol) -> Symbol:
        taken = g.op.Gather(g.op.Unsqueeze(x, axes=g.capture("axes")), i, axis=g.capture("axis"))
        if g.option("squeezed"):
            return g.op.Squeeze(taken, axes=g.capture("dropped"))
        return g.op.Reshape(taken, target, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        x, i, wide = (
            g.try_infer_shape(m.x),
            g.try_infer_shape(m.i),
            g.try_infer_shape(m.nodes[0].output[0]),
        )
        # (1)
        if (
            x is None
            or i is None
            or wide is None
            or m.axis % len(wide) in {axis % len(wide) for axis in m.axes}
        ):
            return self.none(
                m.nodes[1], msg="a shape is unknown, or the Gather is along a new axis"
            )
        place = m.axis % len(wide)
        place -= sum(axis % len(wide) < place for axis in m.axes)
        shape = (*x[:place], *i, *x[place + 1 :])
        # (2)
        if not same_dims(shape, g.try_infer_shape(m.outputs[0])) or not reshapes_as_inferred(
            g, m.nodes[2]
        ):
            return self.none(m.nodes[2], msg="the result has another shape")
        return m.derive(place=place)

    def apply_pattern(self, g: PatternRewriter, x: str, i: str, place: int) -> str:
        return g.op.Gather(x, i, axis=place)

    examples = Example.only(
        "agraph (float[9,4] x, int64[n] i) "
        "=> (float[n,4] y) <int64[1] k = {0}, int64[2] t = {-1, 4}> { u = Unsqueeze(x, k) "
        "g = Gather <axis = 1> (u, i) y = Reshape(g, t) }",
        "{ y = Gather <axis = 0> (x, i) }",
        ranges=(("i", 0, 8),),
    )
