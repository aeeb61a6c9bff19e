"""Random values for the inputs of a model, in the range that the uses of each input accept."""

import math
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

_WORDS: Final = ("", "a", "onnx", "Graph", "two words", "3.5", "naïve", "a  b")
_BEYOND: Final = 1 << 30  # larger than any axis
_CONSTANTS: Final = {"zero": 0, "one": 1, "count": 3, "all": _BEYOND}
_SMALL_INTEGER: Final = 16  # width of the range of free integers of more than 8 bits
# the same where values are wide; more may be the size of a result that fills the memory
_WIDE_INTEGER: Final = 1 << 11
# factors; larger ones overflow in too many models
_WIDE: Final = (8.0, 1.0, -8.0, 0.0, 1.0, 8.0, 1.0, -8.0)
_MANTISSA: Final = 24  # bits of a float, which holds smaller integers only
_MOST_AXES: Final = 64
"""Of an array of numpy."""
_MOST_ELEMENTS: Final = 1 << 58
"""Of an array of numpy, whose bytes are counted in 63 bits."""
_DECADES: Final = 4.0  # powers of ten over which numbers of many magnitudes are spread
_NEAR: Final = 1 / 3  # of the numbers that have many magnitudes are next to landmarks
_NOT_ZERO: Final = 0.95  # of them are not 0
_AROUND: Final = np.array([1.0, -1.0, 1.5, 0.5, 2.0, 1.001])
"""Factors of numbers next to a landmark."""
_FEW_COLUMNS: Final = 4  # elements of a row that has room for other numbers beside a landmark
_TIES: Final = np.array([-1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.5])
_TINY: Final = 1e-5
_OFFSET: Final = 1000.0
_FEW: Final = 64  # elements of a tensor in which odd numbers are anywhere
_HOLES: Final = (np.nan, np.inf, -np.inf)
_POWERS_OF_TWO: Final = 24  # FLOAT8E8M0, which has neither zero nor sign


Numbers: TypeAlias = Literal[
    "moderate", "wide", "far", "ties", "sorted", "single", "tiny", "offset", "holes", "odd"
]


class Style(NamedTuple):
    """The range of the values.

    Masks hide a tail in run 0 of the assignments, then anything; ``gentle`` masks hide nothing, and
    gentle integers are small and not negative. Free ``numbers`` that are ``wide`` are 0 in some
    places and large in others, as a Clip or a comparison needs them to have an effect; ``far`` ones
    have many magnitudes; ``ties`` are few different numbers, halves and zeros; ``sorted`` ones
    ascend in each row, and of ``single`` ones a row has one 1 and zeros, as a unit matrix has;
    ``tiny`` ones are close to 0, and those with an ``offset`` close to each other; ``holes`` are
    NaN and infinities; ``odd`` numbers are, besides, the largest and smallest ones of the type, and
    -0.
    """

    run: int = 0
    gentle: bool = False
    numbers: Numbers = "moderate"
    free: frozenset[str] = frozenset()
    """Inputs that do not follow what their readers prefer: negative numbers for a Sqrt, any number
    for a mask.
    """
    landmarks: tuple[float, ...] = ()
    """Numbers next to which a model may behave in another way.

    Some of the free numbers are near them.
    """
    words: tuple[str, ...] = ()
    """Strings that the models contain."""
    level: float | None = None
    """One number for all elements of the free inputs."""
    hides_rows: bool = True
    """Whether a mask may hide a whole row.

    In 16 bits, rounding decides what is computed from it.
    """
    steers: bool = True
    """Whether integers may decide sizes, so that large ones could fill the memory, or divisors, so
    that 0 ends the process.
    """


