"""Numbers with which a model compares sizes."""

import math
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from xoptim.facts.dims import Dim, SymbolicDim
from xoptim.facts.dtypes import is_float, is_integer
from xoptim.facts.shapes import Shape
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.operators.protocols import Indices
from xoptim.operators.registry import ALL_OPERANDS, Trait, has_trait, operator_of, operators_with
from xoptim.verification.inputs.landmarks import NARROW_LIMITS
from xoptim.verification.inputs.sized import SizedModel

_SMALL: Final = 1024  # most elements of a constant that is read
_POSITIONS: Final = 4  # most positions of an axis this many times as long as a limit exceed it
_BOXES_PER_KEPT: Final = 8
_MAX_SIZE: Final = 1 << 16  # beyond, a number means "all", or an axis is too long to be tried
_ANY: Final = frozenset({"?"})
"""A symbol that belongs to no input: the size is unknown."""
_LOG: Final = frozenset({"log("})
"""Marks the symbols of a logarithm of sizes, such as the bucket of a distance."""
# a bound of a logarithm is for much larger sizes: the 32 buckets of T5 are for distances up to 128
_LOG_FACTOR: Final = 8
_MEASURING: Final = operators_with(Trait.MEASURES, Trait.ARG_REDUCES) | {"CumSum", "NonZero"}
"""Operators whose results are sizes of the first operand, or positions along its axes."""
_SHIFTING: Final = frozenset(("Min", "Max", "Clip", "Range", "Add", "Sub", "Div", "Mod"))
_COMPARING: Final = _SHIFTING | operators_with(Trait.COMPARES)
"""Operators that compare sizes with their other operands, or shift sizes before a comparison."""
_COMPUTING: Final = frozenset((
    *_SHIFTING, "Mul", "Neg", "Abs", "Floor", "Ceil", "Round", "Log", "Sum", "ReduceSum",
    "ReduceProd", "If", "Loop", "Scan",
))  # fmt: skip
"""Operators that compute sizes or positions from those of any operand."""
_LIMITS: Final = ("min", "max", "local_window_size")
"""Attributes that bound sizes or values."""
_Numbers: TypeAlias = Iterator[tuple[int, frozenset[str]]]
"""Numbers, each with the symbols of the size that it is compared with."""


class Bound(NamedTuple):
    """A number with which a model compares sizes, and the dynamic dimensions that make the size
    larger, ``None`` if unknown.
    """

    size: int
    dims: frozenset[str] | None


def size_bounds(model: SizedModel) -> list[Bound]:
    """The numbers with which a model compares sizes, in order."""
    if model.graph is None:
        return []
    bounds = {
        Bound(size, None if symbols & _ANY else model.dims(symbols))
        for size, symbols in _BoundSearch().bounds(model.graph)
    }
    return sorted(bounds, key=by_size)


def by_size(bound: Bound) -> tuple[int, list[str]]:
    """The key that sorts bounds by their sizes."""
    return bound.size, sorted(bound.dims or ())


