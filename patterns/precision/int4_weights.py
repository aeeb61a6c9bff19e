from xoptim.facts.dtypes import element_type
from xoptim.facts.operators import has_kernel
from xoptim.match import Example, GraphView, Match, PatternRewriter
from xoptim.match.quantization import BlockPattern

from ._matmul import WeightedMatMul, _QuantizedMatMul

_COLUMN = ", ".join(str(n % 16 - 8) for n in range(32))
_PACKED = ", ".join(str(n % 16 | n % 16 + 1 << 4) for n in range(0, 32, 2))
"""The integers of `_COLUMN` as uint4, two in a byte, as onnx.parser expects them."""


class Int4WeightsPattern(BlockPattern, _QuantizedMatMul):
    """MatMul(x, w) → MatMul(x, DequantizeLinear(w4, s, z, block_size=32))

    What: quantizes constant weights to 4 bits, with a scale and a zero point for each 32 rows of a
    column. Options choose 2 to 8 bits, and 16 to 256 rows. The same for Gemm. onnxruntime fuses
    both nodes at load time. Results change by about a tenth of the largest result.
    Why: weights take a seventh of the bytes, and reading them takes most of the time of a MatMul of
    few rows (lab/payoff.md).
    Refuses when:
    1. the weights are not a finite constant float32 matrix whose number of rows is a multiple of
       the block size.
    2. x is transposed, or not known to be a matrix, or alpha or beta is set.
    3. the provider has no kernel of DequantizeLinear.
    """

    bits = 4
    width = 5.125
    min_opset = 21
    tags = ("int4", "extra")
    integers = ()

    def fits(self, matmul: WeightedMatMul) -> bool:
        size = self.rounded.format.size
        return matmul.terms > 0 and matmul.terms % size == 0 and matmul.columns > 0

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        dtype = element_type(self.rounded.format.dtype)
        if not has_kernel(g.provider, "", "DequantizeLinear", dtype, g.main_opset):  # (3)
            return self.none(m.nodes[0], msg="no kernel of DequantizeLinear for the integer type")
        return super().validate_mapping(g, m)

    def computed(self, g: PatternRewriter, x: str, matmul: WeightedMatMul) -> str:
        numbers, dtype = matmul.blocks(g, self.rounded), self.rounded.format.dtype
        source = matmul.weights
        integers = g.make_initializer("", numbers.integers.astype(dtype), source=source)
        scales = g.make_initializer("", numbers.scales, source=f"{source}_scales")
        zeros = g.make_initializer("", numbers.zeros.astype(dtype), source=f"{source}_zeros")
        return g.op.MatMul(
            x,
            g.op.DequantizeLinear(
                integers, scales, zeros, axis=0, block_size=self.rounded.format.size
            ),
        )

    _float = f"agraph (float[n,32] x) => (float[n,1] y) <float[32,1] w = {{{_COLUMN}}}>"
    _four = (
        f"agraph (float[n,32] x) => (float[n,1] y) <uint4[32,1] w = {{{_PACKED}}}, "
        "float[1,1] s = {1}, uint4[1,1] z = {8}>"
    )
    examples = (
        Example(
            f"{_float} {{ y = MatMul(x, w) }}",
            f"{_four} {{ d = DequantizeLinear <axis = 0, block_size = 32> (w, s, z) "
            "y = MatMul(x, d) }",
            opset=21,
        ),
    )
