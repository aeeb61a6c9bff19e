"""ImageDecoder."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.info import Info
from xoptim.inference.arguments import known, text
from xoptim.inference.registry import NodeContext, Results, infers

_CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}


@infers("ImageDecoder")
def image_decoder(ctx: NodeContext) -> Results:
    """(height, width, channels) of 8-bit numbers."""
    channels = _CHANNELS.get(text(ctx, "pixel_format", "RGB") or "")
    return [Info(TensorProto.UINT8, (ctx.fresh(), ctx.fresh(), known(ctx, channels)))]
