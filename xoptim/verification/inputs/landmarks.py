"""Numbers near which a model may behave in another way: bounds of a Clip or a Slice, thresholds."""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, numpy_helper

from xoptim.facts.protos import (
    every_node,
    fed_inputs,
    is_external,
    own_graphs,
    proto_reads,
    standard_domain,
)
from xoptim.operators.registry import Trait, operator_of, operators_with

_MAX_ELEMENTS: Final = 16  # elements of a constant that is read
_MAX_NUMBERS: Final = 12  # of two models
_LARGEST_BOUND: Final = float(np.finfo(np.float32).max) / 4  # larger ones mean an infinity
NARROW_LIMITS: Final[Mapping[int, tuple[int, ...]]] = {
    onnx.TensorProto.INT8: (127,),
    onnx.TensorProto.UINT8: (255,),
    onnx.TensorProto.INT16: (32767,),
    onnx.TensorProto.UINT16: (65535,),
    onnx.TensorProto.INT32: (2**31 - 1,),
    onnx.TensorProto.BFLOAT16: (256,),
    onnx.TensorProto.FLOAT16: (2048,),
    onnx.TensorProto.FLOAT: (2**24,),
}
"""The largest integer up to which a type holds all integers."""
_LIMITS: Final = frozenset(
    float(number) for numbers in NARROW_LIMITS.values() for number in numbers
)
# the positions of RotaryEmbedding are rows of its caches, and do not count from the end
_INDEXING: Final = operators_with(Trait.INDEXES) | {"RotaryEmbedding"}
_OWNERS: Final = operators_with(Trait.OWNS_GRAPHS)
_MEASURING: Final = operators_with(Trait.MEASURES)


class Landmarks(NamedTuple):
    """The numbers of two models: ``all``, and the ``floats`` and ``integers`` that only one has.

    ``words`` are the strings of both models.
    """

    all: tuple[float, ...] = ()
    floats: tuple[float, ...] = ()
    integers: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    is_new: bool = False
    """Whether the other model has a bound, or an indexed table of a length, that the original
    lacks.
    """


def landmarks(original: onnx.ModelProto, other: onnx.ModelProto | None = None) -> Landmarks:
    """The bounds and thresholds in a model and in another one, those that only one of them has
    first.
    """
    left = set(_numbers(original))
    right = left if other is None else set(_numbers(other))
    changed = [*sorted(left ^ right, key=_order), *_between(left ^ right)]
    # Limits of a Cast matter only if one model lacks them: both may cast a mask to floats, for
    # instance.
    common = sorted((bound for bound in left & right if bound.number not in _LIMITS), key=_order)
    numbers = dict.fromkeys(bound.number for bound in (*changed, *common))
    floats, integers = (
        [bound.number for bound in changed if bound.is_float == kind] for kind in (True, False)
    )
    words = dict.fromkeys(
        word for model in (original, other) if model is not None for word in _words(model)
    )
    is_new = bool(right - left) or (
        other is not None and bool(_lengths(other) - _lengths(original))
    )
    return Landmarks(
        tuple(numbers)[:_MAX_NUMBERS],
        tuple(floats[:_MAX_NUMBERS]),
        tuple(integers[:_MAX_NUMBERS]),
        tuple(words)[:_MAX_NUMBERS],
        is_new,
    )


def _lengths(model: onnx.ModelProto) -> set[int]:
    """The lengths of the axes of stored tables that are indexed."""
    tables = {node.input[0] for node in _nodes(model) if node.op_type in _INDEXING and node.input}
    return {
        length
        for tensor in model.graph.initializer
        if tensor.name in tables
        for length in tensor.dims
    }


class _Bound(NamedTuple):
    number: float
    is_float: bool


