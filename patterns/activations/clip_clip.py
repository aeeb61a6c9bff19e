import ml_dtypes
import numpy as np

from xoptim.facts.dtypes import is_float, is_integer, numpy_dtype
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class ClipClipPattern(EasyPatternOptimization):
    """Clip(Clip(x, a, b), c, d) → Clip(x, a clipped to c and d, b clipped to c and d)

    What: clips once, to the first bounds clipped to the second ones.
    Why: one pass over the tensor less.
    Refuses when:
    1. a bound is computed or is NaN, or the type is unknown.
    2. nothing but zeros is left: which of +0 and -0 depends on the order.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        first = g.op.Clip(x, min=g.capture("a", optional=True), max=g.capture("b", optional=True))
        return g.op.Clip(first, min=g.capture("c", optional=True), max=g.capture("d", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        ends = _ends(g.try_infer_type(m.x))
        if ends is None or any(bound != bound for bound in (m.a, m.b, m.c, m.d)):  # (1)
            return self.none(m.nodes[0], msg="a bound is NaN, or the type is unknown")
        a, b, c, d = (end if v is None else v for v, end in zip((m.a, m.b, m.c, m.d), ends * 2, strict=True))
        low, high = min(max(a, c), d), min(max(b, c), d)
        if low == high == 0:  # (2)
            return self.none(m.nodes[0], msg="the bounds leave zeros only")
        return m.derive(low=None if low == ends[0] else low, high=None if high == ends[1] else high)

    def apply_pattern(self, g: PatternRewriter, x: str, low: float | None, high: float | None) -> str:
        return g.op.Clip(x, min=low, max=high)

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <float l = {-1}, float h = {1}> { t = Clip(x, l) y = Clip(t, , h) }",
            "agraph (float[a,b] x) => (float[a,b] y) <float l = {-1}, float h = {1}> { y = Clip(x, l, h) }",
        ),
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <float l = {2}, float h = {1}> { t = Clip(x, , h) y = Clip(t, l) }",
            "agraph (float[a,b] x) => (float[a,b] y) <float l = {2}, float h = {2}> { y = Clip(x, l, h) }",
        ),
    )


def _ends(dtype: int) -> tuple[float, float] | None:
    """The lowest and the highest finite number of a type."""
    if is_integer(dtype):
        integers = np.iinfo(numpy_dtype(dtype))
        return int(integers.min), int(integers.max)
    if not is_float(dtype):
        return None
    floats = ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
    return float(floats.min), float(floats.max)
