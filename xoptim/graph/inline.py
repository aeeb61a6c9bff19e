"""Replace calls of local functions by their bodies."""

import graphlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx import inliner

from xoptim.facts.errors import ModelError
from xoptim.facts.protos import copy_fields, every_node

EXPANSION_LIMIT = 1_000_000
"""Number of nodes above which calls are not replaced: functions that each call the next one twice grow exponentially."""


def inline_functions(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model without local functions. ``proto`` is not modified.

    The weights are left out of the call: the inliner works on serialized models, whose size is limited. Raises `ModelError`
    when a function calls itself, or the model would have more than ``EXPANSION_LIMIT`` nodes.
    """
    if (count := expanded_size(proto)) > EXPANSION_LIMIT:
        raise ModelError(f"without local functions the model would have {count:,} nodes; leave them (no --inline)")
    light = onnx.ModelProto()
    copy_fields(proto, light, ("graph",))
    copy_fields(proto.graph, light.graph, ("initializer",))
    _write_defaults(light)
    inlined = inliner.inline_local_functions(light)
    inlined.graph.initializer.extend(proto.graph.initializer)
    return inlined


def expanded_size(proto: onnx.ModelProto) -> int:
    """Number of nodes of a model, subgraphs included, once every call of a local function is replaced by its body.

    Raises `ModelError` when a function calls itself, directly or through others.
    """
    functions = {(f.domain, f.name, f.overload): f for f in proto.functions}
    calls = {key: Counter(_operators(function.node)) for key, function in functions.items()}
    sizes: dict[tuple[str, str, str], int] = {}
    dependencies = {key: called.keys() & calls.keys() for key, called in calls.items()}
    try:
        for key in graphlib.TopologicalSorter(dependencies).static_order():
            sizes[key] = _total(calls[key], sizes)
    except graphlib.CycleError as error:
        raise ModelError(f"local function {error.args[1][0][1]!r} calls itself") from error
    return _total(Counter(_operators(proto.graph.node)), sizes)


def _total(calls: Mapping[tuple[str, str, str], int], sizes: Mapping[tuple[str, str, str], int]) -> int:
    return sum(count * sizes.get(key, 1) for key, count in calls.items())


def _operators(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, str, str]]:
    """The operators and functions that the nodes call, nodes of subgraphs included."""
    return ((node.domain, node.op_type, node.overload) for node in every_node(nodes))


def _write_defaults(model: onnx.ModelProto) -> None:
    """Write on each call the attributes that have a default in the function: the inliner drops these."""
    defaults = {(f.domain, f.name, f.overload): f.attribute_proto for f in model.functions if f.attribute_proto}
    if defaults:
        for nodes in (model.graph.node, *(function.node for function in model.functions)):
            for node in every_node(nodes):
                written = {attribute.name for attribute in node.attribute}
                given = defaults.get((node.domain, node.op_type, node.overload), ())
                node.attribute.extend(attribute for attribute in given if attribute.name not in written)
