"""Flatten, Squeeze and Unsqueeze by Reshape."""

from typing import ClassVar

from xoptim.match import (
    ANY,
    AT_RUN_TIME,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from ._flat import reshape_or_none
from ._lowering import _Lowering


class _LowerMovement(_Lowering):
    """An `operator` that keeps the order of the elements.

    What: writes a Reshape to the same shape by a constant target.
    Why: some providers have Reshape only.
    Refuses when:
    1. a shape is unknown, or a Reshape would need sizes at run time.
    """

    exactness = "exact"
    min_opset = 5
    operator: ClassVar[str]
    derives = ("target",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return getattr(g.op, self.operator)(x, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if g.get_argument(m.nodes[0], "axes") is AT_RUN_TIME:  # (1)
            return self.none(m.nodes[0], msg="the axes are computed at run time")
        source, result = g.try_infer_shape(m.x), g.infer(m.nodes[0])[0].shape
        if source is None or result is None:  # (1)
            return self.none(m.nodes[0], msg="a shape is unknown")
        return m.derive(target=reshape_or_none(g, source, result))  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str, target: list[int] | None) -> str:
        return x if target is None else g.op.Reshape(x, shape=target)


class LowerFlattenPattern(_LowerMovement):
    """Flatten(x) → Reshape(x)"""

    operator = "Flatten"

    examples = Example.pairs(
        "agraph (float[n,3,4] x) => (float[n,12] y) { y = Flatten(x) }",
        "<int64[2] s = {0, 12}> { y = Reshape(x, s) }",
        "agraph (float[2,3,n] x) => (float[6,n] y) { y = Flatten <axis = -1> (x) }",
        "<int64[2] s = {6, -1}> { y = Reshape(x, s) }",
    )


class LowerSqueezePattern(_LowerMovement):
    """Squeeze(x) → Reshape(x)"""

    operator = "Squeeze"

    examples = Example.pairs(
        "agraph (float[n,1,4] x) => (float[n,4] y) <int64[1] i = {1}> { y = Squeeze(x, i) }",
        "<int64[2] s = {0, 4}> { y = Reshape(x, s) }",
        "agraph (float[1,n,1] x) => (float[n] y) <int64[2] i = {0, -1}> { y = Squeeze(x, i) }",
        "<int64[1] s = {-1}> { y = Reshape(x, s) }",
    )


class LowerUnsqueezePattern(_LowerMovement):
    """Unsqueeze(x) → Reshape(x)"""

    operator = "Unsqueeze"

    examples = Example.pairs(
        "agraph (float[n,4] x) => (float[n,1,4] y) <int64[1] i = {1}> { y = Unsqueeze(x, i) }",
        "<int64[3] s = {0, 1, 4}> { y = Reshape(x, s) }",
        "agraph (float[n] x) => (float[1,n] y) <int64[1] i = {0}> { y = Unsqueeze(x, i) }",
        "<int64[2] s = {1, -1}> { y = Reshape(x, s) }",
    )
