from collections.abc import Sequence
from typing import Final

from xoptim.facts.dims import exact_quotient
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._lowering import _Lowering
from ._repetitions import RepetitionStep, repeated, repetitions, whole_numbers

_REPEATING: Final = (
    *(("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil")),
    ("asymmetric", "floor"),
)
"""Modes in which result ``i`` of an axis is element ``i // scale``, for a scale that is a whole
number.
"""


class LowerResizePattern(_Lowering):
    """Resize(x, mode="nearest") → Reshape(Expand(Unsqueeze(x))) for each axis

    What: repeats the elements along a new axis, and joins both axes.
    Why: several providers run Resize in few of its modes, or not at all.
    Refuses when:
    1. a scale is not a whole number, or the scales and sizes are not constants.
    2. the mode is not one that repeats elements evenly.
    3. a Reshape would need sizes at run time.
    """

    exactness = "exact"
    min_opset = 11
    derives = ("steps",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, roi: Optional, scales: Optional, sizes: Optional
    ) -> Symbol:
        return g.op.Resize(
            x,
            roi,
            scales,
            sizes,
            mode="nearest",  # (2)
            coordinate_transformation_mode=g.capture("coordinates"),
            nearest_mode=g.capture("rounding"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if (m.coordinates, m.rounding) not in _REPEATING:  # (2)
            return self.none(
                m.nodes[0], msg="the coordinate or rounding mode does not repeat elements evenly"
            )
        source = g.try_infer_shape(m.x)
        factors = None if source is None else _factors(g, m, len(source))
        if source is None or factors is None:  # (1)
            return self.none(m.nodes[0], msg="a scale is not an integer")
        return m.derive(steps=repetitions(g, source, factors))  # (3)

    def apply_pattern(self, g: PatternRewriter, x: str, steps: Sequence[RepetitionStep]) -> str:
        return repeated(g, x, steps)

    _rows = "u = Unsqueeze(x, i) e = Expand(u, f) t = Reshape(e, s)"
    examples = Example.pairs(
        "agraph (float[n,3,4,5] x) => (float[n,3,8,15] y) <float[4] k = {1, 1, 2, 3}> "
        '{ y = Resize <mode = "nearest"> (x, , k) }',
        "<int64[1] i = {3}, int64[5] f = {1, 1, 1, 2, 1}, int64[4] s = {0, 3, 8, 5}, "
        "int64[1] j = {4}, int64[5] g = {1, 1, 1, 1, 3}, int64[4] r = {0, 3, 8, 15}> "
        f"{{ {_rows} v = Unsqueeze(t, j) w = Expand(v, g) y = Reshape(w, r) }}",
        "agraph (uint8[1,3,h,5] x) => (uint8[1,3,i,5] y) <float[4] k = {1, 1, 2, 1}> { y = Resize"
        ' <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">'
        " (x, , k) }",
        "<int64[1] i = {3}, int64[5] f = {1, 1, 1, 2, 1}, int64[4] s = {1, 3, -1, 5}> "
        f"{{ {_rows.replace('t =', 'y =')} }}",
    )


def _factors(g: GraphView, m: Match, rank: int) -> list[int] | None:
    """The whole number by which each axis grows, ``None`` when they are not known to be whole
    numbers.
    """
    scales = g.get_computed_constant(m.scales) if m.scales else None
    if scales is not None and scales.size:
        return whole_numbers(scales, rank)
    source, result = g.try_infer_shape(m.x), g.infer(m.nodes[0])[0].shape
    if source is None or result is None or not m.sizes or g.get_ints(m.sizes) is None:
        return None
    found = [exact_quotient(b, a) for a, b in zip(source, result, strict=True) if a != 0]
    whole = [factor for factor in found if isinstance(factor, int)]
    return whole if len(whole) == rank else None
