"""Numbers of 64 bits, converted to narrower types."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
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

from .._nodes import size_along
from ._lowering import WIDE, _Lowering

_MAX_LENGTH: Final = 2**31 - 1
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


class _LowerWide(_Lowering):
    """An operator on numbers of 64 bits."""

    exactness = "exact"


class LowerIndexTypePattern(_LowerWide):
    """Gather(x, i) → Gather(x, Cast(i, to=int32)). The same for GatherElements.

    What: reads indices of 32 bits. Constants are stored in 32 bits, and a Cast converts other
    indices. Valid indices of an axis shorter than 2^31 fit. An index that is out of range is an
    error in both forms, unless it needs more than 32 bits.
    Why: WebGPU and many NPUs have no integers of 64 bits.
    Refuses when:
    1. the indices do not have 64 bits.
    2. the indexed axis is not static, or is longer than 2^31 - 1. Or a constant index is out of
       range.
    """

    min_opset = 11
    operand_types = {"i": frozenset((TensorProto.INT64,))}  # (1)
    derives = ("places",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        operator = g.choice("operator", "Gather", "GatherElements")
        return getattr(g.op, operator)(x, i, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank
        length = size_along(g, m.x, m.axis % rank) if rank else None
        if not isinstance(length, int) or length > _MAX_LENGTH:  # (2)
            return self.none(
                m.nodes[0], msg="the indexed axis is not static, or too long for int32"
            )
        places = g.get_computed_constant(m.i)
        if places is not None and not ((places >= -length) & (places < length)).all():  # (2)
            return self.none(m.nodes[0], msg="an index is out of range")
        return m.derive(places=None if places is None else places.astype(np.int32))

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        i: str,
        operator: str,
        axis: int,
        places: np.ndarray | None,
    ) -> str:
        index = g.op.Cast(i, to=TensorProto.INT32) if places is None else places
        return str(getattr(g.op, operator)(x, index, axis=axis))

    examples = Example.pairs(
        "agraph (float[9,4] x, int64[n] i) => (float[n,4] y) { y = Gather(x, i) }",
        "{ c = Cast <to = 6> (i) y = Gather <axis = 0> (x, c) }",
        "agraph (float[n,4] x) => (float[n,2] y) <int64[2] i = {3, -1}> { "
        "y = Gather <axis = 1> (x, i) }",
        "<int32[2] i = {3, -1}> { y = Gather <axis = 1> (x, i) }",
        "agraph (float[2,4] x, int64[2,n] i) => (float[2,n] y) { "
        "y = GatherElements <axis = -1> (x, i) }",
        "{ c = Cast <to = 6> (i) y = GatherElements <axis = -1> (x, c) }",
        ranges=(("i", -2, 1),),
    )


class LowerMovedCastPattern(_LowerWide):
    """Cast(Unsqueeze(x), to=float) → Unsqueeze(Cast(x, to=float)). The same for Reshape, Slice,
    Expand, Gather, ...

    What: converts numbers of 64 bits before they are moved.
    Why: WebGPU and many NPUs have no types of 64 bits, but can move the converted numbers.
    Refuses when:
    1. the numbers do not have 64 bits, or still have 64 bits after the Cast.
    2. the Cast is to strings, which kernels do not move as well as numbers.
    """

    min_opset = 6

    def match_pattern(self, g: PatternBuilder, x: Symbol, rest: Variadic) -> Symbol:
        operator = getattr(g.op, g.choice("operator", *_MOVES))
        return g.op.Cast(
            operator(x, rest, attributes=g.capture("form")), attributes=g.capture("cast")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        kept = (*WIDE, TensorProto.STRING)
        if g.try_infer_type(m.x) not in WIDE or m.cast.get("to") in kept:  # (1) (2)
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
        form: dict[str, Any],
        cast: dict[str, Any],
    ) -> str:
        return str(getattr(g.op, operator)(g.op.Cast(x, **cast), *rest, **form))

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
