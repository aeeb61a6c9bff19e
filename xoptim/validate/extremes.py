"""Sizes at the ends: above the numbers that a model is written for, 1, and 0.

Some rewrites are right for small sizes only: a Slice that ends at 512 takes all of 9 positions, and
a Clip of a length has no effect. Axes of length 1 broadcast, and Squeeze drops them. An empty axis
is the other end, such as the past of a decoder at its first step. The first two axes of inputs,
batch and length, are taken not to be empty unless the default set of assumptions is switched off;
nor are images that a window moves over, where ONNX gives the result a size below 1 and onnxruntime
returns a result nevertheless.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from xoptim.facts.assumptions import USUAL, Assumptions
from xoptim.facts.dims import Dim, SymbolicDim
from xoptim.facts.dtypes import is_float, is_integer
from xoptim.facts.schema import WINDOWED
from xoptim.facts.shapes import Shape
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.validate.dims import InputSpec, Purpose, Sizes, names_in, open_dimensions
from xoptim.validate.input_kinds import INDEXES, TRANSPARENT
from xoptim.validate.landmarks import NARROW_LIMITS
from xoptim.validate.sized import SizedModel

_SMALL: Final = 1024  # most elements of a constant that is read
_POSITIONS: Final = 4  # an axis this many times as long has most positions above a limit
_LARGEST: Final = 1 << 16  # beyond, a number means "all", or an axis is too long to be tried
_ANY: Final = frozenset({"?"})
"""A symbol that belongs to no input: the size is unknown."""
_LOG: Final = frozenset({"log("})
"""Marks the symbols of a logarithm of sizes, such as the bucket of a distance."""
# such a number bounds sizes that are much larger: the 32 buckets of T5 are for distances up to 128
_LOG_FACTOR: Final = 8
_MEASURING: Final = ("Shape", "Size", "CumSum", "NonZero", "ArgMax", "ArgMin")
"""Operators whose results are sizes of the first operand, or positions along its axes."""
_SHIFTING: Final = frozenset(("Min", "Max", "Clip", "Range", "Add", "Sub", "Div", "Mod"))
_COMPARING: Final = _SHIFTING | {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"}
"""Operators that compare sizes with their other operands, or shift sizes before a comparison."""
_CARRYING: Final = TRANSPARENT | dict.fromkeys(
    (
        *_SHIFTING,
        "Mul",
        "Neg",
        "Abs",
        "Floor",
        "Ceil",
        "Round",
        "Log",
        "Sum",
        "ReduceSum",
        "ReduceProd",
        "If",
        "Loop",
        "Scan",
    )
)
"""Operators whose results are sizes or positions when an operand is, and the operands that matter
(``None``: any).
"""
_LIMITS: Final = ("min", "max", "local_window_size")
"""Attributes that bound sizes or values."""
_Met: TypeAlias = Iterator[tuple[int, frozenset[str]]]
"""Numbers, each with the symbols of the size that it meets."""


class Bound(NamedTuple):
    """A number with which a model compares sizes, and the open dimensions that make the size
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
        for size, symbols in _Search().bounds(model.graph)
    }
    return sorted(bounds, key=_by_size)


def _by_size(bound: Bound) -> tuple[int, list[str]]:
    return bound.size, sorted(bound.dims or ())


