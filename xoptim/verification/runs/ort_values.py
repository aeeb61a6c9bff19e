"""Conversion of values to and from the forms that onnxruntime takes and returns."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from xoptim.facts.dtypes import bits, element_type
from xoptim.facts.lazy import lazy_module
from xoptim.graph.stored import raw_data
from xoptim.operators.evaluate.regions import to_numpy
from xoptim.verification.errors import RunError
from xoptim.verification.runs.ports import Value

ort = lazy_module("onnxruntime")
_PLAIN_TYPES: Final = {
    "float", "double", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "string", "complex64", "complex128",
}  # fmt: skip


def is_numeric(type_name: str) -> bool:
    """Whether values of a type are arrays of numbers that numpy has, so that they can be bound to a
    device.
    """
    element = type_name.removeprefix("tensor(").removesuffix(")")
    return element in _PLAIN_TYPES and element != "string"


def from_python(result: Any) -> Value:
    """A result in onnxruntime's Python form, scalars as arrays of rank 0."""
    if isinstance(result, np.generic):  # strings of rank 0, for instance
        return np.asarray(result)
    if result is None or isinstance(result, np.ndarray | list | dict):
        return result
    raise RunError(f"results of type {type(result).__name__} cannot be read")


def is_plain(type_name: str) -> bool:
    """Whether the numpy interface of onnxruntime can return a type: it does not support bfloat16,
    float8 or int4.
    """
    element = type_name.rpartition("tensor(")[2].rstrip(")")
    return element in _PLAIN_TYPES or "map(" in type_name


def is_special(value: Value) -> bool:
    """Whether a value is an array of a type that numpy itself lacks."""
    return isinstance(value, np.ndarray) and value.dtype.isbuiltin == 2  # registered by ml_dtypes


def view_as_ort_value(array: np.ndarray) -> Any:
    """An initializer in the memory of the array, the only form that onnxruntime accepts."""
    if array.dtype.isbuiltin == 1:
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, element_type(array.dtype))


def to_ort_value(value: Value) -> Any:
    """Copy an array into memory of onnxruntime, packed as it packs elements smaller than a byte."""
    if not isinstance(value, np.ndarray) or value.dtype.kind in "OUST":
        raise RunError(
            "strings, sequences and maps cannot be fed along with bfloat16, float8 or int4 tensors"
        )
    element = element_type(value.dtype)
    result = ort.OrtValue.ortvalue_from_shape_and_type(list(value.shape), element)
    data = (
        np.asarray(value, order="C")
        if bits(element) >= 8
        else np.frombuffer(raw_data(element, value), np.uint8)
    )
    if data.nbytes:
        ctypes.memmove(result.data_ptr(), data.ctypes.data, data.nbytes)
    return result


def from_ort_value(value: Any) -> Value:
    """A tensor of onnxruntime as an array, ``None`` for the empty optional.

    Raises `RunError` for strings, sequences and maps.
    """
    if not value.has_value():
        return None
    if not value.is_tensor() or value.data_type() == "tensor(string)":
        raise RunError(
            "strings, sequences and maps cannot be read along with bfloat16, float8 or int4 tensors"
        )
    return to_numpy(value)
