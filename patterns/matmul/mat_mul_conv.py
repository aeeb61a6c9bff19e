from onnx import TensorProto

from xoptim.facts.shapes import Shape
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.match.trace import Constant


class MatMulConvPattern(EasyPatternOptimization):
    """MatMul(x, w) + b → Conv of x in the layout (batch, features, 1, tokens), with 1 by 1 kernels

    What: Transpose and Unsqueeze change the layout, Squeeze and Transpose change it back; those of
    consecutive layers cancel. The weight is stored transposed.
    Why: compilers of some NPUs, such as Apple's Neural Engine, run convolutions in this layout, and
    MatMul of constants slower or not at all. It is opt-in (``--include npu``), as it was not
    measured on such a device; CPUs and GPUs run MatMul faster.
    Refuses when:
    1. x does not have rank 3, or the weight rank 2, or the type is not float or float16.
    2. the bias is not one number for each column of the weight.
    3. a bias follows that can be part of the match.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 13
    tags = ("npu", "extra")
    operand_types = {"x": frozenset((TensorProto.FLOAT, TensorProto.FLOAT16))}  # (1)
    operand_ranks = {"x": 3, "w": 2}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, b: Constant) -> Symbol:
        product = g.op.MatMul(x, w)
        return g.op.Add(product, b) if g.option("bias") else product

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        columns = (g.try_infer_shape(m.w) or ())[1:]
        if m.bias and g.try_infer_shape(m.b) != columns:  # (2)
            return self.none(m.nodes[-1], msg="the bias is not one number per column")
        if not m.bias and _has_bias(g, m.outputs[0], columns):  # (3)
            return self.none(m.nodes[0], msg="the bias that follows is matched as well")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, b: str | None) -> str:
        image = g.op.Unsqueeze(g.op.Transpose(x, perm=[0, 2, 1]), axes=[2])
        kernels = g.op.Unsqueeze(g.op.Transpose(w, perm=[1, 0]), axes=[2, 3])
        result = g.op.Conv(image, kernels, b or None)
        return g.op.Transpose(g.op.Squeeze(result, axes=[2]), perm=[0, 2, 1])

    examples = Example.pairs(
        "agraph (float[n,s,2] x) => (float[n,s,3] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> "
        "{ y = MatMul(x, w) }",
        "<float[3,2,1,1] k = {1, 4, 2, 5, 3, 6}, int64[1] a = {2}> { "
        "t = Transpose <perm = [0, 2, 1]> (x) u = Unsqueeze(t, a) c = Conv(u, k) "
        "v = Squeeze(c, a) y = Transpose <perm = [0, 2, 1]> (v) }",
        "agraph (float[n,s,2] x) => (float[n,s,3] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}, "
        "float[3] b = {1, 2, 3}> { t = MatMul(x, w) y = Add(t, b) }",
        "<float[3,2,1,1] k = {1, 4, 2, 5, 3, 6}, float[3] b = {1, 2, 3}, int64[1] a = {2}> { "
        "t = Transpose <perm = [0, 2, 1]> (x) u = Unsqueeze(t, a) c = Conv(u, k, b) "
        "v = Squeeze(c, a) y = Transpose <perm = [0, 2, 1]> (v) }",
    )


def _has_bias(g: GraphView, product: str, columns: Shape) -> bool:
    """Whether the only reader of a product adds one constant number to each column."""
    readers = g.next_nodes(product)
    return (
        len(readers) == 1
        and readers[0].op_type == "Add"
        and any(
            g.try_infer_shape(name) == columns and g.is_constant(name) for name in readers[0].input
        )
    )
