"""Pooling by simpler operators."""

from typing import Any

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering


class _LowerPool(_Lowering):
    """A pooling of images."""


class LowerAveragePoolPattern(_LowerPool):
    """AveragePool(x, pads, count_include_pad=1) → AveragePool(Pad(x))

    What: pads with zeros before, which then count as any other number.
    Why: some providers do not count pads, or run windows without pads only.
    Refuses when:
    1. pads do not count, or there are none, or the pads follow from a rule.
    2. the size of the result is rounded up: windows may then reach beyond the pads.
    3. the rank is unknown.
    """

    min_opset = 11
    derives = ("padding", "written")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.AveragePool(
            x,
            auto_pad="NOTSET",
            count_include_pad=1,  # (1)
            ceil_mode=g.any_of(None, 0),  # (2)
            pads=g.capture("pads", any),  # (1)
            attributes=g.capture("form"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank
        if rank is None:  # (3)
            return self.none(m.nodes[0], msg="the rank is unknown")
        half = len(m.pads) // 2
        padding = [0, 0, *m.pads[:half], 0, 0, *m.pads[half:]]
        left = ("auto_pad", "count_include_pad", "ceil_mode")
        written = {name: value for name, value in m.form.items() if name not in left}
        return m.derive(padding=padding, written=written)

    def apply_pattern(
        self, g: PatternRewriter, x: str, padding: list[int], written: dict[str, Any]
    ) -> str:
        return g.op.AveragePool(g.op.Pad(x, pads=padding), **written)

    examples = Example.pairs(
        "agraph (float[n,2,5,6] x) => (float[n,2,h,w] y) { "
        "y = AveragePool <kernel_shape = [3, 2], pads = [1, 0, 1, 1], count_include_pad = 1> (x) }",
        "<int64[8] p = {0, 0, 1, 0, 0, 0, 1, 1}> { t = Pad(x, p) "
        "y = AveragePool <kernel_shape = [3, 2]> (t) }",
        "agraph (float[n,2,t] x) => (float[n,2,s] y) { "
        "y = AveragePool <kernel_shape = [3], pads = [1, 1], strides = [2], "
        "count_include_pad = 1> (x) }",
        "<int64[6] p = {0, 0, 1, 0, 0, 1}> { t = Pad(x, p) "
        "y = AveragePool <kernel_shape = [3], strides = [2]> (t) }",
    )


class LowerGlobalAveragePoolPattern(_LowerPool):
    """GlobalAveragePool(x) → ReduceMean(x, axes=[2, 3])

    What: writes the mean over all axes but the first two.
    Why: some providers have ReduceMean, but not the pooling.
    Refuses when:
    1. the rank is unknown.
    """

    min_opset = 7
    derives = ("axes",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.GlobalAveragePool(x)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank
        if rank is None or rank < 3:  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown")
        return m.derive(axes=list(range(2, rank)))

    def apply_pattern(self, g: PatternRewriter, x: str, axes: list[int]) -> str:
        return g.op.ReduceMean(x, axes=axes)

    examples = Example.pairs(
        "agraph (float[n,3,4,5] x) => (float[n,3,1,1] y) { y = GlobalAveragePool(x) }",
        "<int64[2] i = {2, 3}> { y = ReduceMean(x, i) }",
        "agraph (float16[n,3,w] x) => (float16[n,3,1] y) { y = GlobalAveragePool(x) }",
        "<int64[1] i = {2}> { y = ReduceMean(x, i) }",
    )


class LowerGlobalMaxPoolPattern(_LowerPool):
    """GlobalMaxPool(x) → MaxPool(x, kernel_shape=[h, w])

    What: pools with a window as large as the image; ReduceMax would treat NaN otherwise.
    Why: some providers have MaxPool only.
    Refuses when:
    1. the axes of the image are not static, or empty.
    """

    min_opset = 8
    derives = ("lengths",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.GlobalMaxPool(x)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        image = (g.try_infer_shape(m.x) or ())[2:]
        lengths = [length for length in image if isinstance(length, int) and length]
        if not image or len(lengths) < len(image):  # (1)
            return self.none(m.nodes[0], msg="the spatial dimensions are not static")
        return m.derive(lengths=lengths)

    def apply_pattern(self, g: PatternRewriter, x: str, lengths: list[int]) -> str:
        return g.op.MaxPool(x, kernel_shape=lengths)

    examples = Example.pairs(
        "agraph (float[n,3,4,5] x) => (float[n,3,1,1] y) { y = GlobalMaxPool(x) }",
        "{ y = MaxPool <kernel_shape = [4, 5]> (x) }",
        "agraph (float[n,c,4] x) => (float[n,c,1] y) { y = GlobalMaxPool(x) }",
        "{ y = MaxPool <kernel_shape = [4]> (x) }",
    )
