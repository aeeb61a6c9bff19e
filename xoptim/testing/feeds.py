"""Values for the inputs of tiny models: several assignments of sizes, plain numbers first, unusual
ones later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, islice
from typing import Final, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np
import onnx

from xoptim.facts.dtypes import Exactness, is_float, numpy_dtype
from xoptim.verification.errors import FeedError
from xoptim.verification.inputs.dims import (
    InputSpec,
    concrete_shape,
    distinct,
    input_specs,
    open_dimensions,
)
from xoptim.verification.inputs.feed_style import Style
from xoptim.verification.inputs.feed_values import make_feeds
from xoptim.verification.inputs.input_kinds import input_kinds
from xoptim.verification.runs.session import Value


class Values(NamedTuple):
    """A way to make other numbers for an input from plain numbers.

    ``change`` takes the plain numbers, and the position of the input among inputs of the same kind.
    ``digits``: whether each result is judged by its relative error, even if it is small compared
    with other results.
    """

    word: str
    change: Callable[[np.ndarray, int], np.ndarray]
    digits: bool = False


_TAIL: Final = (
    20,
    -20,
    0.25,
    -90,
    90,
    -0.25,
    1e-3,
    -100,
    100,
    1e-30,
    -1e-30,
    -7,
    7,
    -40,
    40,
    -1e-5,
    1e4,
    -1e4,
)
_LARGE_INTEGERS: Final = (
    2**53 + 1,
    -3,
    2**62 + 3,
    0,
    -(2**53) - 1,
    2**31 + 1,
    7,
    -(2**62) - 5,
    1,
    2**24 + 1,
)


def is_real(array: np.ndarray) -> bool:
    """Whether an array holds floating-point numbers, types of ``ml_dtypes`` included."""
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def limits(dtype: np.dtype) -> tuple[float, float, int]:
    """Smallest normal number, largest number, and bits of the mantissa of a floating-point type."""
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return float(info.smallest_normal), float(info.max), int(info.nmant)


def _tails(array: np.ndarray, position: int) -> np.ndarray:
    if not is_real(array):
        return array
    largest = limits(array.dtype)[1]
    return np.resize(
        np.roll([v for v in _TAIL if abs(v) < largest], -position * 5), array.shape
    ).astype(array.dtype)


def _large_integers(array: np.ndarray, position: int) -> np.ndarray:
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 4:
        return array
    with np.errstate(all="ignore"):
        return np.resize(np.roll(np.array(_LARGE_INTEGERS), -position), array.shape).astype(
            array.dtype
        )


def _share(part: int, smallest: float, largest: float) -> float:
    return largest / part


def _scaled(
    factor: Callable[[float, float], float], *, which: int = 0, negative: bool = False
) -> Callable[[np.ndarray, int], np.ndarray]:
    """Scales one of the inputs; products of two scaled ones would be out of range."""

    def change(array: np.ndarray, position: int) -> np.ndarray:
        if not is_real(array) or position != which:
            return array
        smallest, largest, _ = limits(array.dtype)
        with np.errstate(all="ignore"):
            wide = array.astype(np.float64) * factor(smallest, largest)
            return (-np.abs(wide) if negative else wide).astype(array.dtype)

    return change


PLAIN: Final = Values("plain", lambda array, position: array)
TAILS: Final = Values("tails", _tails, digits=True)
LARGE_INTEGERS: Final = Values("large integers", _large_integers)
SMALL: Final = Values("small", _scaled(lambda smallest, largest: largest**-0.6), digits=True)
"""Moderate when multiplied by a number; the product of two of them is out of range."""
LARGE: Final = Values("large", _scaled(lambda smallest, largest: smallest**-0.8), digits=True)
VERY_NEGATIVE: Final = tuple(
    Values(
        f"input {which} down to 1/{part} of the largest",
        _scaled(partial(_share, part), which=which, negative=True),
    )
    for which in (0, 1)
    for part in (4, 16)
)

Feeds: TypeAlias = "dict[str, Value]"
Range: TypeAlias = tuple[str, float, float]

_RANKS: Final = (2, 3, 1, 4, 0)
_HOLES: Final = ((np.nan,), (np.inf, -np.inf))
_CONVOLUTIONS: Final = ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv")
_MAX_DIMS: Final = 4  # with more dynamic dimensions, none is set to 0 or 1 alone


def make_all_feeds(
    model: onnx.ModelProto, ranges: Sequence[Range] = (), *, special: Exactness | None = None
) -> Iterator[Feeds]:
    """Feeds for a model, the same ones at each call.

    Some feeds may not suit the model, because its dimensions depend on each other.

    Open dimensions get sizes that are all different and unlike the fixed ones, then 0 and 1,
    together and alone, then other sizes that are all different, then one size for all. ``ranges``
    gives the lowest and highest value of inputs whose values matter. ``special`` adds feeds after
    the first ones: NaN, infinities, signed zeros and extreme numbers for ``exact``, NaN and
    infinities among plain numbers for ``rounding``, no feeds for the other grades.
    """
    try:
        specs = tensor_specs(model)
    except FeedError:
        return
    uses = input_kinds(model, {s.name: s.element_type for s in specs})
    for seed, sizes in enumerate(assignments(specs)):
        try:
            # Masks hide nothing and integers are small in the first feeds only.
            feeds = make_feeds(specs, uses, sizes, seed, Style(seed, gentle=seed == 0))
        except FeedError:
            continue
        feeds = _within(feeds, ranges, seed)
        if not never_ends(model, feeds):
            yield feeds
        if seed == 0:
            open_ended = [
                s.name
                for s in specs
                if is_float(s.element_type) and s.name not in {name for name, _, _ in ranges}
            ]
            yield from _special(feeds, open_ended, special)


def tensor_specs(model: onnx.ModelProto) -> list[InputSpec]:
    """The inputs of a model.

    An axis declared with length 0 has that length here, although exporters may mean another one.
    """
    declared = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    return [
        (
            spec
            if spec.shape is None or spec.container != "tensor"
            else spec._replace(
                shape=tuple(
                    0 if dim.HasField("dim_value") and not dim.dim_value else size
                    for dim, size in zip(declared[spec.name], spec.shape, strict=True)
                )
            )
        )
        for spec in input_specs(model)
    ]


def never_ends(model: onnx.ModelProto, feeds: Feeds) -> bool:
    """Whether onnxruntime may not terminate, as for convolutions whose kernel has no element."""
    windows = [
        feeds.get(node.input[1])
        for node in model.graph.node
        if node.op_type in _CONVOLUTIONS and len(node.input) > 1
    ]
    return any(isinstance(window, np.ndarray) and 0 in window.shape[1:] for window in windows)


def assignments(specs: Sequence[InputSpec]) -> list[dict[str, int]]:
    """Sizes for the dynamic dimensions of some inputs, the strongest test first, each assignment
    once.
    """
    dims = list(open_dimensions(specs))
    ranks = [f"{spec.name}:rank" for spec in specs if spec.shape is None]
    fixed = {size for spec in specs for size in spec.shape or () if isinstance(size, int)}
    combinations = (
        sizes | dict.fromkeys(ranks, rank)
        for rank in (_RANKS if ranks else (0,))
        for sizes in _sizes(dims, fixed)
    )
    return distinct(combinations)


def _sizes(dims: Sequence[str], fixed: set[int]) -> Iterator[dict[str, int]]:
    distinct = list(islice((n for n in count(2) if n not in fixed), len(dims)))
    plain = dict(zip(dims, distinct, strict=True))
    yield plain
    yield from (dict.fromkeys(dims, size) for size in (0, 1))
    for size in (0, 1):
        yield from ({**plain, dim: size} for dim in dims if len(dims) <= _MAX_DIMS)
    yield dict(zip(dims, [n + 1 for n in reversed(distinct)], strict=True))
    for size in (2, *sorted(fixed - {0, 1, 2})):
        yield dict.fromkeys(dims, size)


def _within(feeds: Feeds, ranges: Sequence[Range], seed: int) -> Feeds:
    """The feeds with new values for the inputs that have a range.

    The highest integer is included.
    """
    rng = np.random.default_rng(seed)
    for name, low, high in ranges:
        value = feeds.get(name)
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            feeds[name] = rng.integers(int(low), int(high), value.shape, endpoint=True).astype(
                value.dtype
            )
        elif isinstance(value, np.ndarray):
            feeds[name] = rng.uniform(low, high, value.shape).astype(value.dtype)
    return feeds


def _special(feeds: Feeds, names: Sequence[str], grade: Exactness | None) -> Iterator[Feeds]:
    """The feeds with some floats that are NaN, infinite, signed zeros, or as large or small as
    possible.
    """
    if grade not in ("exact", "rounding") or not names:
        return
    for shift in (0, 5) if grade == "exact" else (0, 1):
        result = dict(feeds)
        for position, name in enumerate(names):
            value = feeds[name]
            if isinstance(value, np.ndarray) and grade == "exact":
                result[name] = np.resize(
                    np.roll(_odd_numbers(value.dtype), position - shift), value.shape
                )
            elif isinstance(value, np.ndarray):
                result[name] = _with_holes(value, _HOLES[shift], position)
        yield result


def _odd_numbers(dtype: np.dtype) -> np.ndarray:
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    numbers = [
        np.nan,
        -0.0,
        0.0,
        np.inf,
        -np.inf,
        float(info.max),
        -float(info.max),
        float(info.tiny),
        1.0,
        -1.0,
        0.5,
    ]
    with np.errstate(all="ignore"):
        return np.asarray(numbers).astype(dtype)


def _with_holes(value: np.ndarray, holes: Sequence[float], start: int) -> np.ndarray:
    """The array with a non-finite number in each seventh place, so that most rows and columns keep
    plain numbers.
    """
    flat = value.reshape(-1).copy()
    places = np.arange(start, flat.size, 7)
    with np.errstate(all="ignore"):
        flat[places] = np.resize(np.asarray(holes).astype(value.dtype), places.size)
    return flat.reshape(value.shape)


def adapt(
    feeds: Feeds, specs: Sequence[InputSpec], given: Mapping[str, np.ndarray]
) -> Feeds | None:
    """The feeds of one model for the inputs of a variant: cast to its types, cut or repeated to its
    sizes.

    An input takes its value from ``given``, else that of the input with the same name. Without
    such an input, and if there are as many inputs as before, it takes the value of the input at
    its position. ``None`` when an input has no value.
    """
    names = list(feeds)
    result: Feeds = {}
    sizes: dict[str, int] = {}
    for position, spec in enumerate(specs):
        name = spec.name if spec.name in feeds or len(names) != len(specs) else names[position]
        value: Value = given[spec.name] if spec.name in given else feeds.get(name)
        if isinstance(value, np.ndarray) and spec.container == "tensor":
            value = _fitted(value, spec, sizes)
        if value is None:
            return None
        result[spec.name] = value
    return result


def _fitted(value: np.ndarray, spec: InputSpec, sizes: dict[str, int]) -> np.ndarray | None:
    """The value cut or repeated to the shape of an input.

    The first input with a dynamic dimension determines its size.
    """
    with np.errstate(all="ignore"):
        value = value.astype(numpy_dtype(spec.element_type))
    if spec.shape is None:
        return value
    if len(spec.shape) != value.ndim:
        return None
    for dim, size in zip(spec.shape, value.shape, strict=True):
        if isinstance(dim, str):
            sizes.setdefault(dim, size)
    try:
        shape = concrete_shape(spec, sizes)
    except FeedError:
        return None
    return value if shape == value.shape else np.resize(value, shape)
