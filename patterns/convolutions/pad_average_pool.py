from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._pads import added_pads


class PadAveragePoolPattern(EasyPatternOptimization):
    """AveragePool(Pad(x, 0)) → AveragePool(x) with pads that count

    What: the operator pads, and counts the padding.
    Why: saves a copy of its operand.
    Refuses when:
    1. the padding is not constant, not with zeros, negative, or applies to batch or channels.
    2. padding is chosen by the operator (auto_pad), or its result is rounded up or its window has gaps.
    3. the operator pads already, and does not count that.
    4. a window could lie in the padding altogether, which onnxruntime does not allow.
    5. a window could be larger than the tensor with its padding.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        zeros = g.capture("value", lambda value: not value, optional=True)
        t = g.op.Pad(x, pads=g.capture("padding"), value=zeros, axes=g.capture("axes", optional=True))
        return g.op.AveragePool(
            t,
            kernel_shape=g.capture("kernel_shape"),
            strides=g.capture("strides", optional=True),
            pads=g.capture("pads", optional=True),
            count_include_pad=g.capture("counts", optional=True),
        )  # (2)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        pads = added_pads(g.info(m.x).rank, m.padding, m.axes, m.pads)
        if pads is None:  # (1)
            return self.none(m.nodes[0], msg="it pads other axes, or unknown or negative amounts")
        if any(m.pads or ()) and not m.counts:  # (3)
            return self.none(m.nodes[1], msg="it does not count its own padding")
        if any(pad >= size for pad, size in zip(pads, [*m.kernel_shape, *m.kernel_shape], strict=True)):  # (4)
            return self.none(m.nodes[1], msg="the padding is as wide as the window")
        lengths = (g.try_infer_shape(m.x) or ())[2:] or [1] * len(m.kernel_shape)
        known = [length if isinstance(length, int) else 1 for length in lengths]  # 1: the smallest that an open axis may be
        half = len(pads) // 2
        sizes = (a + b + c for a, b, c in zip(known, pads[:half], pads[half:], strict=True))
        if any(size < window for size, window in zip(sizes, m.kernel_shape, strict=True)):  # (5)
            return self.none(m.nodes[1], msg="the window may be larger than what is padded")
        return m.derive(attributes={"kernel_shape": m.kernel_shape, "strides": m.strides, "pads": pads})

    def apply_pattern(self, g: PatternRewriter, x: str, attributes: dict[str, Any]) -> str:
        return g.op.AveragePool(x, **attributes, count_include_pad=1)

    examples = (
        Example(
            "agraph (float[n,c,h] x) => (float[n,c,k] y) <int64[6] p = {0, 0, 1, 0, 0, 1}> "
            "{ t = Pad(x, p) y = AveragePool <kernel_shape = [3], strides = [2]> (t) }",
            "{ y = AveragePool <kernel_shape = [3], strides = [2], pads = [1, 1], count_include_pad = 1> (x) }",
        ),
    )