class _Search:
    """Follows sizes through a model."""

    def __init__(self) -> None:
        self._sizes: dict[str, frozenset[str]] = {}
        """Symbols from which the elements of a result follow, where these are sizes or
        positions.
        """

    def bounds(self, graph: Graph) -> set[tuple[int, frozenset[str]]]:
        """Each number, with the symbols of the size that it meets."""
        pairs: list[tuple[int, frozenset[str]]] = []
        for function in graph.model.functions:
            self._sizes = dict.fromkeys(function.body.inputs, _ANY)
            pairs += self._walk(function.body)
        self._sizes = {}  # names of functions are their own
        pairs += self._walk(graph)
        scaled = (
            (abs(size) * (_LOG_FACTOR if symbols & _LOG else 1), symbols - _LOG)
            for size, symbols in pairs
        )
        return {(size, symbols) for size, symbols in scaled if symbols and 1 < size < _LARGEST}

    def _walk(self, graph: Graph) -> _Met:
        for node in graph.nodes:
            slots = _CARRYING.get(node.op_type)
            operands = [
                name for slot, name in enumerate(node.input) if slots is None or slot in slots
            ]
            carried = frozenset().union(*map(self._followed, [graph] * len(operands), operands))
            for body in node.bodies.values():
                self._sizes.update(dict.fromkeys(body.inputs, carried))
                yield from self._walk(body)
                carried |= frozenset().union(
                    *map(self._followed, [body] * len(body.outputs), body.outputs)
                )
            yield from self._met(graph, node, carried)
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
            elif node.op_type in ("ArgMax", "ArgMin"):
                axis = node.get_attribute("axis", 0)
            length = _length(shape, axis)
            return _ANY if shape is None else _symbols(shape if length is None else (length,))
        is_call = (node.domain, node.op_type) in graph.model.function_operators()
        if node.op_type == "Log" and carried:
            return carried | _LOG
        return (
            carried if is_call or (not node.domain and node.op_type in _CARRYING) else frozenset()
        )

    def _met(self, graph: Graph, node: Node, carried: frozenset[str]) -> _Met:
        """Numbers that a node compares with sizes."""
        if node.op_type == "Slice" and not node.domain:
            yield from self._sliced(graph, node)
        elif node.op_type in ("Reshape", "TopK", "Trilu") and not node.domain:
            yield from _shaped(graph, node)
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
            place = INDEXES.get((node.domain, node.op_type, slot))
            if place is not None:
                yield from self._indexed(graph, node, name, place)

    def _indexed(
        self, graph: Graph, node: Node, indices: str, place: tuple[int, str | int]
    ) -> _Met:
        """Lengths of the axes that are indexed by positions, and constant positions along open
        axes.
        """
        table, axis = place
        shape = graph.info_of(node.input[table]).shape if table < len(node.input) else None
        if shape is None:
            return
        if axis == "all":
            depth = (graph.info_of(indices).shape or (len(shape),))[-1]
            first = node.attribute.get("batch_dims", 0)
            lengths = shape[first : first + depth] if isinstance(depth, int) else shape
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

    def _sliced(self, graph: Graph, node: Node) -> _Met:
        """Ends along open axes, and lengths of other axes that end at a size."""
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


def _shaped(graph: Graph, node: Node) -> _Met:
    """Numbers by which a node divides or cuts open axes."""
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
    if _fixed(before) != _fixed(after):  # otherwise no open axis is cut
        yield from ((size, symbols) for size in new if size not in old)


