"""A Pad before Conv, ConvInteger, AveragePool or MaxPool, merged into their attribute ``pads``."""

import math
from typing import Any, Final

from xoptim.facts.errors import Declined
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._nodes import is_op

_WINDOWS: Final = ("AveragePool", "Conv", "ConvInteger", "MaxPool")


class _PadWindow(EasyPatternOptimization):
    """A Pad before operators with windows, which pad themselves instead."""

    phase = "specialize"
    derives = ("attributes",)
    interior = "keep"  # several operators may read the Pad, which is removed with the last one

    def padded(self, g: PatternBuilder, x: Symbol, value: Any) -> tuple[Symbol, Any]:
        """A Pad whose fill value matches ``value``, and the captured ``pads`` of its consumer."""
        axes = g.capture("axes", optional=True)
        return g.op.Pad(x, pads=g.capture("padding"), value=value, axes=axes), g.capture(
            "pads", optional=True
        )

    def pads(self, g: GraphView, m: Match) -> list[int]:
        """The attribute ``pads`` that includes the Pad and the operator's own padding.

        Raises:
            Declined: when batch or channels are padded, when a pad is negative, when the Pad has
                axes and the rank is unknown, or when an operator without windows reads the Pad.
        """
        padded = m.nodes[0].output[0]
        is_read = g.is_output(padded) or g.is_used_by_subgraph(padded)
        if is_read or not all(is_op(reader, *_WINDOWS) for reader in g.next_nodes(padded)):
            raise Declined("an operator without windows reads the padded tensor")
        padding, count = m.padding, len(m.padding) // 2  # all begins, then all ends
        rank = count if m.axes is None else g.info(m.x).rank
        if (
            rank is None
            or rank < 3
            or len(padding) != 2 * (rank if m.axes is None else len(m.axes))
            or min(padding, default=0) < 0
        ):
            raise Declined("the pads are unknown or negative")
        full = [0] * (2 * rank)
        for index, axis in enumerate(range(rank) if m.axes is None else m.axes):
            full[axis % rank] += padding[index]
            full[rank + axis % rank] += padding[count + index]
        if any(full[:2]) or any(full[rank : rank + 2]):
            raise Declined("the Pad pads batch or channels")
        spatial = full[2:rank] + full[rank + 2 :]
        return [a + b for a, b in zip(spatial, m.pads or [0] * len(spatial), strict=True)]

    def derive_pool(self, m: Match, pads: list[int], **attributes: Any) -> bool | None:
        """Derive the attributes of a pool; refuse if a window could hold only padding.

        onnxruntime rejects such pools.
        """
        if any(
            pad >= size for pad, size in zip(pads, [*m.kernel_shape, *m.kernel_shape], strict=True)
        ):
            return self.none(m.nodes[1], msg="a pad is not smaller than the window")
        return m.derive(
            attributes={
                "kernel_shape": m.kernel_shape,
                "strides": m.strides,
                "pads": pads,
                **attributes,
            }
        )


