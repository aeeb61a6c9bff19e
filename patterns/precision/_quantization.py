"""Quantization of numbers to integers."""

from typing import NamedTuple

import ml_dtypes
import numpy as np
from onnx import TensorProto

from xoptim.facts.lazy import lazy_module
from xoptim.match.block_rounding import Blocks
from xoptim.match.quantization import LARGEST

from .._folding import Array

_quantizers = lazy_module("onnxruntime.quantization.quant_utils")

BLOCK = 32
"""Number of weights that share a scale."""
INT8_ENDS = (-127, 127)
"""The limits of int8 weights: (-128)² would need one bit more than all other products."""


_MAX_BIAS = 2.0**29
"""Largest integer of a bias, so that int32 sums do not overflow."""


class QuantizedMatrix(NamedTuple):
    """A matrix as integers.

    Attributes:
        integers: of the shape of the matrix.
        scales: numbers by which the integers are multiplied.
    """

    integers: Array
    scales: Array


def is_quantizable(numbers: Array) -> bool:
    """Whether all numbers are finite, and far from overflow."""
    return bool((np.abs(numbers) <= LARGEST).all())  # a NaN fails the comparison


def columns_to_int8(weights: Array, least: Array | float = 0.0) -> QuantizedMatrix:
    """Quantize a finite float32 matrix to int8, with a scale for each column and no zero points.

    Args:
        weights: the matrix.
        least: the smallest scale allowed, for each column or for all.
    """
    scales = np.maximum(
        np.abs(weights).max(axis=0, initial=0) / np.float32(INT8_ENDS[1]), least
    ).astype(np.float32)
    scales[scales < np.finfo(np.float32).tiny] = 1  # columns of zeros
    return QuantizedMatrix(
        _quantizers.quantize_nparray(TensorProto.INT8, weights, scales, np.int64(0), *INT8_ENDS),
        scales,
    )


def least_scales(bias: Array, step: float) -> Array:
    """The smallest scales of weights with which bias plus sums stay within int32.

    Args:
        bias: one number for each column.
        step: the scale of the tensor that the weights multiply.
    """
    least: Array = np.abs(bias) / (step * _MAX_BIAS)
    return least


def bias_to_int32(bias: Array, scales: Array) -> QuantizedMatrix:
    """A bias in int32, with the scales of the sums to which it is added."""
    return QuantizedMatrix(np.rint(bias / scales).astype(np.int32), scales.astype(np.float32))


def rows_to_int8(weights: Array) -> QuantizedMatrix:
    """Quantize a finite float32 matrix to int8, with a bfloat16 scale for each row: (rows, 1)."""
    least = np.abs(weights).max(axis=1, initial=0) / np.float32(INT8_ENDS[1])
    columns = columns_to_int8(weights.T, _rounded_up(least))
    return QuantizedMatrix(
        np.ascontiguousarray(columns.integers.T), columns.scales[:, None].astype(ml_dtypes.bfloat16)
    )


def rows_to_int4(weights: Array) -> Blocks:
    """Quantize a finite float32 matrix to uint4, row by row.

    Each row has a bfloat16 scale and a zero point, both of shape (rows, 1).
    """
    low, high = weights.min(axis=1, initial=0), weights.max(axis=1, initial=0)
    scales = _rounded_up((high - low) / np.float32(15))
    scales[scales < np.finfo(np.float32).tiny] = 1  # rows of zeros
    scales = scales[:, None]
    zeros = np.clip(np.rint(-low[:, None] / scales), 0, 15)
    integers = np.clip(np.rint(weights / scales) + zeros, 0, 15)
    return Blocks(
        integers.astype(np.uint8), scales.astype(ml_dtypes.bfloat16), zeros.astype(np.uint8)
    )


def _rounded_up(numbers: Array) -> Array:
    """Positive float32 numbers, rounded up to bfloat16."""
    upper: Array = (
        numbers.view(np.uint32) + np.uint32(0xFFFF) >> np.uint32(16) << np.uint32(16)
    ).view(np.float32)
    return upper
