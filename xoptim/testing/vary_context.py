"""The whole example somewhere else: under other names, in other operator sets, twice, in a subgraph, in a function."""

from collections.abc import Iterator
from copy import deepcopy

import numpy as np
import onnx
from onnx import GraphProto, TensorProto, helper, numpy_helper

from xoptim.facts.protos import replace_items
from xoptim.testing.models import INFERENCE_ERRORS, all_graphs, opset_of, optimize_alone
from xoptim.testing.variant import FOREIGN, Case, Variant, defined_names, loosen, rename
from xoptim.testing.vary_uses import CONDITION

_STATIC_NAMES = ("literal", "constant", "Identity", "axes", "shape", "Reshape", "literal_1", "constant_1")
_LOCAL = "near_miss_functions"
_OPSETS = (13, 17, 21, 23, 25)
_OLDEST = 7  # the oldest that onnxruntime supports


def clashes(case: Case) -> Iterator[Variant]:
    """Results, inputs and outputs with names that the pattern gives to new results."""
    old = {v.name for v in case.model.graph.input} | set(defined_names(case.model.graph))
    result = optimize_alone(case.pattern, case.model).model
    made = [name for name in defined_names(result.graph) if name not in old]
    operators = dict.fromkeys(n.op_type for g in all_graphs(result.graph) for n in g.node)
    wanted = list(dict.fromkeys((*made, *(f"{o.lower()}_out" for o in operators), *operators, *_STATIC_NAMES)))
    graph = case.model.graph
    inside = list(dict.fromkeys(name for name in defined_names(graph) if name not in {v.name for v in graph.output}))
    inputs, outputs = [v.name for v in graph.input], [v.name for v in graph.output]
    for word, targets in (("inside", inside), ("inputs", inputs), ("outputs", outputs), ("all", [*inside, *inputs, *outputs])):
        free = [name for name in wanted if name not in old]
        mapping = dict(zip(targets, free, strict=False))
        if not mapping:
            continue
        model = case.copy()
        rename([model.graph], lambda name, mapping=mapping: mapping.get(name, name))  # type: ignore[misc]
        for position, node in enumerate(n for g in all_graphs(model.graph) for n in g.node):
            node.name = free[position % len(free)] + "_" * (position // len(free))
        yield Variant(f"names: {word} called {', '.join(mapping.values())}", model)


def opsets(case: Case) -> Iterator[Variant]:
    """The same nodes in other versions of the operator set, where they are valid there."""
    current = opset_of(case.model)
    least = case.pattern.min_opset if case.pattern is not None else current
    most = case.pattern.max_opset if case.pattern is not None and case.pattern.max_opset is not None else current
    newest = onnx.defs.onnx_opset_version()
    for version in dict.fromkeys((current - 1, current + 1, least - 1, least, most + 1, *_OPSETS, newest)):
        if not _OLDEST <= version <= newest or version == current:
            continue
        model = case.copy()
        for opset in model.opset_import:
            if opset.domain in ("", "ai.onnx"):
                opset.version = version
        model.ir_version = max(model.ir_version, helper.find_min_ir_version_for(list(model.opset_import), True))
        try:
            onnx.checker.check_model(model, full_check=True)
        except INFERENCE_ERRORS:
            continue
        yield Variant(f"opset: {version}", model)


def domains(case: Case) -> Iterator[Variant]:
    """Each node as an operator of the same name with another meaning."""
    for position, node in enumerate(case.model.graph.node):
        model = case.copy()
        model.graph.node[position].domain = FOREIGN
        model.opset_import.append(helper.make_opsetid(FOREIGN, 1))
        yield Variant(f"domain: {node.op_type} of domain {FOREIGN}", loosen(model), kept=node.op_type)


def stacked(case: Case) -> Iterator[Variant]:
    """A second copy that reads an output of the first, for each input of a compatible type."""
    graph = case.model.graph
    for output in graph.output:
        for value in graph.input:
            if output.type.tensor_type.elem_type != value.type.tensor_type.elem_type:
                continue
            model = case.copy()
            copy = _prefixed(graph, "second_", {value.name: output.name})
            model.graph.node.extend(copy.node)
            model.graph.initializer.extend(copy.initializer)
            model.graph.output.extend(copy.output)
            yield Variant(f"stacked: {output.name} read as {value.name}", loosen(model))
            alone = deepcopy(model)
            replace_items(alone.graph.output, [v for v in alone.graph.output if v.name != output.name])
            yield Variant(f"stacked: {output.name} read as {value.name} only", alone)


def _prefixed(graph: GraphProto, prefix: str, others: dict[str, str] | None = None) -> GraphProto:
    """A copy whose own names have a prefix; its inputs keep their names, or get names of ``others``."""
    copy = deepcopy(graph)
    own = set(defined_names(graph))
    rename([copy], lambda name: prefix + name if name in own else (others or {}).get(name, name))
    for inner in all_graphs(copy):
        for node in inner.node:
            node.name = prefix + node.name if node.name else ""
    return copy


def in_branch(case: Case) -> Iterator[Variant]:
    """The example as a branch of If, which captures the inputs; the other branch is a copy or negates the results."""
    graph = case.model.graph
    if any(o.name in {v.name for v in graph.input} for o in graph.output):
        return
    model = case.copy()
    body = model.graph
    bodies = {f"{word}_branch": _body(graph, f"{word}_") for word in ("then", "else")}
    node = helper.make_node("If", [CONDITION], [v.name for v in graph.output], **bodies)  # type: ignore[arg-type]
    del body.node[:], body.initializer[:], body.value_info[:]
    body.node.append(node)
    body.input.append(helper.make_tensor_value_info(CONDITION, TensorProto.BOOL, []))
    yield Variant("branch: of If", model, given={CONDITION: np.array(True)})
    # Constants outside, nodes inside.
    model = deepcopy(model)
    model.graph.initializer.extend(graph.initializer)
    for attribute in model.graph.node[0].attribute:
        word = attribute.name.removesuffix("branch")
        stored = {f"{word}{t.name}": t.name for t in graph.initializer}
        del attribute.g.initializer[:]
        rename([attribute.g], lambda name, stored=stored: stored.get(name, name))  # type: ignore[misc]
    if graph.initializer:
        yield Variant("branch: of If, constants outside", model, given={CONDITION: np.array(False)})


def _body(graph: GraphProto, prefix: str) -> GraphProto:
    body = _prefixed(graph, prefix)
    del body.input[:], body.value_info[:]
    body.name = prefix
    return body


def in_function(case: Case) -> Iterator[Variant]:
    """The example as the body of a local function, where no type is known."""
    graph = case.model.graph
    arrays = {tensor.name: numpy_helper.from_array(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
    constants = [helper.make_node("Constant", [], [name], value=tensor) for name, tensor in arrays.items()]
    name = "near_miss_function"
    inputs, outputs = [v.name for v in graph.input], [v.name for v in graph.output]
    function = helper.make_function(_LOCAL, name, inputs, outputs, [*constants, *graph.node], list(case.model.opset_import))
    model = case.copy()
    del model.graph.node[:], model.graph.initializer[:], model.graph.value_info[:]
    model.graph.node.append(helper.make_node(name, inputs, outputs, domain=_LOCAL))
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid(_LOCAL, 1))
    yield Variant("function: body of a local one", model)
