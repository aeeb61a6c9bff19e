"""Random values for the inputs of a model, in the range that the uses of each input accept."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import bits, is_float, is_integer, is_signed_integer, numpy_dtype
from xoptim.verification.errors import FeedError
from xoptim.verification.inputs.dims import InputSpec, concrete_shape, first_unnamed, size_of
from xoptim.verification.inputs.feed_numbers import free_numbers, may_be_wide
from xoptim.verification.inputs.feed_style import Style
from xoptim.verification.inputs.input_kinds import InputKind
from xoptim.verification.runs.session import Value

_WORDS: Final = ("", "a", "onnx", "Graph", "two words", "3.5", "naïve", "a  b")
_BEYOND: Final = 1 << 30  # larger than any axis
_CONSTANTS: Final = {"zero": 0, "one": 1, "count": 3, "all": _BEYOND}
_MAX_AXES: Final = 64
"""Of a numpy array."""
_MAX_ELEMENTS: Final = 1 << 58
"""Of a numpy array, whose bytes are counted in 63 bits."""
_MIN_COLUMNS: Final = 4  # of a row with at least one landmark


def make_feeds(
    specs: Sequence[InputSpec],
    uses: Mapping[str, InputKind],
    sizes: Mapping[str, int],
    seed: int,
    style: Style,
) -> dict[str, Value]:
    """A value for each input by its use in the model and the sizes of dynamic dimensions.

    The same seed gives the same values.

    Raises `FeedError` when an input cannot be fed with these sizes.
    """
    rng = np.random.default_rng(seed)
    opened = {
        spec.name: uses[spec.name].opened(spec.element_type)
        for spec in specs
        if spec.name in style.free
    }
    return {
        spec.name: _value(spec, opened.get(spec.name, uses[spec.name]), sizes, rng, style)
        for spec in specs
    }


def has_free_numbers(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> bool:
    """Whether wide values would differ from usual ones."""
    return any(_is_free(spec, uses) and may_be_wide(spec.element_type) for spec in specs)


def _is_free(spec: InputSpec, uses: Mapping[str, InputKind]) -> bool:
    use = uses[spec.name]
    is_flag = use.kind == "mask" and not is_float(spec.element_type)
    return use.opened(spec.element_type).kind in ("free", "divisor") and not is_flag


def has_free_floats(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> bool:
    """Whether odd numbers and holes would differ from usual ones."""
    return has_free_numbers([spec for spec in specs if is_float(spec.element_type)], uses)


def has_daring_values(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> bool:
    """Whether gentle values would differ from usual ones."""
    return any(
        uses[s.name].kind == "mask" or (uses[s.name].kind == "free" and is_integer(s.element_type))
        for s in specs
    )


def preferring(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> list[str]:
    """The inputs for which some nodes prefer certain values that the model does not need to run."""
    return [
        spec.name
        for spec in specs
        if uses[spec.name].opened(spec.element_type).kind != uses[spec.name].kind
    ]


def _value(
    spec: InputSpec,
    use: InputKind,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    style: Style,
) -> Value:
    if spec.container == "map":
        return _map(spec, use, rng)
    if spec.container == "sequence":
        shapes = _item_shapes(spec, sizes, style)
        return [_tensor(spec, use, shape, sizes, rng, style) for shape in shapes]
    return _tensor(spec, use, concrete_shape(spec, sizes), sizes, rng, style)


def _item_shapes(spec: InputSpec, sizes: Mapping[str, int], style: Style) -> list[tuple[int, ...]]:
    name = first_unnamed(spec)
    if name is None or not style.uneven:
        return [concrete_shape(spec, sizes)] * style.items
    steps = (0, 2, 1)
    longer = [sizes[name] + steps[place % len(steps)] for place in range(style.items)]
    return [concrete_shape(spec, {**sizes, name: size}) for size in longer]


def _tensor(
    spec: InputSpec,
    use: InputKind,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    style: Style,
) -> np.ndarray:
    try:
        dtype = numpy_dtype(spec.element_type)
    except KeyError:
        raise FeedError(
            f"no value can be made for input {spec.name!r} of element type {spec.element_type}"
        ) from None
    if len(shape) > _MAX_AXES:
        raise FeedError(
            f"input {spec.name!r} has {len(shape)} dimensions; values have {_MAX_AXES} at most"
        )
    # numpy multiplies the other sizes of an empty array as well
    if math.prod(max(size, 1) for size in shape) > _MAX_ELEMENTS:
        raise FeedError(f"input {spec.name!r} has more than {_MAX_ELEMENTS} elements")
    if spec.element_type == TensorProto.STRING:
        return _strings(use, shape, rng, style)
    numbers = _leveled(use, spec.element_type, shape, sizes, style)
    if numbers is None:
        numbers = _structured(use, shape, sizes, rng)
    if numbers is not None and spec.name in style.free and is_float(spec.element_type):
        numbers = numbers + rng.uniform(0.0, 0.9, shape)  # converted to an index
    if numbers is None and use.kind == "mask":
        numbers = _mask(shape, rng, style)
    if numbers is None:
        numbers = free_numbers(spec.element_type, use.kind, shape, rng, style)
    if (
        use.kind in ("index", "place", "free")
        and is_integer(spec.element_type)
        and style.level is None
    ):
        numbers = _with_landmarks(
            numbers, use, sizes, rng, _integral(style.landmarks, spec.element_type)
        )
    if use.was_mask and style.hides_rows and len(shape) > 1 and shape[0] > 1:
        numbers = np.array(numbers)
        numbers[0] = 0  # a row that is completely masked
    if use.kind == "divisor":
        numbers = np.where(numbers == 0, 1, numbers)
    with np.errstate(all="ignore"):
        return np.asarray(numbers).astype(dtype)


def _leveled(
    use: InputKind, element: int, shape: tuple[int, ...], sizes: Mapping[str, int], style: Style
) -> np.ndarray | None:
    """The style's ``level`` everywhere; ``None`` if it has none, or the input cannot hold it."""
    if style.level is None or use.kind not in ("free", "divisor", "index", "place"):
        return None
    if element == TensorProto.BOOL:
        return np.full(shape, bool(style.level))
    if is_float(element):
        largest = float(ml_dtypes.finfo(numpy_dtype(element)).max)  # type: ignore[no-untyped-call]
        return np.full(shape, min(max(style.level, -largest), largest))
    numbers = _integral((style.level,), element)
    if use.kind in ("index", "place"):
        low, high = _range(use, sizes)
        numbers = [number for number in numbers if low <= number < high]
    return np.full(shape, numbers[0]) if numbers else None