def _fixed(shape: Shape | None) -> int | None:
    """The part of the number of elements that does not depend on open dimensions, such as 8 of
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
    known = shape is not None and isinstance(axis, int) and -len(shape) <= axis < len(shape)
    return shape[axis] if known else None  # type: ignore[index]


def _symbols(dims: Iterable[Dim]) -> frozenset[str]:
    return frozenset().union(*(dim.symbols for dim in dims if isinstance(dim, SymbolicDim)))


def _elements(graph: Graph, node: Node, slot: int, attribute: str) -> tuple[Dim, ...]:
    """The elements of an operand that was an attribute once, none when unknown."""
    if attribute in node.attribute:
        return tuple(node.attribute[attribute])
    name = node.input[slot] if slot < len(node.input) else ""
    return (graph.info_of(name).data or ()) if name else ()


def _numbers(graph: Graph, name: str) -> list[float]:
    tensor = graph.tensor(name) if name else None
    if (
        tensor is None
        or tensor.is_external
        or tensor.size > _SMALL
        or not (is_integer(tensor.dtype) or is_float(tensor.dtype))
    ):
        return []
    numbers = np.asarray(tensor.numpy()).astype(np.float64).reshape(-1)
    finite: list[float] = numbers[np.abs(numbers) < _LARGEST].tolist()
    return finite


_STEP: Final = 16  # sizes grow by multiples: many models divide them by powers of two
_CRASHING: Final = frozenset(
    {"AttnLSTM", "DynamicQuantizeLSTM", "Einsum", "GRU", "LSTM", "RNN", "STFT"}
)
"""Operators whose kernels end the process when an axis is empty, instead of raising an error."""
_ODD_STEP: Final = 3
_EQUAL: Final = 3  # rows and columns of a small square
_MOST_DOUBLED: Final = 3
_MOST_EXACT: Final = 1024
_MOST_BOUNDS: Final = 4
_MOST_ALONE: Final = 4  # axes that have the length 1 beside longer ones
_LENGTHS: Final[tuple[Purpose, ...]] = ("sequence", "past", "space")
_EMPTY: Final[tuple[Purpose, ...]] = ("past", "sequence", "space", "batch")


def may_divide_by_zero(model: SizedModel) -> bool:
    """Whether integers are divided by a computed number, which ends the process in some versions
    when it is 0.
    """
    if model.graph is None:
        return True
    nodes = (
        node
        for graph in model.graph.model.graphs()
        for node in graph.nodes
        if node.op_type in ("Div", "Mod")
    )
    return any(
        node.graph is not None
        and not is_float(node.graph.info_of(node.output[0]).dtype)
        and node.graph.tensor(node.input[1]) is None
        for node in nodes
    )


class Ends:
    """Assignments of sizes at both ends, made from one, ``base``, on which the original runs.

    ``models`` are the original and a model that is compared with it, whose numbers count as well.
    ``fixed`` are sizes that the user has chosen; ``work`` returns the work of a run. Sizes hold the
    assumptions.
    """

    def __init__(
        self,
        specs: Sequence[InputSpec],
        models: Sequence[SizedModel],
        base: Sizes,
        fixed: Mapping[str, int],
        work: Callable[[Sizes], int],
        assumptions: Assumptions = USUAL,
    ) -> None:
        self._purposes = open_dimensions(specs)
        self._base = base
        self._work, self._fitted = work, assumptions.fitted
        self._free = {
            name: purpose
            for name, purpose in self._purposes.items()
            if name not in fixed and name in base
        }
        found = (
            {bound for model in models for bound in size_bounds(model)}
            if self._free
            else set[Bound]()
        )
        self._bounds = sorted(found, key=_by_size)
        leading = {
            name for spec in specs for entry in (spec.shape or ())[:2] for name in names_in(entry)
        }
        self._leading = leading if assumptions.has("nonempty") else set[str]()
        graphs = [
            graph
            for model in models
            if model.graph is not None
            for graph in model.graph.model.graphs()
        ]
        operators = {node.op_type for graph in graphs for node in graph.nodes}
        self._has_windows = bool(operators & WINDOWED)
        unsafe = operators & _CRASHING or any(map(may_divide_by_zero, models))
        self._may_be_empty = () if unsafe else _EMPTY[:1] if operators & WINDOWED else _EMPTY

    def large(self) -> list[list[list[Sizes]]]:
        """For each axis that meets numbers, assignments with increasing sizes of it, the largest
        above all of them.

        Of the entries of one rung, the caller runs the first that can be run: the axis grows alone,
        or with all lengths, so that those that must be equal stay equal.
        """
        steps = self._steps()
        lengths = [name for name, purpose in self._free.items() if purpose in _LENGTHS]
        axes = []
        for name, found in steps.items():
            group = lengths if name in lengths else [name]
            pairs = (
                (self._grown({name: step}), self._grown(dict.fromkeys(group, step)))
                for step in sorted(found)
                if step > 0
            )
            axes.append(
                [[alone] if alone == together else [alone, together] for alone, together in pairs]
            )
        return axes

    def _steps(self) -> dict[str, set[int]]:
        """By how much each dimension grows to be next to a number, or above it."""
        steps: dict[str, set[int]] = {}
        for bound in self._bounds:
            for name, step in self._raised(bound):
                steps.setdefault(name, set()).update((step - _STEP, step))
        return steps

    def _raised(self, bound: Bound) -> list[tuple[str, int]]:
        """Steps that bring a size above a number: of its cheapest dimension, or of all lengths when
        these are unknown.
        """
        dims = self._lengths_of(bound.dims if bound.dims is not None else self._free)
        size = sum(self._base[name] for name in dims) if bound.dims is not None else 0
        step = _STEP * ((bound.size - size) // _STEP + 1)
        pairs = [(name, step) for name in dims if name in self._free]
        if bound.dims is None:
            return [(name, step) for name, step in pairs if self._free[name] in _LENGTHS] or pairs
        return sorted(pairs, key=lambda pair: self._work(self._grown(dict((pair,)))))[:1]

    def _lengths_of(self, dims: Iterable[str]) -> list[str]:
        """Dimensions in order; a total is replaced by the past and the sequence that it covers."""
        names = list(dims)
        parts = [
            name for name, purpose in self._purposes.items() if purpose in ("past", "sequence")
        ]
        if parts and any(self._purposes[name] == "total" for name in names):
            names = [name for name in names if self._purposes[name] != "total"] + parts
        return [name for name in self._purposes if name in names and name in self._base]

    def single(self, sizes: Sizes) -> Sizes:
        """The same with batches of one, but for a batch that has grown: it costs less, and lengths
        meet the same numbers.
        """
        batches = [
            name
            for name, purpose in self._free.items()
            if purpose == "batch" and sizes[name] == self._base[name]
        ]
        return self._fitted(sizes | dict.fromkeys(batches, 1))

    def ones(self) -> Iterator[Sizes]:
        """Assignments in which axes have the length 1: all, then each of the first ones alone.

        Totals cover the others.

        Where a model has windows, such as a pool, one more has axes of the next length.
        """
        steps = {
            name: 1 - self._base[name] for name, purpose in self._free.items() if purpose != "total"
        }
        yield self._grown(steps)
        yield from (self._grown({name: steps[name]}) for name in list(steps)[:_MOST_ALONE])
        if self._has_windows:  # which do not cut all sizes alike
            yield self._grown(dict.fromkeys(steps, 1))

    def related(self) -> Iterator[Sizes]:
        """Assignments in which sizes are odd, equal, twice each other, or the numbers that they
        meet.

        Some rewrites are right unless a size is the multiple of a number, or of another axis. Where
        a model has windows, no size becomes smaller.
        """
        free = [name for name, purpose in self._free.items() if purpose != "total"]
        largest = max((self._base[name] for name in free), default=0)
        yield self._grown(dict.fromkeys(free, _ODD_STEP))
        yield self._made(dict.fromkeys(free, max(_EQUAL, largest)))
        yield from () if self._has_windows else self._exact(free)
        highest = {name: max(steps) for name, steps in self._steps().items() if max(steps) > 0}
        if len(highest) > 1:
            yield self._grown(highest)

    def _exact(self, free: Sequence[str]) -> Iterator[Sizes]:
        """Assignments in which sizes are twice each other, and those in which one is a number that
        it meets.
        """
        doubled = free[:_MOST_DOUBLED]
        yield self._made({name: _EQUAL << place for place, name in enumerate(doubled)})
        exact = [bound for bound in self._bounds if bound.dims and 0 < bound.size <= _MOST_EXACT]
        for bound in exact[:_MOST_BOUNDS]:
            for name in self._lengths_of(bound.dims or ()):
                if name in self._free:
                    yield self._made({name: bound.size})

    def _made(self, sizes: Mapping[str, int]) -> Sizes:
        """The base with other sizes of some dimensions."""
        return self._grown({name: size - self._base[name] for name, size in sizes.items()})

    def empty(self) -> Iterator[Sizes]:
        """Assignments in which all axes of one purpose are empty, the strongest test first.

        None when that could crash.
        """
        for purpose in self._may_be_empty:
            mine = [name for name in self._free if self._free[name] == purpose]
            names = [name for name in mine if purpose == "past" or name not in self._leading]
            if any(self._base[name] for name in names):
                yield self._grown({name: -self._base[name] for name in names})

    def _grown(self, steps: Mapping[str, int]) -> Sizes:
        """The base with sizes changed; totals cover past and sequence."""
        change = {self._purposes[name]: step for name, step in steps.items()}
        total = change.get("past", 0) + change.get("sequence", 0)
        totals = {name: total for name, purpose in self._free.items() if purpose == "total"}
        grown = self._base | {
            name: self._base[name] + step for name, step in {**totals, **steps}.items()
        }
        return self._fitted({name: max(size, 0) for name, size in grown.items()})
