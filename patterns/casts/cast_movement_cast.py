from collections.abc import Sequence
from typing import Any, Final

from xoptim.facts.dtypes import LOSSLESS
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
    Variadic,
)

MOVES: Final = (
    "Transpose",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Slice",
    "Expand",
    "Tile",
    "DepthToSpace",
)
"""Operators whose result consists of elements of the first operand."""


class CastMovementCastPattern(EasyPatternOptimization):
    """Cast(Transpose(Cast(x, to=float)), to=float16) → Transpose(x), and so for Reshape, Squeeze,
    Slice, Expand, ...

    What: moves elements in the type that they have before and after.
    Why: two nodes less, and half of the bytes are moved: models in mixed precision have such
    islands. A single Cast is not moved after the operator: onnxruntime does not round to 16 bits
    between another operator and a Cast to 32.
    Refuses when:
    1. the type in between does not represent each number of the type of x, or the last Cast gives
       another type.
    """

    min_opset = 6

    def match_pattern(self, g: PatternBuilder, x: Symbol, rest: Variadic) -> Symbol:
        operator = getattr(g.op, g.choice("operator", *MOVES))
        return g.op.Cast(
            operator(g.op.Cast(x, to=g.capture("middle")), rest, attributes=g.capture("given")),
            to=g.capture("to"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        source = g.try_infer_type(m.x)
        back = m.middle in LOSSLESS.get(source, ()) and m.to == source
        # (1)
        return back or self.none(
            m.nodes[0], msg="the Casts do not convert to a wider type and back"
        )

    def apply_pattern(
        self, g: PatternRewriter, x: str, rest: Sequence[str], operator: str, given: dict[str, Any]
    ) -> str:
        return str(getattr(g.op, operator)(x, *rest, **given))

    _half = "agraph (float16[a,b] x) => (float16[b,a] y)"
    _whole = (
        "agraph (int32[a,b] x) => (int32[c,b] y) <int64[1] n = {1}, int64[1] m = {3}, "
        "int64[1] z = {0}>"
    )
    examples = Example.pairs(
        f"{_half} {{ c = Cast <to = 1> (x) t = Transpose <perm = [1, 0]> (c) "
        "y = Cast <to = 10> (t) }",
        "{ y = Transpose <perm = [1, 0]> (x) }",
        f"{_whole} {{ c = Cast <to = 7> (x) t = Slice(c, n, m, z) y = Cast <to = 6> (t) }}",
        f"{_whole} {{ y = Slice(x, n, m, z) }}",
    )
