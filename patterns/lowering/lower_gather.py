"""Selections of elements by Gather."""

from math import prod

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import product
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.trace import Constant

from .._nodes import size_along
from ._flat import element_coordinates, flat_positions, rows_of, strides_of
from ._lowering import _Lowering


class _LowerGather(_Lowering):
    """A selection of elements or rows, written by Gather along one axis."""

    exactness = "exact"


class LowerGatherElementsPattern(_LowerGather):
    """GatherElements(x, i) → Gather(Reshape(x), i · stride + place)

    What: joins all axes, and gathers the elements by their positions in the joined axis. The
    positions are constant if ``i`` is constant.
    Why: several providers have no kernel of GatherElements.
    Refuses when:
    1. a shape is not static, or a tensor is empty. Or the operands differ in rank.
    2. a constant position is out of range.
    """

    min_opset = 11
    derives = ("sizes", "result", "place", "positions")

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        return g.op.GatherElements(x, i, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        sizes, result = g.static_shape(m.x), g.static_shape(m.i)
        if not sizes or not result or not prod(sizes) or not prod(result):  # (1)
            return self.none(m.nodes[0], msg="a shape is not static, or has a dimension of size 0")
        if len(sizes) != len(result):  # (1)
            return self.none(m.nodes[0], msg="the operands differ in rank")
        axis, places = m.axis % len(sizes), g.get_computed_constant(m.i)
        if places is None:
            return m.derive(sizes=sizes, result=result, place=axis, positions=None)
        positions = flat_positions(element_coordinates(places, axis), sizes)
        if positions is None:  # (2)
            return self.none(m.nodes[0], msg="an index is out of range")
        return m.derive(sizes=sizes, result=result, place=axis, positions=positions)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        i: str,
        sizes: tuple[int, ...],
        result: tuple[int, ...],
        place: int,
        positions: np.ndarray | None,
    ) -> str:
        flat = g.op.Reshape(x, shape=[-1])
        if positions is not None:
            return g.op.Gather(flat, positions)
        # A negative index counts from the end of its axis, not of the joined axis.
        wide = g.op.Cast(i, to=TensorProto.INT64)
        counted = g.op.Where(g.op.Less(wide, 0), g.op.Add(wide, sizes[place]), wide)
        grid = element_coordinates(np.zeros(result, np.int64), place)
        offsets = np.asarray((grid * strides_of(sizes)).sum(axis=-1))
        scaled = g.op.Mul(counted, int(strides_of(sizes)[place]))
        return g.op.Gather(flat, g.op.Add(scaled, offsets))

    examples = Example.pairs(
        "agraph (float[2,3] x) => (float[2,2] y) <int64[2,2] i = {0, -1, 1, 1}> { "
        "y = GatherElements <axis = 1> (x, i) }",
        "<int64[1] s = {-1}, int64[2,2] p = {0, 2, 4, 4}> { t = Reshape(x, s) y = Gather(t, p) }",
        "agraph (float[2,3] x, int32[1,3] i) => (float[1,3] y) { y = GatherElements(x, i) }",
        "<int64[1] s = {-1}, int64 o = {0}, int64 n = {2}, int64 k = {3}, int64[1,3] q = {0, 1, "
        "2}> { t = Reshape(x, s) c = Cast <to = 7> (i) l = Less(c, o) e = Add(c, n) "
        "w = Where(l, e, c) m = Mul(w, k) a = Add(m, q) y = Gather(t, a) }",
        ranges=(("i", -2, 1),),
    )


