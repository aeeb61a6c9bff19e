"""Bounds of integers, deduced from the nodes that compute them: sizes, positions, flags."""

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.match import GraphView, Node

from .._nodes import size_along
from .._shapes import may_be_empty

LONGEST_AXIS: Final = 2**28
"""Upper bound of the number of elements of a tensor on a GPU or an NPU.

A buffer of WebGPU holds 2^28 bytes.
"""
_DEPTH: Final = 24
"""Maximum number of nodes from a result to the constants and sizes that it is computed from."""
_LARGEST_CONSTANT: Final = 1 << 20
"""Maximum number of elements of a constant whose minimum and maximum are computed."""
_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1


class Bounds(NamedTuple):
    """A lower and an upper bound of the numbers of a tensor."""

    low: int
    high: int

    @property
    def fit(self) -> bool:
        """Whether 32 bits hold all numbers."""
        return self.low >= _INT32_MIN and self.high <= _INT32_MAX


_TYPES: Final[Mapping[int, Bounds]] = {
    TensorProto.BOOL: Bounds(0, 1),
    TensorProto.INT8: Bounds(-128, 127),
    TensorProto.UINT8: Bounds(0, 255),
    TensorProto.INT16: Bounds(-(2**15), 2**15 - 1),
    TensorProto.UINT16: Bounds(0, 2**16 - 1),
    TensorProto.INT32: Bounds(_INT32_MIN, _INT32_MAX),
}
_EXTREMES: Final = ("ReduceMax", "ReduceMin")
"""Reductions whose result for no number is the least or the greatest integer of 64 bits."""
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
    *_EXTREMES,
)
_POSITIONS: Final = ("NonZero", "ArgMax", "ArgMin")


def bounds_of(g: GraphView, name: str, depth: int = _DEPTH) -> Bounds | None:
    """The bounds of integers, ``None`` when they are not known to fit into 32 bits."""
    bounds = _bounds(g, name, depth)
    return bounds if bounds is not None and bounds.fit else None


def _bounds(g: GraphView, name: str, depth: int) -> Bounds | None:
    constant = g.get_computed_constant(name)
    if constant is not None:
        return _of_constant(constant)
    node = g.node_before(name)
    if node is None or node.domain or not depth:
        return _of_index(g, name)
    if node.op_type == "Shape":
        return _of_sizes(g, node)
    if node.op_type in _POSITIONS:
        return Bounds(0, LONGEST_AXIS)
    if node.op_type == "Cast":
        source = node.input[0]
        is_integer = g.try_infer_type(source) in (TensorProto.INT32, TensorProto.INT64)
        inner = _bounds(g, source, depth - 1) if is_integer else None
        return inner or _TYPES.get(g.try_infer_type(source))
    rule = _RULES.get(node.op_type)
    if rule is None or (node.op_type in _EXTREMES and _may_be_empty(g, node.input[0])):
        return _of_index(g, name)
    operands = [bounds_of(g, operand, depth - 1) for operand in node.input[rule[0]] if operand]
    limits = [bounds for bounds in operands if bounds is not None]
    if len(limits) < len(operands):
        return _of_index(g, name)
    return rule[1](limits)


def _may_be_empty(g: GraphView, name: str) -> bool:
    shape = g.try_infer_shape(name)
    return shape is None or bool(may_be_empty(g, shape))


def _of_sizes(g: GraphView, node: Node) -> Bounds:
    """The bounds of the sizes that a Shape reads.

    A symbolic size is at most `LONGEST_AXIS` divided by the product of the static sizes.
    """
    shape = g.try_infer_shape(node.input[0])
    if not shape:
        return Bounds(0, LONGEST_AXIS)
    static = [size for size in shape if isinstance(size, int)]
    longest = LONGEST_AXIS // max(math.prod(static), 1)
    sizes = shape[node.get_attribute("start") or 0 : node.get_attribute("end")]
    lows = [size if isinstance(size, int) else 0 for size in sizes]
    highs = [size if isinstance(size, int) else longest for size in sizes]
    return Bounds(min(lows, default=0), max(highs, default=0))


def _of_constant(constant: np.ndarray) -> Bounds | None:
    if constant.dtype.kind not in "iub" or not 0 < constant.size <= _LARGEST_CONSTANT:
        return None
    return Bounds(int(constant.min()), int(constant.max()))


def _of_index(g: GraphView, name: str) -> Bounds | None:
    """The bounds of indices of an axis of static size: other indices are errors."""
    for node in g.next_nodes(name):
        if node.op_type != "Gather" or node.domain or list(node.input).index(name) != 1:
            continue
        rank = g.info(node.input[0]).rank
        axis = g.get_attribute(node, "axis")
        length = size_along(g, node.input[0], axis % rank) if rank else None
        if isinstance(length, int):
            return Bounds(-length, length - 1)
    return None


def _union(terms: list[Bounds]) -> Bounds:
    return Bounds(min(term.low for term in terms), max(term.high for term in terms))


def _sum(terms: list[Bounds]) -> Bounds:
    return Bounds(sum(term.low for term in terms), sum(term.high for term in terms))


def _difference(terms: list[Bounds]) -> Bounds:
    first, second = terms
    return Bounds(first.low - second.high, first.high - second.low)


def _product(terms: list[Bounds]) -> Bounds:
    first, second = terms
    products = [a * b for a in first for b in second]
    return Bounds(min(products), max(products))


def _negative(terms: list[Bounds]) -> Bounds:
    return Bounds(-terms[0].high, -terms[0].low)


def _magnitude(terms: list[Bounds]) -> Bounds:
    return Bounds(0, max(abs(terms[0].low), abs(terms[0].high)))


def _running_sum(terms: list[Bounds]) -> Bounds:
    low, high = terms[0]
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
"""For each operator, the operands that give the bounds of its result, and the rule to use."""


def operand_places(node: Node) -> list[int]:
    """The positions of the operands whose integers have the type of the result.

    For a comparison, the positions of the operands that are compared.
    """
    places = _DATA.get(node.op_type, _ALL)
    return [place for place in range(len(node.input))[places] if node.input[place]]


_DATA: Final[Mapping[str, slice]] = {
    **dict.fromkeys(_MOVES, _FIRST),
    "CumSum": _FIRST,
    "Where": slice(1, 3),
}
