import math
from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._pads import added_pads


class PadMaxPoolPattern(EasyPatternOptimization):
    """MaxPool(Pad(x, -∞)) → MaxPool(x) with pads

    What: the operator pads, which leaves padding out of the maximum.
    Why: saves a copy of its operand.
    Refuses when:
    1. the padding is not constant, not with -∞, negative, or applies to batch or channels.
    2. padding is chosen by the operator (auto_pad), or its result is rounded up or its window has gaps.
    3. a window could lie in the padding altogether.
    """

    phase = "specialize"
    exactness = "finite"
    min_opset = 8

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        axes, strides, pads = (g.capture(name, optional=True) for name in ("axes", "strides", "pads"))
        infinite = g.capture("value", lambda value: value == -math.inf)
        t = g.op.Pad(x, pads=g.capture("padding"), value=infinite, axes=axes)
        return g.op.MaxPool(t, kernel_shape=g.capture("kernel_shape"), strides=strides, pads=pads)  # (2)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        pads = added_pads(g.info(m.x).rank, m.padding, m.axes, m.pads)
        if pads is None:  # (1)
            return self.none(m.nodes[0], msg="it pads other axes, or unknown or negative amounts")
        if any(pad >= size for pad, size in zip(pads, [*m.kernel_shape, *m.kernel_shape], strict=True)):  # (3)
            return self.none(m.nodes[1], msg="the padding is as wide as the window")
        return m.derive(attributes={"kernel_shape": m.kernel_shape, "strides": m.strides, "pads": pads})

    def apply_pattern(self, g: PatternRewriter, x: str, attributes: dict[str, Any]) -> str:
        return g.op.MaxPool(x, **attributes)

    examples = (
        Example(
            "agraph (float[n,c,h] x) => (float[n,c,k] y) <int64[6] p = {0, 0, 1, 0, 0, 1}, float low = {-inf}> "
            "{ t = Pad(x, p, low) y = MaxPool <kernel_shape = [3], strides = [2]> (t) }",
            "{ y = MaxPool <kernel_shape = [3], strides = [2], pads = [1, 1]> (x) }",
        ),
    )
