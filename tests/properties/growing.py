"""A graph in the making: values with known shapes, ranges and rounding errors, and the choices that
hypothesis makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

T = TypeVar("T")
Dim = tuple[int, ...]
"""Size of an axis in each of the runs."""
Shape = tuple[Dim, ...]
Move = Callable[["Growing"], None]


class Draw(Protocol):
    """The function that hypothesis gives to composite strategies."""

    def __call__(self, strategy: st.SearchStrategy[T]) -> T:
        """A value of a strategy."""


FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int64", "int32")
ELEMENTS = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
}
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10}
OPSETS = (18, 13, 17, 20, 21, 23)
RUNS = (((2, 3), (5, 1), (1, 4)), ((3, 2), (1, 1), (4, 0)), ((1, 3), (4, 2), (2, 5)))
"""Sizes of the two open dimensions in each run.

The first one leads the shapes of inputs, which are trusted not to be empty.
"""
LARGEST = {
    "float32": 100.0,
    "float64": 100.0,
    "float16": 30.0,
    "uint8": 255.0,
    "bool": 1.0,
    "string": 9.0,
}
_LARGEST_INTEGER = 2.0**20
_MOST_ERROR = 48.0
"""In units of the precision of 1, as the largest magnitudes suggest.

Results that may be further off are not made.
"""
_MOST_ELEMENTS = 400
_MOST_AXES = 5
_RECENT = 8
_IR_VERSION = 10


class Value(NamedTuple):
    """A result in the graph.

    Attributes:
        name: of the result.
        dtype: its element type.
        shape: its sizes.
        low: no element is less.
        high: no element is greater.
        error: by how much rewriting may change an element that is rounded, as a multiple of the
            precision of 1. Nothing may depend abruptly on a value of which this is not 0.
        data: the elements of an integer vector or scalar that is computed from shapes.
    """

    name: str
    dtype: str
    shape: Shape
    low: float
    high: float
    error: float = 0.0
    data: tuple[Dim, ...] | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def top(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def is_float(self) -> bool:
        """Whether it rounds."""
        return self.dtype in FLOATS


class Drawn(NamedTuple):
    """A model and what to run it on.

    Attributes:
        model: the model.
        feeds: inputs of each run.
        errors: the error of each output, in units of its values.
        measured: whether these errors are not known, so that the effect of rounding is measured
            where results differ.
    """

    model: onnx.ModelProto
    feeds: tuple[dict[str, np.ndarray], ...]
    errors: dict[str, float]
    measured: bool = False


@cache
def _below(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


@st.composite
def _steps(draw: Draw, g: Growing, step: Move, one_of: int) -> bool:
    if draw(_below(one_of)) == 0:
        return False
    step(g)
    return True


class Growing:
    """Grows a graph by moves that leave it valid at all sizes.

    Args:
        draw: as hypothesis gives it to composite strategies; not needed where `below` and `repeat`
            choose by themselves.
    """

    def __init__(self, draw: Draw | None = None) -> None:
        self._draw = draw
        self.opset = self.choose(OPSETS)
        self.sizes = self.choose(RUNS)
        self.depth = 0
        self.follows = False
        self.values: list[Value] = []
        self.inputs: list[Value] = []
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.optional: list[TensorProto] = []
        self.made: list[tuple[onnx.NodeProto, tuple[Value, ...]]] = []
        self.outside: list[tuple[onnx.NodeProto, tuple[Value, ...]]] = []
        """Nodes and results made before an inner graph, around it."""
        self._names = 0

    # ---------------------------------------------------------------- choices

    def below(self, count: int) -> int:
        """A number from 0 on."""
        assert self._draw is not None
        return self._draw(_below(count)) if count > 1 else 0

    def flag(self, one_of: int = 2) -> bool:
        """Whether, once in so many times."""
        return self.below(one_of) == one_of - 1

    def choose(self, options: Sequence[T]) -> T:
        """One of several things; the first ones are the simplest."""
        return options[self.below(len(options))]

    def repeat(self, step: Move, one_of: int) -> None:
        """Make moves until, once in so many times, it is enough.

        Each one is a piece of its own for hypothesis, to be left out when a graph shrinks.
        """
        assert self._draw is not None
        while self._draw(_steps(self, step, one_of)):
            pass

    def pick(self, test: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """A value that passes a test, mostly the latest."""
        found: list[Value] = []
        for value in reversed(self.values):
            if test(value):
                found.append(value)
                if len(found) == _RECENT or self.follows:
                    break
        return self.choose(found[: 1 if self.follows or self.flag() else None]) if found else None

    def number(self, least_rank: int = 0, dtypes: Sequence[str] = FLOATS) -> Value | None:
        """A value of some types."""
        return self.pick(lambda v: v.dtype in dtypes and v.rank >= least_rank)

    def exact(
        self, least_rank: int = 0, dtypes: Sequence[str] = (*FLOATS, *INTEGERS)
    ) -> Value | None:
        """A value that rounding does not reach."""
        return self.pick(lambda v: v.dtype in dtypes and v.rank >= least_rank and not v.error)

    # ---------------------------------------------------------------- pieces

    def name(self) -> str:
        """A new name."""
        self._names += 1
        return f"r{self._names}"

    def fixed(self, *sizes: int) -> Shape:
        """Axes of these sizes in every run."""
        return tuple((size,) * len(self.sizes) for size in sizes)

    def is_fixed(self, dim: Dim) -> bool:
        """Whether a size is the same in every run, and the graph may rely on it."""
        return len(set(dim)) == 1

    def emit(
        self, op_type: str, inputs: Sequence[Value | None], *results: Value, **attributes: Any
    ) -> Value | None:
        """Add a node.

        Args:
            op_type: its operator; one in another domain has the domain before it and ``::``.
            inputs: what it reads.
            *results: what is known of its outputs; the names are of no matter.
            **attributes: its attributes.

        Returns:
            The first output, ``None`` when it would be too large, too uncertain or too long.
        """
        if not all(map(_is_tame, results)):
            return None
        named = tuple(result._replace(name=self.name()) for result in results)
        names = [value.name if value is not None else "" for value in inputs]
        domain, _, op_type = op_type.rpartition("::")
        node = helper.make_node(
            op_type, names, [v.name for v in named], domain=domain, **attributes
        )
        self.nodes.append(node)
        self.values += named
        self.made.append((node, named))
        return named[0]

    def sequence(self, values: Sequence[Value]) -> Value:
        """Put values into a sequence, which cannot be picked."""
        made = values[0]._replace(name=self.name(), dtype="sequence")
        self.nodes.append(
            helper.make_node("SequenceConstruct", [v.name for v in values], [made.name])
        )
        return made

    def input(self, dtype: str, shape: Shape) -> Value:
        """Add an input of the graph."""
        low, high = {"bool": (0.0, 1.0), "uint8": (0.0, 9.0), "string": (0.0, 9.0)}.get(
            dtype, (-3.0, 3.0)
        )
        value = Value(f"x{len(self.inputs)}", dtype, shape, low, high)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def constant(self, value: Any, dtype: str = "float32") -> Value:
        """Add a constant, in one of the forms that a model has for it."""
        array = np.asarray(value, object if dtype == "string" else dtype)
        name = self.name()
        low, high = (
            (float(np.min(array)), float(np.max(array)))
            if array.size and dtype != "string"
            else (0.0, 0.0)
        )
        on_grid = dtype not in FLOATS or bool(np.all(array * 8 == np.round(array * 8)))
        shape = self.fixed(*array.shape)
        data = (
            tuple((int(v),) * len(self.sizes) for v in array.flat)
            if dtype == "int64" and array.ndim < 2
            else None
        )
        result = Value(
            name, dtype, shape, low, high, 0.0 if on_grid else max(abs(low), abs(high)), data
        )
        tensor = numpy_helper.from_array(array, name)
        _store(self, tensor, array, dtype)
        return result

    def ints(self, *elements: int) -> Value:
        """A constant vector of 64-bit integers."""
        return self.constant(list(elements), "int64")

    def weights(self, shape: Sequence[int], dtype: str = "float32") -> Value:
        """A constant of small quarters; all ones or zeros sometimes."""
        seed = self.below(6)
        if dtype in FLOATS:
            numbers = (
                np.zeros(shape)
                if seed == 1
                else np.ones(shape)
                if seed == 2
                else _quarters(seed, shape) / 4
            )
        else:
            numbers = np.abs(_quarters(seed, shape))
        return self.constant(numbers, dtype)

    # ---------------------------------------------------------------- inner graphs

    @contextmanager
    def scope(self) -> Iterator[tuple[list[onnx.NodeProto], list[TensorProto]]]:
        """Nodes and initializers of an inner graph; what is made within is forgotten afterwards."""
        outer = self.nodes, self.initializers, self.values, self.made, self.outside
        self.outside = [*self.outside, *self.made]
        self.nodes, self.initializers, self.values, self.made = [], [], list(self.values), []
        self.depth += 1
        yield self.nodes, self.initializers
        self.depth -= 1
        self.nodes, self.initializers, self.values, self.made, self.outside = outer

    # ---------------------------------------------------------------- result

    def leaves(self) -> list[Value]:
        """Results that nothing reads."""
        read = set(_read(self.nodes))
        return [v for _, values in self.made for v in values if v.name not in read]

    def model(self, outputs: Sequence[Value], typed: bool) -> onnx.ModelProto:
        """The model; with ``typed`` it declares what its results are."""
        used = set(_read(self.nodes)) | {value.name for value in outputs}
        inputs = [self._declared(v) for v in self.inputs]
        inputs += [
            helper.make_tensor_value_info(t.name, t.data_type, t.dims)
            for t in self.optional
            if t.name in used
        ]
        declared = [self._declared(v, self.flag(3)) for v in outputs]
        infos = (
            [self._declared(v) for _, values in self.made for v in values if v not in outputs]
            if typed
            else []
        )
        initializers = [t for t in self.initializers if t.name in used or not t.name.endswith("3")]
        graph = helper.make_graph(
            self.nodes, "drawn", inputs, declared, initializers, value_info=infos
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=_IR_VERSION
        )

    def _declared(self, value: Value, vague: bool = False) -> onnx.ValueInfoProto:
        names = {tuple(n for n, _ in self.sizes): "n", tuple(m for _, m in self.sizes): "m"}
        dims: list[int | str | None] = [
            d[0] if self.is_fixed(d) and not vague else names.get(d) for d in value.shape
        ]
        return helper.make_tensor_value_info(value.name, ELEMENTS[value.dtype], dims)

    def feeds(self, seed: int) -> tuple[dict[str, np.ndarray], ...]:
        """Inputs for each run: eighths, small integers, Booleans, short strings."""
        runs = []
        for run in range(len(self.sizes)):
            rng = np.random.default_rng([seed, run])
            runs.append(
                {v.name: _numbers(rng, v.dtype, [d[run] for d in v.shape]) for v in self.inputs}
            )
        return tuple(runs)


class Even(Growing):
    """Grows a graph by choices that are drawn evenly, without hypothesis.

    Args:
        seed: decides everything.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        super().__init__()

    def below(self, count: int) -> int:
        return int(self._rng.integers(count))

    def repeat(self, step: Move, one_of: int) -> None:
        while self.below(one_of):
            step(self)


