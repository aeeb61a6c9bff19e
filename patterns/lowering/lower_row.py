"""Convolutions and pooling over tensors of rank 3, as over images with one line."""

from typing import Any, ClassVar

from xoptim.match import (
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
    Variadic,
)

from ._lowering import _Lowering


class _LowerRow(_Lowering):
    """An `operator` with windows over tensors of rank 3.

    What: adds an axis of size 1, along which the window has size 1, and drops this axis afterwards.
    Why: several providers run convolutions and pooling over images only.
    Refuses when:
    1. the rank is not known to be 3.
    2. auto_pad or output_shape is set.
    """

    exactness = "rounding"
    min_opset = 8
    operator: ClassVar[str]
    derives = ("written",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, others: Variadic) -> Symbol:
        operator = getattr(g.op, self.operator)
        return operator(x, others, auto_pad="NOTSET", attributes=g.capture("form"))  # (2)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if g.info(m.x).rank != 3:  # (1)
            return self.none(m.nodes[0], msg="the rank is not known to be 3")
        if m.form.get("output_shape"):  # (2)
            return self.none(m.nodes[0], msg="output_shape is set")
        return m.derive(written={name: _widened(name, value) for name, value in m.form.items()})

    def apply_pattern(
        self, g: PatternRewriter, x: str, others: tuple[str, ...], written: dict[str, Any]
    ) -> str:
        operands = [g.op.Unsqueeze(operand, axes=[2]) for operand in (x, *others[:1])]
        result = getattr(g.op, self.operator)(*operands, *others[1:], **written)
        return g.op.Squeeze(result, axes=[2])


def _widened(name: str, value: Any) -> Any:
    """An attribute in the form for images with one line."""
    if name in ("kernel_shape", "strides", "dilations"):
        return [1, *value]
    if name == "output_padding":
        return [0, *value]
    return [0, value[0], 0, value[1]] if name == "pads" else value


_UP = "<int64[1] k = {2}> { u = Unsqueeze(x, k)"


class LowerRowConvPattern(_LowerRow):
    """Conv(x, w) → Squeeze(Conv(Unsqueeze(x), Unsqueeze(w)))"""

    operator = "Conv"

    examples = Example.pairs(
        "agraph (float[n,2,t] x, float[3,2,3] w, float[3] b) => (float[n,3,t] y) "
        "{ y = Conv <kernel_shape = [3], pads = [2, 2], dilations = [2]> (x, w, b) }",
        f"{_UP} v = Unsqueeze(w, k) t = Conv <kernel_shape = [1, 3], pads = [0, 2, 0, 2], "
        "dilations = [1, 2]> (u, v, b) y = Squeeze(t, k) }",
        "agraph (float16[n,2,t] x, float16[2,1,2] w) => (float16[n,2,s] y) { "
        "y = Conv <group = 2, strides = [2]> (x, w) }",
        f"{_UP} v = Unsqueeze(w, k) t = Conv <group = 2, strides = [1, 2]> (u, v) "
        "y = Squeeze(t, k) }",
    )


class LowerRowConvTransposePattern(_LowerRow):
    """ConvTranspose(x, w) → Squeeze(ConvTranspose(Unsqueeze(x), Unsqueeze(w)))"""

    operator = "ConvTranspose"

    examples = Example.pairs(
        "agraph (float[n,2,t] x, float[2,3,4] w, float[3] b) => (float[n,3,s] y) "
        "{ y = ConvTranspose <pads = [1, 1], strides = [2], output_padding = [1]> (x, w, b) }",
        f"{_UP} v = Unsqueeze(w, k) t = ConvTranspose <pads = [0, 1, 0, 1], strides = [1, 2], "
        "output_padding = [0, 1]> (u, v, b) y = Squeeze(t, k) }",
    )


class LowerRowAveragePoolPattern(_LowerRow):
    """AveragePool(x) → Squeeze(AveragePool(Unsqueeze(x)))"""

    operator = "AveragePool"

    examples = Example.pairs(
        "agraph (float[n,2,t] x) => (float[n,2,s] y) "
        "{ y = AveragePool <kernel_shape = [3], pads = [1, 0], count_include_pad = 1> (x) }",
        f"{_UP} t = AveragePool <kernel_shape = [1, 3], pads = [0, 1, 0, 0], "
        "count_include_pad = 1> (u) y = Squeeze(t, k) }",
    )
