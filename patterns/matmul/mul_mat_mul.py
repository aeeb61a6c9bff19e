import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._channels import affine_above
from .._folding import constant, doubles, rounded
from .._nodes import replaced_by


class MulMatMulPattern(PatternOptimization):
    """MatMul(x · s, w) → MatMul(x, s · w)

    What: multiplies the rows of a weight by the factors of the columns that they multiply; the same
    for quotients, and for Gemm.
    Why: saves one pass over the input. It runs last, so that patterns that recognize normalizations
    match the factors. It is in no preset: onnxruntime's fusions of Gelu and of normalizations do
    not match without the factor.
    Refuses when:
    1. the weight is not a constant matrix, is computed, in an external file, or used elsewhere as
       well (there would be two copies).
    2. the weight is not finite, or the left operand is transposed.
    3. the constant differs along another axis, changes the shape or is not finite, a factor is
       extreme, or is read elsewhere.
    4. a new constant leaves the range of its type.
    """

    anchors = ("MatMul", "Gemm")
    near = ("Mul", "Div")
    phase = "target"
    priority = 9
    exactness = "rounding"
    min_opset = 7
    tags = ("extra",)
    radius = 3

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        x, weight = node.input[:2]
        shape, rank = g.static_shape(weight), g.info(x).rank
        if shape is None or len(shape) != 2 or not g.is_constant(weight) or not rank:  # (1)
            return self.none(node, msg="the weight is not a constant matrix")
        if not g.is_stored(weight) or not g.is_exclusive(weight):  # (1)
            return self.none(
                node, msg="the weight is computed, in external data, or has other consumers"
            )
        side = 1 if node.attribute.get("transB") else 0
        affine = affine_above(g, x, rank - 1, shape[side], ("Mul", "Div"))
        if not affine.nodes:  # (3)
            return self.none(node, msg="no multiplication by one constant per column precedes it")
        if node.attribute.get("transA") or not np.isfinite(doubles(g, weight)).all():  # (2)
            return self.none(node, msg="the left operand is transposed, or a weight is not finite")
        factors = affine.scale.reshape((1, -1) if side else (-1, 1))
        # (4)
        scaled = rounded(doubles(g, weight) * factors, constant(g, weight).dtype, summed=side)
        matmul = replaced_by(node.op_type, affine.source, scaled, *node.input[2:], **node.attribute)
        return MatchResult(self, [*affine.nodes[::-1], node], matmul)

    examples = Example.pairs(
        "agraph (float[a,b,2] x) => (float[a,b,3] y) <float[2] s = {2, 4}, float[2,3] w = {1, 2, "
        "3, 4, 5, 6}> { t = Mul(s, x) y = MatMul(t, w) }",
        "<float[2,3] w = {2, 4, 6, 16, 20, 24}> { y = MatMul(x, w) }",
        "agraph (float[a,2] x, float[1] c) "
        "=> (float[a,1] y) <float s = {2}, float[1,2] w = {2, 4}> { t = Div(x, s) "
        "y = Gemm <transB = 1> (t, w, c) }",
        "<float[1,2] w = {1, 2}> { y = Gemm <transB = 1> (x, w, c) }",
    )
