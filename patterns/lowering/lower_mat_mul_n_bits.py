from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Optional, Symbol

from .._folding import Array, constant
from ._blocks import BITS, stored, unpacked
from ._lowering import _Lowering

_EXACT: Final = (0, 1)
"""Levels of accuracy with which the kernels compute in 32-bit floats."""


class LowerMatMulNBitsPattern(_Lowering):
    """com.microsoft.MatMulNBits(x, w, s, z) → MatMul(x, DequantizeLinear(w, s, z, block_size=b))

    What: stores the integers of 4 or 8 bits as a matrix of their own type; without zero points with
    a sign.
    Why: only ONNX Runtime's own providers run it; OpenVINO and others know weights in blocks by
    DequantizeLinear.
    Refuses when:
    1. the weights, scales or zero points are not constant.
    2. the integers have another number of bits, or the rows are not whole blocks.
    3. the types are not float, or zero points are not integers.
    4. the other operand may be quantized (`accuracy_level`), which DequantizeLinear
       does not do.
    5. the rank of x is unknown or 1, or the bias has another length than a row of the result.
    """

    min_opset = 21
    max_opset = 27
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
        if bits not in BITS or terms % block:  # (2)
            return self.none(node, msg="bits is not 4 or 8, or K is not a multiple of block_size")
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
            g.make_initializer("", each, source=source)
            for each, source in zip(weights, (m["w"], m["s"], m["z"]), strict=False)
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


def _transposed(g: GraphView, m: Match, sizes: tuple[int, int, int, int]) -> list[Array]:
    """Weights, scales and zero points with a column for each column of the result."""
    bits, block, terms, columns = sizes
    blocks = terms // block
    integers = unpacked(constant(g, m.w).reshape(columns, -1), bits, terms)
    found = [stored(integers.T, bits, is_centred=not m.z)]
    found.append(np.ascontiguousarray(constant(g, m.s).reshape(columns, blocks).T))
    if m.z:
        zeros = unpacked(constant(g, m.z).reshape(columns, -1), bits, blocks)
        found.append(stored(zeros.T, bits, is_centred=False))
    return found