class _BoundSearch:
    """Follows sizes through a model."""

    def __init__(self) -> None:
        self._sizes: dict[str, frozenset[str]] = {}
        """Symbols from which the elements of a result follow, where these are sizes or
        positions.
        """

    def bounds(self, graph: Graph) -> set[tuple[int, frozenset[str]]]:
        """Each number, with the symbols of the size that it is compared with."""
        pairs: list[tuple[int, frozenset[str]]] = []
        for function in graph.model.functions:
            self._sizes = dict.fromkeys(function.body.inputs, _ANY)
            pairs += self._walk(function.body)
        self._sizes = {}  # functions have names of their own
        pairs += self._walk(graph)
        scaled = (
            (abs(size) * (_LOG_FACTOR if symbols & _LOG else 1), symbols - _LOG)
            for size, symbols in pairs
        )
        return {(size, symbols) for size, symbols in scaled if symbols and 1 < size < _MAX_SIZE}

    def _walk(self, graph: Graph) -> _Numbers:
        for node in graph.nodes:
            slots = _slots(node)
            operands = [name for slot, name in enumerate(node.input) if not slots or slot in slots]
            carried = frozenset().union(*map(self._followed, [graph] * len(operands), operands))
            for body in node.bodies.values():
                self._sizes.update(dict.fromkeys(body.inputs, carried))
                yield from self._walk(body)
                carried |= frozenset().union(
                    *map(self._followed, [body] * len(body.outputs), body.outputs)
                )
            yield from self._compared(graph, node, carried)
            symbols = self._computed(graph, node, carried)
            if symbols:
                self._sizes.update(dict.fromkeys(node.output, symbols))

    def _followed(self, graph: Graph, name: str) -> frozenset[str]:
        """The symbols from which the elements of a result follow."""
        data = graph.info_of(name).data if name else None
        return self._sizes.get(name, frozenset()) if data is None else _symbols(data)

    def _computed(self, graph: Graph, node: Node, carried: frozenset[str]) -> frozenset[str]:
        if node.op_type in _MEASURING:
            shape = graph.info_of(node.input[0]).shape
            axis: Dim | None = None
            if node.op_type == "CumSum":
                axis = (graph.info_of(node.input[1]).data or (None,))[0]
            elif has_trait("", node.op_type, Trait.ARG_REDUCES):
                axis = node.get_attribute("axis", 0)
            length = _length(shape, axis)
            return _ANY if shape is None else _symbols(shape if length is None else (length,))
        is_call = (node.domain, node.op_type) in graph.model.function_operators()
        if node.op_type == "Log" and carried:
            return carried | _LOG
        return carried if is_call or (not node.domain and _slots(node)) else frozenset()

    def _compared(self, graph: Graph, node: Node, carried: frozenset[str]) -> _Numbers:
        """Numbers that a node compares with sizes."""
        if node.op_type == "Slice" and not node.domain:
            yield from self._sliced(graph, node)
        elif node.op_type in ("Reshape", "TopK", "Trilu") and not node.domain:
            yield from _shaped(graph, node)
        elif node.op_type == "Resize" and not node.domain:
            yield from _shrunk(graph, node)
        elif node.op_type == "NonMaxSuppression" and not node.domain:
            yield from _selected(graph, node)
        elif node.op_type in _COMPARING and not node.domain:
            constants = (_numbers(graph, name) for name in node.input)
            yield from (
                (math.ceil(abs(number)), carried) for numbers in constants for number in numbers
            )
        if node.op_type == "Cast":
            limits = NARROW_LIMITS.get(node.get_attribute("to", 0), ())
            yield from ((_POSITIONS * (number + 1), carried) for number in limits)
        for name in _LIMITS:
            limit = node.attribute.get(name)
            if isinstance(limit, int | float) and math.isfinite(limit):
                yield (
                    math.ceil(limit),
                    _symbols(graph.info_of(node.input[0]).shape or ()) if node.domain else carried,
                )
        for slot, name in enumerate(node.input):
            kind = operator_of(node.domain, node.op_type).operand_kinds.get(slot)
            if isinstance(kind, Indices):
                yield from self._indexed(graph, node, name, kind)

    def _indexed(self, graph: Graph, node: Node, indices: str, place: Indices) -> _Numbers:
        """Lengths of the axes that are indexed by positions, and constant positions along open
        axes.
        """
        table, axis = place
        shape = graph.info_of(node.input[table]).shape if table < len(node.input) else None
        if shape is None:
            return
        if axis == "all":
            depth = (graph.info_of(indices).shape or (len(shape),))[-1]
            start = node.attribute.get("batch_dims", 0)
            lengths = shape[start : start + depth] if isinstance(depth, int) else shape
        else:
            at = axis if isinstance(axis, int) else node.get_attribute(axis, 0)
            lengths = shape[at : at + 1 or None]
        followed = self._followed(graph, indices)
        constants = list(_numbers(graph, indices))
        for length in lengths:
            if isinstance(length, int):
                yield length, followed
            else:
                yield from ((int(number) + 1, length.symbols) for number in constants)

    def _sliced(self, graph: Graph, node: Node) -> _Numbers:
        """Constant ends along dynamic axes, and lengths of fixed axes whose ends are sizes."""
        shape = graph.info_of(node.input[0]).shape if node.input else None
        operands = [
            _elements(graph, node, slot, name) for slot, name in ((1, "starts"), (2, "ends"))
        ]
        axes = _elements(graph, node, 3, "axes")
        for place in range(max(map(len, operands))):
            length = _length(shape, axes[place] if place < len(axes) else place)
            symbols = _ANY if length is None else _symbols([length])
            for ends in operands:
                end = ends[place] if place < len(ends) else 0
                if isinstance(end, int):
                    yield end, symbols
                elif isinstance(length, int):
                    yield length, end.symbols
        if shape is not None and not any(operands) and len(node.input) > 2:
            followed = self._followed(graph, node.input[1]) | self._followed(graph, node.input[2])
            yield from ((length, followed) for length in shape if isinstance(length, int))


