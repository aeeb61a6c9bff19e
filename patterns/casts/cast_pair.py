"""Two Casts, adjacent or around an operator that only moves data, of which at most one remains."""

from collections.abc import Sequence
from typing import Any, Final

from xoptim.facts.dtypes import LOSSLESS, is_one_conversion
from xoptim.facts.operators import has_kernel
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
    Variadic,
    runs,
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
"""Operators whose result consists of elements of the first operand, whatever its type."""


class _CastPair(EasyPatternOptimization):
    """Two Casts, of which at most one remains."""

    min_opset = 6


class CastCastPattern(_CastPair):
    """Cast(Cast(x, to=b), to=c) → Cast(x, to=c), or x if it has the type c

    What: converts once, if the type in between does not change the result.
    Why: each Cast copies the tensor.
    Refuses when:
    1. the type of x or of the result is not bool, int8 to int64, uint8 to uint64, float16,
       bfloat16, float or double.
    2. the first Cast may round, saturate or truncate, such as float32 to float16 and back, int64 to
       float32, or int32 to bool. (Integers may lose bits that the second Cast drops anyway.)
    """

    interior = "keep"
    derives = ("back",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Cast(g.op.Cast(x, to=g.capture("middle")), to=g.capture("to"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        source = g.try_infer_type(m.x)
        if not is_one_conversion(source, m.middle, m.to):  # (1) (2)
            return self.none(
                m.nodes[0],
                msg=lambda: f"Casts from {source} to {m.middle} to {m.to} may not equal one Cast",
            )
        return m.derive(back=source == m.to)

    def apply_pattern(self, g: PatternRewriter, x: str, to: int, back: bool) -> str:
        return x if back else g.op.Cast(x, to=to)

    examples = Example.pairs(
        "agraph (float16[a,b] x) => (float16[a,b] y) { t = Cast <to = 1> (x) "
        "y = Cast <to = 10> (t) }",
        "{ y = Identity(x) }",
        "agraph (int32[a,b] x) => (float[a,b] y) { t = Cast <to = 7> (x) y = Cast <to = 1> (t) }",
        "{ y = Cast <to = 1> (x) }",
        "agraph (int64[a,b] x) => (int8[a,b] y) { t = Cast <to = 6> (x) y = Cast <to = 3> (t) }",
        "{ y = Cast <to = 3> (x) }",
    )


class CastMovementCastPattern(_CastPair):
    """Cast(Transpose(Cast(x, to=float)), to=float16) → Transpose(x)

    What: moves elements in their original type. The same for Reshape, Squeeze, Slice, Expand and
    other operators that only move data.
    Why: two nodes fewer, and half the bytes are moved. Mixed-precision models have such Casts. (A
    single Cast is not moved past the operator: onnxruntime does not round to float16 between
    another operator and a Cast to float32.)
    Refuses when:
    1. the type in between does not represent all values of the type of x, or the last Cast is to
       another type than x.
    2. the provider has no kernel of this operator for the type of x, such as DepthToSpace of int16.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, rest: Variadic) -> Symbol:
        operator = getattr(g.op, g.choice("operator", *MOVES))
        return g.op.Cast(
            operator(
                g.op.Cast(x, to=g.capture("middle")), rest, attributes=g.capture("attributes")
            ),
            to=g.capture("to"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        source = g.try_infer_type(m.x)
        is_round_trip = m.middle in LOSSLESS.get(source, ()) and m.to == source
        if not is_round_trip:  # (1)
            return self.none(m.nodes[0], msg="the Casts do not convert to a wider type and back")
        lacks_kernel = has_kernel(g.provider, "", m.operator, source, g.main_opset) is False
        if lacks_kernel and not runs(g, m.operator, m.x):  # (2)
            return self.none(m.nodes[1], msg=lambda: f"no kernel of {m.operator} for this type")
        return True

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        rest: Sequence[str],
        operator: str,
        attributes: dict[str, Any],
    ) -> str:
        return str(getattr(g.op, operator)(x, *rest, **attributes))

    _float16_header = "agraph (float16[a,b] x) => (float16[b,a] y)"
    _int32_header = (
        "agraph (int32[a,b] x) => (int32[c,b] y) <int64[1] n = {1}, int64[1] m = {3}, "
        "int64[1] z = {0}>"
    )
    examples = Example.pairs(
        f"{_float16_header} {{ c = Cast <to = 1> (x) t = Transpose <perm = [1, 0]> (c) "
        "y = Cast <to = 10> (t) }",
        "{ y = Transpose <perm = [1, 0]> (x) }",
        f"{_int32_header} {{ c = Cast <to = 7> (x) t = Slice(c, n, m, z) y = Cast <to = 6> (t) }}",
        f"{_int32_header} {{ y = Slice(x, n, m, z) }}",
    )
