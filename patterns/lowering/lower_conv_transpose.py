from typing import Any

import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Optional, Symbol

from .._folding import constant
from ._flat import reshape_or_none
from ._lowering import _Lowering


class LowerConvTransposePattern(_Lowering):
    """ConvTranspose(x, w, b) → Conv(x with zeros between its elements, flipped w, b)

    What: writes stride - 1 zeros after each element (Unsqueeze, Pad, Reshape), and convolves with
    the window flipped. The zeros after the last element count as pads.
    Why: several providers have no kernel of ConvTranspose.
    Refuses when:
    1. the weight is not constant, or not finite: the inserted zeros multiply it.
    2. the Reshape would need sizes at run time.
    3. output_shape or auto_pad is set, or a pad is longer than the window.
    """

    min_opset = 11
    derives = ("spread", "flipped", "written")

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional) -> Symbol:
        return g.op.ConvTranspose(
            x,
            w,
            b,
            auto_pad="NOTSET",
            output_shape=None,
            attributes=g.capture("form"),  # (3)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, weight = g.try_infer_shape(m.x), constant(g, m.w)
        if shape is None or not np.isfinite(weight).all():  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown, or a weight is not finite")
        axes = weight.ndim - 2
        strides, dilations = (m.form.get(n) or [1] * axes for n in ("strides", "dilations"))
        pads = m.form.get("pads") or [0] * 2 * axes
        more = m.form.get("output_padding") or [0] * axes
        reach = [(k - 1) * d for k, d in zip(weight.shape[2:], dilations, strict=True)]
        begins = [r - p for r, p in zip(reach, pads[:axes], strict=True)]
        after = zip(reach, pads[axes:], more, strides, strict=True)
        ends = [r - p + extra - (s - 1) for r, p, extra, s in after]
        spread = None
        if max(strides) > 1:
            result = tuple(a * s for a, s in zip(shape[2:], strides, strict=True))
            between = tuple(size for pair in zip(shape[2:], strides, strict=True) for size in pair)
            zeros = [0] * 2 * (2 + 2 * axes)
            zeros[len(zeros) // 2 + 3 :: 2] = [stride - 1 for stride in strides]
            target = reshape_or_none(g, shape[:2] + between, shape[:2] + result)  # (2)
            spread = list(range(3, 3 + 2 * axes, 2)), zeros, target
        if min(begins) < 0 or min(ends) < 0:  # (3)
            return self.none(m.nodes[0], msg="a pad is larger than the kernel")
        group = m.form.get("group", 1)
        form = {"pads": begins + ends, "dilations": dilations, "group": group}
        return m.derive(spread=spread, flipped=_flipped(weight, group), written=form)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        b: str,
        spread: tuple[list[int], list[int], list[int]] | None,
        flipped: np.ndarray,
        written: dict[str, Any],
    ) -> str:
        if spread is not None:
            axes, zeros, target = spread
            padded = g.op.Pad(g.op.Unsqueeze(x, axes=axes), pads=zeros)
            x = g.op.Reshape(padded, shape=target)
        return g.op.Conv(x, flipped, b or None, **written)

    examples = Example.pairs(
        "agraph (float[n,1,3,4] x) => (float[n,2,6,4] y) <float[1,2,2,1] w = {1, 2, 3, 4}> "
        "{ y = ConvTranspose <strides = [2, 1]> (x, w) }",
        "<float[2,1,2,1] w = {2, 1, 4, 3}, int64[2] k = {3, 5}, int64[12] z = {0, 0, 0, 0, 0, 0, "
        "0, 0, 0, 1, 0, 0}, int64[4] r = {0, 1, 6, 4}> { u = Unsqueeze(x, k) p = Pad(u, z) "
        "t = Reshape(p, r) y = Conv <group = 1, dilations = [1, 1], pads = [1, 0, 0, 0]> (t, w) }",
        "agraph (float[n,2,t] x, float[2] b) "
        "=> (float[n,2,t] y) <float[2,1,3] w = {1, 2, 3, 4, 5, 6}> { "
        "y = ConvTranspose <group = 2, pads = [1, 1]> (x, w, b) }",
        "<float[2,1,3] w = {3, 2, 1, 6, 5, 4}> { "
        "y = Conv <group = 2, dilations = [1], pads = [1, 1]> (x, w, b) }",
        "agraph (float[n,1,s,t] x) => (float[n,1,s,t] y) <float[1,1,1,2] w = {1, 2}> { "
        "y = ConvTranspose <pads = [0, 1, 0, 0]> (x, w) }",
        "<float[1,1,1,2] w = {2, 1}> { "
        "y = Conv <group = 1, dilations = [1, 1], pads = [0, 0, 0, 1]> (x, w) }",
    )


def _flipped(weight: np.ndarray, group: int) -> np.ndarray:
    """The weight of a Conv: the channels of the result first, and the window flipped."""
    channels, *window = weight.shape[1:]
    grouped = weight.reshape(group, -1, channels, *window).swapaxes(1, 2)
    joined = grouped.reshape(group * channels, -1, *window)
    return np.flip(joined, tuple(range(2, weight.ndim)))