def make_feeds(
    specs: Sequence[InputSpec],
    uses: Mapping[str, InputKind],
    sizes: Mapping[str, int],
    seed: int,
    style: Style,
) -> dict[str, Value]:
    """A value for each input by its use in the model and the sizes of open dimensions.

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
    """Whether wide values would differ from the others."""
    return any(_is_free(spec, uses) and _may_be_wide(spec.element_type) for spec in specs)


def _is_free(spec: InputSpec, uses: Mapping[str, InputKind]) -> bool:
    use = uses[spec.name]
    is_flag = use.kind == "mask" and not is_float(spec.element_type)
    return use.opened(spec.element_type).kind in ("free", "divisor") and not is_flag


def _may_be_wide(element: int) -> bool:
    return bits(element) > 8 and (is_float(element) or is_integer(element))


def has_free_floats(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> bool:
    """Whether odd numbers and holes would differ from the others."""
    return has_free_numbers([spec for spec in specs if is_float(spec.element_type)], uses)


def has_daring_values(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> bool:
    """Whether gentle values would differ from the others."""
    return any(
        uses[s.name].kind == "mask" or (uses[s.name].kind == "free" and is_integer(s.element_type))
        for s in specs
    )


def preferring(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> list[str]:
    """The inputs to which some readers prefer certain values, which the model does not need to
    run.
    """
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
    shape = concrete_shape(spec, sizes)
    if spec.container == "sequence":
        return [_tensor(spec, use, shape, sizes, rng, style) for _ in range(2)]
    return _tensor(spec, use, shape, sizes, rng, style)


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
    if len(shape) > _MOST_AXES:
        raise FeedError(
            f"input {spec.name!r} has {len(shape)} axes; no value of more than {_MOST_AXES} can be "
            "made"
        )
    # numpy multiplies sizes of an empty array too
    if math.prod(max(size, 1) for size in shape) > _MOST_ELEMENTS:
        raise FeedError(
            f"input {spec.name!r} has a shape whose sizes multiply to more than {_MOST_ELEMENTS}"
        )
    if spec.element_type == TensorProto.STRING:
        return _strings(use, shape, rng, style)
    numbers = _leveled(use, spec.element_type, shape, sizes, style)
    if numbers is None:
        numbers = _structured(use, shape, sizes, rng)
    if numbers is not None and spec.name in style.free and is_float(spec.element_type):
        numbers = numbers + rng.uniform(0.0, 0.9, shape)  # an index that is rounded first
    if numbers is None and use.kind == "mask":
        numbers = _mask(shape, rng, style)
    if numbers is None:
        numbers = _free(spec.element_type, use.kind, shape, rng, style)
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
        numbers[0] = 0  # a row that is masked whole
    if use.kind == "divisor":
        numbers = np.where(numbers == 0, 1, numbers)
    with np.errstate(all="ignore"):
        return np.asarray(numbers).astype(dtype)


def _leveled(
    use: InputKind, element: int, shape: tuple[int, ...], sizes: Mapping[str, int], style: Style
) -> np.ndarray | None:
    """The same number everywhere, ``None`` where the style has none or the input cannot hold it."""
    if style.level is None or use.kind not in ("free", "divisor", "index", "place"):
        return None
    if element == TensorProto.BOOL:
        return np.full(shape, bool(style.level))
    if is_float(element):
        largest = float(ml_dtypes.finfo(numpy_dtype(element)).max)  # type: ignore[no-untyped-call]
        return np.full(shape, min(max(style.level, -largest), largest))
    found = _integral((style.level,), element)
    if use.kind in ("index", "place"):
        low, high = _range(use, sizes)
        found = [number for number in found if low <= number < high]
    return np.full(shape, found[0]) if found else None


def _integral(numbers: Sequence[float], element: int) -> list[int]:
    """The whole numbers of some that an integer type holds."""
    if not is_integer(element):
        return []
    width = bits(element) - is_signed_integer(element)
    low = -(1 << width) if is_signed_integer(element) else 0
    return [int(n) for n in numbers if float(n).is_integer() and low <= n < 1 << width]


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
    if kind == "length":
        return rng.integers(low, high, shape)
    if kind in ("index", "place"):
        return _indices(-high if kind == "place" else low, high, shape, rng)
    if kind == "position":
        return np.broadcast_to(low + np.arange(last) % (high - low), shape)
    return None


def _indices(low: int, high: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Indices of a half-open range: each of them, where there are as many elements."""
    count = math.prod(shape)
    if count < high - low:
        return rng.integers(low, high, shape)
    found: np.ndarray = rng.permutation(low + np.arange(count) % (high - low)).reshape(shape)
    return found


