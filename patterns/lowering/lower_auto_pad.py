"""Convolutions and pooling with explicit pads instead of the attribute auto_pad."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xoptim.facts.dims import Dim
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


class _LowerAutoPad(_Lowering):
    """An `operator` with windows and the attribute auto_pad.

    What: writes the pads that follow from the sizes, or no pads for VALID.
    Why: many runtimes read explicit pads only.
    Refuses when:
    1. the axes of the image are not static, or the sizes of the window are not known.
    2. the pads follow from the sizes of a window with dilations: ONNX Runtime's kernels of pooling
       ignore the rule then, and Conv has none.
    """

    exactness = "rounding"
    min_opset = 11
    operator: ClassVar[str]
    derives = ("written",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, others: Variadic) -> Symbol:
        rule = g.capture("rule", lambda rule: rule != "NOTSET")
        operator = getattr(g.op, self.operator)
        return operator(x, others, auto_pad=rule, attributes=g.capture("form"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        image = (g.try_infer_shape(m.x) or ())[2:]
        weight = g.static_shape(m.others[0]) if m.others else None
        kernel = m.form.get("kernel_shape") or (weight or ())[2:]
        form = {name: value for name, value in m.form.items() if name not in ("auto_pad", "pads")}
        if not image or len(kernel) != len(image):  # (1)
            return self.none(m.nodes[0], msg="the kernel or the spatial dimensions are unknown")
        if m.rule == "VALID":
            return m.derive(written=form)
        if any(dilation != 1 for dilation in form.get("dilations") or ()):  # (2)
            return self.none(m.nodes[0], msg="the window has dilations")
        pads = same_pads(image, kernel, form, upper=m.rule == "SAME_UPPER")
        if pads is None:  # (1)
            return self.none(m.nodes[0], msg="a spatial dimension is not static")
        return m.derive(written={**form, "pads": pads})

    def apply_pattern(
        self, g: PatternRewriter, x: str, others: tuple[str, ...], written: dict[str, Any]
    ) -> str:
        return str(getattr(g.op, self.operator)(x, *others, **written))


class LowerAutoPadConvPattern(_LowerAutoPad):
    """Conv(x, w, auto_pad="SAME_UPPER") → Conv(x, w, pads=[...])"""

    operator = "Conv"

    examples = Example.pairs(
        "agraph (float[n,2,5,6] x, float[3,2,3,2] w) => (float[n,3,3,6] y) "
        '{ y = Conv <auto_pad = "SAME_UPPER", strides = [2, 1]> (x, w) }',
        "{ y = Conv <strides = [2, 1], pads = [1, 0, 1, 1]> (x, w) }",
        "agraph (float[n,2,5] x, float[3,2,2] w, float[3] b) => (float[n,3,5] y) "
        '{ y = Conv <auto_pad = "SAME_LOWER"> (x, w, b) }',
        "{ y = Conv <pads = [1, 0]> (x, w, b) }",
    )


class LowerAutoPadMaxPoolPattern(_LowerAutoPad):
    """MaxPool(x, auto_pad="SAME_UPPER") → MaxPool(x, pads=[...])"""

    operator = "MaxPool"

    examples = Example.pairs(
        "agraph (float[n,2,5,6] x) => (float[n,2,3,6] y) "
        '{ y = MaxPool <auto_pad = "SAME_UPPER", kernel_shape = [3, 2], strides = [2, 1]> (x) }',
        "{ y = MaxPool <kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]> (x) }",
        'agraph (float[n,2,5] x) => (float[n,2,3] y) { y = MaxPool <auto_pad = "VALID",'
        " kernel_shape = [3]> (x) }",
        "{ y = MaxPool <kernel_shape = [3]> (x) }",
    )


class LowerAutoPadAveragePoolPattern(_LowerAutoPad):
    """AveragePool(x, auto_pad="SAME_UPPER") → AveragePool(x, pads=[...])"""

    operator = "AveragePool"

    examples = Example.pairs(
        "agraph (float[n,2,5,6] x) => (float[n,2,3,6] y) "
        '{ y = AveragePool <auto_pad = "SAME_LOWER", kernel_shape = [3, 2], strides = [2, 1]>'
        " (x) }",
        "{ y = AveragePool <kernel_shape = [3, 2], strides = [2, 1], pads = [1, 1, 1, 0]> (x) }",
    )


def same_pads(
    image: Sequence[Dim], kernel: Sequence[int], form: Mapping[str, Any], *, upper: bool
) -> list[int] | None:
    """The pads of the rules SAME_UPPER and SAME_LOWER, for a window without dilations.

    ``None`` when an axis of the image is not static.

    An axis of the result has ceil(length / stride) elements. If the number of padded elements is
    odd, one more is at the end (``upper``) or at the beginning.
    """
    strides = form.get("strides") or [1] * len(kernel)
    begins, ends = [], []
    for length, size, stride in zip(image, kernel, strides, strict=True):
        if not isinstance(length, int):
            return None
        covered = (-(-length // stride) - 1) * stride + size
        total = max(covered - length, 0)
        short, long = total // 2, total - total // 2
        begins.append(short if upper else long)
        ends.append(long if upper else short)
    return begins + ends