def _integral(numbers: Sequence[float], element: int) -> list[int]:
    """The whole numbers among ``numbers`` that an integer type can hold."""
    if not is_integer(element):
        return []
    width = bits(element) - is_signed_integer(element)
    low = -(1 << width) if is_signed_integer(element) else 0
    return [int(n) for n in numbers if float(n).is_integer() and low <= n < 1 << width]


def _structured(
    use: InputKind, shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator
) -> np.ndarray | None:
    """Integers with a meaning in the model, ``None`` when the use leaves the values open."""
    kind, length = use.kind, shape[-1] if shape else 1
    if kind in ("boxes", "related") and use.relation is not None:
        return use.relation.values(shape, sizes, rng)
    if kind == "choice":
        choices: np.ndarray = np.array([c for c in use.choices if not isinstance(c, str)] or [0, 1])
        picked: np.ndarray = choices[rng.integers(0, choices.size, shape)]
        return picked
    if kind in _CONSTANTS:
        return np.full(shape, _CONSTANTS[kind])
    if kind == "keep" and not shape:  # one entry of several, of which at most one may be -1
        return np.asarray(rng.choice((-1, 1)))
    if kind == "axes":
        return np.broadcast_to(np.arange(length).reshape(shape[-1:]), shape)
    if kind == "keep":
        return np.broadcast_to(np.where(np.arange(length) == 0, -1, 1), shape)
    low, high = _range(use, sizes)
    if kind == "length":
        return rng.integers(low, high, shape)
    if kind in ("index", "place"):
        return _indices(-high if kind == "place" else low, high, shape, rng)
    if kind == "position":
        positions = low + np.arange(length) % (high - low)
        return np.broadcast_to(positions.reshape(shape[-1:]), shape)
    return None


