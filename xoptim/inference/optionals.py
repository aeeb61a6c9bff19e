"""Optional values."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from xoptim.facts.info import UNKNOWN, Info
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.types import type_proto_to_info


@infers("Optional")
def optional(ctx: NodeContext) -> Results:
    """The input wrapped; without one, an empty value of the type in the attribute."""
    x = ctx.input(0)
    if x is not None:
        return [Info(container="optional", element=x)]
    declared = ctx.attribute("type")
    element = type_proto_to_info(declared) if isinstance(declared, onnx.TypeProto) else UNKNOWN
    return [Info(container="optional", element=element)]


@infers("OptionalGetElement")
def optional_get_element(ctx: NodeContext) -> Results:
    """The wrapped value; since operator set 18 the input may be unwrapped already."""
    x = ctx.input(0)
    if x is not None and x.container == "optional":
        return [x.element]
    return [x if ctx.opset >= 18 else None]


@infers("OptionalHasElement")
def optional_has_element(ctx: NodeContext) -> Results:
    """One truth value."""
    return [Info(TensorProto.BOOL, ())]
