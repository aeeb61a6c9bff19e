"""Integers of 4 or 8 bits in bytes, as operators of onnxruntime store them, for
DequantizeLinear.
"""

from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype

from .._folding import Array

_TYPES: Final = {
    (4, True): TensorProto.INT4,
    (4, False): TensorProto.UINT4,
    (8, True): TensorProto.INT8,
    (8, False): TensorProto.UINT8,
}
BITS: Final = (4, 8)


def unpacked(rows: Array, bits: int, count: int) -> Array:
    """The first ``count`` integers of each row of bytes; of two in a byte the first one is the
    lower half.
    """
    if bits == 8:
        return rows[:, :count]
    pairs = np.stack([rows & 15, rows >> 4], axis=-1)
    return pairs.reshape(len(rows), -1)[:, :count]


def stored(integers: Array, bits: int, *, is_centred: bool) -> Array:
    """Integers in the type of that many bits.

    With a sign, and 0 in the middle, where they have no zero points.
    """
    dtype = numpy_dtype(_TYPES[bits, is_centred])
    shifted = integers.astype(np.int16) - (1 << (bits - 1)) if is_centred else integers
    return np.ascontiguousarray(shifted.astype(np.int8 if is_centred else np.uint8).astype(dtype))
