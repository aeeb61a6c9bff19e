"""Integer operands at the limits of the specification of an operator, and sizes of other tensors."""

from collections.abc import Iterator
from copy import deepcopy

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from xoptim.testing.models import opset_of
from xoptim.testing.variant import Case, Variant, constants, insert, loosen, nodes_of, remove_constant, set_constant

_OTHER = "near_miss_other"
_LEADING = 2
_LONGEST = 1 << 12
"""Largest element that a size replaces."""
_RANGES = ((5, 0.7, -0.1), (0, 1, 0.1), (0.3, 0, -0.1), (1, 3, 0.4))
"""Bounds and steps whose quotient is close to a whole number."""


def empty(case: Case) -> Iterator[Variant]:
    """Each vector of integers without elements, with inputs and with all inputs constant, so that it is folded."""
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
            numpy_helper.from_array(value, key) for key, value in feeds.items() if isinstance(value, np.ndarray)
        )
        yield Variant(f"empty: {name}, all inputs constant", loosen(folded))


def targets(case: Case) -> Iterator[Variant]:
    """The shape of each Reshape of an input from -1 and one of its sizes, which may be 0: then it copies another axis.

    The other sizes are fixed, so that the shape could be written as a constant. The first two axes of inputs are taken not to
    be empty.
    """
    graph = case.model.graph
    inputs = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.input}
    for position, node in enumerate(graph.node):
        if node.op_type != "Reshape" or node.domain or any(a.name == "allowzero" and a.i for a in node.attribute):
            continue
        for axis in range(_LEADING, inputs.get(node.input[0], 0)):
            for word, operands in (("-1, size", "detour_rest, detour_size"), ("size, -1", "detour_size, detour_rest")):
                model = case.copy()
                _fix_others(next(v for v in model.graph.input if v.name == node.input[0]), axis)
                nodes = nodes_of(
                    f"detour_shape = Shape({node.input[0]}) detour_size = Gather(detour_shape, detour_axis) "
                    f"detour_target = Concat <axis = 0> ({operands})"
                )
                model.graph.node[position].input[1] = "detour_target"
                insert(model, position, nodes, {"detour_rest": np.array([-1]), "detour_axis": np.array([axis])})
                yield Variant(f"target: Reshape {position} to {word} of axis {axis}", loosen(model))


def _fix_others(value: ValueInfoProto, axis: int) -> None:
    for position, dim in enumerate(value.type.tensor_type.shape.dim):
        if position == axis:
            dim.dim_param = "near_miss_size"
        elif not dim.HasField("dim_value"):
            dim.dim_value = 5 + position


def computed(case: Case) -> Iterator[Variant]:
    """Each vector of integers joined from its elements, with a size of another input among them."""
    if opset_of(case.model) < 11:
        return
    for name, array in constants(case.model):
        if array.dtype != np.int64 or array.ndim != 1 or not 0 < array.size <= 4:
            continue
        for index in np.flatnonzero((array >= 0) & (array <= _LONGEST)).tolist():
            model = case.copy()
            remove_constant(model, name)
            parts = ", ".join(f"{name}_{i}" if i != index else "detour_size" for i in range(array.size))
            stored = {f"{name}_{i}": array[i : i + 1] for i in range(array.size) if i != index}
            insert(model, 0, nodes_of(f"detour_size = Shape({_OTHER}) {name} = Concat <axis = 0> ({parts})"), stored)
            model.graph.input.append(helper.make_tensor_value_info(_OTHER, TensorProto.FLOAT, ["near_miss_size"]))
            fed = np.zeros(int(array[index]), np.float32)
            yield Variant(f"computed: {name}[{index}]", loosen(model), given={_OTHER: fed})
            yield Variant(f"computed: {name}[{index}] = 0", model, given={_OTHER: fed[:0]})


def ranges(case: Case) -> Iterator[Variant]:
    """Beside an example that counts with Range, floats counted by steps that binary numbers cannot represent."""
    if not any(node.op_type == "Range" and not node.domain for node in case.model.graph.node):
        return
    for element, dtype in ((TensorProto.FLOAT, np.float32), (TensorProto.DOUBLE, np.float64)):
        for bounds in _RANGES:
            model = case.copy()
            names = ["detour_start", "detour_limit", "detour_delta"]
            nodes = nodes_of(f"detour = Range({', '.join(names)}) detour_count = Shape(detour)")
            insert(model, 0, nodes, {n: np.array(v, dtype) for n, v in zip(names, bounds, strict=True)})
            model.graph.output.append(helper.make_tensor_value_info("detour", element, None))
            model.graph.output.append(helper.make_tensor_value_info("detour_count", TensorProto.INT64, None))
            yield Variant(f"range: {np.dtype(dtype)} {bounds}", model)
