"""Values for the inputs of a model: random, repeatable, and in the range that the model accepts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import bits, is_float, is_integer, is_signed_integer, numpy_dtype
from xoptim.validate.dims import InputSpec, concrete_shape, size_of
from xoptim.validate.errors import FeedError
from xoptim.validate.input_kinds import InputKind
from xoptim.validate.session import Value

_WORDS: Final = ("", "a", "onnx", "Graph", "two words", "3.5", "naïve")
_BEYOND: Final = 1 << 30  # larger than any axis
_CONSTANTS: Final = {"zero": 0, "one": 1, "count": 3, "all": _BEYOND}
_SMALL_INTEGER: Final = 16  # width of the range of free integers of more than 8 bits
_WIDE_INTEGER: Final = 1 << 11  # the same where values are wide; more may be the size of a result that fills the memory
_WIDE: Final = (8.0, 1.0, -8.0, 0.0, 1.0, 8.0, 1.0, -8.0)  # factors; larger ones overflow in too many models
_FEW: Final = 64  # elements of a tensor in which odd numbers are anywhere
_HOLES: Final = (np.nan, np.inf, -np.inf)
_POWERS_OF_TWO: Final = 24  # FLOAT8E8M0, which has neither zero nor sign


Numbers: TypeAlias = Literal["moderate", "wide", "holes", "odd"]


class Style(NamedTuple):
    """The range of the values.

    Masks hide a tail in run 0 of the assignments, then anything; ``gentle`` masks hide nothing, and gentle integers are small
    and not negative. Free ``numbers`` that are ``wide`` are 0 in some places and large in others, as a Clip or a comparison
    needs them to have an effect; ``holes`` are NaN and infinities; ``odd`` numbers are, besides, the largest and smallest ones
    of the type, and -0.
    """

    run: int = 0
    gentle: bool = False
    numbers: Numbers = "moderate"


def make_feeds(
    specs: Sequence[InputSpec], uses: Mapping[str, InputKind], sizes: Mapping[str, int], seed: int, style: Style
) -> dict[str, Value]:
    """A value for each input by its use in the model and the sizes of open dimensions; the same seed gives the same values.

    Raises `FeedError` when an input cannot be fed with these sizes.
    """
    rng = np.random.default_rng(seed)
    return {spec.name: _value(spec, uses[spec.name], sizes, rng, style) for spec in specs}


def has_free_numbers(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> bool:
    """Whether wide values would differ from the others."""
    return any(uses[spec.name].kind == "free" and _may_be_wide(spec.element_type) for spec in specs)


def _may_be_wide(element: int) -> bool:
    return bits(element) > 8 and (is_float(element) or is_integer(element))


def has_free_floats(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> bool:
    """Whether odd numbers and holes would differ from the others."""
    return has_free_numbers([spec for spec in specs if is_float(spec.element_type)], uses)


def has_daring_values(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> bool:
    """Whether gentle values would differ from the others."""
    return any(uses[s.name].kind == "mask" or (uses[s.name].kind == "free" and is_integer(s.element_type)) for s in specs)


def _value(spec: InputSpec, use: InputKind, sizes: Mapping[str, int], rng: np.random.Generator, style: Style) -> Value:
    if spec.container == "map":
        return _map(spec, use, rng)
    shape = concrete_shape(spec, sizes)
    if spec.container == "sequence":
        return [_tensor(spec, use, shape, sizes, rng, style) for _ in range(2)]
    return _tensor(spec, use, shape, sizes, rng, style)


def _tensor(
    spec: InputSpec, use: InputKind, shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator, style: Style
) -> np.ndarray:
    try:
        dtype = numpy_dtype(spec.element_type)
    except KeyError:
        raise FeedError(f"no value can be made for input {spec.name!r} of element type {spec.element_type}") from None
    if spec.element_type == TensorProto.STRING:
        return _strings(use, shape, rng)
    numbers = _structured(use, shape, sizes, rng)
    if numbers is None and use.kind == "mask":
        numbers = _mask(shape, rng, style)
    if numbers is None:
        numbers = _free(spec.element_type, use.kind, shape, rng, style)
    if use.kind in ("index", "free") and is_integer(spec.element_type):
        numbers = _with_landmarks(numbers, use, sizes, rng)
    return np.asarray(numbers).astype(dtype)


def _structured(
    use: InputKind, shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator
) -> np.ndarray | None:
    """Integers with a meaning in the model, ``None`` when the use leaves the values open."""
    kind, last = use.kind, shape[-1] if shape else 1
    if kind == "choice":
        known: np.ndarray = np.array([c for c in use.choices if not isinstance(c, str)] or [0, 1])
        picked: np.ndarray = known[rng.integers(0, known.size, shape)]
        return picked
    if kind in _CONSTANTS:
        return np.full(shape, _CONSTANTS[kind])
    if kind == "axes":
        return np.broadcast_to(np.arange(last), shape)
    if kind == "keep":
        return np.broadcast_to(np.where(np.arange(last) == 0, -1, 1), shape)
    low, high = _range(use, sizes)
    if kind in ("index", "length"):
        return rng.integers(low, high, shape)
    if kind == "position":
        return np.broadcast_to(low + np.arange(last) % (high - low), shape)
    return None


def _range(use: InputKind, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The half-open range of an index; below a limit whose size is unknown only the lowest value is safe."""
    if not use.limits:
        return 0, _BEYOND
    known = [(size_of(size, sizes) or 1, offset) for size, offset in use.limits]
    low = max(0, *(-offset for _, offset in known))
    return low, max(low + 1, min(size - offset for size, offset in known))


