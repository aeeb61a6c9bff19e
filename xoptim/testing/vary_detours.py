"""Results that pass through other nodes: through a higher rank, and, for sizes, through numbers that overflow."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from xoptim.facts.dtypes import is_float, numpy_dtype
from xoptim.facts.protos import replace_items
from xoptim.testing.models import opset_of
from xoptim.testing.variant import Case, Variant, loosen

_AXES_ARE_OPERANDS: Final = 13
_HUGE_SIZE: Final = 2**31 + 1
"""A size above the range of 32 bits. A tensor may have such an axis when another one is empty."""
_WRAPPING: Final[dict[int, int]] = {TensorProto.INT64: 2**62, TensorProto.INT32: 2**30}
"""Numbers whose product with 2 does not fit the type; the wrapped product, divided again, is another number."""


def higher_rank(case: Case) -> Iterator[Variant]:
    """Each float multiplied by a constant of one element that has as many axes, or one more that is taken away again."""
    if opset_of(case.model) < _AXES_ARE_OPERANDS:
        return
    for name in _edges(case):
        rank, element = case.rank(name), case.dtype(name)
        if rank is None or not is_float(element):
            continue
        for more in (0, 1):
            factor = np.full([1] * (rank + more), 1.5).astype(numpy_dtype(element))
            nodes = [helper.make_node("Mul", ["detour_up", "detour_factor"] if more else [name, "detour_factor"], ["detour"])]
            if more:
                nodes.insert(0, helper.make_node("Unsqueeze", [name, "detour_axes"], ["detour_up"]))
                nodes[1].output[0] = "detour_scaled"
                nodes.append(helper.make_node("Squeeze", ["detour_scaled", "detour_axes"], ["detour"]))
            stored = {"detour_factor": factor, "detour_axes": np.array([0], np.int64)}
            model = _through(case, name, nodes, stored if more else {"detour_factor": factor})
            yield Variant(f"detour: {name} through {more} axes more", model)


def counts(case: Case) -> Iterator[Variant]:
    """Each integer times a number that makes it overflow, divided by that number."""
    for name in _edges(case):
        if case.dtype(name) != TensorProto.INT64:
            continue
        for element, factor in _WRAPPING.items():
            nodes = wrapped(name, "detour", element)
            yield Variant(f"detour: {name} times {factor}", _through(case, name, nodes, wrapping_constants(element)))


def wrapped(name: str, result: str, element: int) -> list[NodeProto]:
    """Nodes that multiply and divide a 64-bit integer by the same large number, in an integer type."""
    narrow = element == TensorProto.INT32
    source, target = ("detour_narrow", "detour_quotient") if narrow else (name, result)
    nodes = [helper.make_node("Mul", [source, "detour_factor"], ["detour_product"])]
    nodes.append(helper.make_node("Div", ["detour_product", "detour_factor"], [target]))
    if narrow:
        nodes.insert(0, helper.make_node("Cast", [name], [source], to=TensorProto.INT32))
        nodes.append(helper.make_node("Cast", [target], [result], to=TensorProto.INT64))
    return nodes


def wrapping_constants(element: int) -> dict[str, np.ndarray]:
    """The constants that `wrapped` reads."""
    return {"detour_factor": np.array(_WRAPPING[element], numpy_dtype(element))}


def sizes(case: Case) -> Iterator[Variant]:
    """Beside an example that computes with sizes, computations with one that overflow, as outputs, with the size itself."""
    if not any(node.op_type in ("Shape", "Size") for node in case.model.graph.node):
        return
    place = next(
        (
            (value.name, axis)
            for value in case.model.graph.input
            for axis, dim in enumerate(value.type.tensor_type.shape.dim)
            if not dim.HasField("dim_value")
        ),
        None,
    )
    if place is None:
        return
    name, axis = place
    head = helper.make_node("Shape", [name], ["detour_shape"])
    size = helper.make_node("Gather", ["detour_shape", "detour_axis"], ["detour_size"])
    for element, factor in _WRAPPING.items():
        model = case.copy()
        model.graph.node.extend([head, size, *wrapped("detour_size", "detour", element)])
        _store(model, {"detour_axis": np.array(axis, np.int64), **wrapping_constants(element)})
        _outputs(model, ("detour_size", "detour"))
        yield Variant(f"count: size of {name} times {factor}", model)
    yield from _cubes(case, name, axis)


def _cubes(case: Case, name: str, axis: int) -> Iterator[Variant]:
    """The cube of a size, divided by its square; the size is above the range of 32 bits, and another axis is empty."""
    value = next(v for v in case.model.graph.input if v.name == name)
    dims = value.type.tensor_type.shape.dim
    empty = next((i for i, dim in enumerate(dims) if i != axis and not dim.HasField("dim_value")), None)
    if empty is None or len(case.model.graph.input) > 1:  # another input of that size would not fit the memory
        return
    model = case.copy()
    calls = [("Mul", ["detour_size"] * 2, "detour_square"), ("Mul", ["detour_square", "detour_size"], "detour_cube")]
    calls.append(("Div", ["detour_cube", "detour_square"], "detour"))
    model.graph.node.append(helper.make_node("Shape", [name], ["detour_shape"]))
    model.graph.node.append(helper.make_node("Gather", ["detour_shape", "detour_axis"], ["detour_size"]))
    model.graph.node.extend(helper.make_node(op_type, operands, [result]) for op_type, operands, result in calls)
    _store(model, {"detour_axis": np.array(axis, np.int64)})
    _outputs(model, ("detour_size", "detour"))
    shape = [0 if i == empty else _HUGE_SIZE if i == axis else dim.dim_value or 1 for i, dim in enumerate(dims)]
    fed = np.zeros(shape, numpy_dtype(value.type.tensor_type.elem_type))
    yield Variant(f"count: cube of the size of {name}", loosen(model), given={name: fed})


def _edges(case: Case) -> list[str]:
    return [*(v.name for v in case.model.graph.input if v.type.HasField("tensor_type")), *case.interior]


def _through(case: Case, name: str, nodes: Sequence[NodeProto], stored: Mapping[str, np.ndarray]) -> ModelProto:
    """A copy in which the result of the last node replaces a result wherever a node of the main graph reads it."""
    model = case.copy()
    result = nodes[-1].output[0]
    rest = list(model.graph.node)
    place = next((i + 1 for i, node in enumerate(rest) if name in node.output), 0)
    for node in rest[place:]:
        node.input[:] = [result if operand == name else operand for operand in node.input]
    replace_items(model.graph.node, (*rest[:place], *nodes, *rest[place:]))
    _store(model, stored)
    return loosen(model)


def _store(model: ModelProto, arrays: Mapping[str, np.ndarray]) -> None:
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())


def _outputs(model: ModelProto, names: Sequence[str]) -> None:
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in names)
