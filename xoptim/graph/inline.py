"""Replace calls of local functions by their bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from onnx import inliner

from xoptim.facts.protos import copy_fields


def inline_functions(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model without local functions. The one given is not modified.

    The weights are put aside meanwhile: the inliner works on serialized models, which have a size limit.
    """
    light = onnx.ModelProto()
    copy_fields(proto, light, ("graph",))
    copy_fields(proto.graph, light.graph, ("initializer",))
    _write_defaults(light)
    inlined = inliner.inline_local_functions(light)
    inlined.graph.initializer.extend(proto.graph.initializer)
    return inlined


def _write_defaults(model: onnx.ModelProto) -> None:
    """Write on each call the attributes that have a default in the function: the inliner forgets these."""
    defaults = {(f.domain, f.name, f.overload): f.attribute_proto for f in model.functions if f.attribute_proto}
    if defaults:
        for nodes in (model.graph.node, *(function.node for function in model.functions)):
            _complete(nodes, defaults)


def _complete(nodes: Iterable[onnx.NodeProto], defaults: Mapping[tuple[str, str, str], Iterable[onnx.AttributeProto]]) -> None:
    for node in nodes:
        written = {attribute.name for attribute in node.attribute}
        given = defaults.get((node.domain, node.op_type, node.overload), ())
        node.attribute.extend(attribute for attribute in given if attribute.name not in written)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _complete(attribute.g.node, defaults)
