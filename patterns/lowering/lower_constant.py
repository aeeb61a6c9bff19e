"""Operators whose positions are constants."""

from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol, runs
from xoptim.match.trace import Constant, Optional, Scalar

from ._lowering import _Lowering

_LARGEST = 1 << 20
"""Most elements of the constant."""
_INDICES: Final = frozenset((TensorProto.INT32, TensorProto.INT64))


class _LowerConstant(_Lowering):
    """An operator that compares positions, which follow from shapes."""


class LowerEyeLikePattern(_LowerConstant):
    """EyeLike(x) → constant

    What: writes the matrix, which depends on the shape of ``x`` alone.
    Why: several providers have no kernel of EyeLike.
    Refuses when:
    1. the shape is not static, or the matrix has more than a million elements.
    2. the type is unknown.
    """

    exactness = "exact"
    min_opset = 9
    derives = ("matrix",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.EyeLike(x, k=g.capture("k"), dtype=g.capture("dtype", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.static_shape(m.x)
        if shape is None or len(shape) != 2 or shape[0] * shape[1] > _LARGEST:  # (1)
            return self.none(m.nodes[0], msg="the shape is not static, or is large")
        dtype = m.dtype or g.try_infer_type(m.x)
        if not dtype:  # (2)
            return self.none(m.nodes[0], msg="the type is unknown")
        return m.derive(matrix=np.eye(*shape, m.k).astype(numpy_dtype(dtype)))

    def apply_pattern(self, g: PatternRewriter, matrix: np.ndarray) -> str:
        return g.make_initializer("eye", matrix)

    examples = Example.pairs(
        "agraph (float[2,3] x) => (float[2,3] y) { t = EyeLike <k = 1> (x) y = Add(x, t) }",
        "<float[2,3] t = {0, 1, 0, 0, 0, 1}> { y = Add(x, t) }",
        "agraph (float[2,2] x, int64[2] z) => (int64[2,2] y) { t = EyeLike <dtype = 7> (x) "
        "y = Mul(t, z) }",
        "<int64[2,2] t = {1, 0, 0, 1}> { y = Mul(t, z) }",
    )


class LowerTriluPattern(_LowerConstant):
    """Trilu(x, k) → Where(mask, x, 0)

    What: selects the triangle, also of com.microsoft.Trilu, with a constant mask. A product with it
    would keep NaN outside of the triangle.
    Why: several providers have no kernel of Trilu.
    Refuses when:
    1. the last two axes are not static, or the diagonal is not constant.
    2. the type is unknown, or the provider has no kernel of Where for it.
    """

    exactness = "rounding"
    min_opset = 14
    derives = ("mask", "zero")

    def match_pattern(self, g: PatternBuilder, x: Symbol, k: Optional) -> Symbol:
        domain = g.choice("domain", "", "com.microsoft")
        return g.op.Trilu(x, k, upper=g.capture("upper"), domain=domain)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, diagonal = g.try_infer_shape(m.x), g.get_constant_scalar(m.k) if m.k else 0
        if shape is None or len(shape) < 2 or not isinstance(diagonal, int):  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown, or the diagonal is not constant")
        rows, columns = shape[-2:]
        if not isinstance(rows, int) or not isinstance(columns, int):  # (1)
            return self.none(m.nodes[0], msg="the last two axes are not static")
        dtype = g.try_infer_type(m.x)
        if not dtype or not runs(g, "Where", m.x):  # (2)
            return self.none(m.nodes[0], msg="no kernel of Where for this element type")
        distances = np.arange(columns)[None, :] - np.arange(rows)[:, None]
        mask = distances >= diagonal if m.upper else distances <= diagonal
        return m.derive(mask=mask, zero=np.zeros((), numpy_dtype(dtype)))

    def apply_pattern(self, g: PatternRewriter, x: str, mask: np.ndarray, zero: np.ndarray) -> str:
        return g.op.Where(mask, x, zero)

    examples = Example.pairs(
        "agraph (float[n,2,3] x) => (float[n,2,3] y) { y = Trilu(x) }",
        "<bool[2,3] m = {1, 1, 1, 0, 1, 1}, float o = {0}> { y = Where(m, x, o) }",
        "agraph (int64[2,2] x) => (int64[2,2] y) <int64 k = {-1}> { y = Trilu <upper = 0> (x, k) }",
        "<bool[2,2] m = {0, 0, 1, 0}, int64 o = {0}> { y = Where(m, x, o) }",
        "agraph (float[n,2,2] x) => (float[n,2,2] y) { y = com.microsoft.Trilu <upper = 0> (x) }",
        "<bool[2,2] m = {1, 0, 1, 1}, float o = {0}> { y = Where(m, x, o) }",
        "agraph (float16[n,2,2] x) => (float16[n,2,2] y) <int64 k = {1}> { y = Trilu(x, k) }",
        "<bool[2,2] m = {0, 1, 0, 0}, float16 o = {0}> { y = Where(m, x, o) }",
    )


class LowerOneHotPattern(_LowerConstant):
    """OneHot(i, depth, [off, on]) → Where(Equal(i, [0, 1, ..., depth - 1]), on, off)

    What: compares the positions, along a new axis, with a constant row; negative ones count from
    the end.
    Why: several providers have no kernel of OneHot.
    Refuses when:
    1. the depth or the two values are not constants.
    2. the positions are not integers of 32 or 64 bits, or their rank is unknown.
    3. the provider has no kernel of Where for the values.
    """

    exactness = "rounding"
    min_opset = 11
    operand_types = {"i": _INDICES}  # (2)
    derives = ("place", "row", "off", "on")

    def match_pattern(self, g: PatternBuilder, i: Symbol, depth: Scalar, both: Constant) -> Symbol:
        return g.op.OneHot(i, depth, both, axis=g.capture("axis"))  # (1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank, length = g.info(m.i).rank, g.get_constant_scalar(m.depth)
        pair = g.get_computed_constant(m.both)
        # (1) (2)
        if rank is None or length is None or int(length) < 1 or pair is None or pair.size != 2:
            return self.none(m.nodes[0], msg="the rank, the depth or the values are unknown")
        if not runs(g, "Where", m.both):  # (3)
            return self.none(m.nodes[0], msg="no kernel of Where for the values")
        place = m.axis % (rank + 1)
        row = np.arange(int(length), dtype=numpy_dtype(g.try_infer_type(m.i)))
        return m.derive(
            place=place, row=row.reshape(-1, *[1] * (rank - place)), off=pair[0], on=pair[1]
        )

    def apply_pattern(
        self,
        g: PatternRewriter,
        i: str,
        place: int,
        row: np.ndarray,
        off: np.generic,
        on: np.generic,
    ) -> str:
        counted = g.op.Where(g.op.Less(i, 0), g.op.Add(i, row.size), i)
        is_there = g.op.Equal(g.op.Unsqueeze(counted, axes=[place]), row)
        return g.op.Where(is_there, np.asarray(on), np.asarray(off))

    _counted = "l = Less(i, o) a = Add(i, n) w = Where(l, a, i) u = Unsqueeze(w, k) e = Equal(u, r)"
    examples = Example.pairs(
        "agraph (int64[n] i) => (float[n,3] y) <int64 d = {3}, float[2] v = {0, 1}> { "
        "y = OneHot(i, d, v) }",
        "<int64 o = {0}, int64 n = {3}, int64[1] k = {1}, int64[3] r = {0, 1, 2}, float p = {1}, "
        f"float q = {{0}}> {{ {_counted} y = Where(e, p, q) }}",
        "agraph (int64[n,2] i) => (int64[n,3,2] y) <int64[1] d = {3}, int64[2] v = {5, -1}> "
        "{ y = OneHot <axis = 1> (i, d, v) }",
        "<int64 o = {0}, int64 n = {3}, int64[1] k = {1}, int64[3,1] r = {0, 1, 2}, "
        f"int64 p = {{-1}}, int64 q = {{5}}> {{ {_counted} y = Where(e, p, q) }}",
        ranges=(("i", -3, 2),),
    )


class LowerScatterRowPattern(_LowerConstant):
    """ScatterND(x, i, row) → Where(Equal([0, 1, ...], i), row, x)

    What: selects the row at a position that is computed at run time, such as the next one of a
    cache; a negative one counts from the end.
    Why: several providers have no kernel of ScatterND.
    Refuses when:
    1. there is more than one row, or one of the sizes is not known.
    2. the type is unknown, or the provider has no kernel of Where for it.
    3. the numbers are added or otherwise combined with the old ones.
    """

    exactness = "rounding"
    min_opset = 16
    priority = 1
    derives = ("rows",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol, row: Symbol) -> Symbol:
        return g.op.ScatterND(x, i, row, reduction="none")  # (3)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, length = g.try_infer_shape(m.x), None
        if shape:
            length = shape[0]
        is_one = g.try_infer_shape(m.i) == (1, 1)
        if shape is None or not is_one or not isinstance(length, int) or not length:  # (1)
            return self.none(m.nodes[0], msg="the update is not one row, or a dimension is unknown")
        if g.try_infer_shape(m.row) != (1, *shape[1:]):  # (1)
            return self.none(m.nodes[0], msg="the update is not one row, or a dimension is unknown")
        if not g.try_infer_type(m.x) or not runs(g, "Where", m.x):  # (2)
            return self.none(m.nodes[0], msg="no kernel of Where for this element type")
        rows = np.arange(length).reshape([-1] + [1] * (len(shape) - 1))
        return m.derive(rows=rows)

    def apply_pattern(self, g: PatternRewriter, x: str, i: str, row: str, rows: np.ndarray) -> str:
        place = g.op.Reshape(i, shape=[1])
        counted = g.op.Where(g.op.Less(place, 0), g.op.Add(place, len(rows)), place)
        return g.op.Where(g.op.Equal(rows, counted), row, x)

    examples = Example.pairs(
        "agraph (float[3,n] x, int64[1,1] i, float[1,n] r) => (float[3,n] y) { "
        "y = ScatterND(x, i, r) }",
        "<int64[1] s = {1}, int64 o = {0}, int64 l = {3}, int64[3,1] a = {0, 1, 2}> { "
        "p = Reshape(i, s) b = Less(p, o) c = Add(p, l) w = Where(b, c, p) e = Equal(a, w) "
        "y = Where(e, r, x) }",
        ranges=(("i", -3, 2),),
    )
