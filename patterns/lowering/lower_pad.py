"""Pad by Gather, which copies rows of the operand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol, runs

from .._nodes import size_along
from ._lowering import _Lowering


class _LowerPad(_Lowering):
    """A Pad whose new rows are copies of other rows, by Gather."""

    min_opset = 11


class LowerPadPattern(_LowerPad):
    """Pad(x, mode="reflect") → Gather(x, places, axis) for each axis

    What: gathers the rows of the result at constant positions. The same for the modes edge and
    wrap.
    Why: several providers pad with constants only.
    Refuses when:
    1. the pads or the padded axes are not constants. Or an axis is not static, or is not longer
       than its pads.
    2. a pad is negative, which removes rows.
    """

    exactness = "exact"
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


class LowerPadConstantPattern(_LowerPad):
    """Pad(x, pads, value) → Where(inside, Gather(x, places, axis), value)

    What: copies rows for the padding, and replaces them by the value with a constant mask. Only the
    padded axes need to be static.
    Why: some providers have no kernel of Pad, or only for some axes.
    Refuses when:
    1. the pads or the padded axes are not constants. Or an axis is not static, or is empty.
    2. the value is computed at run time, the type is unknown, or of strings, or the provider has
       no kernel of Where for the type.
    3. a pad is negative, which removes rows.
    """

    exactness = "rounding"
    derives = ("rows", "inside")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Pad(
            x,
            pads=g.capture("pads"),
            value=g.capture("value", optional=True),
            axes=g.capture("axes", optional=True),
            mode="constant",
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank, padded = g.info(m.x).rank, padded_axes(g, m)
        if rank is None or not padded or not all(length for _, length, _ in padded):  # (1)
            return self.none(m.nodes[0], msg="the pads or the axes are unknown")
        if any(min(amounts) < 0 for _, _, amounts in padded):  # (3)
            return self.none(m.nodes[0], msg="a pad is negative")
        # (2)
        if g.try_infer_type(m.x) in (0, TensorProto.STRING) or not runs(g, "Where", m.x):
            return self.none(m.nodes[0], msg="no kernel of Where for this element type")
        inside = np.ones([1] * rank, np.bool_)
        rows = []
        for axis, length, pads in padded:
            rows.append((axis, np.pad(np.arange(length), pads, "edge")))
            new = np.pad(np.ones(length, np.bool_), pads)
            inside = inside & new.reshape([-1 if place == axis else 1 for place in range(rank)])
        return m.derive(rows=rows, inside=inside)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        value: float | None,
        rows: Sequence[tuple[int, np.ndarray]],
        inside: np.ndarray,
    ) -> str:
        for axis, places in rows:
            x = g.op.Gather(x, places, axis=axis)
        return g.op.Where(inside, x, value or 0)

    examples = Example.pairs(
        "agraph (float[n,2,m] x) => (float[n,4,m] y) <int64[6] p = {0, 1, 0, 0, 1, 0}> { "
        "y = Pad(x, p) }",
        "<int64[4] i = {0, 0, 1, 1}, bool[1,4,1] k = {0, 1, 1, 0}, float o = {0}> "
        "{ t = Gather <axis = 1> (x, i) y = Where(k, t, o) }",
        "agraph (float[2,2] x) => (float[2,3] y) <int64[2] p = {0, 1}, float v = {-inf}, "
        "int64[1] a = {1}> { y = Pad(x, p, v, a) }",
        "<int64[3] i = {0, 1, 1}, bool[1,3] k = {1, 1, 0}, float v = {-inf}> "
        "{ t = Gather <axis = 1> (x, i) y = Where(k, t, v) }",
    )


def padded_axes(g: GraphView, m: Match) -> list[tuple[int, int, tuple[int, int]]] | None:
    """The axes that are padded, each with its length and the pads at both ends.

    ``None`` when the pads, an axis or a length is not known.
    """
    shape, pads, axes = g.try_infer_shape(m.x), m.pads, m.axes
    if shape is None or not isinstance(pads, list):
        return None
    listed = list(range(len(shape))) if axes is None else axes
    if not isinstance(listed, list) or len(pads) != 2 * len(listed):
        return None
    padded = []
    for place, axis in enumerate(listed):
        length, amounts = size_along(g, m.x, axis), (pads[place], pads[place + len(listed)])
        if amounts == (0, 0):
            continue
        if not isinstance(length, int):
            return None
        padded.append((axis % len(shape), length, amounts))
    return padded
