import numpy as np
from onnx import TensorProto

from xoptim.facts.operators import has_kernel
from xoptim.match import Example, GraphView, Match, PatternRewriter
from xoptim.match.quantization import BlockPattern

from .._bits import packed
from .._folding import Array
from ._embeddings import ROWS, _QuantizedEmbedding
from ._quantization import BLOCK

_FLOATS = ", ".join(str(n % 16 - 8) for n in range(ROWS * BLOCK))
_SCALES, _ZEROS = (", ".join([digit] * ROWS) for digit in "18")
_PACKED = ", ".join(str(n % 16 | n % 16 + 1 << 4) for n in range(0, ROWS * BLOCK, 2))


class Int4EmbeddingPattern(BlockPattern, _QuantizedEmbedding):
    """Gather(w, i) → com.microsoft.GatherBlockQuantized(Reshape(w4), i, s, z)

    What: quantizes an embedding to 4 bits, with a scale and a zero point for each 32 elements of a
    row. Only with contrib operators: the ONNX Gather reads no 4-bit integers.
    Why: the embedding takes 0.16 of the bytes. Reading one row takes 1.1 of the time, 16 rows 2.5,
    128 rows 5.6 (768 columns; lab/payoff.md), which is little compared with MatMuls. A Gather of a
    dequantized embedding would dequantize all rows in each run.
    Refuses when:
    1. the embedding is not a finite constant float32 matrix, read by rows, with at least 256 rows
       in complete blocks.
    2. the provider has no kernel.
    """

    bits = 4
    width = 5.125
    priority = -2  # before `Int8Embedding`
    min_opset = 11
    produces = ("com.microsoft",)
    tags = ("int4", "onnxruntime", "extra")
    operators = ("Gather",)

    def fits(self, columns: int) -> bool:
        return columns > 0 and columns % self.rounded.format.size == 0

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # (2)
        if not has_kernel(
            g.provider, "com.microsoft", "GatherBlockQuantized", TensorProto.UINT8, 1
        ):
            return self.none(m.nodes[0], msg="the provider has no kernel of GatherBlockQuantized")
        return super().validate_mapping(g, m)

    def apply_pattern(self, g: PatternRewriter, w: str, i: str, table: Array) -> str:
        numbers, (_, size) = self.rounded.of(w, table.T, is_transposed=True), self.rounded.format
        bits = self.rounded.format.stored_bits
        # The layout of `Int4MatMulNBits`: tied embedding weights are stored once.
        blocks = packed(numbers.integers.T, bits).reshape(len(table), -1, size * bits // 8)
        integers = g.op.Reshape(
            g.make_initializer("", blocks, source=w), [len(table), table.shape[1] * bits // 8]
        )
        scales = g.make_initializer(
            "", np.ascontiguousarray(numbers.scales.T), source=f"{w}_scales"
        )
        zeros = g.make_initializer("", packed(numbers.zeros.T, bits), source=f"{w}_zeros")
        attributes = {"bits": bits, "block_size": size, "gather_axis": 0, "quantize_axis": 1}
        return g.op.GatherBlockQuantized(
            integers, i, scales, zeros, domain="com.microsoft", **attributes
        )

    examples = Example.only(
        f"agraph (int64[n] i) => (float[n,32] y) <float[{ROWS},32] w = {{{_FLOATS}}}> {{ "
        "y = Gather(w, i) }",
        f"agraph (int64[n] i) => (float[n,32] y) <uint8[{ROWS},1,16] w = {{{_PACKED}}}, "
        f"float[{ROWS},1] s = {{{_SCALES}}}, uint8[{ROWS},1] z = {{{_ZEROS}}}, int64[2] "
        f"k = {{{ROWS}, 16}}> {{ t = Reshape(w, k) y = com.microsoft.GatherBlockQuantized <bits = "
        "4, block_size = 32, gather_axis = 0, quantize_axis = 1> (t, i, s, z) }",
        opset=13,
        ranges=(("i", -ROWS, ROWS - 1),),
    )
