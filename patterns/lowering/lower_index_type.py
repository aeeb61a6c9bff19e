"""Indices of 32 bits in place of 64."""

from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._nodes import size_along
from ._lowering import _Lowering

_LONGEST: Final = 2**31 - 1


class LowerIndexTypePattern(_Lowering):
    """Gather(x, i) → Gather(x, Cast(i, to=int32)), also for GatherElements

    What: reads indices of 32 bits: a constant is converted, others by a Cast. Valid indices of an
    axis that is shorter than 2^31 fit; an index that is out of range is an error in both forms,
    unless it is beyond 32 bits.
    Why: WebGPU and many processors for neural networks have no integers of 64 bits.
    Refuses when:
    1. the indices do not have 64 bits.
    2. the indexed axis is not static, or is too long.
    """

    exactness = "exact"
    min_opset = 11
    operand_types = {"i": frozenset((TensorProto.INT64,))}  # (1)
    derives = ("places",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        operator = g.choice("operator", "Gather", "GatherElements")
        return getattr(g.op, operator)(x, i, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank
        length = size_along(g, m.x, m.axis % rank) if rank else None
        if not isinstance(length, int) or length > _LONGEST:  # (2)
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