def _range(use: InputKind, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The half-open range of an index.

    Below a limit whose size is unknown only the lowest value is safe.
    """
    if not use.limits:
        return 0, _BEYOND
    known = [(size_of(size, sizes) or 1, offset) for size, offset in use.limits]
    low = max(0, *(-offset for _, offset in known))
    return low, max(low + 1, min(size - offset for size, offset in known))


def _with_landmarks(
    numbers: np.ndarray,
    use: InputKind,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    further: Sequence[int],
) -> np.ndarray:
    """Some of the numbers, and one in each row, replaced by values that the model compares with,
    and by ``further`` ones.
    """
    low, high = _range(use, sizes)
    known = (*use.landmarks, *further)
    if use.kind == "place":
        known = (*known, -high, -1, 0, high - 1)
    elif use.kind == "index" and not known and high < _BEYOND:
        known = (low, high - 1)
    low = -high if use.kind == "place" else low
    landmarks = np.array([n for n in known if use.kind == "free" or low <= n < high], np.int64)
    if not landmarks.size or not numbers.size or not numbers.ndim:
        return numbers
    length = numbers.shape[-1]
    if length < _FEW_COLUMNS:
        chosen = rng.random(numbers.shape) < 0.5
        return np.where(chosen, landmarks[rng.integers(0, landmarks.size, numbers.shape)], numbers)
    chosen = rng.random(numbers.shape) < 0.1
    chosen |= (
        np.arange(numbers.shape[-1])
        == rng.integers(0, numbers.shape[-1], numbers.shape[:-1])[..., None]
    )
    return np.where(chosen, landmarks[rng.integers(0, landmarks.size, numbers.shape)], numbers)


def _mask(shape: tuple[int, ...], rng: np.random.Generator, style: Style) -> np.ndarray:
    """Zeros and ones: all ones, a random number of leading ones a row, or anything.

    The first of a row is 1.
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


def _free(
    element: int, kind: str, shape: tuple[int, ...], rng: np.random.Generator, style: Style
) -> np.ndarray:
    if element == TensorProto.BOOL:
        return rng.random(shape) < 0.5
    if is_integer(element):
        # An integer of rank 0 is a parameter, such as the step of STFT, for which 0 would end the
        # process.
        is_open = kind == "divisor" or (kind == "free" and bool(shape or style.numbers == "far"))
        return _integers(element, shape, rng, style) if is_open else rng.integers(1, 4, shape)
    if element in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    if kind == "positive" or element == _POWERS_OF_TWO:
        return rng.uniform(0.5, 2.0, shape)
    if kind == "unit":
        return rng.uniform(-0.95, 0.95, shape)
    numbers = rng.standard_normal(shape)
    if style.numbers == "moderate" or not _may_be_wide(element):
        return numbers
    if style.numbers == "far":
        return _scattered(numbers, element, rng, style)
    if style.numbers == "ties":
        return _TIES[rng.integers(0, _TIES.size, shape)]
    if style.numbers in ("sorted", "single"):
        return _arranged(numbers, style)
    if style.numbers == "tiny":
        return numbers * _TINY
    if style.numbers == "offset":
        return numbers + (_OFFSET if bits(element) > 16 else _OFFSET / 16)
    return (
        _widened(numbers, rng)
        if style.numbers == "wide"
        else _with_odd(numbers, element, rng, style)
    )


def _arranged(numbers: np.ndarray, style: Style) -> np.ndarray:
    """The numbers of each row in ascending order.

    Or a 1 in each row, one column further than above.
    """
    if not numbers.ndim:
        return numbers
    if style.numbers == "sorted":
        ascending: np.ndarray = np.sort(numbers, axis=-1)
        return ascending
    columns = numbers.shape[-1]
    rows = numbers.size // max(1, columns)
    places = np.arange(rows)[:, None] % max(1, columns)
    found: np.ndarray = (places == np.arange(columns)).reshape(numbers.shape)
    return np.asarray(found.astype(np.float64))


def _widened(numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers in a random order: a quarter is at least 8, a quarter at most -8, and some are 0."""
    factors = rng.permutation(np.resize(_WIDE, numbers.size)).reshape(numbers.shape)
    widened: np.ndarray = np.where(
        np.abs(factors) > 1, factors * (1 + np.abs(numbers)), factors * numbers
    )
    return widened


def _with_odd(
    numbers: np.ndarray, element: int, rng: np.random.Generator, style: Style
) -> np.ndarray:
    """Numbers with odd ones among them, the first half of a large tensor without: a sum with NaN
    hides all others.
    """
    info = ml_dtypes.finfo(numpy_dtype(element))  # type: ignore[no-untyped-call]
    ends = (-0.0, float(info.max), float(info.tiny), -float(info.max), 0.0)
    odd: tuple[float, ...] = _HOLES if style.numbers == "holes" else (*_HOLES, *ends)
    # a few elements hold other ones in each run
    odd = (*odd[style.run % len(odd) :], *odd[: style.run % len(odd)])
    clean = numbers.size // 2 if numbers.size > _FEW else 0
    places = clean + rng.permutation(numbers.size - clean)[: max(len(odd), numbers.size // 8)]
    found = numbers.reshape(-1)
    found[places] = np.resize(odd, places.size)
    return found.reshape(numbers.shape)


def _scattered(
    numbers: np.ndarray, element: int, rng: np.random.Generator, style: Style
) -> np.ndarray:
    """Numbers of many magnitudes, a third of them next to landmarks, of either sign, and zeros."""
    largest = float(ml_dtypes.finfo(numpy_dtype(element)).max)  # type: ignore[no-untyped-call]
    scattered = numbers * 10.0 ** rng.uniform(-_DECADES, _DECADES, numbers.shape)
    known = np.array([n for n in style.landmarks if abs(n) <= largest / 4] or [1.0])
    near = (
        known[rng.integers(0, known.size, numbers.shape)]
        * _AROUND[rng.integers(0, _AROUND.size, numbers.shape)]
    )
    drawn = rng.random(numbers.shape)
    found = np.where(drawn < _NEAR, near, np.where(drawn > _NOT_ZERO, 0.0, scattered))
    return np.asarray(np.clip(found, -largest / 2, largest / 2))


def _integers(
    element: int, shape: tuple[int, ...], rng: np.random.Generator, style: Style
) -> np.ndarray:
    """The whole range of types up to 8 bits, small numbers of wider ones, of both signs where there
    are two.
    """
    width = bits(element)
    if style.numbers == "ties":
        return _tied_integers(element, shape, rng, style)
    if style.numbers in ("sorted", "single"):
        small = rng.integers(1, _SMALL_INTEGER, shape)
        return _arranged(small, style)
    if style.numbers == "far" and width > 8 and not style.steers:
        return _far_integers(element, shape, rng, style.run)
    is_wide = style.numbers in ("wide", "far")
    reach = 1 << width if width <= 8 else _WIDE_INTEGER if is_wide else _SMALL_INTEGER
    low = -reach // 2 if is_signed_integer(element) else 0
    high = low + reach
    return (
        rng.integers(0, min(high, _SMALL_INTEGER), shape)
        if style.gentle
        else rng.integers(low, high, shape)
    )


def _far_integers(
    element: int, shape: tuple[int, ...], rng: np.random.Generator, run: int
) -> np.ndarray:
    """Integers of all magnitudes of a type, the largest at one place at least."""
    room = bits(element) - is_signed_integer(element)
    shifts = np.where(rng.random(shape) < 0.2, 0, rng.integers(0, room, shape)).astype(np.uint64)
    shifts.reshape(-1)[run % max(1, shifts.size) :][:1] = 0
    magnitude = np.uint64((1 << room) - 1) >> shifts
    if not is_signed_integer(element):
        return np.asarray(magnitude)
    signs = np.where(rng.random(shape) < 0.5, -1, 1)
    return np.asarray(magnitude.astype(np.int64) * signs)


def _tied_integers(
    element: int, shape: tuple[int, ...], rng: np.random.Generator, style: Style
) -> np.ndarray:
    """Three neighbouring integers, small ones, or ones that a float cannot tell apart."""
    room = bits(element) - is_signed_integer(element)
    is_large = style.run % 2 and not style.steers and room > _MANTISSA
    return (1 << (_MANTISSA + 1) if is_large else 0) + rng.integers(0, 3, shape)


def _strings(
    use: InputKind, shape: tuple[int, ...], rng: np.random.Generator, style: Style
) -> np.ndarray:
    """Strings from the categories of the model, or a few arbitrary ones when it has none, and
    variations of its strings.
    """
    known = [c for c in use.choices if isinstance(c, str)] or list(_WORDS)
    if style.words:
        known = [*known, *(each for word in style.words for each in _varied(word))]
    picked = rng.integers(0, len(known), shape)
    return np.array([known[i] for i in picked.reshape(-1)], np.object_).reshape(shape)


def _varied(word: str) -> tuple[str, ...]:
    """A word in other cases, with spaces, and between other words, which it may separate."""
    return word, word.upper(), f"{word} x", f" {word}  ", f"a{word}b{word}c"


def _map(spec: InputSpec, use: InputKind, rng: np.random.Generator) -> dict[Any, Any]:
    """A map from some of the keys of the model to numbers."""
    text = spec.key_type == TensorProto.STRING
    keys = [c for c in use.choices if isinstance(c, str) == text] or (
        list(_WORDS) if text else [0, 1, 2]
    )
    if spec.element_type == TensorProto.STRING:
        return {key: str(rng.choice(_WORDS)) for key in keys}
    return dict(
        zip(
            keys,
            _free(spec.element_type, "free", (len(keys),), rng, Style(gentle=True)).tolist(),
            strict=True,
        )
    )
