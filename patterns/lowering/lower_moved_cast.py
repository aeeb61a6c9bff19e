from collections.abc import Sequence
from typing import Any, Final

from onnx import TensorProto

from xoptim.match import (
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
    Variadic,
)

from ._lowering import _Lowering

_MOVES: Final = (
    "Transpose",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Slice",
    "Expand",
    "Tile",
    "Gather",
)
_WIDE: Final = frozenset((TensorProto.INT64, TensorProto.UINT64, TensorProto.DOUBLE))


class LowerMovedCastPattern(_Lowering):
    """Cast(Unsqueeze(x), to=float) → Unsqueeze(Cast(x, to=float)), and so for Reshape, Slice,
    Expand, Gather, ...

    What: converts numbers of 64 bits before they are moved.
    Why: GPUs of browsers and many processors for neural networks have no types of 64 bits, but move
    the converted numbers.
    Refuses when:
    1. the numbers do not have 64 bits, or still have 64 bits after the Cast.
    """

    exactness = "exact"
    min_opset = 6

    def match_pattern(self, g: PatternBuilder, x: Symbol, rest: Variadic) -> Symbol:
        operator = getattr(g.op, g.choice("operator", *_MOVES))
        return g.op.Cast(
            operator(x, rest, attributes=g.capture("given")), attributes=g.capture("cast")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if g.try_infer_type(m.x) not in _WIDE or m.cast.get("to") in _WIDE:  # (1)
            return self.none(
                m.nodes[0], msg="the Cast does not convert a 64-bit type to a narrower one"
            )
        return True

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        rest: Sequence[str],
        operator: str,
        given: dict[str, Any],
        cast: dict[str, Any],
    ) -> str:
        return str(getattr(g.op, operator)(g.op.Cast(x, **cast), *rest, **given))

    examples = Example.pairs(
        "agraph (int64[a,b] x) => (float[a,1,b] y) <int64[1] i = {1}> { t = Unsqueeze(x, i) "
        "y = Cast <to = 1> (t) }",
        "<int64[1] i = {1}> { t = Cast <to = 1> (x) y = Unsqueeze(t, i) }",
        "agraph (int64[a,b] x) => (bool[b,a] y) { t = Transpose <perm = [1, 0]> (x) "
        "y = Cast <to = 9> (t) }",
        "{ t = Cast <to = 9> (x) y = Transpose <perm = [1, 0]> (t) }",
        "agraph (double[a,4] x) => (float[2,a,2] y) <int64[3] s = {2, -1, 2}> { t = Reshape(x, s) "
        "y = Cast <to = 1> (t) }",
        "<int64[3] s = {2, -1, 2}> { t = Cast <to = 1> (x) y = Reshape(t, s) }",
    )