def _between(changed: Collection[_Bound]) -> Iterator[_Bound]:
    """Numbers between neighbours, which may be close to each other."""
    for is_float in (True, False):
        numbers = sorted(bound.number for bound in changed if bound.is_float == is_float)
        for low, high in itertools.islice(itertools.pairwise(numbers), _MAX_NUMBERS):
            yield _Bound((low + high) / 2 if is_float else float((low + high) // 2), is_float)


def _order(bound: _Bound) -> tuple[float, float]:
    return abs(bound.number), bound.number


def _numbers(model: onnx.ModelProto) -> Iterator[_Bound]:
    constants = _constants(model)
    for node in _nodes(model):
        operator = operator_of(standard_domain(node.domain), node.op_type)
        bounds = [
            _Bound(kink, is_float=True) for kink in operator.kinks if not isinstance(kink, str)
        ]
        if not operator.traits.isdisjoint((Trait.BOUNDS, Trait.COMPARES)):
            bounds += [bound for name in node.input for bound in constants.get(name, ())]
        if node.op_type == "Cast":
            bounds += [
                _Bound(number, is_float=False)
                for a in node.attribute
                for number in NARROW_LIMITS.get(a.i, ())
            ]
        bounds += [
            bound for a in node.attribute if a.name in operator.kinks for bound in _stored(a)
        ]
        yield from (
            bound
            for bound in bounds
            if math.isfinite(bound.number) and 0 < abs(bound.number) < _LARGEST_BOUND
        )


def _words(model: onnx.ModelProto) -> Iterator[str]:
    """The strings that a model contains: constants, attributes of several strings, delimiters."""
    tensors = list(model.graph.initializer)
    for node in _nodes(model):
        tensors += [
            attribute.t for attribute in node.attribute if attribute.type == AttributeProto.TENSOR
        ]
        yield from (
            text.decode("utf-8", "replace")
            for a in node.attribute
            for text in a.strings[:_MAX_ELEMENTS]
        )
        delimiters = (a.s for a in node.attribute if a.name == "delimiter")
        yield from (text.decode("utf-8", "replace") for text in delimiters if text)
    for tensor in tensors:
        if tensor.data_type == onnx.TensorProto.STRING:
            yield from (
                text.decode("utf-8", "replace") for text in tensor.string_data[:_MAX_ELEMENTS]
            )


def _nodes(model: onnx.ModelProto) -> Iterator[NodeProto]:
    yield from every_node(
        [*model.graph.node, *(node for function in model.functions for node in function.node)]
    )


def _constants(model: onnx.ModelProto) -> dict[str, list[_Bound]]:
    """The elements of small numeric constants, by name."""
    elements = {tensor.name: _elements(tensor) for tensor in model.graph.initializer}
    for node in _nodes(model):
        if node.op_type == "Constant" and node.attribute:
            elements[node.output[0]] = _stored(node.attribute[0])
        elif node.op_type in _OWNERS:
            elements |= {
                tensor.name: _elements(tensor)
                for graph in own_graphs(node)
                for tensor in graph.initializer
            }
    return elements


def _stored(attribute: AttributeProto) -> list[_Bound]:
    if attribute.type == AttributeProto.TENSOR:
        return _elements(attribute.t)
    floats = [attribute.f] if attribute.type == AttributeProto.FLOAT else list(attribute.floats)
    integers = [attribute.i] if attribute.type == AttributeProto.INT else list(attribute.ints)
    bounds = [_Bound(number, is_float=True) for number in floats[:_MAX_ELEMENTS]]
    return bounds + [_Bound(float(number), is_float=False) for number in integers[:_MAX_ELEMENTS]]


def _elements(tensor: onnx.TensorProto) -> list[_Bound]:
    if is_external(tensor) or math.prod(tensor.dims) > _MAX_ELEMENTS:
        return []
    try:
        array = numpy_helper.to_array(tensor)
    except (TypeError, ValueError, KeyError):  # a damaged tensor, or a type that numpy lacks
        return []
    if array.dtype.kind in "OSUc":
        return []
    return [_Bound(float(number), array.dtype.kind not in "iub") for number in array.reshape(-1)]


def steers(model: onnx.ModelProto) -> bool:
    """Whether values of inputs may decide the sizes of results, or divide integers."""
    dependent = {value.name for value in fed_inputs(model)}
    return _steers(list(model.graph.node), dependent) or any(
        _steers(list(f.node), set(f.input)) for f in model.functions
    )


def _steers(nodes: list[NodeProto], dependent: set[str]) -> bool:
    """`steers` for nodes in order. ``dependent`` holds values that depend on inputs, and grows."""
    for node in nodes:
        first = operator_of(standard_domain(node.domain), node.op_type).steered_from
        if first is not None and dependent.intersection(node.input[first:]):
            return True
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                dependent.update(value.name for value in attribute.g.input)
                if _steers(list(attribute.g.node), dependent):
                    return True
        if node.op_type not in _MEASURING and not dependent.isdisjoint(proto_reads(node)):
            dependent.update(node.output)
    return False
