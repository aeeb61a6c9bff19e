"""Further computations: nodes whose effects cancel out, and sizes whose products overflow."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from onnx import ModelProto, TensorProto, helper

from xoptim.facts.dtypes import is_float, numpy_dtype
from xoptim.operators.registry import Trait, operators_with
from xoptim.testing.variant import Case, Variant, insert, loosen, nodes_of, opset_of

_MEASURING: Final = operators_with(Trait.MEASURES)

_AXES_ARE_OPERANDS: Final = 13
_HUGE_SIZE: Final = 2**31 + 1
"""A size above the range of 32 bits. A tensor may have it if another dimension is 0."""
_WRAPPING: Final[dict[int, int]] = {TensorProto.INT64: 2**62, TensorProto.INT32: 2**30}
"""Numbers whose product with 2 does not fit the type.

The wrapped product, divided again, is another number.
"""


def higher_rank(case: Case) -> Iterator[Variant]:
    """Each float tensor multiplied by a constant of one element and the same rank.

    Then the same between an Unsqueeze and a Squeeze, with a constant of one more axis.
    """
    if opset_of(case.model) < _AXES_ARE_OPERANDS:
        return
    for name in _edges(case):
        rank, element = case.rank(name), case.dtype(name)
        if rank is None or not is_float(element):
            continue
        for extra_axes in (0, 1):
            factor = np.full([1] * (rank + extra_axes), 1.5).astype(numpy_dtype(element))
            text = f"detour = Mul({name}, detour_factor)"
            stored = {"detour_factor": factor}
            if extra_axes:
                stored["detour_axes"] = np.array([0], np.int64)
                text = (
                    f"detour_up = Unsqueeze({name}, detour_axes) "
                    "detour_scaled = Mul(detour_up, detour_factor) "
                    "detour = Squeeze(detour_scaled, detour_axes)"
                )
            model = _through(case, name, text, stored)
            yield Variant(f"detour: {name} through {extra_axes} axes more", model)


def counts(case: Case) -> Iterator[Variant]:
    """Each integer times a number that makes it overflow, divided by that number."""
    for name in _edges(case):
        if case.dtype(name) != TensorProto.INT64:
            continue
        for element, factor in _WRAPPING.items():
            text, stored = _wrapped(name, element)
            yield Variant(f"detour: {name} times {factor}", _through(case, name, text, stored))


def _wrapped(name: str, element: int) -> tuple[str, dict[str, np.ndarray]]:
    """Nodes that multiply and divide a 64-bit integer by the same large number, in an integer type;
    and that number.
    """
    stored = {"detour_factor": np.array(_WRAPPING[element], numpy_dtype(element))}
    body = "detour_product = Mul({0}, detour_factor) {1} = Div(detour_product, detour_factor)"
    if element == TensorProto.INT64:
        return body.format(name, "detour"), stored
    inner = body.format("detour_narrow", "detour_quotient")
    return (
        f"detour_narrow = Cast <to = 6> ({name}) {inner} detour = Cast <to = 7> (detour_quotient)",
        stored,
    )


def sizes(case: Case) -> Iterator[Variant]:
    """More outputs for an example that computes with sizes: a size, and computations with it that
    overflow.
    """
    if not any(node.op_type in _MEASURING for node in case.model.graph.node):
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
    for element, factor in _WRAPPING.items():
        text, stored = _wrapped("detour_size", element)
        yield Variant(
            f"count: size of {name} times {factor}", _with_outputs(case, name, axis, text, stored)
        )
    yield from _cubes(case, name, axis)


def _cubes(case: Case, name: str, axis: int) -> Iterator[Variant]:
    """The cube of a size, divided by its square.

    The size is above the range of 32 bits, and another dimension is 0.
    """
    value = next(v for v in case.model.graph.input if v.name == name)
    dims = value.type.tensor_type.shape.dim
    empty = next(
        (i for i, dim in enumerate(dims) if i != axis and not dim.HasField("dim_value")), None
    )
    # another input of that size would not fit the memory
    if empty is None or len(case.model.graph.input) > 1:
        return
    text = (
        "detour_square = Mul(detour_size, detour_size) "
        "detour_cube = Mul(detour_square, detour_size) detour = Div(detour_cube, detour_square)"
    )
    model = _with_outputs(case, name, axis, text, {})
    shape = [
        0 if i == empty else _HUGE_SIZE if i == axis else dim.dim_value or 1
        for i, dim in enumerate(dims)
    ]
    feed = np.zeros(shape, numpy_dtype(value.type.tensor_type.elem_type))
    yield Variant(f"count: cube of the size of {name}", loosen(model), given={name: feed})


def _edges(case: Case) -> list[str]:
    return [
        *(v.name for v in case.model.graph.input if v.type.HasField("tensor_type")),
        *case.interior,
    ]


def _through(case: Case, name: str, text: str, stored: Mapping[str, np.ndarray]) -> ModelProto:
    """A copy in which the result ``detour`` of some nodes replaces a result wherever a node of the
    main graph reads it.
    """
    model = case.copy()
    nodes = model.graph.node
    place = next((i + 1 for i, node in enumerate(nodes) if name in node.output), 0)
    for node in nodes[place:]:
        node.input[:] = ["detour" if operand == name else operand for operand in node.input]
    insert(model, place, nodes_of(text), stored)
    return loosen(model)


def _with_outputs(
    case: Case, name: str, axis: int, text: str, stored: Mapping[str, np.ndarray]
) -> ModelProto:
    """A copy with nodes that compute with a size of an input.

    This size and their result ``detour`` are outputs.
    """
    model = case.copy()
    nodes = nodes_of(
        f"detour_shape = Shape({name}) detour_size = Gather(detour_shape, detour_axis) {text}"
    )
    insert(model, len(model.graph.node), nodes, {"detour_axis": np.array(axis, np.int64), **stored})
    for result in ("detour_size", "detour"):
        model.graph.output.append(helper.make_tensor_value_info(result, TensorProto.INT64, None))
    return model