def _with_landmarks(numbers: np.ndarray, use: InputKind, sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
    """Some of the numbers, and one in each row, replaced by values that the model compares with."""
    low, high = _range(use, sizes)
    landmarks = np.array([n for n in use.landmarks if use.kind == "free" or low <= n < high], np.int64)
    if not landmarks.size or not numbers.size or not numbers.ndim:
        return numbers
    chosen = rng.random(numbers.shape) < 0.1
    chosen |= np.arange(numbers.shape[-1]) == rng.integers(0, numbers.shape[-1], numbers.shape[:-1])[..., None]
    return np.where(chosen, landmarks[rng.integers(0, landmarks.size, numbers.shape)], numbers)


def _mask(shape: tuple[int, ...], rng: np.random.Generator, style: Style) -> np.ndarray:
    """Zeros and ones: all ones, a random number of leading ones a row, or anything; the first of a row is 1."""
    if style.gentle or not shape:
        return np.ones(shape, np.int8)
    position: np.ndarray = np.arange(shape[-1])
    if style.run % 2 == 0:
        lengths = rng.integers(1, max(1, shape[-1]), shape[:-1], endpoint=True)
        visible: np.ndarray = position < lengths[..., None]
    else:
        visible = (rng.random(shape) < 0.75) | (position == 0)
    return visible.astype(np.int8)


def _free(element: int, kind: str, shape: tuple[int, ...], rng: np.random.Generator, style: Style) -> np.ndarray:
    if element == TensorProto.BOOL:
        return rng.random(shape) < 0.5
    if is_integer(element):
        # An integer of rank 0 is a parameter, such as the step of STFT, for which 0 would end the process.
        return _integers(element, shape, rng, style) if shape and kind == "free" else rng.integers(1, 4, shape)
    if element in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    if kind == "positive" or element == _POWERS_OF_TWO:
        return rng.uniform(0.5, 2.0, shape)
    if kind == "unit":
        return rng.uniform(-0.95, 0.95, shape)
    numbers = rng.standard_normal(shape)
    if style.numbers == "moderate" or not _may_be_wide(element):
        return numbers
    return _widened(numbers, rng) if style.numbers == "wide" else _with_odd(numbers, element, rng, style)


def _widened(numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers in a random order: a quarter is at least 8, a quarter at most -8, and some are 0."""
    factors = rng.permutation(np.resize(_WIDE, numbers.size)).reshape(numbers.shape)
    widened: np.ndarray = np.where(np.abs(factors) > 1, factors * (1 + np.abs(numbers)), factors * numbers)
    return widened


def _with_odd(numbers: np.ndarray, element: int, rng: np.random.Generator, style: Style) -> np.ndarray:
    """Numbers with odd ones among them, the first half of a large tensor without: a sum with NaN hides all others."""
    info = ml_dtypes.finfo(numpy_dtype(element))  # type: ignore[no-untyped-call]
    ends = (-0.0, float(info.max), float(info.tiny), -float(info.max), 0.0)
    odd = _HOLES if style.numbers == "holes" else (*_HOLES, *ends)
    clean = numbers.size // 2 if numbers.size > _FEW else 0
    places = clean + rng.permutation(numbers.size - clean)[: max(len(odd), numbers.size // 8)]
    found = numbers.reshape(-1)
    found[places] = np.resize(odd, places.size)
    return found.reshape(numbers.shape)


def _integers(element: int, shape: tuple[int, ...], rng: np.random.Generator, style: Style) -> np.ndarray:
    """The whole range of types up to 8 bits, small numbers of wider ones, of both signs where there are two."""
    width = bits(element)
    reach = 1 << width if width <= 8 else _WIDE_INTEGER if style.numbers == "wide" else _SMALL_INTEGER
    low = -reach // 2 if is_signed_integer(element) else 0
    high = low + reach
    return rng.integers(0, min(high, _SMALL_INTEGER), shape) if style.gentle else rng.integers(low, high, shape)


def _strings(use: InputKind, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Strings from the categories of the model, or a few arbitrary ones when it has none."""
    known = [c for c in use.choices if isinstance(c, str)] or _WORDS
    picked = rng.integers(0, len(known), shape)
    return np.array([known[i] for i in picked.reshape(-1)], np.object_).reshape(shape)


def _map(spec: InputSpec, use: InputKind, rng: np.random.Generator) -> dict[Any, Any]:
    """A map from some of the keys of the model to numbers."""
    text = spec.key_type == TensorProto.STRING
    keys = [c for c in use.choices if isinstance(c, str) == text] or (list(_WORDS) if text else [0, 1, 2])
    if spec.element_type == TensorProto.STRING:
        return {key: str(rng.choice(_WORDS)) for key in keys}
    return dict(zip(keys, _free(spec.element_type, "free", (len(keys),), rng, Style(gentle=True)).tolist(), strict=True))
