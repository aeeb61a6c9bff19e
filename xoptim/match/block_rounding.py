"""Block-wise quantization: matrices as integers of few bits, with a scale and a zero point for each
block of a column.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np

Matrix: TypeAlias = np.ndarray[Any, Any]
WeightKey: TypeAlias = tuple[str, bool]
"""The name of a constant matrix, and whether its rows are the columns of a MatMul's weights."""
_DTYPES: Final[dict[int, np.dtype[Any]]] = {
    2: np.dtype(ml_dtypes.uint2),
    4: np.dtype(ml_dtypes.uint4),
    8: np.dtype(np.uint8),
}
"""The types of unsigned integers, by their bits."""
_OPSET: Final = 21
"""The first operator set with blocks in DequantizeLinear."""
_OPSET_OF_TWO_BITS: Final = 25


class BlockFormat(NamedTuple):
    """The integers and the blocks with which a matrix is quantized.

    Attributes:
        bits: number of bits of an integer.
        size: number of rows of a block.
    """

    bits: int = 4
    size: int = 32

    @property
    def largest(self) -> int:
        """The largest integer."""
        return (1 << self.bits) - 1

    @property
    def stored_bits(self) -> int:
        """The bits of an integer in the file: of the narrowest type that holds it."""
        return min(bits for bits in _DTYPES if bits >= self.bits)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the integers and of the zero points."""
        return _DTYPES[self.stored_bits]

    @property
    def opset(self) -> int:
        """The first operator set with DequantizeLinear of this type in blocks."""
        return _OPSET_OF_TWO_BITS if self.stored_bits == min(_DTYPES) else _OPSET

    def count(self, rows: int) -> int:
        """The number of blocks of a column; the last one may be shorter."""
        return -(-rows // self.size)


class Blocks(NamedTuple):
    """A matrix as unsigned integers.

    Attributes:
        integers: of the shape of the matrix, one byte each.
        scales: float32, of shape (blocks, columns). A number is (integer - zero point) * scale.
        zeros: the zero points, of shape (blocks, columns), one byte each.
    """

    integers: Matrix
    scales: Matrix
    zeros: Matrix

    def dequantized(self, size: int) -> Matrix:
        """The float64 matrix that the integers stand for; ``size`` rows form a block."""
        rows = len(self.integers)
        scales, zeros = (
            np.repeat(numbers.astype(np.float64), size, axis=0)[:rows]
            for numbers in (self.scales, self.zeros)
        )
        matrix: Matrix = (self.integers - zeros) * scales
        return matrix


class RoundedWeights(NamedTuple):
    """The quantized weights of a model.

    Attributes:
        format: bits and block size of all weights.
        blocks: blocks of some constants; `nearest_blocks` quantizes other constants.
    """

    format: BlockFormat = BlockFormat()
    blocks: Mapping[WeightKey, Blocks] = MappingProxyType({})

    def of(self, name: str, matrix: Matrix, *, is_transposed: bool) -> Blocks:
        """The integers of a matrix of shape (rows, columns) of finite float32 numbers."""
        blocks = self.blocks.get((name, is_transposed))
        if blocks is None or blocks.integers.shape != matrix.shape:
            return nearest_blocks(matrix, self.format)
        return blocks


def nearest_blocks(matrix: Matrix, form: BlockFormat) -> Blocks:
    """Quantize each number to the nearest integer, by the range of its block and 0.

    Args:
        matrix: finite float32 numbers, of shape (rows, columns).
        form: bits and block size.
    """
    blocks = in_blocks(matrix, form.size)
    low, high = blocks.min(axis=1, initial=0), blocks.max(axis=1, initial=0)
    scales = positive_scales((high - low) / form.largest)
    zeros = np.clip(np.rint(-low / scales), 0, form.largest)
    integers = np.clip(np.rint(blocks / scales[:, None]) + zeros[:, None], 0, form.largest)
    return Blocks(
        integers.astype(np.uint8).reshape(-1, matrix.shape[1])[: len(matrix)],
        scales,
        zeros.astype(np.uint8),
    )


def in_blocks(matrix: Matrix, size: int) -> Matrix:
    """A matrix as blocks of rows, of shape (blocks, size, columns), padded with zeros."""
    rows, columns = matrix.shape
    missing = -rows % size
    padded = np.pad(matrix, ((0, missing), (0, 0))) if missing else matrix
    return padded.reshape(-1, size, columns)


def positive_scales(scales: Matrix) -> Matrix:
    """Float32 scales; 1 where a block has only zeros, or numbers too small for float32."""
    narrow = scales.astype(np.float32)
    return np.where(narrow < np.finfo(np.float32).tiny, np.float32(1), narrow)
