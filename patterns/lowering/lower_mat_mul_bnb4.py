from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Symbol

from .._folding import Array, constant
from ._lowering import _Lowering

_POSITIVE: Final = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25)
_FP4: Final = np.array([*_POSITIVE, *(-value for value in _POSITIVE)], np.float32)
"""The numbers of the type FP4 of bitsandbytes, by their codes."""
_NF4: Final = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    np.float32,
)
"""The numbers of the type NF4 of QLoRA (https://arxiv.org/abs/2305.14314, appendix E)."""


_MAX_SCALE: Final = 2.0**100


class LowerMatMulBnb4Pattern(_Lowering):
    """com.microsoft.MatMulBnb4(x, w, scales) → MatMul(x, Transpose(Gather(numbers, w) · scales))

    What: stores the codes of 4 bits as uint4. Gather reads the number of each code, which is
    multiplied by the scale of its block.
    Why: only ONNX Runtime's own providers run the operator, which stores weights of QLoRA.
    Refuses when:
    1. the type is not float32 (checked by the matcher).
    2. weights or scales are not constant, or do not have the sizes that the attributes state. Or a
       scale is very large.
    3. the weight is not transposed, or the last block is incomplete.
    """

    min_opset = 21
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)
    constant_operands = ("w", "s")  # (2)
    derives = ("codes", "scales", "sizes", "numbers")

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, s: Constant) -> Symbol:
        return g.op.MatMulBnb4(x, w, s, domain="com.microsoft", attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, written = m.nodes[0], m.written
        rows, columns, block = (written.get(name, 0) for name in ("N", "K", "block_size"))
        if not written.get("transB", 1) or not block or rows * columns % block:  # (3)
            return self.none(node, msg="the weight is not transposed, or a block is not whole")
        packed, scales = constant(g, m.w).reshape(-1), constant(g, m.s).reshape(-1)
        if packed.size * 2 != rows * columns or scales.size * block != rows * columns:  # (2)
            return self.none(node, msg="the weights or scales do not match N, K and block_size")
        if g.try_infer_type(m.w) != TensorProto.UINT8 or g.try_infer_type(m.s) != TensorProto.FLOAT:
            return self.none(node, msg="the weights are not bytes with float32 scales")  # (2)
        if not (np.abs(scales) < _MAX_SCALE).all():  # (2)
            return self.none(node, msg="a scale is very large, infinite or NaN")
        codes = np.stack([packed >> 4, packed & 15], axis=-1).reshape(-1, block)  # high bits first
        return m.derive(
            codes=codes.astype(numpy_dtype(TensorProto.UINT4)),
            scales=scales.reshape(-1, 1),
            sizes=(rows, columns),
            numbers=_NF4 if written.get("quant_type") else _FP4,
        )

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        w: str,
        codes: Array,
        scales: Array,
        sizes: tuple[int, int],
        numbers: Array,
    ) -> str:
        stored = g.make_initializer("", codes, source=w)
        indices = g.op.Cast(stored, to=TensorProto.INT32)
        blocks = g.op.Mul(g.op.Gather(numbers, indices, axis=0), scales)
        matrix = g.op.Reshape(blocks, np.array(sizes, np.int64))
        return g.op.MatMul(x, g.op.Transpose(matrix, perm=[1, 0]))

    _bytes = ", ".join(str((37 * n) % 256) for n in range(16))
    _codes = ", ".join(str((37 * n) % 256 >> 4 | (37 * n) % 16 << 4) for n in range(16))
    examples = Example.only(
        f"agraph (float[n,16] x) => (float[n,2] y) <uint8[16] w = {{{_bytes}}}, float[2] s = "
        "{0.5, 2}> { y = com.microsoft.MatMulBnb4 <K = 16, N = 2, block_size = 16, quant_type = 1> "
        "(x, w, s) }",
        f"<uint4[2,16] w = {{{_codes}}}, float[2,1] s = {{0.5, 2}}, int64[2] z = {{2, 16}}, "
        f"float[16] t = {{{', '.join(map(repr, _NF4.tolist()))}}}> {{ i = Cast <to = 6> (w) "
        "g = Gather <axis = 0> (t, i) b = Mul(g, s) m = Reshape(b, z) "
        "o = Transpose <perm = [1, 0]> (m) y = MatMul(x, o) }",
        opset=21,
    )
