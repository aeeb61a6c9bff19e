"""Other operands: repeated, reordered, read elsewhere, at limits of the specification."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)
from onnx.defs import OpSchema

from xoptim.facts.dtypes import is_float, is_integer, is_signed_integer
from xoptim.facts.protos import replace_items
from xoptim.facts.schema import schema
from xoptim.operators.registry import is_commutative
from xoptim.testing.variant import (
    Case,
    Variant,
    all_graphs,
    constants,
    insert,
    loosen,
    nodes_of,
    opset_of,
    remove_constant,
    rename,
    set_constant,
)

CONDITION = "near_miss_condition"


def swapped(case: Case) -> Iterator[Variant]:
    """Operands of commutative nodes swapped: one node at a time, then all."""
    pairs = enumerate(_all_nodes(case.model))
    places = [
        i
        for i, n in pairs
        if is_commutative(n.op_type, n.domain) and len(n.input) == 2 and n.input[0] != n.input[1]
    ]
    for selection in [*([place] for place in places), *([places] if len(places) > 1 else [])]:
        model = case.copy()
        nodes = _all_nodes(model)
        for place in selection:
            nodes[place].input[:] = list(nodes[place].input)[::-1]
        yield Variant(f"operands: {', '.join(nodes[p].op_type for p in selection)} swapped", model)


def _all_nodes(model: ModelProto) -> list[NodeProto]:
    return [node for graph in all_graphs(model.graph) for node in graph.node]


def read_elsewhere(case: Case) -> Iterator[Variant]:
    """Each interior result as an output, read by a second node, captured by a subgraph."""
    for name in case.interior:
        type_proto = case.types.get(name)
        if type_proto is None or type_proto.WhichOneof("value") is None:
            continue
        model = case.copy()
        model.graph.output.append(ValueInfoProto(name=name, type=type_proto))
        yield Variant(f"output too: {name}", loosen(model))
        reader = _reader(case, name)
        if reader is not None:
            model = case.copy()
            model.graph.node.append(reader)
            model.graph.output.append(ValueInfoProto(name=reader.output[0], type=type_proto))
            yield Variant(f"second reader: {name}", loosen(model))
        if type_proto.HasField("tensor_type"):
            yield _captured(case, name)


def _reader(case: Case, name: str) -> NodeProto | None:
    """A node that distinguishes values and is not an Identity.

    For floats and signed integers, its operator is one that the example lacks, if possible: equal
    nodes would be merged.
    """
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
    bodies: dict[str, Any] = {}
    for word in ("then", "else"):
        result = f"near_miss_{word}"
        node = helper.make_node("Identity", [name], [result])
        if word == "else" and is_float(element):
            node = helper.make_node("Neg", [name], [result])
        output = ValueInfoProto(name=result)
        output.type.tensor_type.elem_type = element
        bodies[f"{word}_branch"] = helper.make_graph([node], word, [], [output])
    model.graph.node.append(helper.make_node("If", [CONDITION], ["near_miss_captured"], **bodies))
    model.graph.input.append(helper.make_tensor_value_info(CONDITION, TensorProto.BOOL, []))
    output = model.graph.output.add(name="near_miss_captured")
    output.type.tensor_type.elem_type = element
    return Variant(f"captured: {name}", loosen(model), given={CONDITION: np.array(True)})


def inputs(case: Case) -> Iterator[Variant]:
    """Two inputs replaced by one; an input that is a constant."""
    values = list(case.model.graph.input)
    for i, first in enumerate(values):
        for second in values[i + 1 :]:
            if first.type.tensor_type.elem_type == second.type.tensor_type.elem_type:
                yield Variant(
                    f"one input: {first.name} for {second.name}",
                    loosen(_tied(case, first.name, second.name)),
                )
    feeds = case.feeds[0] if case.feeds else {}
    for position, value in enumerate(values):
        array = feeds.get(value.name)
        if isinstance(array, np.ndarray):
            model = case.copy()
            del model.graph.input[position]
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
            yield Variant(f"constant input: {value.name}", loosen(model))


def _tied(case: Case, first: str, second: str) -> ModelProto:
    model = case.copy()
    replace_items(model.graph.input, [v for v in model.graph.input if v.name != second])
    rename([model.graph], lambda name: first if name == second else name)
    return model


def repeated_reads(case: Case) -> Iterator[Variant]:
    """Each output of floats computed twice: its producer has a copy, whose result is an output."""
    for position, output in enumerate(case.model.graph.output):
        if not is_float(output.type.tensor_type.elem_type):
            continue
        model = case.copy()
        graph: GraphProto = model.graph
        producer = next((n for n in graph.node if output.name in n.output), None)
        if producer is None or producer.op_type == "Constant":
            continue
        twin = deepcopy(producer)
        twin.output[:] = [
            f"near_miss_twin_{i}" if name else "" for i, name in enumerate(producer.output)
        ]
        graph.node.append(twin)
        graph.output.append(
            ValueInfoProto(name=twin.output[list(producer.output).index(output.name)])
        )
        graph.output[-1].type.CopyFrom(graph.output[position].type)
        yield Variant(f"twice: {producer.op_type} of {output.name}", loosen(model))


_OTHER = "near_miss_other"
_LEADING = 2
_MAX_SIZE = 1 << 12
"""Largest element that a size replaces."""
_RANGES = ((5, 0.7, -0.1), (0, 1, 0.1), (0.3, 0, -0.1), (1, 3, 0.4))
"""Bounds and steps whose quotient is close to a whole number."""
_ANY_NUMBER = OpSchema.FormalParameterOption.Variadic


def inserted(case: Case) -> Iterator[Variant]:
    """Nodes with any number of operands get one more at each position: a repeated or a new one.

    A search for the position of a repeated operand may find the wrong one: Concat(p, p, q),
    Concat(p, z, p, q).
    """
    for position, node in enumerate(case.model.graph.node):
        if not is_variadic(case.model, node):
            continue
        operands = list(node.input)
        seen = {tuple(operands)}
        for place in range(len(operands) + 1):
            for name in dict.fromkeys((*operands, _OTHER)):
                yield from _variant(
                    case, position, [*operands[:place], name, *operands[place:]], seen
                )
        for name in dict.fromkeys(operands):
            yield from _variant(case, position, [name, _OTHER, *operands], seen)
            yield from _variant(case, position, [*operands, _OTHER, name], seen)
        yield from _variant(case, position, operands * 2, seen)


def repeated(case: Case) -> Iterator[Variant]:
    """Each operand of a node in place of each other one of the same type."""
    for position, node in enumerate(case.model.graph.node):
        operands = list(node.input)
        seen = {tuple(operands)}
        for place, old in enumerate(operands):
            for name in dict.fromkeys(operands):
                if name and old and case.dtype(name) and case.dtype(name) == case.dtype(old):
                    yield from _variant(
                        case, position, [*operands[:place], name, *operands[place + 1 :]], seen
                    )


def is_variadic(model: ModelProto, node: NodeProto) -> bool:
    """Whether a node may have any number of operands."""
    definition = schema(node.op_type, node.domain, opset_of(model, node.domain))
    return (
        definition is not None
        and bool(definition.inputs)
        and definition.inputs[-1].option == _ANY_NUMBER
    )


def _variant(
    case: Case, position: int, operands: Sequence[str], seen: set[tuple[str, ...]]
) -> Iterator[Variant]:
    if tuple(operands) in seen:
        return
    seen.add(tuple(operands))
    model = case.copy()
    node = model.graph.node[position]
    # A Range from a number to itself is empty: onnxruntime's Concat leaves the column of an empty
    # tensor unwritten, so that GatherND reads uninitialized memory, also in the original.
    if node.op_type == "Range" and operands[0] == operands[1]:
        return
    if _OTHER in operands:
        type_proto = case.types.get(node.input[0])
        if type_proto is None or not type_proto.HasField("tensor_type"):
            return
        model.graph.input.append(ValueInfoProto(name=_OTHER, type=type_proto))
    node.input[:] = operands
    yield Variant(f"repeated: {node.op_type} {position} of {', '.join(operands)}", loosen(model))


def empty(case: Case) -> Iterator[Variant]:
    """Each constant vector of integers with its elements removed.

    Then the same with all inputs constant, so that the model is folded.
    """
    feeds = case.feeds[0] if case.feeds else {}
    for name, array in constants(case.model):
        if array.dtype.kind != "i" or array.ndim != 1 or not array.size:
            continue
        model = case.copy()
        set_constant(model, name, array[:0])
        yield Variant(f"empty: {name}", loosen(model))
        folded = deepcopy(model)
        del folded.graph.input[:]
        folded.graph.initializer.extend(
            numpy_helper.from_array(value, key)
            for key, value in feeds.items()
            if isinstance(value, np.ndarray)
        )
        yield Variant(f"empty: {name}, all inputs constant", loosen(folded))


def targets(case: Case) -> Iterator[Variant]:
    """The shape operand of each Reshape of an input as -1 and one dimension of that input.

    If the dimension is 0, Reshape copies the input's dimension at its index. The other dimensions
    are fixed, so that the shape operand could be a constant. The first two dimensions of inputs are
    assumed not to be 0.
    """
    graph = case.model.graph
    inputs = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.input}
    for position, node in enumerate(graph.node):
        if (
            node.op_type != "Reshape"
            or node.domain
            or any(a.name == "allowzero" and a.i for a in node.attribute)
        ):
            continue
        for axis in range(_LEADING, inputs.get(node.input[0], 0)):
            for word, operands in (
                ("-1, size", "detour_rest, detour_size"),
                ("size, -1", "detour_size, detour_rest"),
            ):
                model = case.copy()
                _fix_others(next(v for v in model.graph.input if v.name == node.input[0]), axis)
                nodes = nodes_of(
                    f"detour_shape = Shape({node.input[0]}) "
                    "detour_size = Gather(detour_shape, detour_axis) "
                    f"detour_target = Concat <axis = 0> ({operands})"
                )
                model.graph.node[position].input[1] = "detour_target"
                insert(
                    model,
                    position,
                    nodes,
                    {"detour_rest": np.array([-1]), "detour_axis": np.array([axis])},
                )
                yield Variant(f"target: Reshape {position} to {word} of axis {axis}", loosen(model))


def _fix_others(value: ValueInfoProto, axis: int) -> None:
    for position, dim in enumerate(value.type.tensor_type.shape.dim):
        if position == axis:
            dim.dim_param = "near_miss_size"
        elif not dim.HasField("dim_value"):
            dim.dim_value = 5 + position


def computed(case: Case) -> Iterator[Variant]:
    """Each vector of integers as a Concat of its elements, one replaced by a size of an input."""
    if opset_of(case.model) < 11:
        return
    for name, array in constants(case.model):
        if array.dtype != np.int64 or array.ndim != 1 or not 0 < array.size <= 4:
            continue
        for index in np.flatnonzero((array >= 0) & (array <= _MAX_SIZE)).tolist():
            model = case.copy()
            remove_constant(model, name)
            parts = ", ".join(
                f"{name}_{i}" if i != index else "detour_size" for i in range(array.size)
            )
            stored = {f"{name}_{i}": array[i : i + 1] for i in range(array.size) if i != index}
            insert(
                model,
                0,
                nodes_of(f"detour_size = Shape({_OTHER}) {name} = Concat <axis = 0> ({parts})"),
                stored,
            )
            model.graph.input.append(
                helper.make_tensor_value_info(_OTHER, TensorProto.FLOAT, ["near_miss_size"])
            )
            feed = np.zeros(int(array[index]), np.float32)
            yield Variant(f"computed: {name}[{index}]", loosen(model), given={_OTHER: feed})
            yield Variant(f"computed: {name}[{index}] = 0", model, given={_OTHER: feed[:0]})


def ranges(case: Case) -> Iterator[Variant]:
    """An example with Range, next to a Range over floats with a step that binary numbers cannot
    represent.
    """
    if not any(node.op_type == "Range" and not node.domain for node in case.model.graph.node):
        return
    for element, dtype in ((TensorProto.FLOAT, np.float32), (TensorProto.DOUBLE, np.float64)):
        for bounds in _RANGES:
            model = case.copy()
            names = ["detour_start", "detour_limit", "detour_delta"]
            nodes = nodes_of(f"detour = Range({', '.join(names)}) detour_count = Shape(detour)")
            insert(
                model, 0, nodes, {n: np.array(v, dtype) for n, v in zip(names, bounds, strict=True)}
            )
            model.graph.output.append(helper.make_tensor_value_info("detour", element, None))
            model.graph.output.append(
                helper.make_tensor_value_info("detour_count", TensorProto.INT64, None)
            )
            yield Variant(f"range: {np.dtype(dtype)} {bounds}", model)
