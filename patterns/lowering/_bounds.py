"""Bounds of integers that follow from how they are computed: sizes, positions, flags."""

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.match import GraphView, Node

from .._nodes import size_along

LONGEST_AXIS: Final = 2**28
"""More elements than a tensor on a GPU or a neural processor has: a buffer of WebGPU holds 2^28
bytes.
"""
_DEPTH: Final = 24
_LARGEST_CONSTANT: Final = 1 << 20
_LEAST: Final = -(2**31)
_MOST: Final = 2**31 - 1


class Bounds(NamedTuple):
    """The least and the greatest number of a tensor."""

    low: int
    high: int

    @property
    def fit(self) -> bool:
        """Whether 32 bits hold all numbers."""
        return self.low >= _LEAST and self.high <= _MOST


_TYPES: Final[Mapping[int, Bounds]] = {
    TensorProto.BOOL: Bounds(0, 1),
    TensorProto.INT8: Bounds(-128, 127),
    TensorProto.UINT8: Bounds(0, 255),
    TensorProto.INT16: Bounds(-(2**15), 2**15 - 1),
    TensorProto.UINT16: Bounds(0, 2**16 - 1),
    TensorProto.INT32: Bounds(_LEAST, _MOST),
}
_MOVES: Final = (
    "Unsqueeze",
    "Squeeze",
    "Reshape",
    "Slice",
    "Expand",
    "Transpose",
    "Identity",
    "Flatten",
    "Tile",
    "Gather",
    "GatherElements",
    "GatherND",
    "ReduceMax",
    "ReduceMin",
)
_SIZES: Final = ("NonZero", "ArgMax", "ArgMin")


def bounds_of(g: GraphView, name: str, depth: int = _DEPTH) -> Bounds | None:
    """The bounds of integers, ``None`` when they are not known to fit into 32 bits."""
    found = _bounds(g, name, depth)
    return found if found is not None and found.fit else None


def _bounds(g: GraphView, name: str, depth: int) -> Bounds | None:
    constant = g.get_computed_constant(name)
    if constant is not None:
        return _of_constant(constant)
    node = g.node_before(name)
    if node is None or node.domain or not depth:
        return _of_index(g, name)
    if node.op_type == "Shape":
        return _of_sizes(g, node)
    if node.op_type in _SIZES:
        return Bounds(0, LONGEST_AXIS)
    if node.op_type == "Cast":
        source = node.input[0]
        is_integer = g.try_infer_type(source) in (TensorProto.INT32, TensorProto.INT64)
        inner = _bounds(g, source, depth - 1) if is_integer else None
        return inner or _TYPES.get(g.try_infer_type(source))
    rule = _RULES.get(node.op_type)
    if rule is None:
        return _of_index(g, name)
    operands = [bounds_of(g, each, depth - 1) for each in node.input[rule[0]] if each]
    known = [each for each in operands if each is not None]
    if len(known) < len(operands):
        return _of_index(g, name)
    return rule[1](known)


def _of_sizes(g: GraphView, node: Node) -> Bounds:
    """The bounds of the sizes that a Shape reads: the more elements the other axes have, the
    shorter an open one is.
    """
    shape = g.try_infer_shape(node.input[0])
    if not shape:
        return Bounds(0, LONGEST_AXIS)
    known = [size for size in shape if isinstance(size, int)]
    longest = LONGEST_AXIS // max(math.prod(known), 1)
    read = shape[node.get_attribute("start") or 0 : node.get_attribute("end")]
    lows = [size if isinstance(size, int) else 0 for size in read]
    highs = [size if isinstance(size, int) else longest for size in read]
    return Bounds(min(lows, default=0), max(highs, default=0))


def _of_constant(constant: np.ndarray) -> Bounds | None:
    if constant.dtype.kind not in "iub" or not 0 < constant.size <= _LARGEST_CONSTANT:
        return None
    return Bounds(int(constant.min()), int(constant.max()))


def _of_index(g: GraphView, name: str) -> Bounds | None:
    """The bounds of numbers that index an axis of a known size: others would be an error."""
    for node in g.next_nodes(name):
        if node.op_type != "Gather" or node.domain or list(node.input).index(name) != 1:
            continue
        rank = g.info(node.input[0]).rank
        axis = g.get_attribute(node, "axis")
        length = size_along(g, node.input[0], axis % rank) if rank else None
        if isinstance(length, int):
            return Bounds(-length, length - 1)
    return None


def _union(given: list[Bounds]) -> Bounds:
    return Bounds(min(each.low for each in given), max(each.high for each in given))


def _sum(given: list[Bounds]) -> Bounds:
    return Bounds(sum(each.low for each in given), sum(each.high for each in given))


def _difference(given: list[Bounds]) -> Bounds:
    first, second = given
    return Bounds(first.low - second.high, first.high - second.low)


def _product(given: list[Bounds]) -> Bounds:
    first, second = given
    products = [a * b for a in first for b in second]
    return Bounds(min(products), max(products))


def _negative(given: list[Bounds]) -> Bounds:
    return Bounds(-given[0].high, -given[0].low)


def _magnitude(given: list[Bounds]) -> Bounds:
    return Bounds(0, max(abs(given[0].low), abs(given[0].high)))


def _running_sum(given: list[Bounds]) -> Bounds:
    low, high = given[0]
    return Bounds(min(low, 0) * LONGEST_AXIS, max(high, 0) * LONGEST_AXIS)


_ALL: Final = slice(None)
_FIRST: Final = slice(1)
_RULES: Final[Mapping[str, tuple[slice, Callable[[list[Bounds]], Bounds]]]] = {
    **dict.fromkeys(_MOVES, (_FIRST, _union)),
    **dict.fromkeys(("Concat", "Min", "Max"), (_ALL, _union)),
    "Range": (slice(2), _union),
    "Where": (slice(1, 3), _union),
    "Add": (_ALL, _sum),
    "Sub": (_ALL, _difference),
    "Mul": (_ALL, _product),
    "Neg": (_FIRST, _negative),
    "Abs": (_FIRST, _magnitude),
    "CumSum": (_FIRST, _running_sum),
}
"""Operands that bounds are computed from, and how, by operator."""


def operand_places(node: Node) -> list[int]:
    """The places of the operands of a node that hold integers of the type of its result, or that it
    compares.
    """
    places = _DATA.get(node.op_type, _ALL)
    return [place for place in range(len(node.input))[places] if node.input[place]]


_DATA: Final[Mapping[str, slice]] = {
    **dict.fromkeys(_MOVES, _FIRST),
    "CumSum": _FIRST,
    "Where": slice(1, 3),
}