def _indices(low: int, high: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Indices in a half-open range: all of them, if there are enough elements."""
    count = math.prod(shape)
    if count < high - low:
        return rng.integers(low, high, shape)
    indices: np.ndarray = rng.permutation(low + np.arange(count) % (high - low)).reshape(shape)
    return indices


def _range(use: InputKind, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The half-open range of an index.

    Below a limit whose size is unknown only the lowest value is safe.
    """
    if not use.limits:
        return 0, _BEYOND
    limits = [(size_of(size, sizes) or 1, offset) for size, offset in use.limits]
    low = max(0, *(-offset for _, offset in limits))
    return low, max(low + 1, min(size - offset for size, offset in limits))


def _with_landmarks(
    numbers: np.ndarray,
    use: InputKind,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    style_landmarks: Sequence[int],
) -> np.ndarray:
    """The numbers, some of them replaced: at least one in each longer row.

    A replacement is one of ``style_landmarks``, or a value that the model compares with.
    """
    low, high = _range(use, sizes)
    values = (*use.landmarks, *style_landmarks)
    if use.kind == "place":
        values = (*values, -high, -1, 0, high - 1)
    elif use.kind == "index" and not values and high < _BEYOND:
        values = (low, high - 1)
    low = -high if use.kind == "place" else low
    landmarks = np.array([n for n in values if use.kind == "free" or low <= n < high], np.int64)
    if not landmarks.size or not numbers.size or not numbers.ndim:
        return numbers
    length = numbers.shape[-1]
    if length < _MIN_COLUMNS:
        mask = rng.random(numbers.shape) < 0.5
        return np.where(mask, landmarks[rng.integers(0, landmarks.size, numbers.shape)], numbers)
    mask = rng.random(numbers.shape) < 0.1
    mask |= (
        np.arange(numbers.shape[-1])
        == rng.integers(0, numbers.shape[-1], numbers.shape[:-1])[..., None]
    )
    return np.where(mask, landmarks[rng.integers(0, landmarks.size, numbers.shape)], numbers)


def _mask(shape: tuple[int, ...], rng: np.random.Generator, style: Style) -> np.ndarray:
    """Zeros and ones: all ones, a random number of leading ones per row, or anything.

    The first element of a row is 1.
    """
    if style.gentle or not shape:
        return np.ones(shape, np.int8)
    position: np.ndarray = np.arange(shape[-1])
    if style.run % 2 == 0:
        lengths = rng.integers(1, max(1, shape[-1]), shape[:-1], endpoint=True)
        visible: np.ndarray = position < lengths[..., None]
    else:
        visible = (rng.random(shape) < 0.75) | (position == 0)
    return visible.astype(np.int8)


def _strings(
    use: InputKind, shape: tuple[int, ...], rng: np.random.Generator, style: Style
) -> np.ndarray:
    """Strings from the categories of the model, or a few arbitrary ones when it has none, and
    variations of its strings.
    """
    if style.texts:
        order = rng.permutation(len(style.texts))
        picked = np.resize(order, math.prod(shape))
        return np.array([style.texts[i] for i in picked], np.object_).reshape(shape)
    words = [c for c in use.choices if isinstance(c, str)] or list(_WORDS)
    if style.words:
        words = [*words, *(text for word in style.words for text in _varied(word))]
    picked = rng.integers(0, len(words), shape)
    return np.array([words[i] for i in picked.reshape(-1)], np.object_).reshape(shape)


def _varied(word: str) -> tuple[str, ...]:
    """A word as it is, in upper case, with spaces, and between letters that it may separate."""
    return word, word.upper(), f"{word} x", f" {word}  ", f"a{word}b{word}c"


def _map(spec: InputSpec, use: InputKind, rng: np.random.Generator) -> dict[Any, Any]:
    """A map from the keys in the model, or from arbitrary ones, to random numbers or strings."""
    text = spec.key_type == TensorProto.STRING
    keys = [c for c in use.choices if isinstance(c, str) == text] or (
        list(_WORDS) if text else [0, 1, 2]
    )
    if spec.element_type == TensorProto.STRING:
        return {key: str(rng.choice(_WORDS)) for key in keys}
    return dict(
        zip(
            keys,
            free_numbers(spec.element_type, "free", (len(keys),), rng, Style(gentle=True)).tolist(),
            strict=True,
        )
    )
