"""Replace calls of local functions by their bodies."""

from __future__ import annotations

import onnx
from onnx import inliner


def inline_functions(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model without local functions. The one given is not modified.

    The weights are put aside meanwhile: the inliner works on serialized models, which have a size limit.
    """
    light = onnx.ModelProto()
    for field, value in proto.ListFields():
        if field.name == "graph":
            continue
        if isinstance(value, (int, str, bytes, float)):
            setattr(light, field.name, value)
        else:
            getattr(light, field.name).extend(value)
    for field, value in proto.graph.ListFields():
        if field.name == "initializer":
            continue
        if isinstance(value, (int, str)):
            setattr(light.graph, field.name, value)
        else:
            getattr(light.graph, field.name).extend(value)
    inlined = inliner.inline_local_functions(light)
    inlined.graph.initializer.extend(proto.graph.initializer)
    return inlined
