"""Blocks of pixels that become channels, and the other way round."""

from __future__ import annotations

from xoptim.proof.calls import Call, denotes
from xoptim.proof.denotations.movement import permuted
from xoptim.proof.tensors import Tensor, reshaped


@denotes("DepthToSpace")
def depth_to_space(call: Call) -> Tensor:
    """Blocks of channels become blocks of pixels."""
    x = call.operand(0)
    batch, _, height, width = x.shape
    block = call.attribute("blocksize")
    channels = call.shape()[1]
    blocks = reshaped(call.case, x, (batch, block, block, channels, height, width))
    order = (0, 3, 4, 1, 5, 2)
    if call.attribute("mode", "DCR") != "DCR":
        blocks = reshaped(call.case, x, (batch, channels, block, block, height, width))
        order = (0, 1, 4, 2, 5, 3)
    return reshaped(call.case, permuted(blocks, order), call.shape())


@denotes("SpaceToDepth")
def space_to_depth(call: Call) -> Tensor:
    """Blocks of pixels become blocks of channels."""
    x = call.operand(0)
    block = call.attribute("blocksize")
    batch, channels, _, _ = x.shape
    _, _, height, width = call.shape()
    blocks = reshaped(call.case, x, (batch, channels, height, block, width, block))
    return reshaped(call.case, permuted(blocks, (0, 3, 5, 1, 2, 4)), call.shape())
