"""Block-wise quantized weights, by DequantizeLinear."""

from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Optional, Symbol

from .._folding import Array, constant
from ._lowering import _Lowering

_TYPES: Final = {
    (2, True): TensorProto.INT4,
    (2, False): TensorProto.UINT4,
    (4, True): TensorProto.INT4,
    (4, False): TensorProto.UINT4,
    (8, True): TensorProto.INT8,
    (8, False): TensorProto.UINT8,
}
BITS: Final = (4, 8)
"""Numbers of bits that all operators with block-wise quantized weights support."""
_ROW_BITS: Final = (2, *BITS)
"""Numbers of bits that GatherBlockQuantized and MatMulNBits support."""
_ATTRIBUTES: Final = {"bits", "block_size", "gather_axis", "quantize_axis"}
_EXACT: Final = (0, 1)
"""Values of ``accuracy_level`` with which the kernels compute in float32."""


class _LowerBlocks(_Lowering):
    """An operator with block-wise quantized weights."""

    min_opset = 21
    max_opset = 27


class LowerGatherBlockQuantizedPattern(_LowerBlocks):
    """com.microsoft.GatherBlockQuantized(w, i, s, z) → Gather(DequantizeLinear(w, s, z,
    block_size=b), i)

    What: stores the integers as a matrix of a type of 4 or 8 bits, which is signed if there are no
    zero points. Integers of 2 bits are stored in 4 bits. The embedding is dequantized before Gather
    reads rows, since Gather does not support int4.
    Why: only ONNX Runtime's own providers run the operator. OpenVINO and others support block-wise
    quantization by DequantizeLinear.
    Refuses when:
    1. the embedding, scales or zero points are not constant.
    2. the embedding is not a matrix of bytes whose rows consist of complete blocks. Or the operator
       does not read rows.
    3. the scales are not float32.
    """

    constant_operands = ("w", "s", "z")  # (1)
    derives = ("table", "block")

    def match_pattern(
        self, g: PatternBuilder, w: Constant, i: Symbol, s: Constant, z: Optional
    ) -> Symbol:
        return g.op.GatherBlockQuantized(
            w, i, s, z, domain="com.microsoft", attributes=g.capture("written")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, written = (
            m.nodes[0],
            {"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1, **m.written},
        )
        bits, block = written["bits"], written["block_size"]
        table, scales = constant(g, m.w), constant(g, m.s)
        is_matrix = (
            table.ndim == 2 and scales.ndim == 2 and g.try_infer_type(m.w) == TensorProto.UINT8
        )
        is_usual = (
            written["gather_axis"] in (0, -2)
            and written["quantize_axis"] in (1, -1)
            and written.keys() == _ATTRIBUTES
        )
        if not is_matrix or not is_usual or bits not in _ROW_BITS:  # (2)
            return self.none(
                node,
                msg="the data is not a constant 2-, 4- or 8-bit matrix in blocks along its rows",
            )
        columns = table.shape[1] * 8 // bits
        if scales.shape != (len(table), columns // block) or columns % block:  # (2)
            return self.none(node, msg="the row length is not a multiple of block_size")
        if g.try_infer_type(m.s) != TensorProto.FLOAT:  # (3)
            return self.none(node, msg="the scales are not float32")
        arrays = [stored(unpacked(table, bits, columns), bits, is_centred=not m.z), scales]
        if m.z:
            zeros = unpacked(constant(g, m.z).reshape(len(table), -1), bits, columns // block)
            arrays.append(stored(zeros, bits, is_centred=False))
        return m.derive(table=arrays, block=block)

    def apply_pattern(
        self, g: PatternRewriter, i: str, table: list[Array], block: int, **m: Any
    ) -> str:
        names = [
            g.make_initializer("", array, source=source)
            for array, source in zip(table, (m["w"], m["s"], m["z"]), strict=False)
        ]
        return g.op.Gather(g.op.DequantizeLinear(*names, axis=1, block_size=block), i, axis=0)

    _bytes = ", ".join(str((5 * n) % 256) for n in range(32))
    _start = (
        f"agraph (int64[n] i) => (float[n,16] y) <uint8[4,8] w = {{{_bytes}}}, "
        "float[4,1] s = {0.5, 0.25, 2, 1}"
    )
    _read = "<bits = 4, block_size = 16, gather_axis = 0, quantize_axis = 1>"
    examples = Example.pairs(
        f"{_start}> {{ y = com.microsoft.GatherBlockQuantized {_read} (w, i, s) }}",
        "<float[4,1] s = {0.5, 0.25, 2, 1}, int4[4,16] a = {136, 141, 130, 135, 156, 145, 150, "
        "171, 160, 165, 186, 191, 180, 201, 206, 195, 216, 221, 210, 215, 236, 225, 230, 251, 240, "
        "245, 10, 15, 4, 25, 30, 19}> { b = DequantizeLinear <axis = 1, block_size = 16> (a, s) y "
        "= Gather <axis = 0> (b, i) }",
        f"{_start}, uint8[4,1] z = {{7, 9, 8, 3}}> {{ y = com.microsoft.GatherBlockQuantized "
        f"{_read} (w, i, s, z) }}",
        "<float[4,1] s = {0.5, 0.25, 2, 1}, uint4[4,16] a = {0, 5, 10, 15, 20, 25, 30, 35, 40, 45, "
        "50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100, 105, 110, 115, 120, 125, 130, 135, 140, 145, "
        "150, 155}, uint4[4,1] b = {151, 56}> { c = DequantizeLinear <axis = 1, block_size = 16> "
        "(a, s, b) y = Gather <axis = 0> (c, i) }",
        opset=21,
        ranges=(("i", -1, 1),),
    )


class LowerMatMulNBitsPattern(_LowerBlocks):
    """com.microsoft.MatMulNBits(x, w, s, z) → MatMul(x, DequantizeLinear(w, s, z, block_size=b))

    What: stores the integers as a matrix of a type of 4 or 8 bits, which is signed if there are no
    zero points. Integers of 2 bits are stored in 4 bits.
    Why: only ONNX Runtime's own providers run the operator. OpenVINO and others support block-wise
    quantization by DequantizeLinear.
    Refuses when:
    1. the weights, scales or zero points are not constant.
    2. the integers do not have 2, 4 or 8 bits, or a row does not consist of complete blocks.
    3. the types are not float32, or zero points are not integers.
    4. the operator may quantize x (`accuracy_level`), but MatMul would not.
    5. the rank of x is unknown or 1, or the bias is not as long as a row of the result.
    """

    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (3)
    constant_operands = ("w", "s", "z")  # (1)
    derives = ("weights", "block")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Constant, s: Constant, z: Optional, bias: Optional
    ) -> Symbol:
        return g.op.MatMulNBits(
            *(x, w, s, z, None, bias),
            domain="com.microsoft",
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, written = m.nodes[0], {"bits": 4, "accuracy_level": 0, **m.written}
        if written["accuracy_level"] not in _EXACT or written.get("weight_prepacked"):  # (4)
            return self.none(
                node, msg="accuracy_level allows the kernel to quantize the activations"
            )
        bits, block, terms, columns = (written[name] for name in ("bits", "block_size", "K", "N"))
        if bits not in _ROW_BITS or terms % block:  # (2)
            return self.none(
                node, msg="bits is not 2, 4 or 8, or K is not a multiple of block_size"
            )
        kinds = [g.try_infer_type(name) for name in (m.w, m.s, m.z) if name]
        # (3)
        if kinds[:2] != [TensorProto.UINT8, TensorProto.FLOAT] or kinds[2:] not in (
            [],
            [TensorProto.UINT8],
        ):
            return self.none(
                node, msg="the types are not uint8 weights and zero points with float32 scales"
            )
        rank = g.info(m.x).rank or 0
        if rank < 2 or (m.bias and g.try_infer_shape(m.bias) != (columns,)):  # (5)
            return self.none(
                node, msg="the input may be a vector, or the bias is not one value per column"
            )
        sizes = (constant(g, m.w).size, constant(g, m.s).size)
        if sizes != (columns * terms * bits // 8, columns * terms // block):  # (2)
            return self.none(
                node, msg="the weights or scales do not match K, N, bits and block_size"
            )
        return m.derive(weights=_transposed(g, m, (bits, block, terms, columns)), block=block)

    def apply_pattern(
        self, g: PatternRewriter, x: str, weights: list[Array], block: int, bias: str, **m: Any
    ) -> str:
        names = [
            g.make_initializer("", array, source=source)
            for array, source in zip(weights, (m["w"], m["s"], m["z"]), strict=False)
        ]
        matrix = g.op.DequantizeLinear(*names, axis=0, block_size=block)
        matmul = g.op.MatMul(x, matrix)
        return g.op.Add(matmul, bias) if bias else matmul

    _bytes = ", ".join(str((5 * n) % 256) for n in range(16))
    _zeros = "uint8[2,1] z = {7, 9}"
    examples = Example.pairs(
        f"agraph (float[n,16] x) => (float[n,2] y) <uint8[2,1,8] w = {{{_bytes}}}, "
        "float[2,1] s = {0.5, 0.25}> { y = com.microsoft.MatMulNBits <K = 16, N = 2, bits = "
        "4, block_size = 16> (x, w, s) }",
        "<int4[16,2] a = {8, 168, 93, 168, 162, 184, 247, 184, 76, 185, 145, 201, 230, 201, 59, "
        "202}, float[1,2] b = {0.5, 0.25}> { c = DequantizeLinear <axis = 0, block_size = 16> (a, "
        "b) y = MatMul(x, c) }",
        f"agraph (float[n,16] x, float[2] k) => (float[n,2] y) <uint8[2,1,8] w = {{{_bytes}}}, "
        f"float[2,1] s = {{0.5, 0.25}}, {_zeros}> {{ y = com.microsoft.MatMulNBits "
        "<K = 16, N = 2, bits = 4, block_size = 16, accuracy_level = 1> (x, w, s, z, , k) }",
        "<uint4[16,2] a = {128, 32, 213, 32, 42, 48, 127, 48, 196, 49, 25, 65, 110, 65, 179, 66}, "
        "float[1,2] b = {0.5, 0.25}, uint4[1,2] c = {151}> { d = DequantizeLinear <axis = 0, "
        "block_size = 16> (a, b, c) e = MatMul(x, d) y = Add(e, k) }",
        opset=21,
    )


def unpacked(rows: Array, bits: int, count: int) -> Array:
    """The first ``count`` integers of each row of bytes, beginning with the low bits of a byte."""
    mask = (1 << bits) - 1
    parts = np.stack([(rows >> shift) & mask for shift in range(0, 8, bits)], axis=-1)
    return parts.reshape(len(rows), -1)[:, :count]


def stored(integers: Array, bits: int, *, is_centred: bool) -> Array:
    """Integers in a type of ``bits`` bits, or of 4 bits for 2.

    With ``is_centred``, the type is signed, and 0 stands for the middle of the range: this is for
    operators without zero points.
    """
    dtype = numpy_dtype(_TYPES[bits, is_centred])
    shifted = integers.astype(np.int16) - (1 << (bits - 1)) if is_centred else integers
    return np.ascontiguousarray(shifted.astype(np.int8 if is_centred else np.uint8).astype(dtype))


def _transposed(g: GraphView, m: Match, sizes: tuple[int, int, int, int]) -> list[Array]:
    """Weights, scales and zero points with a column for each column of the result."""
    bits, block, terms, columns = sizes
    blocks = terms // block
    integers = unpacked(constant(g, m.w).reshape(columns, -1), bits, terms)
    arrays = [stored(integers.T, bits, is_centred=not m.z)]
    arrays.append(np.ascontiguousarray(constant(g, m.s).reshape(columns, blocks).T))
    if m.z:
        zeros = unpacked(constant(g, m.z).reshape(columns, -1), bits, blocks)
        arrays.append(stored(zeros.T, bits, is_centred=False))
    return arrays
