import numpy as np
from onnx import TensorProto

from xoptim.match import Example, PatternRewriter

from .._folding import Array
from ._matmul import WeightedMatMul, _QuantizedMatMul
from ._quantization import BLOCK, columns_to_int8

_COLUMN = ", ".join(str(n * 8 - 128 + (n == 0)) for n in range(32))
_HALF = ", ".join(str((n * 8 - 128 + (n == 0)) / 2) for n in range(32))


class Int8BlocksPattern(_QuantizedMatMul):
    """MatMul(x, w) → MatMul(x, DequantizeLinear(w8, s, block_size=32))

    What: quantizes constant weights to 8 bits, with a scale for each 32 rows of a column. The other
    operand stays in float32. The same for Gemm.
    Why: weights take a quarter of the bytes. GPU runtimes read such weights in float16 operators
    (docs/quantization.md). CPUs are faster with both operands quantized.
    Refuses when:
    1. the weights are not a finite constant float32 matrix whose number of rows is a multiple of
       32.
    2. x is transposed, or not known to be a matrix, or alpha or beta is set.
    3. the provider has no kernel of DequantizeLinear.
    """

    bits = 8
    width = 8.5
    is_alternative = True
    min_opset = 21
    tags = ("blocks", "extra")
    integers = (TensorProto.INT8,)

    def fits(self, matmul: WeightedMatMul) -> bool:
        return matmul.terms > 0 and matmul.terms % BLOCK == 0 and matmul.columns > 0

    def computed(self, g: PatternRewriter, x: str, matmul: WeightedMatMul) -> str:
        matrix = matmul.matrix(g)
        quantized = columns_to_int8(_in_blocks(matrix))
        rows, columns = matrix.shape
        numbers = np.ascontiguousarray(
            quantized.integers.reshape(BLOCK, rows // BLOCK, columns)
            .transpose(1, 0, 2)
            .reshape(rows, columns)
        )
        integers = g.make_initializer("", numbers, source=matmul.weights)
        scales = g.make_initializer(
            "", quantized.scales.reshape(rows // BLOCK, columns), source=f"{matmul.weights}_scales"
        )
        return g.op.MatMul(x, g.op.DequantizeLinear(integers, scales, axis=0, block_size=BLOCK))

    examples = (
        Example(
            f"agraph (float[n,32] x) => (float[n,1] y) <float[32,1] w = {{{_HALF}}}> {{ "
            "y = MatMul(x, w) }",
            f"agraph (float[n,32] x) => (float[n,1] y) <int8[32,1] w = {{{_COLUMN}}}, "
            "float[1,1] s = {0.5}> { d = DequantizeLinear <axis = 0, block_size = 32> (w, s) "
            "y = MatMul(x, d) }",
            opset=21,
        ),
    )


def _in_blocks(matrix: Array) -> Array:
    """A matrix with a column for each block of each column: (32, blocks · columns)."""
    rows, columns = matrix.shape
    blocks: Array = matrix.reshape(rows // BLOCK, BLOCK, columns).transpose(1, 0, 2)
    return np.ascontiguousarray(blocks.reshape(BLOCK, -1))