def _slots(node: Node) -> Collection[int]:
    """The operands whose sizes or positions are in the results."""
    is_computing = node.op_type in _COMPUTING
    return ALL_OPERANDS if is_computing else operator_of(node.domain, node.op_type).carried


def _shaped(graph: Graph, node: Node) -> _Numbers:
    """Numbers by which a node divides or cuts dynamic axes."""
    before = graph.info_of(node.input[0]).shape
    symbols = _ANY if before is None else _symbols(before)
    if node.op_type != "Reshape":
        if before is not None:
            axis = node.attribute.get("axis", -1)
            symbols = _symbols(
                before[-2:] if node.op_type == "Trilu" else before[axis : axis + 1 or None]
            )
        yield from (
            (int(number), symbols)
            for number in _numbers(graph, node.input[1] if len(node.input) > 1 else "")
        )
        return
    after = graph.info_of(node.output[0]).shape
    old, new = ([dim for dim in shape or () if isinstance(dim, int)] for shape in (before, after))
    if _fixed(before) != _fixed(after):  # otherwise no dynamic axis is cut
        yield from ((size, symbols) for size in new if size not in old)


def _shrunk(graph: Graph, node: Node) -> _Numbers:
    """For each dynamic axis that a Resize shrinks, the size at which one element is left."""
    shape = graph.info_of(node.input[0]).shape or ()
    scales = _numbers(graph, node.input[2] if len(node.input) > 2 else "")
    axes = node.attribute.get("axes") or range(len(shape))
    for axis, scale in zip(axes, scales, strict=False):
        length = _length(shape, axis)
        if length is not None and 0 < scale < 1:
            yield math.ceil(1 / scale), _symbols([length])


def _selected(graph: Graph, node: Node) -> _Numbers:
    """Numbers of boxes: several for each box that a NonMaxSuppression keeps."""
    length = _length(graph.info_of(node.input[0]).shape, 1)
    if length is not None:
        numbers = _numbers(graph, node.input[2] if len(node.input) > 2 else "")
        yield from ((_BOXES_PER_KEPT * int(number), _symbols([length])) for number in numbers)


def _fixed(shape: Shape | None) -> int | None:
    """The part of the number of elements that does not depend on dynamic dimensions, such as 8 of
    ``(2*n, 4)``.
    """
    if shape is None:
        return None
    factors = (
        math.gcd(dim.constant, *(number for _, number in dim.terms))
        for dim in shape
        if isinstance(dim, SymbolicDim)
    )
    return math.prod(factors) * math.prod(dim for dim in shape if isinstance(dim, int))


def _length(shape: Shape | None, axis: Dim | None) -> Dim | None:
    is_known = shape is not None and isinstance(axis, int) and -len(shape) <= axis < len(shape)
    return shape[axis] if is_known else None  # type: ignore[index]


def _symbols(dims: Iterable[Dim]) -> frozenset[str]:
    return frozenset().union(*(dim.symbols for dim in dims if isinstance(dim, SymbolicDim)))


def _elements(graph: Graph, node: Node, slot: int, attribute: str) -> tuple[Dim, ...]:
    """The elements of an operand, or of the attribute of older operator sets; none when unknown."""
    if attribute in node.attribute:
        return tuple(node.attribute[attribute])
    name = node.input[slot] if slot < len(node.input) else ""
    return (graph.info_of(name).data or ()) if name else ()


def _numbers(graph: Graph, name: str) -> list[float]:
    tensor = graph.tensor(name) if name else None
    if (
        tensor is None
        or tensor.size > _SMALL
        or not tensor.is_readable()
        or not (is_integer(tensor.dtype) or is_float(tensor.dtype))
    ):
        return []
    numbers = np.asarray(tensor.numpy()).astype(np.float64).reshape(-1)
    finite: list[float] = numbers[np.abs(numbers) < _MAX_SIZE].tolist()
    return finite
