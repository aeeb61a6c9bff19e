from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Scalar, Symbol

from ._lowering import _Lowering, narrowed, widened

_MAX_LENGTH = 1 << 12
"""Maximum length of the axis. A row of this length takes twelve steps of several nodes each."""


class LowerCumSumPattern(_Lowering):
    """CumSum(x) → s = x + shifted(x, 1), t = s + shifted(s, 2), t + shifted(t, 4), ...

    What: adds rows that are shifted by 1, 2, 4, ... elements: ten steps for a row of 1000. A MatMul
    with a triangular matrix would spread NaN and infinity over the row.
    Why: several providers have no kernel of CumSum.
    Refuses when:
    1. the axis is not constant or not static, or longer than 4096.
    2. the type is unknown.
    """

    min_opset = 13
    derives = ("place", "rank", "length", "dtype")

    def match_pattern(self, g: PatternBuilder, x: Symbol, axis: Scalar) -> Symbol:
        return g.op.CumSum(x, axis, exclusive=g.capture("exclusive"), reverse=g.capture("reverse"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, axis = g.try_infer_shape(m.x), g.get_constant_scalar(m.axis)
        if not shape or not isinstance(axis, int):  # (1)
            return self.none(m.nodes[0], msg="the rank or the axis is unknown")
        length = shape[axis % len(shape)]
        if not isinstance(length, int) or not 1 <= length <= _MAX_LENGTH:  # (1)
            return self.none(m.nodes[0], msg="the axis is not static, or longer than 4096")
        dtype = g.try_infer_type(m.x)
        if not dtype:  # (2)
            return self.none(m.nodes[0], msg="the type is unknown")
        return m.derive(place=axis % len(shape), rank=len(shape), length=length, dtype=dtype)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        place: int,
        rank: int,
        length: int,
        dtype: int,
        exclusive: int,
        reverse: int,
    ) -> str:
        def shifted(row: str, distance: int) -> str:
            starts, ends = (distance, length) if reverse else (0, length - distance)
            part = g.op.Slice(row, starts=[starts], ends=[ends], axes=[place])
            pads = [0] * 2 * rank
            pads[place + rank * bool(reverse)] = distance
            return g.op.Pad(part, pads=pads)

        result = widened(g, x, dtype)
        if exclusive:
            result = shifted(result, 1)
        distance = 1
        while distance < length:
            result = g.op.Add(result, shifted(result, distance))
            distance *= 2
        return narrowed(g, result, dtype)

    examples = Example.pairs(
        "agraph (float[n,4] x) => (float[n,4] y) <int64 a = {-1}> { y = CumSum(x, a) }",
        "<int64[1] o = {0}, int64[1] k = {1}, int64[1] e = {3}, int64[1] f = {2}, "
        "int64[4] p = {0, 1, 0, 0}, int64[4] q = {0, 2, 0, 0}> { s = Slice(x, o, e, k) "
        "t = Pad(s, p) u = Add(x, t) v = Slice(u, o, f, k) w = Pad(v, q) y = Add(u, w) }",
        "agraph (int64[2,n] x) => (int64[2,n] y) <int64 a = {0}> { "
        "y = CumSum <exclusive = 1, reverse = 1> (x, a) }",
        "<int64[1] o = {0}, int64[1] k = {1}, int64[1] e = {2}, int64[4] p = {0, 0, 1, 0}> "
        "{ r = Slice(x, k, e, o) m = Pad(r, p) s = Slice(m, k, e, o) t = Pad(s, p) y = Add(m, t) }",
    )
