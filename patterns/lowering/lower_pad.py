from collections.abc import Sequence
from typing import Any

import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering
from ._pads import padded_axes


class LowerPadPattern(_Lowering):
    """Pad(x, mode="reflect") → Gather(x, places, axis) for each axis

    What: takes rows at constant places, also for the modes edge and wrap.
    Why: several providers pad with constants only.
    Refuses when:
    1. the pads or the padded axes are not constants, or an axis is not static, or shorter than its
       pads.
    2. a pad is negative: it cuts.
    """

    exactness = "exact"
    min_opset = 11
    derives = ("rows",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Pad(
            x,
            pads=g.capture("pads"),
            axes=g.capture("axes", optional=True),
            mode=g.any_of("edge", "reflect", "wrap"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        padded = padded_axes(g, m)
        if padded is None or not padded:  # (1)
            return self.none(m.nodes[0], msg="the pads or the axes are unknown")
        if any(min(amounts) < 0 for _, _, amounts in padded):  # (2)
            return self.none(m.nodes[0], msg="a pad is negative")
        if any(max(amounts) >= length for _, length, amounts in padded):  # (1)
            return self.none(m.nodes[0], msg="an axis is shorter than its pads")
        mode: Any = g.get_attribute(m.nodes[0], "mode")
        rows = [(axis, np.pad(np.arange(n), pads, mode)) for axis, n, pads in padded]
        return m.derive(rows=rows)

    def apply_pattern(
        self, g: PatternRewriter, x: str, rows: Sequence[tuple[int, np.ndarray]]
    ) -> str:
        for axis, places in rows:
            x = g.op.Gather(x, places, axis=axis)
        return x

    examples = Example.pairs(
        "agraph (float[n,3] x) => (float[n,6] y) <int64[4] p = {0, 2, 0, 1}> { y = Pad <mode ="
        ' "reflect"> (x, p) }',
        "<int64[6] i = {2, 1, 0, 1, 2, 1}> { y = Gather <axis = 1> (x, i) }",
        "agraph (float[n,2,2] x) => (float[n,3,3] y) <int64[6] p = {0, 1, 0, 0, 0, 1}> { y = Pad"
        ' <mode = "edge"> (x, p) }',
        "<int64[3] i = {0, 0, 1}, int64[3] j = {0, 1, 1}> { t = Gather <axis = 1> (x, i) "
        "y = Gather <axis = 2> (t, j) }",
    )