class PadAveragePoolPattern(_PadWindow):
    """AveragePool(Pad(x, 0)) → AveragePool(x, count_include_pad=1) with pads

    What: the operator pads, and its averages include the padding.
    Why: saves a copy of its operand.
    Refuses when:
    1. the padding is not constant, not with zeros, negative, or applies to batch or channels. Or an
       operator other than convolutions and pools reads the padded tensor.
    2. auto_pad, ceil_mode or dilations are set.
    3. the operator pads already, and its averages exclude this padding.
    4. a window could hold only padding, which onnxruntime rejects.
    5. a window could be larger than the tensor with its padding.
    """

    exactness = "rounding"
    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        t, pads = self.padded(g, x, g.capture("value", lambda value: not value, optional=True))
        strides, counts = g.capture("strides", optional=True), g.capture("counts", optional=True)
        kernel = g.capture("kernel_shape")
        # (2)
        return g.op.AveragePool(
            t, kernel_shape=kernel, strides=strides, pads=pads, count_include_pad=counts
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        pads = self.pads(g, m)  # (1)
        if any(m.pads or ()) and not m.counts:  # (3)
            return self.none(
                m.nodes[1], msg="the pool does not count its own padding (count_include_pad=0)"
            )
        lengths = (g.try_infer_shape(m.x) or ())[2:] or [1] * len(m.kernel_shape)
        # a symbolic dimension may be as small as 1
        min_lengths = [length if isinstance(length, int) else 1 for length in lengths]
        half = len(pads) // 2
        sizes = (a + b + c for a, b, c in zip(min_lengths, pads[:half], pads[half:], strict=True))
        if any(size < window for size, window in zip(sizes, m.kernel_shape, strict=True)):  # (5)
            return self.none(m.nodes[1], msg="the window may be larger than the padded tensor")
        return self.derive_pool(m, pads, count_include_pad=1)  # (4)

    def apply_pattern(self, g: PatternRewriter, x: str, attributes: dict[str, Any]) -> str:
        return g.op.AveragePool(x, **attributes)

    examples = Example.only(
        "agraph (float[n,c,h] x) => (float[n,c,k] y) <int64[6] p = {0, 0, 1, 0, 0, 1}> "
        "{ t = Pad(x, p) y = AveragePool <kernel_shape = [3], strides = [2]> (t) }",
        "{ y = AveragePool <kernel_shape = [3], strides = [2], pads = [1, 1], "
        "count_include_pad = 1> (x) }",
    )


class PadConvPattern(_PadWindow):
    """Conv(Pad(x, 0), w, b) → Conv(x, w, b) with pads

    What: the convolution pads. The same for ConvInteger if the value of the Pad is the zero point
    of x.
    Why: saves a copy. In an EfficientNet from TensorFlow's converter, which writes Pad and
    auto_pad=VALID, it saves a fifth of the time.
    Refuses when:
    1. the padding is not constant, negative, applies to batch or channels, or is not with zeros
       (ConvInteger: the zero point of x). Or an operator other than convolutions and pools reads
       the padded tensor.
    2. auto_pad is SAME_UPPER or SAME_LOWER, or the convolution has VALID and pads.
    """

    exactness = "rounding"
    min_opset = 2
    derives = ("others",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Symbol, b: Optional, z: Optional
    ) -> Symbol:
        # ``z`` is the zero point of ``x``. ``b`` is the bias of Conv, or the zero point of the
        # weights of ConvInteger.
        t, pads = self.padded(g, x, g.capture("value", optional=True))
        captures = {"pads": pads, "attributes": g.capture("attributes")}
        return (
            g.op.ConvInteger(t, w, z, b, **captures)
            if g.option("integers")
            else g.op.Conv(t, w, b, **captures)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        zero = g.get_constant_scalar(m.z) if m.get("z") else 0
        if zero is None or (m.value or 0) != zero:  # (1)
            return self.none(m.nodes[0], msg="the Pad pads with neither 0 nor the zero point of x")
        pads = self.pads(g, m)  # (1)
        auto_pad = m.attributes.get("auto_pad", "NOTSET")
        if auto_pad not in ("NOTSET", "VALID") or (
            auto_pad == "VALID" and any(m.pads or ())
        ):  # (2)
            return self.none(m.nodes[1], msg="auto_pad is set")
        attributes = {name: value for name, value in m.attributes.items() if name != "auto_pad"}
        return m.derive(others={**attributes, "pads": pads})

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        w: str,
        b: str,
        z: str,
        others: dict[str, Any],
        integers: bool,
    ) -> str:
        return g.op.ConvInteger(x, w, z, b, **others) if integers else g.op.Conv(x, w, b, **others)

    examples = Example.pairs(
        "agraph (float[n,1,h] x, float[2,1,3] w) "
        "=> (float[n,2,k] y) <int64[6] p = {0, 0, 1, 0, 0, 2}> { t = Pad(x, p) "
        "y = Conv <pads = [1, 1]> (t, w) }",
        "{ y = Conv <pads = [2, 3]> (x, w) }",
        "agraph (float[n,1,h,4] x, float[2,1,3,3] w) => (float[n,2,k,l] y) "
        "<int64[2] p = {1, 2}, float zero = {0}, int64[1] last = {-1}> { t = Pad(x, p, zero, last) "
        'y = Conv <auto_pad = "VALID"> (t, w) }',
        "{ y = Conv <pads = [0, 1, 0, 2]> (x, w) }",
        "agraph (uint8[n,1,h] x, uint8[2,1,3] w) "
        "=> (int32[n,2,k] y) <int64[6] p = {0, 0, 1, 0, 0, 1}, uint8 z = {7}> { t = Pad(x, p, z) "
        "y = ConvInteger(t, w, z) }",
        "<uint8 z = {7}> { y = ConvInteger <pads = [1, 1]> (x, w, z) }",
        "agraph (float[n,1,h] x, float[2,1,3] w, float[2,1,2] v) "
        "=> (float[n,2,k] y, float[n,2,l] z) <int64[6] p = {0, 0, 1, 0, 0, 2}> { t = Pad(x, p) "
        "y = Conv(t, w) z = Conv(t, v) }",
        "{ y = Conv <pads = [1, 2]> (x, w) z = Conv <pads = [1, 2]> (x, v) }",
    )


class PadMaxPoolPattern(_PadWindow):
    """MaxPool(Pad(x, -∞)) → MaxPool(x) with pads

    What: the operator pads. MaxPool never selects its own padding, so this padding acts like -∞.
    Why: saves a copy of its operand.
    Refuses when:
    1. the padding is not constant, not with -∞, negative, or applies to batch or channels. Or an
       operator other than convolutions and pools reads the padded tensor.
    2. auto_pad, ceil_mode or dilations are set.
    3. a window could hold only padding, which onnxruntime rejects.
    """

    exactness = "finite"
    min_opset = 8

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        t, pads = self.padded(g, x, g.capture("value", lambda value: value == -math.inf))
        strides = g.capture("strides", optional=True)
        # (2)
        return g.op.MaxPool(t, kernel_shape=g.capture("kernel_shape"), strides=strides, pads=pads)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return self.derive_pool(m, self.pads(g, m))  # (1) (3)

    def apply_pattern(self, g: PatternRewriter, x: str, attributes: dict[str, Any]) -> str:
        return g.op.MaxPool(x, **attributes)

    examples = Example.only(
        "agraph (float[n,c,h] x) => (float[n,c,k] y) <int64[6] p = {0, 0, 1, 0, 0, 1}, "
        "float low = {-inf}> { t = Pad(x, p, low) "
        "y = MaxPool <kernel_shape = [3], strides = [2]> (t) }",
        "{ y = MaxPool <kernel_shape = [3], strides = [2], pads = [1, 1]> (x) }",
    )
