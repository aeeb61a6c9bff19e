from functools import partial

from onnx import TensorProto

from xoptim.facts.kernels import has_kernel
from xoptim.match import Example, GraphView, MatchResult, Node, PatternRewriter
from xoptim.match.rounding import RoundingPattern

from .._folding import constant
from ._products import PRODUCTS, Product, product, written
from ._rounding import blocks_to_int4, is_roundable

_BLOCK = 32
_COLUMN = ", ".join(str(n % 16 - 8) for n in range(32))
_PACKED = ", ".join(str((n - 8) % 16 | (n - 7) % 16 << 4) for n in [*range(0, 16, 2)] * 2)
"""The same numbers, two to a byte, which is how onnx.parser expects integers of 4 bits."""


class Int4WeightsPattern(RoundingPattern):
    """MatMul(x, w) → MatMul(x, DequantizeLinear(w4, s, block_size=32)), and so for Gemm

    What: rounds constant weights to 4 bits, with a scale for each 32 rows of a column. onnxruntime makes one operator of both
    nodes when it loads the model. Results change by about a tenth of the largest one.
    Why: weights take a seventh of the bytes, which is what a product by few rows waits for (docs/payoff.md).
    Refuses when:
    1. the weights are not a constant matrix of finite 32-bit floats whose number of rows is a multiple of 32.
    2. x is transposed, or not known to be a matrix, or the product is scaled.
    3. the provider has no kernel that dequantizes.
    """

    phase = "target"
    bits = 4
    min_opset = 21
    providers = ("cpu",)
    tags = ("int4", "extra")
    anchors = PRODUCTS

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        found = product(g, node)
        if found is None:  # (1) (2)
            return self.none(node, msg="not a product of 32-bit floats by a constant matrix, without scales")
        if not found.terms or found.terms % _BLOCK or found.terms * found.columns % 2:  # (1)
            return self.none(node, msg="the rows of the weights are not whole blocks of 32")
        if not has_kernel(g.provider, "", "DequantizeLinear", TensorProto.INT4, g.main_opset):  # (3)
            return self.none(node, msg="no kernel that dequantizes 4 bits")
        if not is_roundable(constant(g, found.weights)):  # (1)
            return self.none(node, msg="weights that are not finite, or too large")
        return MatchResult(self, [node], partial(self._round, found))

    def _round(self, found: Product, g: PatternRewriter, node: Node) -> list[Node]:
        weights = blocks_to_int4(found.matrix(g), _BLOCK)
        integers = g.make_initializer("", weights.integers, source=found.weights)
        scales = g.make_initializer("", weights.scales, source=f"{found.weights}_scales")
        return written(g, node, node.input[0], g.op.DequantizeLinear(integers, scales, axis=0, block_size=_BLOCK))

    _float = f"agraph (float[n,32] x) => (float[n,1] y) <float[32,1] w = {{{_COLUMN}}}>"
    _four = f"agraph (float[n,32] x) => (float[n,1] y) <int4[32,1] w = {{{_PACKED}}}, float[1,1] s = {{1.0}}>"
    examples = (
        Example(
            f"{_float} {{ y = MatMul(x, w) }}",
            f"{_four} {{ d = DequantizeLinear <axis = 0, block_size = 32> (w, s) y = MatMul(x, d) }}",
            opset=21,
        ),
    )
