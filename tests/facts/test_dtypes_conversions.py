import itertools

import numpy as np
import pytest
from onnx import TensorProto

from xoptim.facts.dtypes import (
    LOSSLESS,
    is_float,
    is_integer,
    is_one_conversion,
    numpy_dtype,
    type_name,
)

COMMON = sorted(LOSSLESS.keys() | {t for types in LOSSLESS.values() for t in types})


def every_kind_of_value(element_type: int) -> np.ndarray:
    """All values of a narrow type; of a wide one those around powers of 2, and odd ones."""
    dtype = numpy_dtype(element_type)
    if dtype.itemsize <= 2 and element_type != TensorProto.BOOL:
        return (
            np.arange(256**dtype.itemsize, dtype=np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
        )
    powers = [s * (2**e + d) for e in range(65) for d in (-1, 0, 1) for s in (1, -1)]
    if is_integer(element_type):
        limits = np.iinfo(dtype)
        return np.array([p for p in powers if limits.min <= p <= limits.max], dtype)
    if not is_float(element_type):
        return np.array([False, True])
    with np.errstate(all="ignore"):
        return np.array(
            [*powers, *(2.0**e for e in range(-1080, 1024)), 1 / 3, -0.0, np.inf, -np.inf, np.nan]
        ).astype(dtype)


def converted(values: np.ndarray, element_type: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        return values.astype(numpy_dtype(element_type))


def same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind not in "fV":
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
    return bool(
        np.array_equal(x, y, equal_nan=True)
        and np.array_equal(np.signbit(x[x == x]), np.signbit(y[y == y]))
    )


@pytest.mark.parametrize("source", sorted(LOSSLESS), ids=type_name)
def test_table_lists_the_types_that_give_every_value_back(source: int) -> None:
    values = every_kind_of_value(source)
    for target in set(COMMON) - {source, TensorProto.BOOL}:
        if source == TensorProto.BOOL or not (is_float(source) and is_integer(target)):
            there = converted(values, target)
            lossless = same(converted(there, source), values) and _same_numbers(values, there)
            assert (target in LOSSLESS[source]) == lossless, type_name(target)


def _same_numbers(a: np.ndarray, b: np.ndarray) -> bool:
    """Exact comparison of integers; floats are compared by the way back alone."""
    return (
        a.dtype.kind not in "iub"
        or b.dtype.kind not in "iu"
        or [int(v) for v in a] == [int(v) for v in b]
    )


def test_chains_give_what_one_conversion_gives() -> None:
    samples = {t: every_kind_of_value(t) for t in COMMON}
    for source, middle, target in itertools.product(COMMON, repeat=3):
        if is_one_conversion(source, middle, target):
            values = samples[source]
            if is_float(source) and is_integer(target):  # out of range it is anybody's guess
                wide = converted(values, TensorProto.DOUBLE)
                limits = np.iinfo(numpy_dtype(target))
                values = values[(wide > float(limits.min)) & (wide < float(limits.max))]
            at_once, in_steps = (
                converted(values, target),
                converted(converted(values, middle), target),
            )
            assert same(at_once, in_steps), (source, middle, target)


@pytest.mark.parametrize(
    "chain",
    [
        (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.FLOAT),
        (TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16),
        (TensorProto.INT64, TensorProto.FLOAT, TensorProto.INT64),
        (TensorProto.INT64, TensorProto.INT32, TensorProto.INT64),
        (TensorProto.INT32, TensorProto.INT8, TensorProto.BOOL),
        (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32),
        (TensorProto.INT32, TensorProto.BOOL, TensorProto.INT32),
        (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32),
        (TensorProto.INT64, TensorProto.STRING, TensorProto.INT64),
        (0, TensorProto.FLOAT, TensorProto.FLOAT),
    ],
)
def test_chains_that_lose_something_are_kept(chain: tuple[int, int, int]) -> None:
    assert not is_one_conversion(*chain)
