import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._folding import Array

_MIN_RESULTS: Final = 60
"""Minimum spatial size of the result. With fewer results, the overhead of a Conv call dominates."""
_MAX_WEIGHTS: Final = 1 << 16
"""Maximum number of weights, which take 256 KiB in the model file."""
_COMMON_ATTRIBUTES: Final = ("kernel_shape", "strides", "dilations", "pads")
"""Attributes that have the same meaning for AveragePool and Conv."""
_NCHWC_CHANNELS: Final = 8
"""onnxruntime uses its NCHWc layout, with a fast AveragePool kernel, if the number of channels of
an image is a multiple of this number.
"""


class AveragePoolConvPattern(EasyPatternOptimization):
    """AveragePool(x) → Conv(x, 1 / n, group=channels) from operator set 19 on

    What: a depthwise convolution with equal weights 1 / n, where n is the size of the window.
    Why: measured 0.1 to 0.9 of the time. For AveragePool of operator set 19 and later,
    onnxruntime's CPU kernel takes two to ten times as long as for earlier operator sets.
    Refuses when:
    1. there are pads that the averages exclude (count_include_pad=0), or auto_pad or ceil_mode is
       set.
    2. x is not float32, its number of channels is unknown or 0, or a channel has few results.
    3. the weights take more than 256 KiB.
    4. x is an image whose channels are a multiple of 8: onnxruntime uses its NCHWc layout.
    """

    phase = "target"
    exactness = "rounding"
    min_opset = 19
    providers = ("cpu",)
    derives = ("weights", "written")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.AveragePool(x, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        pool, attributes = m.nodes[0], m.attributes
        shape, spatial = g.try_infer_shape(m.x) or (), (g.try_infer_shape(pool.output[0]) or ())[2:]
        if not _counts_all(attributes):  # (1)
            return self.none(
                pool,
                msg="count_include_pad=0 excludes the pads, or auto_pad or ceil_mode is set",
            )
        # (2)
        if (
            g.try_infer_type(m.x) != TensorProto.FLOAT
            or len(shape) < 3
            or not isinstance(shape[1], int)
            or not shape[1]
        ):
            return self.none(
                pool, msg="the type is not float32, or the number of channels is unknown or 0"
            )
        window = attributes["kernel_shape"]
        if shape[1] * math.prod(window) > _MAX_WEIGHTS:  # (3)
            return self.none(pool, msg="the weights take more than 256 KiB")
        sizes = [dim for dim in spatial if isinstance(dim, int)]
        if len(sizes) < len(spatial) or math.prod(sizes) < _MIN_RESULTS:  # (2)
            return self.none(pool, msg="the spatial size of the result is small or unknown")
        if len(shape) == 4 and shape[1] % _NCHWC_CHANNELS == 0:  # (4)
            return self.none(pool, msg="onnxruntime uses its NCHWc layout for this pool")
        weights = np.full((shape[1], 1, *window), 1 / math.prod(window), np.float32)
        written = {name: attributes[name] for name in _COMMON_ATTRIBUTES if name in attributes}
        return m.derive(weights=weights, written={**written, "group": shape[1]})

    def apply_pattern(
        self, g: PatternRewriter, x: str, weights: Array, written: dict[str, Any]
    ) -> str:
        return str(g.op.Conv(x, weights, **written))

    _signal, _image = (
        "agraph (float[n,2,64] x) => (float[n,2,62] y)",
        "agraph (float[n,1,9,9] x) => (float[n,1,9,8] y)",
    )
    _third, _part = ", ".join(["0.33333334"] * 6), ", ".join(["0.16666667"] * 6)
    examples = (
        Example(
            f"{_signal} {{ y = AveragePool <kernel_shape = [3]> (x) }}",
            f"<float[2,1,3] w = {{{_third}}}> {{ "
            "y = Conv <kernel_shape = [3], group = 2> (x, w) }",
            opset=19,
        ),
        Example(
            f"{_image} {{ y = AveragePool <kernel_shape = [3, 2], pads = [1, 0, 1, 0], "
            "count_include_pad = 1> (x) }",
            f"<float[1,1,3,2] w = {{{_part}}}> {{ "
            "y = Conv <kernel_shape = [3, 2], pads = [1, 0, 1, 0], group = 1> (x, w) }",
            opset=22,
        ),
    )


def _counts_all(attributes: Mapping[str, Any]) -> bool:
    """Whether each average is over all elements of a window, padding included."""
    skips_pads = any(attributes.get("pads", ())) and not attributes.get("count_include_pad", 0)
    is_auto = attributes.get("auto_pad", "NOTSET") != "NOTSET"
    return not skips_pads and not is_auto and not attributes.get("ceil_mode", 0)
