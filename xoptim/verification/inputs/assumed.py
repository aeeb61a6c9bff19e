"""Properties that inputs are assumed to have: checks of values, and changes that give them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from xoptim.facts.assumptions import UNIT_ERROR, Assumptions
from xoptim.verification.errors import ChoiceError
from xoptim.verification.inputs.dims import InputSpec, bind_sizes, sizes_text
from xoptim.verification.runs.session import Value


class _Property(NamedTuple):
    """A test whether an array has a property, and a function that gives it the property."""

    holds: Callable[[np.ndarray], bool]
    enforce: Callable[[np.ndarray], np.ndarray]


def _is_finite(array: np.ndarray) -> bool:
    if array.dtype.kind in "iub" or array.dtype.hasobject:
        return True
    wide = array if array.dtype.kind == "c" else array.astype(np.float64)
    return bool(np.isfinite(wide).all()) and not bool((np.signbit(wide.real) & (wide == 0)).any())


def _finite(array: np.ndarray) -> np.ndarray:
    if _is_finite(array):
        return array
    wide = array if array.dtype.kind == "c" else array.astype(np.float64)
    numbers: np.ndarray = np.where(
        np.isfinite(wide) & (array != 0), array, np.zeros((), array.dtype)
    )
    return numbers.astype(array.dtype)


def _is_bool(array: np.ndarray) -> bool:
    return bool(((array == 0) | (array == 1)).all())


def _bool(array: np.ndarray) -> np.ndarray:
    return array if _is_bool(array) else (array > 0).astype(array.dtype)


def _is_ones(array: np.ndarray) -> bool:
    return bool((array == 1).all())


def _ones(array: np.ndarray) -> np.ndarray:
    return array if _is_ones(array) else np.ones_like(array)


def _is_right_padded(array: np.ndarray) -> bool:
    if not _is_bool(array) or not array.ndim or not array.size:
        return _is_bool(array)
    visible = array.astype(bool)
    return bool(visible[..., 0].all()) and bool((visible[..., 1:] <= visible[..., :-1]).all())


def _right_padded(array: np.ndarray) -> np.ndarray:
    if not array.ndim or not array.size:
        return array
    lengths = np.maximum((array > 0).sum(axis=-1, keepdims=True), 1)
    visible: np.ndarray = np.arange(array.shape[-1]) < lengths
    return visible.astype(array.dtype)


def _is_sorted(array: np.ndarray) -> bool:
    return not array.ndim or bool((array[..., 1:] >= array[..., :-1]).all())


def _sorted(array: np.ndarray) -> np.ndarray:
    plain = (
        array
        if array.dtype.kind in "iubOSU"
        else np.where(np.isnan(array), np.zeros((), array.dtype), array)
    )
    ascending: np.ndarray = np.sort(plain, axis=-1) if array.ndim else plain
    return ascending


def _norms(array: np.ndarray) -> np.ndarray:
    norms: np.ndarray = np.sqrt(
        np.square(np.abs(array.astype(np.float64))).sum(axis=-1, keepdims=True)
    )
    return norms


def _is_unit(array: np.ndarray) -> bool:
    return (
        not array.ndim
        or not array.shape[-1]
        or bool((np.abs(_norms(array) - 1) <= UNIT_ERROR).all())
    )


def _unit(array: np.ndarray) -> np.ndarray:
    if not array.ndim or not array.shape[-1]:
        return array
    plain = np.where(np.isfinite(array), array, np.zeros((), array.dtype)).astype(np.float64)
    largest = np.abs(plain).max(axis=-1, keepdims=True)
    plain = plain / np.where(largest > 0, largest, 1)  # so that no square overflows
    norms = _norms(plain)
    is_first: np.ndarray = np.arange(array.shape[-1]) == 0
    return np.where(norms > 0, plain / np.where(norms > 0, norms, 1), is_first).astype(array.dtype)


_PROPERTIES: Final = {
    "finite": _Property(_is_finite, _finite),
    "bool": _Property(_is_bool, _bool),
    "ones": _Property(_is_ones, _ones),
    "right_padded": _Property(_is_right_padded, _right_padded),
    "sorted": _Property(_is_sorted, _sorted),
    "unit": _Property(_is_unit, _unit),
}


def hold(assumptions: Assumptions, feeds: Mapping[str, Value]) -> dict[str, Value]:
    """The values, changed where they lack a property that is assumed of them."""
    values = dict(feeds)
    for word, name in _about(assumptions, feeds):
        value = values[name]
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            values[name] = _PROPERTIES[word].enforce(value)
    return values


def check_values(
    assumptions: Assumptions, specs: Sequence[InputSpec], feeds: Mapping[str, Value]
) -> None:
    """Raise `ChoiceError` for given values that break an assumption."""
    sizes: dict[str, int] = {}
    for spec in specs:
        value = feeds.get(spec.name)
        if isinstance(value, np.ndarray):
            sizes |= bind_sizes(spec, value.shape)
    if broken := assumptions.broken(sizes):
        assumed_sizes = {name: size for name, size in sizes.items() if name in assumptions.names()}
        raise ChoiceError(
            f"the values have {sizes_text(assumed_sizes)}, which breaks the assumption {broken}"
        )
    for word, name in _about(assumptions, feeds):
        value = feeds[name]
        if (
            isinstance(value, np.ndarray)
            and not value.dtype.hasobject
            and not _PROPERTIES[word].holds(value)
        ):
            raise ChoiceError(f"the values of input {name!r} break the assumption {word}({name})")


def check_sizes(assumptions: Assumptions, sizes: Mapping[str, int]) -> None:
    """Raise `ChoiceError` for sizes that the caller has chosen and that break an assumption."""
    if broken := assumptions.broken(sizes):
        raise ChoiceError(f"the sizes {sizes_text(sizes)} break the assumption {broken}")


def _about(assumptions: Assumptions, feeds: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each property with each input that must have it: all inputs, where none is named."""
    for word, name in assumptions.values:
        yield from (
            (word, input_name) for input_name in ([name] if name else feeds) if input_name in feeds
        )
