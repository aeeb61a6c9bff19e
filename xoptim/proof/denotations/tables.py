"""Operators of ONNX Runtime that read rows at indices: embeddings, block-wise quantized weights,
caches of rotary embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import is_float
from xoptim.proof.calls import Call, axis_within, denotes
from xoptim.proof.constants import constant
from xoptim.proof.denotations.movement import at_index, number_of
from xoptim.proof.denotations.quantization import unpacked
from xoptim.proof.denotations.sums import is_covered, multiplied, normalized, real
from xoptim.proof.elements import ZERO, Element
from xoptim.proof.indices import Impossible, Unproved
from xoptim.proof.kinds import Stored
from xoptim.proof.tensors import Indices, Tensor, choose, elementwise, require_equal, stored_tensor

_ORT: Final = "com.microsoft"


@denotes("EmbedLayerNormalization", domain=_ORT)
def embed_layer_normalization(call: Call) -> list[Tensor] | None:
    """The normalized sum of an embedding of words, of positions and of segments, and the sum."""
    ids, words, positions = (call.operand(place) for place in (0, 2, 3))
    parameters = [call.operand(place) for place in (5, 6)]
    shape = (*ids.shape, words.shape[-1])
    info = replace(call.results[0], dtype=words.dtype, shape=shape)
    tables = [place for place in (2, 3, 4, 5, 6) if call.has(place)]
    if not is_covered(replace(call, results=[info]), *tables) or call.case.is_exact:
        return None
    if ids.rank != 2 or call.has(1) != call.has(4):
        return None
    for x in (positions, *parameters, *([call.operand(4)] if call.has(4) else [])):
        require_equal(x.shape[-1], words.shape[-1], or_one=False)
    if not call.has(8) and not call.case.decide(positions.shape[0] - ids.shape[1]):
        raise Impossible
    total = elementwise(
        lambda *e: real(sum(e[1:], e[0])),
        [_rows(call, words, ids), _positions(call, positions, shape)]
        + ([_rows(call, call.operand(4), call.operand(1))] if call.has(4) else []),
        shape,
        words.dtype,
    )
    epsilon = number_of(call, words.dtype, call.attribute("epsilon", 1e-12))
    normal = normalized(call.case, total, [2], epsilon)
    result = elementwise(
        lambda e, s, b: e * real(s) + real(b), [normal, *parameters], shape, words.dtype
    )
    mask = Tensor((ids.shape[0],), TensorProto.INT32, _unread)
    return [result, mask, total][: len(call.node.output)]


def _unread(_indices: Indices) -> Element:
    raise Unproved("the mask of an embedding")


def _rows(call: Call, table: Tensor, ids: Tensor) -> Tensor:
    """The rows of a table at indices."""

    def read(indices: Indices) -> Element:
        *place, feature = indices
        return at_index(
            call, ids.at(place), table.shape[0], lambda k: table.at([k, feature]), ids.dtype
        )

    return Tensor((*ids.shape, table.shape[1]), table.dtype, read)


def _positions(call: Call, table: Tensor, shape: Sequence[Dim]) -> Tensor:
    """The rows of the position embedding at ``position_ids`` (operand 8), or at 0, 1, 2, ..."""
    if call.has(8):
        return _rows(call, table, call.operand(8))
    return Tensor(shape, table.dtype, lambda indices: table.at(indices[1:]))


@denotes("GatherBlockQuantized", domain=_ORT)
def gather_block_quantized(call: Call) -> Tensor | None:
    """``(x - zero) * scale`` at indices along an axis; a scale per block of ``quantize_axis``."""
    table, ids, scales = (call.operand(place) for place in range(3))
    if call.case.is_exact or not is_float(scales.dtype):
        return None
    bits, block = call.attribute("bits", 4), call.attribute("block_size", 128)
    is_packed = table.dtype == TensorProto.UINT8
    if not is_packed and (table.dtype not in _SHORT or bits != 4):
        return None
    zeros = call.operand(3) if call.has(3) else None
    if is_packed:
        middle = 0 if call.has(3) else 1 << bits - 1
        unpacked_table = _unpacked_operand(call, 0, bits, middle)
        zeros = _unpacked_operand(call, 3, bits) if call.has(3) else None
        if unpacked_table is None or (call.has(3) and zeros is None):
            return None
        table = unpacked_table
    axis = axis_within(call.attribute("gather_axis", 0), table.rank)
    along = axis_within(call.attribute("quantize_axis", 1), table.rank)
    if is_packed and along != table.rank - 1:
        return None
    for x in (scales, *([] if zeros is None else [zeros])):
        for place, size in enumerate(table.shape):
            scale_size = -(-size // block) if place == along else size
            is_padded = x is zeros and is_packed and place == along
            if not is_padded:  # the last byte may have more numbers than there are blocks
                require_equal(x.shape[place], scale_size, or_one=False)
    size, rank = table.shape[axis], ids.rank

    def read(indices: Indices) -> Element:
        def at(index: Dim) -> Element:
            place = [*indices[:axis], index, *indices[axis + rank :]]
            quotient, _ = call.case.divided(place[along], block)
            block_indices = [*place[:along], quotient, *place[along + 1 :]]
            zero = ZERO if zeros is None else zeros.at(block_indices)
            return (table.at(place) - zero) * real(scales.at(block_indices))

        return at_index(call, ids.at(indices[axis : axis + rank]), size, at, ids.dtype)

    shape = (*table.shape[:axis], *ids.shape, *table.shape[axis + 1 :])
    return Tensor(shape, scales.dtype, read)


_SHORT: Final = (TensorProto.INT4, TensorProto.UINT4)


def _unpacked_operand(call: Call, place: int, bits: int, middle: int = 0) -> Tensor | None:
    """The integers in the bytes of a constant, less ``middle``; ``None`` where it is not stored."""
    array = call.array(place)
    if array is None or array.dtype != np.uint8 or bits not in (4, 8) or not array.ndim:
        return None
    return stored_tensor(unpacked(array, bits) - middle, TensorProto.INT64, keeps_zeros=False)


@denotes("MRotaryEmbedding", domain=_ORT)
def multimodal_rotary_embedding(call: Call) -> Tensor | None:
    """Halves of the features rotated by angles of three positions of each token."""
    x, positions, cos, sin = (call.operand(place) for place in range(4))
    info = replace(call.results[0], dtype=x.dtype, shape=x.shape)
    if not is_covered(replace(call, results=[info]), 0, 2, 3) or not is_float(x.dtype):
        return None
    names = ("interleaved", "is_packed_batching", "num_heads", "rotary_embedding_dim")
    is_plain = not any(call.attribute(name, 0) for name in names)
    if not is_plain or call.attribute("scale", 1.0) != 1.0 or x.rank != 4 or positions.rank != 3:
        return None
    streams = _streams(call)
    half = len(streams)
    if not half or x.shape[3] != 2 * half or positions.shape[0] != 3:
        return None
    for size, wanted in ((positions.shape[1], x.shape[0]), (positions.shape[2], x.shape[2])):
        require_equal(size, wanted, or_one=False)
    for table in (cos, sin):
        require_equal(table.shape[1], half, or_one=False)
    stored = Stored(np.array(streams, np.int64))
    size = cos.shape[0]
    require_equal(sin.shape[0], size, or_one=False)

    def row_of(table: Tensor, batch: Dim, token: Dim, column: Dim) -> Element:
        stream = constant(stored, [column])

        def at(stream: Dim) -> Element:
            value = positions.at([stream, batch, token])
            return at_index(
                call, value, size, lambda k: real(table.at([k, column])), positions.dtype
            )

        return at_index(call, stream, 3, at, TensorProto.INT64)

    def read(indices: Indices) -> Element:
        batch, head, token, feature = indices
        _, column = call.case.divided(feature, half)
        first, second = (real(x.at([batch, head, token, column + shift])) for shift in (0, half))
        c, s = (row_of(table, batch, token, column) for table in (cos, sin))
        return choose(
            call.case,
            half - 1 - feature,
            lambda: first * c - second * s,
            lambda: first * s + second * c,
        )

    return Tensor(x.shape, x.dtype, read)


def _streams(call: Call) -> list[int]:
    """The position by which each column is rotated: in time, height or width."""
    sections = list(call.attribute("mrope_section") or ())
    if len(sections) != 3 or min(sections) < 0:
        return []
    if not call.attribute("mrope_layout", 0):
        return [stream for stream, size in enumerate(sections) for _ in range(size)]
    return [
        column % 3 if column % 3 and column < 3 * sections[column % 3] else 0
        for column in range(sum(sections))
    ]


_POSITIVE: Final = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25)
_TABLES: Final = (
    (*_POSITIVE, *(-value for value in _POSITIVE)),
    (
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ),
)
"""The numbers of the types FP4 and NF4 of bitsandbytes, by their codes."""


@denotes("MatMulBnb4", domain=_ORT)
def matmul_bnb4(call: Call) -> Tensor | None:
    """A MatMul with transposed weights that are codes of 4 bits, with a scale for each block."""
    x, packed, scales = call.operand(0), call.array(1), call.array(2)
    k, n, block = (call.attribute(name, 0) for name in ("K", "N", "block_size"))
    kind = call.attribute("quant_type", 0)
    if call.case.is_exact or x.dtype != TensorProto.FLOAT or packed is None or scales is None:
        return None
    is_plain = call.attribute("transB", 1) and kind in (0, 1) and k > 0 and n > 0 and block > 0
    if not is_plain or packed.size * 2 != k * n or scales.size * block != k * n or k * n % block:
        return None
    codes = np.stack([packed.reshape(-1) >> 4, packed.reshape(-1) & 15], axis=-1).reshape(-1)
    numbers = np.array(_TABLES[kind], np.float32)[codes].reshape(-1, block)
    weights = numbers * scales.reshape(-1, 1).astype(np.float32)
    stored = stored_tensor(weights.reshape(n, k), TensorProto.FLOAT, keeps_zeros=False)
    transposed = Tensor((k, n), TensorProto.FLOAT, lambda indices: stored.at(indices[::-1]))
    return multiplied(call.case, x, transposed)
