from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol, runs
from xoptim.match.trace import Constant, Scalar

from ._lowering import _Lowering

_INDICES: Final = frozenset((TensorProto.INT32, TensorProto.INT64))


class LowerOneHotPattern(_Lowering):
    """OneHot(i, depth, [off, on]) → Where(Equal(i, [0, 1, ..., depth - 1]), on, off)

    What: compares the positions, along a new axis, with a constant row. Negative positions count
    from the end.
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
