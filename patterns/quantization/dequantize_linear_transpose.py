"""Block-wise quantized weights, transposed once in the model file instead of at each run."""

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.operators.axes import permutation

from .._nodes import is_op


class _DequantizeLinearTranspose(PatternOptimization):
    """An operator that transposes a block-wise quantized weight.

    Refusals are numbered as in `DequantizeLinearTransposePattern`.
    """

    near = ("DequantizeLinear",)
    phase = "canonicalize"
    min_opset = 21

    def weight(self, g: GraphView, node: Node, name: str) -> Node | None:
        """The DequantizeLinear of the weight, or ``None`` after a refusal."""
        dequantize = g.node_before(name)
        if not is_op(dequantize, "DequantizeLinear") or not dequantize.attribute.get("block_size"):
            self.none(node, msg="the operand is not a block-wise quantized weight")  # (1)
            return None
        operands = [operand for operand in dequantize.input if operand]
        if not all(g.is_constant(operand) and g.info(operand).rank == 2 for operand in operands):
            self.none(dequantize, msg="weight, scales or zero points are not constant")  # (1)
            return None
        if not g.is_exclusive(name) or not g.is_exclusive(operands[0]):  # (2)
            self.none(dequantize, msg="another node reads the weight, or the dequantized weight")
            return None
        return dequantize


class DequantizeLinearTransposePattern(_DequantizeLinearTranspose):
    """Transpose(DequantizeLinear(w, s, z, block_size=32)) → DequantizeLinear(Transpose(w),
    Transpose(s), Transpose(z), block_size=32)

    What: transposes a stored weight with its block-wise scales and zero points. The new Transposes
    are folded. `TransposeRegion` covers weights with scales per tensor or per channel.
    Why: if the blocks are along the first axis, onnxruntime fuses DequantizeLinear and MatMul into
    MatMulNBits. For a weight of 512 by 1024 in 4 or 8 bits, this takes 0.005 to 0.03 of the time
    for one row, and 0.04 to 0.3 for 64 rows.
    Refuses when:
    1. the quantization is not block-wise, or weight, scales or zero points are not constant
       matrices.
    2. another node reads the weight, which would be stored twice, or the dequantized weight.
    """

    anchors = ("Transpose",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        dequantize = self.weight(g, node, node.input[0])
        if dequantize is None or permutation(g, node) != [1, 0]:  # (1)
            return self.none(
                node, msg="the Transpose does not swap the axes of a block-wise quantized weight"
            )
        return MatchResult(self, [dequantize, node], _write_transposed)

    _start = "agraph (float[n,4] x) => (float[n,2] y)"
    examples = Example.pairs(
        f"{_start} <int8[2,4] w = {{1, 2, 3, 4, 5, 6, 7, 8}}, "
        "float[2,2] s = {0.5, 1, 2, 3}, int8[2,2] z = {0, 1, 2, 3}> { "
        "d = DequantizeLinear <axis = 1, block_size = 2> (w, s, z) t = Transpose(d) "
        "y = MatMul(x, t) }",
        f"{_start} <int8[4,2] w = {{1, 5, 2, 6, 3, 7, 4, 8}}, "
        "float[2,2] s = {0.5, 2, 1, 3}, int8[2,2] z = {0, 2, 1, 3}> { "
        "d = DequantizeLinear <axis = 0, block_size = 2> (w, s, z) y = MatMul(x, d) }",
        opset=21,
    )


class DequantizeLinearGemmPattern(_DequantizeLinearTranspose):
    """Gemm(x, DequantizeLinear(w, s, z, block_size=32), c, transB=1) →
    Gemm(x, DequantizeLinear(Transpose(w), Transpose(s), Transpose(z), block_size=32), c)

    What: transposes a stored weight with its block-wise scales and zero points. The new Transposes
    are folded.
    Why: if the blocks are along the first axis, onnxruntime fuses DequantizeLinear and Gemm into
    MatMulNBits. For a weight of 512 by 1024 in 4 or 8 bits, this takes 0.004 to 0.006 of the time
    for one row, and 0.05 for 64 rows.
    Refuses when:
    1. the quantization is not block-wise, or weight, scales or zero points are not constant
       matrices. Or the Gemm does not transpose the weight.
    2. another node reads the weight, which would be stored twice, or the dequantized weight.
    """

    anchors = ("Gemm",)
    providers = ("cpu",)
    exactness = "rounding"

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        if not node.get_attribute("transB"):  # (1)
            return self.none(node, msg="the weight is not transposed")
        dequantize = self.weight(g, node, node.input[1])
        if dequantize is None:
            return None
        return MatchResult(self, [dequantize, node], _write_gemm)

    _start = "agraph (float[n,4] x, float[2] c) => (float[n,2] y)"
    examples = Example.only(
        f"{_start} <int8[2,4] w = {{1, 2, 3, 4, 5, 6, 7, 8}}, float[2,2] s = {{0.5, 1, 2, 3}}> {{ "
        "d = DequantizeLinear <axis = 1, block_size = 2> (w, s) "
        "y = Gemm <transB = 1, alpha = 0.5> (x, d, c) }",
        f"{_start} <int8[4,2] w = {{1, 5, 2, 6, 3, 7, 4, 8}}, float[2,2] s = {{0.5, 2, 1, 3}}> {{ "
        "d = DequantizeLinear <axis = 0, block_size = 2> (w, s) "
        "y = Gemm <alpha = 0.5> (x, d, c) }",
        opset=21,
    )


def _dequantized(g: PatternRewriter, dequantize: Node, output: str) -> list[Node]:
    """The nodes that compute the transposed weight; all but the last one are folded."""
    operands = [g.op.Transpose(name, perm=[1, 0]) if name else "" for name in dequantize.input]
    attributes = {**dequantize.attribute, "axis": 1 - dequantize.get_attribute("axis") % 2}
    return [*g.created, g.make_node("DequantizeLinear", operands, [output], **attributes)]


def _write_transposed(g: PatternRewriter, *nodes: Node) -> list[Node]:
    dequantize, transpose = nodes
    return _dequantized(g, dequantize, transpose.output[0])


def _write_gemm(g: PatternRewriter, *nodes: Node) -> list[Node]:
    dequantize, gemm = nodes
    weight = g.unique_name(dequantize.output[0])
    attributes = {name: value for name, value in gemm.attribute.items() if name != "transB"}
    operands = [gemm.input[0], weight, *gemm.input[2:]]
    return [
        *_dequantized(g, dequantize, weight),
        g.make_node("Gemm", operands, gemm.output, **attributes),
    ]
