"""Results with a second reader, operands in another order or constant, inputs that are one."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from xoptim.facts.dtypes import is_float, is_integer, is_signed_integer
from xoptim.facts.protos import replace_items
from xoptim.facts.schema import is_commutative
from xoptim.testing.models import all_graphs
from xoptim.testing.variant import Case, Variant, loosen, rename

CONDITION = "near_miss_condition"


def swapped(case: Case) -> Iterator[Variant]:
    """Operands of commutative nodes the other way round: one node at a time, then all."""
    pairs = enumerate(_all_nodes(case.model))
    places = [i for i, n in pairs if is_commutative(n.op_type, n.domain) and len(n.input) == 2 and n.input[0] != n.input[1]]
    for chosen in [*([place] for place in places), *([places] if len(places) > 1 else [])]:
        model = case.copy()
        nodes = _all_nodes(model)
        for place in chosen:
            nodes[place].input[:] = list(nodes[place].input)[::-1]
        yield Variant(f"operands: {', '.join(nodes[p].op_type for p in chosen)} swapped", model)


def _all_nodes(model: ModelProto) -> list[NodeProto]:
    return [node for graph in all_graphs(model.graph) for node in graph.node]


def read_elsewhere(case: Case) -> Iterator[Variant]:
    """Each interior result: an output too, read by a second node, captured by a subgraph."""
    for name in case.interior:
        found = case.types.get(name)
        if found is None or found.WhichOneof("value") is None:
            continue
        model = case.copy()
        model.graph.output.append(ValueInfoProto(name=name, type=found))
        yield Variant(f"output too: {name}", loosen(model))
        reader = _reader(case, name)
        if reader is not None:
            model = case.copy()
            model.graph.node.append(reader)
            model.graph.output.append(ValueInfoProto(name=reader.output[0], type=found))
            yield Variant(f"second reader: {name}", loosen(model))
        if found.HasField("tensor_type"):
            yield _captured(case, name)


def _reader(case: Case, name: str) -> NodeProto | None:
    """A node that distinguishes values, is not an Identity, and is not in the example already, so that it is not merged."""
    element = case.dtype(name)
    present = {node.op_type for node in case.model.graph.node}
    attributes: dict[str, Any] = {}
    if element == TensorProto.BOOL:
        operator = "Not"
    elif is_float(element) or is_signed_integer(element):
        operator = "Sign" if "Neg" in present and "Sign" not in present else "Neg"
    elif is_integer(element):
        operator, attributes = "Cast", {"to": TensorProto.INT64}
    else:
        return None
    return helper.make_node(operator, [name], ["near_miss_reader"], **attributes)


def _captured(case: Case, name: str) -> Variant:
    model = case.copy()
    element = case.dtype(name)
    bodies = {}
    for word in ("then", "else"):
        result = f"near_miss_{word}"
        node = helper.make_node("Identity", [name], [result])
        if word == "else" and is_float(element):
            node = helper.make_node("Neg", [name], [result])
        output = ValueInfoProto(name=result)
        output.type.tensor_type.elem_type = element
        bodies[f"{word}_branch"] = helper.make_graph([node], word, [], [output])
    model.graph.node.append(helper.make_node("If", [CONDITION], ["near_miss_captured"], **bodies))  # type: ignore[arg-type]
    model.graph.input.append(helper.make_tensor_value_info(CONDITION, TensorProto.BOOL, []))
    output = model.graph.output.add(name="near_miss_captured")
    output.type.tensor_type.elem_type = element
    return Variant(f"captured: {name}", loosen(model), given={CONDITION: np.array(True)})


def inputs(case: Case) -> Iterator[Variant]:
    """Two inputs replaced by one; an input that is a constant."""
    values = list(case.model.graph.input)
    for i, kept in enumerate(values):
        for gone in values[i + 1 :]:
            if kept.type.tensor_type.elem_type == gone.type.tensor_type.elem_type:
                yield Variant(f"one input: {kept.name} for {gone.name}", loosen(_tied(case, kept.name, gone.name)))
    feeds = case.feeds[0] if case.feeds else {}
    for position, value in enumerate(values):
        array = feeds.get(value.name)
        if isinstance(array, np.ndarray):
            model = case.copy()
            del model.graph.input[position]
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
            yield Variant(f"constant input: {value.name}", loosen(model))


def _tied(case: Case, kept: str, gone: str) -> ModelProto:
    model = case.copy()
    replace_items(model.graph.input, [v for v in model.graph.input if v.name != gone])
    rename([model.graph], lambda name: kept if name == gone else name)
    return model


def repeated_reads(case: Case) -> Iterator[Variant]:
    """Each interior result read twice: the nodes that read it are duplicated, and their results are added."""
    for position, output in enumerate(case.model.graph.output):
        if not is_float(output.type.tensor_type.elem_type):
            continue
        model = case.copy()
        graph: GraphProto = model.graph
        producer = next((n for n in graph.node if output.name in n.output), None)
        if producer is None or producer.op_type == "Constant":
            continue
        twin = deepcopy(producer)
        twin.output[:] = [f"near_miss_twin_{i}" if name else "" for i, name in enumerate(producer.output)]
        graph.node.append(twin)
        graph.output.append(ValueInfoProto(name=twin.output[list(producer.output).index(output.name)]))
        graph.output[-1].type.CopyFrom(graph.output[position].type)
        yield Variant(f"twice: {producer.op_type} of {output.name}", loosen(model))
