"""Consecutive Clip and Relu nodes as one Clip."""

import ml_dtypes
import numpy as np

from xoptim.facts.dtypes import is_float, is_integer, numpy_dtype
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class _ClipBounds(EasyPatternOptimization):
    """Base of the patterns that replace two nodes by one Clip.

    What: clips once. A Clip with the lower bound 0 also does what Relu does.
    Why: one pass over the tensor instead of two.
    """

    def apply_pattern(
        self, g: PatternRewriter, x: str, low: float | None, high: float | None
    ) -> str:
        return g.op.Clip(x, min=low, max=high)


class ClipClipPattern(_ClipBounds):
    """Clip(Clip(x, a, b), c, d) → Clip(x, a clipped to c and d, b clipped to c and d)

    What: clips once. The new bounds are the bounds of the first Clip, clipped by the second one.
    Refuses when:
    1. a bound is computed or is NaN, or the type is unknown.
    2. both new bounds are 0: whether results are +0 or -0 depends on the order of the Clips.
    """

    derives = ("low", "high")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        first = g.op.Clip(x, min=g.capture("a", optional=True), max=g.capture("b", optional=True))
        return g.op.Clip(
            first, min=g.capture("c", optional=True), max=g.capture("d", optional=True)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # Without a bound, Clip uses the lowest or the highest finite number of the type.
        limits = _limits(g.try_infer_type(m.x))
        if limits is None or any(bound != bound for bound in (m.a, m.b, m.c, m.d)):  # (1)
            return self.none(m.nodes[0], msg="a bound is NaN, or the type is unknown")
        a, b, c, d = (
            limit if bound is None else bound
            for bound, limit in zip((m.a, m.b, m.c, m.d), limits * 2, strict=True)
        )
        # If a lower bound is above an upper bound, both forms return the upper bound.
        low, high = min(max(a, c), d), min(max(b, c), d)
        if low == high == 0:  # (2)
            return self.none(m.nodes[0], msg="both bounds are 0: the sign of the zeros may change")
        return m.derive(
            low=None if low == limits[0] else low, high=None if high == limits[1] else high
        )

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <float l = {-1}, float h = {1}> { t = Clip(x, l) "
        "y = Clip(t, , h) }",
        "<float l = {-1}, float h = {1}> { y = Clip(x, l, h) }",
        "agraph (float[a,b] x) => (float[a,b] y) <float l = {2}, float h = {1}> { "
        "t = Clip(x, , h) y = Clip(t, l) }",
        "<float l = {2}, float h = {2}> { y = Clip(x, l, h) }",
    )


class ClipReluPattern(_ClipBounds):
    """Relu(Clip(x, low, high)) → Clip(x, low or 0, high)

    Refuses when:
    1. a bound is computed or is NaN, or the type is unknown.
    2. the upper bound is not above 0: all results are zeros, and +0 or -0 depends on the order of
       the nodes.
    """

    derives = ("low",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Relu(_clip(g, x))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not g.has_type(m.x) or m.low != m.low or m.high != m.high:  # (1)
            return self.none(m.nodes[0], msg="a bound is NaN, or the type is unknown")
        if m.high is not None and m.high <= 0:  # (2)
            return self.none(
                m.nodes[0], msg="the upper bound is not above 0: the sign of the zeros may change"
            )
        # A lower bound of -0.0 stays -0.0.
        return m.derive(low=0.0 if m.low is None or m.low < 0 else m.low)

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) <float l = {-1}, float h = {6}> { "
        "t = Clip(x, l, h) y = Relu(t) }",
        "<float zero = {0}, float h = {6}> { y = Clip(x, zero, h) }",
    )


class ReluClipPattern(_ClipBounds):
    """Clip(Relu(x), low, high) → Clip(x, low or 0, high)

    Refuses when:
    1. a bound is computed or is NaN, or the type is unknown.
    2. the upper bound is 0: all results are zeros, and +0 or -0 depends on the order of the nodes.
    """

    derives = ("low",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return _clip(g, g.op.Relu(x))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not g.has_type(m.x) or m.low != m.low or m.high != m.high:  # (1)
            return self.none(m.nodes[1], msg="a bound is NaN, or the type is unknown")
        if m.high == 0:  # (2)
            return self.none(
                m.nodes[1], msg="the upper bound is not above 0: the sign of the zeros may change"
            )
        low = 0.0 if m.low is None or m.low <= 0 else m.low
        # If the upper bound is below 0, it replaces all numbers.
        return m.derive(low=low if m.high is None else min(low, m.high))

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) <float six = {6}> { t = Relu(x) "
        "y = Clip(t, , six) }",
        "<float zero = {0}, float six = {6}> { y = Clip(x, zero, six) }",
    )


def _clip(g: PatternBuilder, x: Symbol) -> Symbol:
    return g.op.Clip(x, min=g.capture("low", optional=True), max=g.capture("high", optional=True))


def _limits(dtype: int) -> tuple[float, float] | None:
    """The lowest and the highest finite number of a type."""
    if is_integer(dtype):
        integers = np.iinfo(numpy_dtype(dtype))
        return int(integers.min), int(integers.max)
    if not is_float(dtype):
        return None
    floats = ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
    return float(floats.min), float(floats.max)