def _store(g: Growing, tensor: TensorProto, array: np.ndarray, dtype: str) -> None:
    """Add a constant to a graph, in one of the forms that a model has for it."""
    name, form = tensor.name, g.below(6)
    if form in (1, 2):
        g.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
    elif form == 3 and array.size and array.ndim < 2 and dtype in ("float32", "int64"):
        key = ("value_float", "value_int")[dtype == "int64"] + "s" * array.ndim
        g.nodes.append(helper.make_node("Constant", [], [name], **{key: array.tolist()}))
    elif (
        form == 4
        and array.size
        and dtype in ("float32", "int64")
        and np.all(array == array.flat[0])
    ):
        lengths = numpy_helper.from_array(np.asarray(array.shape, np.int64), g.name())
        g.initializers.append(lengths)
        fill = numpy_helper.from_array(array.reshape(-1)[:1])
        g.nodes.append(helper.make_node("ConstantOfShape", [lengths.name], [name], value=fill))
    elif form == 5 and not g.depth and dtype in FLOATS:
        g.initializers.append(tensor)
        if g.flag(4):  # an input with a default: not a constant
            g.optional.append(tensor)
    else:
        g.initializers.append(tensor)


def _read(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Names of the results that nodes read, those in inner graphs included."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield from node.input
        for attribute in node.attribute:
            pending += attribute.g.node


def _is_tame(value: Value) -> bool:
    limit = LARGEST.get(value.dtype, _LARGEST_INTEGER)
    if not (value.top <= limit and value.error <= _MOST_ERROR and value.rank <= _MOST_AXES):
        return False
    if value.dtype == "uint8" and value.low < 0:
        return False
    return all(math.prod(sizes) <= _MOST_ELEMENTS for sizes in zip(*value.shape, strict=True))


def _quarters(seed: int, shape: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float64)


def _numbers(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> np.ndarray:
    if dtype == "string":
        return np.asarray(rng.choice(["", "a", "b", "ab"], shape), dtype=object)
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape), dtype=np.bool_)
    if dtype == "uint8":
        return np.asarray(rng.integers(0, 10, shape), dtype=np.uint8)
    if dtype in INTEGERS:
        return np.asarray(rng.integers(-3, 4, shape), dtype=dtype)
    return np.asarray(rng.integers(-24, 25, shape) / 8, dtype=dtype)


