from typing import Any

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering


class LowerAveragePoolPattern(_Lowering):
    """AveragePool(x, pads, count_include_pad=1) → AveragePool(Pad(x))

    What: pads with zeros first, which then count like other numbers.
    Why: some providers do not count pads, or support AveragePool without pads only.
    Refuses when:
    1. pads do not count (count_include_pad is 0), there are no pads, or auto_pad is set.
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
        defaults = ("auto_pad", "count_include_pad", "ceil_mode")
        written = {name: value for name, value in m.form.items() if name not in defaults}
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