class LowerGatherNDPattern(_LowerGather):
    """GatherND(x, i) → Gather(Reshape(x), positions)

    What: joins the axes that ``i`` indexes, and gathers rows by their positions in the joined axis.
    The positions are constant if ``i`` is constant. The same for com.microsoft.GatherND.
    Why: several providers have no kernel of GatherND.
    Refuses when:
    1. batch_dims is set.
    2. the indexed axes are not static, or their number is unknown. Or a Reshape to the rows needs
       sizes at run time.
    3. a constant position is out of range.
    """

    min_opset = 13
    derives = ("sizes", "target", "positions")

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        if g.option("microsoft"):
            return g.op.GatherND(x, i, domain="com.microsoft")
        return g.op.GatherND(x, i, batch_dims=0)  # (1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, indices = g.try_infer_shape(m.x), g.try_infer_shape(m.i)
        columns = indices[-1] if indices else None
        if shape is None or not isinstance(columns, int) or not columns:  # (2)
            return self.none(m.nodes[0], msg="the last dimension of the indices is unknown")
        target = rows_of(shape, columns)
        if target is None:  # (2)
            return self.none(m.nodes[0], msg="the indexed axes are not static")
        sizes = [size for size in shape[:columns] if isinstance(size, int)]
        places = g.get_computed_constant(m.i)
        if places is None:
            return m.derive(sizes=sizes, target=target, positions=None)
        positions = flat_positions(places, sizes)
        if positions is None:  # (3)
            return self.none(m.nodes[0], msg="an index is out of range")
        return m.derive(sizes=sizes, target=target, positions=positions)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        i: str,
        sizes: list[int],
        target: list[int],
        positions: np.ndarray | None,
    ) -> str:
        rows = x if len(sizes) == 1 else g.op.Reshape(x, shape=target)
        if positions is not None:
            return g.op.Gather(rows, positions)
        if len(sizes) == 1:
            return g.op.Gather(rows, g.op.Squeeze(i, axes=[-1]))
        if g.try_infer_type(i) != TensorProto.INT64:
            i = g.op.Cast(i, to=TensorProto.INT64)
        # A negative index counts from the end of its axis, not of the joined axis.
        ends = np.array(sizes, np.int64)
        counted = g.op.Where(g.op.Less(i, 0), g.op.Add(i, ends), i)
        scaled = g.op.Mul(counted, strides_of(sizes))
        return g.op.Gather(rows, g.op.ReduceSum(scaled, axes=[-1], keepdims=0))

    examples = Example.pairs(
        "agraph (float[2,3,n] x) => (float[2,n] y) <int64[2,2] i = {0, -1, 1, 1}> { "
        "y = GatherND(x, i) }",
        "<int64[2] s = {6, -1}, int64[2] p = {2, 4}> { t = Reshape(x, s) y = Gather(t, p) }",
        "agraph (float[2,3] x, int64[n,2] i) => (float[n] y) { y = GatherND(x, i) }",
        "<int64[1] s = {6}, int64 o = {0}, int64[2] n = {2, 3}, int64[2] k = {3, 1}, "
        "int64[1] l = {-1}> { t = Reshape(x, s) c = Less(i, o) e = Add(i, n) w = Where(c, e, i) "
        "m = Mul(w, k) a = ReduceSum <keepdims = 0> (m, l) y = Gather(t, a) }",
        "agraph (float[2,3] x, int32[n,2] i) => (float[n] y) { y = com.microsoft.GatherND(x, i) }",
        "<int64[1] s = {6}, int64 o = {0}, int64[2] n = {2, 3}, int64[2] k = {3, 1}, "
        "int64[1] l = {-1}> { t = Reshape(x, s) j = Cast <to = 7> (i) c = Less(j, o) "
        "e = Add(j, n) w = Where(c, e, j) m = Mul(w, k) a = ReduceSum <keepdims = 0> (m, l) "
        "y = Gather(t, a) }",
        "agraph (float[2,3] x, int64[n,1] i) => (float[n,3] y) { y = GatherND(x, i) }",
        "<int64[1] l = {-1}> { t = Squeeze(i, l) y = Gather(x, t) }",
        "agraph (float[2,n] x) => (float[2,n] y) <int64[2,1] i = {1, 0}> { "
        "y = com.microsoft.GatherND(x, i) }",
        "<int64[2] i = {1, 0}> { y = Gather(x, i) }",
        ranges=(("i", -2, 1),),
    )