def broadcast(*shapes: Shape) -> Shape | None:
    """The common shape of operands, ``None`` when they do not fit in every run."""
    rank = max(map(len, shapes))
    result = []
    for axis in range(rank):
        dims = [shape[axis - rank] for shape in shapes if axis - rank >= -len(shape)]
        sizes = []
        for each in zip(*dims, strict=True):
            longer = {size for size in each if size != 1}
            if len(longer) > 1:
                return None
            sizes.append(longer.pop() if longer else 1)
        result.append(tuple(sizes))
    return tuple(result)


def count(shape: Sequence[Dim], runs: int) -> Dim:
    """Number of elements in each run."""
    return tuple(math.prod(dim[run] for dim in shape) for run in range(runs))


def like(value: Value, **changes: Any) -> Value:
    """The same facts but for some; what was known of its elements is not known any more."""
    return value._replace(**{"data": None, **changes})


def rounded(value: Value, low: float, high: float, error: float, *, exact: bool = False) -> Value:
    """Facts about a result that is computed with rounding, of the type and shape of another one.

    Args:
        value: the other one.
        low: no element is less.
        high: no element is greater.
        error: what errors of the operands make.
        exact: whether exact operands give an exact result.
    """
    own = 0.0 if not value.is_float or (exact and not error) else max(abs(low), abs(high), 0.1)
    return like(value, low=low, high=high, error=error + own)
