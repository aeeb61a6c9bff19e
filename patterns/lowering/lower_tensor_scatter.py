from functools import reduce
from typing import Any

import numpy as np

from xoptim.facts.shapes import Shape, normalized
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._lowering import _Lowering


class LowerTensorScatterPattern(_Lowering):
    """TensorScatter(cache, update, start) → ScatterND(cache, places, update)

    What: computes the indices of the updates along all axes up to the axis of the sequence. The
    start of each sequence in the batch is added to its positions. In a circular cache, Mod brings
    positions after the end back to the beginning.
    Why: few runtimes have the operator, which writes KV caches of fixed length since operator set
    24.
    Refuses when:
    1. the rank is unknown, or the axis is the first one.
    2. a dimension between batch and sequence is unknown, or the length of a circular cache is.
    """

    exactness = "exact"
    min_opset = 24
    derives = ("shape", "length")

    def match_pattern(
        self, g: PatternBuilder, cache: Symbol, update: Symbol, start: Optional
    ) -> Symbol:
        return g.op.TensorScatter(
            *(cache, update, start),
            axis=g.capture("axis", optional=True),
            mode=g.capture("mode", optional=True),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, cache = g.try_infer_shape(m.update), g.try_infer_shape(m.cache)
        axis = None if shape is None else normalized(-2 if m.axis is None else m.axis, len(shape))
        if shape is None or not axis or cache is None:  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown, or the axis is the batch axis")
        inner = [*shape[1:axis], *([cache[axis]] if m.mode == "circular" else [])]
        if not all(isinstance(size, int) for size in inner):  # (2)
            return self.none(m.nodes[0], msg="a dimension before the sequence axis is unknown")
        return m.derive(shape=shape[: axis + 1], length=inner[-1] if m.mode == "circular" else 0)

    def apply_pattern(
        self, g: PatternRewriter, cache: str, update: str, start: str, shape: Shape, length: int
    ) -> str:
        count = len(shape)
        terms: list[Any] = [_positions(g, update, shape, axis) for axis in range(count)]
        if start:
            column = g.op.Reshape(start, np.array([-1, *[1] * count], np.int64))
            terms.append(g.op.Mul(column, np.eye(count, dtype=np.int64)[-1]))
        # All constant terms are added ahead of time.
        constants = [term for term in terms if isinstance(term, np.ndarray)]
        computed: list[Any] = [term for term in terms if isinstance(term, str)]
        constant_sum = [reduce(np.add, constants)] if constants else []
        places = reduce(g.op.Add, computed + constant_sum)
        if length:
            sizes = np.array([*[np.iinfo(np.int64).max] * (count - 1), length], np.int64)
            places = g.op.Mod(places, sizes)
        return g.op.ScatterND(cache, places, update)

    examples = Example.pairs(
        "agraph (float[2,3,8,4] c, float[2,3,2,4] u, int64[2] i) => (float[2,3,8,4] y) "
        "{ y = TensorScatter(c, u, i) }",
        "<int64[4] s = {-1, 1, 1, 1}, int64[3] e = {0, 0, 1}, int64[2,3,2,3] p = {0, 0, 0, 0, 0, "
        "1, 0, 1, 0, 0, 1, 1, 0, 2, 0, 0, 2, 1, 1, 0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 2, 0, 1, 2, "
        "1}> { r = Reshape(i, s) m = Mul(r, e) q = Add(m, p) y = ScatterND(c, q, u) }",
        "agraph (float[b,8,4] c, float[b,n,4] u, int64[b] i) => (float[b,8,4] y) "
        '{ y = TensorScatter <mode = "circular"> (c, u, i) }',
        "<int64 o = {0}, int64 l = {1}, int64[3] s = {-1, 1, 1}, int64[3] t = {1, -1, 1}, "
        "int64[2] e = {1, 0}, int64[2] f = {0, 1}, int64[2] k = {9223372036854775807, 8}> "
        "{ b1 = Shape <start = 0, end = 1> (u) b2 = Squeeze(b1) b3 = Range(o, b2, l) "
        "b4 = Reshape(b3, s) b5 = Mul(b4, e) n1 = Shape <start = 1, end = 2> (u) n2 = Squeeze(n1) "
        "n3 = Range(o, n2, l) n4 = Reshape(n3, t) n5 = Mul(n4, f) r = Reshape(i, s) m = Mul(r, f) "
        "p = Add(b5, n5) q = Add(p, m) v = Mod(q, k) y = ScatterND(c, v, u) }",
        opset=24,
        ranges=(("i", 0, 2),),
    )


def _positions(g: PatternRewriter, update: str, shape: Shape, axis: int) -> np.ndarray | str:
    """The positions along an axis, as component ``axis`` of vectors along a new last axis."""
    unit = np.eye(len(shape), dtype=np.int64)[axis]
    target = [1] * (len(shape) + 1)
    target[axis] = -1
    size = shape[axis]
    if isinstance(size, int):
        return np.arange(size).reshape(target) * unit
    length = g.op.Squeeze(g.op.Shape(update, start=axis, end=axis + 1))
    counted = g.op.Range(np.array(0), length, np.array(1))
    return str(g.op.Mul(g.op.Reshape(counted, np.array(target, np.int64)), unit))