class LowerCompressPattern(_LowerGather):
    """Compress(x, condition) → Gather(x, places)

    What: gathers the rows at which a constant condition is true. Without an axis, gathers elements
    of the flattened tensor.
    Why: several providers have no kernel of Compress.
    Refuses when:
    1. the condition is not constant, or never true.
    2. the axis is not static, or the condition is true after its end.
    """

    min_opset = 9
    derives = ("places",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, condition: Constant) -> Symbol:
        return g.op.Compress(x, condition, axis=g.capture("axis", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        condition = g.get_computed_constant(m.condition)
        if condition is None or not condition.any():  # (1)
            return self.none(m.nodes[0], msg="the condition is not constant, or never true")
        places, shape = np.flatnonzero(condition), g.try_infer_shape(m.x)
        if not shape:  # (2)
            return self.none(m.nodes[0], msg="the rank is unknown")
        length = product(shape) if m.axis is None else size_along(g, m.x, m.axis)
        if not isinstance(length, int) or places[-1] >= length:  # (2)
            return self.none(
                m.nodes[0], msg="the axis is not static, or shorter than the condition"
            )
        return m.derive(places=places)

    def apply_pattern(
        self, g: PatternRewriter, x: str, axis: int | None, places: np.ndarray
    ) -> str:
        if axis is None:
            return g.op.Gather(g.op.Reshape(x, shape=[-1]), places)
        return g.op.Gather(x, places, axis=axis)

    examples = Example.pairs(
        "agraph (float[n,4] x) => (float[n,2] y) <bool[4] c = {0, 1, 0, 1}> { "
        "y = Compress <axis = 1> (x, c) }",
        "<int64[2] i = {1, 3}> { y = Gather <axis = 1> (x, i) }",
        "agraph (float[2,2] x) => (float[2] y) <bool[3] c = {1, 0, 1}> { y = Compress(x, c) }",
        "<int64[1] s = {-1}, int64[2] i = {0, 2}> { t = Reshape(x, s) y = Gather(t, i) }",
    )


class LowerArrayFeatureExtractorPattern(_LowerGather):
    """ai.onnx.ml.ArrayFeatureExtractor(x, i) → Gather(x, i, axis=-1)

    What: gathers elements of the last axis. A vector becomes a matrix with one row.
    Why: only CPU providers run operators of traditional models.
    Refuses when:
    1. the rank is unknown, or 0.
    """

    min_opset = 5
    derives = ("rank", "places", "flat")

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        return g.op.ArrayFeatureExtractor(x, i, domain="ai.onnx.ml")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank
        if not rank:  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown")
        places = g.get_computed_constant(m.i)
        return m.derive(rank=rank, places=places, flat=g.info(m.i).rank == 1)

    def apply_pattern(
        self, g: PatternRewriter, x: str, i: str, rank: int, places: np.ndarray | None, flat: bool
    ) -> str:
        index: str | np.ndarray = i
        if places is not None:
            index = places.reshape(-1)
        elif not flat:
            index = g.op.Reshape(i, shape=[-1])
        result = g.op.Gather(x, index, axis=rank - 1)
        return g.op.Unsqueeze(result, axes=[0]) if rank == 1 else result

    examples = Example.pairs(
        "agraph (float[n,4] x) => (float[n,1] y) <int64[1] i = {3}> { "
        "y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }",
        "<int64[1] i = {3}> { y = Gather <axis = 1> (x, i) }",
        "agraph (int64[5] x, int64[n,1] i) => (int64[1,n] y) { "
        "y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }",
        "<int64[1] s = {-1}, int64[1] o = {0}> { t = Reshape(i, s) u = Gather(x, t) "
        "y = Unsqueeze(u, o) }",
        ranges=(("i", 0, 4),),
    )
