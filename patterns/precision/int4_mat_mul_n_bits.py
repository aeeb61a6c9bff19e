from onnx import TensorProto

from xoptim.facts.operators import has_kernel
from xoptim.match import Example, GraphView, Match, PatternRewriter
from xoptim.match.quantization import BlockPattern

from .._bits import packed
from ._matmul import WeightedMatMul, _QuantizedMatMul
from ._quantization import BLOCK

_ROW = ", ".join(str(n % 16 - 8) for n in range(BLOCK))
_PACKED = ", ".join(str(n % 16 | n % 16 + 1 << 4) for n in range(0, BLOCK, 2))


class Int4MatMulNBitsPattern(BlockPattern, _QuantizedMatMul):
    """MatMul(x, w) → com.microsoft.MatMulNBits(x, w4, s, z)

    What: quantizes constant weights to 4 bits, with a scale and a zero point for each 32 rows of a
    column. Options choose 2 to 8 bits, and 16 to 256 rows. The same for Gemm. The blocks are those
    of `Int4Embedding`, so that tied embedding weights are stored once. Only with contrib operators.
    Why: weights take 0.16 of the bytes. `Int4Weights` needs two nodes, which onnxruntime fuses to
    the same operator at load time.
    Refuses when:
    1. the weights are not a finite constant float32 matrix whose number of rows is a multiple of
       the block size.
    2. x is transposed, or not known to be a matrix, or alpha or beta is set.
    3. the provider has no kernel.
    """

    bits = 4
    width = 5.125
    min_opset = 21
    before = {"Int4Weights": "one operator reads the 4 bits, without a DequantizeLinear"}
    produces = ("com.microsoft",)
    tags = ("int4", "onnxruntime", "extra")
    integers = ()

    def fits(self, matmul: WeightedMatMul) -> bool:
        size = self.rounded.format.size
        return matmul.terms > 0 and matmul.terms % size == 0 and matmul.columns > 0

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not has_kernel(g.provider, "com.microsoft", "MatMulNBits", TensorProto.FLOAT, 1):  # (3)
            return self.none(m.nodes[0], msg="the provider has no kernel of MatMulNBits")
        return super().validate_mapping(g, m)

    def computed(self, g: PatternRewriter, x: str, matmul: WeightedMatMul) -> str:
        numbers, (_, size) = matmul.blocks(g, self.rounded), self.rounded.format
        bits, source = self.rounded.format.stored_bits, matmul.weights
        blocks = packed(numbers.integers.T, bits).reshape(
            matmul.columns, matmul.terms // size, size * bits // 8
        )
        integers = g.make_initializer("", blocks, source=source)
        scales = g.make_initializer("", numbers.scales.T.copy(), source=f"{source}_scales")
        zeros = g.make_initializer("", packed(numbers.zeros.T, bits), source=f"{source}_zeros")
        sizes = {"K": matmul.terms, "N": matmul.columns, "bits": bits, "block_size": size}
        return g.op.MatMulNBits(
            x, integers, scales, zeros, accuracy_level=4, domain="com.microsoft", **sizes
        )

    _matmul = (
        f"agraph (float[n,32] x) => (float[n,1] y) <uint8[1,1,16] w = {{{_PACKED}}}, "
        "float[1,1] s = {1.0}, uint8[1,1] z = {8}> { y = com.microsoft.MatMulNBits <K = 32, N = "
        "1, bits = 4, block_size = 32, accuracy_level = 4> (x, w, s, z) }"
    )
    examples = (
        *Example.only(
            f"agraph (float[n,32] x) => (float[n,1] y) <float[1,32] w = {{{_ROW}}}> {{ "
            "y = Gemm <transB = 1> (x, w) }",
            _matmul,
            opset=21,
        ),
        *Example.only(
            f"agraph (float[n,32] x) => (float[n,1] y) <float[32,1] w = {{{_ROW}}}> {{ "
            "y = MatMul(x, w) }",
            _matmul,
            opset=21,
        ),
    )
